//! Lists everything that exists on an idle host, in every place where a guest may leave something, as lines to compare.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cycles::host::{CARDS, Host, NODE};

/// How long the remains of a guest may exist after it: requests, resets and the next observation of the host.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Resource classes whose total may change although no guest starts or ends.
const VARIABLE_CLASSES: [&str; 2] = ["MEMORY_MB", "DISK_GB"];

/// A line for each thing.
pub(crate) type Rows = BTreeSet<String>;

/// Files that a database makes and removes as it likes.
const PASSING: [&str; 3] = ["-wal", "-shm", "-journal"];

fn files(folder: &Path, under: &Path, rows: &mut Rows) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path
            .strip_prefix(under)
            .unwrap_or(&path)
            .display()
            .to_string();
        if PASSING.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        // Folders are not listed: an empty one may be kept for the next guest.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&path, under, rows),
            _ => {
                rows.insert(format!("file {name}"));
            }
        }
    }
}

/// Every value of a document by its path, without generations and variable resource classes.
fn values(name: &str, value: &Value, rows: &mut Rows) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                if key.ends_with("generation") || VARIABLE_CLASSES.contains(&key.as_str()) {
                    continue;
                }
                values(&format!("{name} {key}"), value, rows);
            }
        }
        value => {
            rows.insert(format!("{name}: {value}"));
        }
    }
}

impl Host {
    /// Waits until the rows of the host equal `before`, and returns them. Without `before`: until two successive looks are equal.
    pub(crate) fn settled(&mut self, before: Option<&Rows>) -> Result<Rows, Vec<String>> {
        let began = Instant::now();
        let mut last = before.cloned().unwrap_or_default();
        loop {
            // Collecting all rows is slow.
            while !self.is_calm() && began.elapsed() < PATIENCE {
                sleep(POLL_INTERVAL);
            }
            let now = self.rows();
            let difference: Vec<String> = [(&now, &last, "left"), (&last, &now, "missing")]
                .into_iter()
                .flat_map(|(of, without, word)| {
                    of.difference(without)
                        .map(move |row| format!("{word}: {row}"))
                })
                .collect();
            if difference.is_empty() {
                let output = self.berth(&["reconcile", "--dry-run"]);
                if output.contains("nothing differs") {
                    return Ok(now);
                }
                if began.elapsed() > PATIENCE {
                    return Err(vec![output]);
                }
            } else if began.elapsed() > PATIENCE {
                return Err(difference);
            }
            if before.is_none() {
                last = now;
                sleep(POLL_INTERVAL * 20);
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// Whether no guest has anything, according to the services.
    fn is_calm(&self) -> bool {
        let is_empty = |service, path, list: &str| {
            let reported = self.get(service, path).unwrap_or_default();
            reported[list].as_array().is_some_and(Vec::is_empty)
        };
        is_empty("conductor", "/v1/guests", "guests")
            && is_empty("accelerator", "/v2/accelerator_requests", "arqs")
            && self.handles().iter().all(|handle| handle.ends_with("free"))
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        for (service, path) in [
            ("conductor", "/v1/guests"),
            ("accelerator", "/v2/accelerator_requests"),
        ] {
            let reported = self.get(service, path).unwrap_or_default();
            rows.insert(format!("{service} {path}: {reported}"));
        }
        for (n, handle) in self.handles().into_iter().enumerate() {
            rows.insert(format!("{n} {handle}"));
        }
        self.placement_rows(&mut rows);
        let cards = self.libvirtd.device_tree();
        for card in CARDS {
            rows.insert(format!("card {card} on {:?}", self.libvirtd.driver(card)));
        }
        let mdevs = fs::read_dir(cards.join("bus/mdev/devices"));
        for mdev in mdevs.into_iter().flatten().flatten() {
            rows.insert(format!("mdev {:?}", mdev.file_name()));
        }
        let domains = self.libvirtd.virsh(&["list", "--all", "--uuid"]);
        rows.insert(format!(
            "domains {:?}",
            domains.map_err(|error| error.to_string())
        ));
        rows.extend(self.emulators());
        for folder in ["state", "instances"] {
            let folder = self.home.path(folder);
            files(&folder, &folder, &mut rows);
        }
        rows
    }

    fn placement_rows(&self, rows: &mut Rows) {
        let all = self
            .get("placement", "/resource_providers")
            .unwrap_or_default();
        for provider in all["resource_providers"].as_array().into_iter().flatten() {
            let (uuid, name) = (&provider["uuid"], &provider["name"]);
            rows.insert(format!(
                "provider {name} {uuid} of {}",
                provider["parent_provider_uuid"]
            ));
            let uuid = uuid.as_str().unwrap_or_default();
            for part in [
                "inventories",
                "usages",
                "traits",
                "allocations",
                "aggregates",
            ] {
                let reported = self.get("placement", &format!("/resource_providers/{uuid}/{part}"));
                values(
                    &format!("{name} {part}"),
                    &reported.unwrap_or_default(),
                    rows,
                );
            }
        }
        let known = all["resource_providers"].as_array().map_or(0, Vec::len);
        rows.insert(format!("{known} providers, of {NODE} and its devices"));
    }
}

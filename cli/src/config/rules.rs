//! What options say together: contradictions, and what one makes necessary of another.
//!
//! A rule keeps silent about an option that already has a problem of its own.

mod accelerator_service;
mod api;
mod client;
mod compute_service;
mod guests;
mod identity_service;
mod placement_service;
mod scheduler_plugins;
mod two_sections;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::SystemTime;

use super::problem::Problem;
use super::sections::{ComputeDriver, Config, VirtType};
use super::view::Effective;
use crate::compose::tls_door;
use crate::failure::ErrorCode;

pub(super) use guests::refused_devices;
pub(crate) use placement_service::SNAPSHOT_BESIDE_OTHERS;

/// What the rules found.
#[derive(Default)]
pub(super) struct Verdict {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

struct Judge<'a> {
    config: &'a Config,
    origins: BTreeMap<&'a str, &'a Effective>,
    broken: &'a BTreeSet<String>,
    verdict: Verdict,
}

pub(super) fn judge(
    config: &Config,
    effective: &[Effective],
    broken: &BTreeSet<String>,
) -> Verdict {
    let origins = effective
        .iter()
        .map(|each| (each.name.as_str(), each))
        .collect();
    let mut judge = Judge {
        config,
        origins,
        broken,
        verdict: Verdict::default(),
    };
    judge.cpu_sets();
    judge.mdev_types();
    judge.fake_machine();
    judge.clients();
    judge.guests();
    judge.accelerator_service();
    judge.placement_service();
    judge.identity_service();
    judge.api();
    judge.compute_service();
    judge.scheduler_plugins();
    judge.two_sections();
    judge.verdict
}

impl Judge<'_> {
    fn is_broken(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.broken.contains(*name))
    }

    fn is_set(&self, name: &str) -> bool {
        self.origins.get(name).is_some_and(|each| each.is_set())
    }

    fn problem(
        &self,
        name: &str,
        wrong: impl Into<String>,
        right: impl Into<String>,
        code: ErrorCode,
    ) -> Problem {
        let at = self
            .origins
            .get(name)
            .map_or("default", |each| each.origin.as_str())
            .to_owned();
        Problem {
            at,
            key: name.to_owned(),
            wrong: wrong.into(),
            right: right.into(),
            code,
        }
    }

    fn refuse(
        &mut self,
        name: &str,
        wrong: impl Into<String>,
        right: impl Into<String>,
        code: ErrorCode,
    ) {
        let problem = self.problem(name, wrong, right, code);
        self.verdict.problems.push(problem);
    }

    fn warn(&mut self, name: &str, wrong: impl Into<String>, right: impl Into<String>) {
        let problem = self.problem(name, wrong, right, ErrorCode::Doubtful);
        self.verdict.warnings.push(problem);
    }

    fn cpu_sets(&mut self) {
        let (shared, dedicated) = ("compute.cpu_shared_set", "compute.cpu_dedicated_set");
        let compute = &self.config.compute;
        let Some(dedicated_set) = &compute.cpu_dedicated_set else {
            return;
        };
        if let Some(shared_set) = &compute.cpu_shared_set
            && !self.is_broken(&[shared, dedicated])
        {
            let both = shared_set.intersection(dedicated_set);
            if !both.is_empty() {
                let wrong = format!("CPU {both} is in cpu_shared_set too");
                self.refuse(
                    dedicated,
                    wrong,
                    "a CPU is shared or dedicated, not both",
                    ErrorCode::Contradiction,
                );
            }
        }
        if self.config.reserved_host_cpus > 0 && !self.is_broken(&["reserved_host_cpus"]) {
            let right = "leave the host's CPUs out of cpu_shared_set and cpu_dedicated_set instead";
            self.refuse(
                "reserved_host_cpus",
                "not possible together with compute.cpu_dedicated_set",
                right,
                ErrorCode::Contradiction,
            );
        }
    }

    fn mdev_types(&mut self) {
        if self.is_broken(&["devices.enabled_mdev_types"]) {
            return;
        }
        let enabled = self.config.devices.enabled_mdev_types.clone();
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for (kind, section) in &self.config.mdev {
            let name = format!("mdev_{kind}.device_addresses");
            if !enabled.contains(kind) {
                let first = ["device_addresses", "mdev_class", "max_instances"]
                    .map(|key| format!("mdev_{kind}.{key}"))
                    .into_iter()
                    .find(|name| self.is_set(name));
                let right = format!("add {kind:?} to enabled_mdev_types in [devices]");
                self.warn(
                    &first.unwrap_or(name),
                    format!("the type {kind:?} is not enabled"),
                    right,
                );
                continue;
            }
            if enabled.len() > 1 && section.device_addresses.is_empty() && !self.is_broken(&[&name])
            {
                let wrong = format!(
                    "{} types are enabled, so this one needs its GPUs named",
                    enabled.len()
                );
                let right = format!("write device_addresses = [\"0000:84:00.0\"] in [mdev_{kind}]");
                let mut problem = self.problem(&name, wrong, right, ErrorCode::Missing);
                problem.at = self
                    .problem("devices.enabled_mdev_types", "", "", ErrorCode::Missing)
                    .at;
                self.verdict.problems.push(problem);
            }
            for address in &section.device_addresses {
                if let Some(owner) = owners.insert(address.to_string(), kind.clone()) {
                    let wrong = format!("{address} stands in [mdev_{owner}] too");
                    self.refuse(
                        &name,
                        wrong,
                        "a GPU offers one type",
                        ErrorCode::Contradiction,
                    );
                }
            }
        }
    }

    fn fake_machine(&mut self) {
        let fake = self.config.compute_driver == ComputeDriver::Fake;
        if fake
            && self.config.fake.machine.is_none()
            && !self.is_broken(&["fake.machine", "compute_driver"])
        {
            let right = "write machine = \"/path/to/machine.toml\" in [fake]";
            self.refuse(
                "compute_driver",
                "the fake driver needs a machine",
                right,
                ErrorCode::Missing,
            );
        } else if !fake && self.is_set("fake.machine") {
            self.warn(
                "fake.machine",
                "the driver is not fake, so the machine is not read",
                "write compute_driver = \"fake\"",
            );
        }
    }
}

/// Secrets that stand in a file everyone on the host can read.
pub(super) fn exposed_secrets(
    effective: &[Effective],
    open_to_all: &BTreeSet<String>,
) -> Vec<Problem> {
    let file_of = |origin: &str| origin.rsplitn(3, ':').nth(2).map(str::to_owned);
    effective
        .iter()
        .filter(|each| each.row.kind.is_secret())
        .filter_map(|each| Some((each, file_of(&each.origin)?)))
        .filter(|(_, file)| open_to_all.contains(file))
        .map(|(each, file)| Problem {
            at: each.origin.clone(),
            key: each.name.clone(),
            wrong: "a secret in a file that everyone can read".to_owned(),
            right: format!("chmod o-r {file}"),
            code: ErrorCode::Doubtful,
        })
        .collect()
}

/// Guests are to run on KVM and this host has none: they cannot start, and the traits of such guests are missing.
pub(super) fn without_kvm(loaded: &super::Loaded, device: &Path) -> Option<Problem> {
    let libvirt = &loaded.config.libvirt;
    let wanted = loaded.config.compute_driver == ComputeDriver::Libvirt
        && libvirt.virt_type == VirtType::Kvm
        && libvirt.connection_uri().starts_with("qemu");
    if !wanted || device.exists() {
        return None;
    }
    let mut all = loaded.effective.iter();
    let option = all.find(|each| each.name == "libvirt.virt_type");
    Some(Problem {
        at: option.map_or("default", |each| &each.origin).to_owned(),
        key: "libvirt.virt_type".to_owned(),
        wrong: format!(
            "guests are to run on KVM, but this host has no {}",
            device.display()
        ),
        right: "modprobe kvm_intel or kvm_amd; without hardware: virt_type = \"qemu\" in [libvirt]"
            .to_owned(),
        code: ErrorCode::Doubtful,
    })
}

/// What the configuration names on this host and the host does not have.
pub(super) fn on_this_host(loaded: &super::Loaded) -> Vec<Problem> {
    let files = [
        "placement.cafile",
        "placement.certfile",
        "placement.keyfile",
        "cyborg.cafile",
        "cyborg.certfile",
        "cyborg.keyfile",
        "conductor.cafile",
        "conductor.certfile",
        "conductor.keyfile",
        "glance.cafile",
        "glance.certfile",
        "glance.keyfile",
        "accelerators.reset_hook",
        "accelerators.program_hook",
        "accelerators.health_hook",
        "libvirt.emulator",
        "compute_driver",
    ];
    let mut problems = Vec::new();
    for each in loaded
        .effective
        .iter()
        .filter(|each| files.contains(&each.name.as_str()))
    {
        let Some(path) = each.shown().as_str().map(str::to_owned) else {
            continue;
        };
        let path = match each.name.as_str() {
            "compute_driver" => match path.strip_prefix("exec:") {
                Some(program) => program.to_owned(),
                None => continue,
            },
            _ => path,
        };
        if let Err(error) = std::fs::File::open(&path) {
            problems.push(Problem {
                at: each.origin.clone(),
                key: each.name.clone(),
                wrong: format!("{path:?} cannot be read: {error}"),
                right: String::new(),
                code: ErrorCode::Missing,
            });
        }
    }
    problems.extend(tls_files(loaded));
    problems
}

/// Why the agent's API could not be served over TLS today.
fn tls_files(loaded: &super::Loaded) -> Option<Problem> {
    let (_, files) = tls_door::named(&loaded.config)?;
    let error = files.read(SystemTime::now()).err()?;
    let key = format!("agent.{}", error.file().option());
    let option = loaded.effective.iter().find(|each| each.name == key);
    let sentence = error.to_string();
    let prefix = format!("{}: ", error.file());
    Some(Problem {
        at: option.map_or("default", |each| &each.origin).to_owned(),
        key,
        wrong: sentence
            .strip_prefix(&prefix)
            .unwrap_or(&sentence)
            .to_owned(),
        right: error.mend().to_owned(),
        code: tls_door::code(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Document, resolve};

    #[test]
    fn a_host_without_kvm_is_told_where_guests_are_to_run_on_it() {
        let here = Path::new("/");
        let nowhere = Path::new("/no/such/kvm");
        for (text, device, told) in [
            ("", nowhere, true),
            ("", here, false),
            ("[libvirt]\nvirt_type = \"kvm\"\n", nowhere, true),
            ("[libvirt]\nvirt_type = \"qemu\"\n", nowhere, false),
            (
                "[libvirt]\nconnection_uri = \"test:///default\"\n",
                nowhere,
                false,
            ),
            (
                "compute_driver = \"fake\"\n[fake]\nmachine = \"/m\"\n",
                nowhere,
                false,
            ),
        ] {
            let document = Document {
                name: "berth.toml".to_owned(),
                text: text.to_owned(),
            };
            let loaded = resolve(&[document], &[]).unwrap();
            let problem = without_kvm(&loaded, device);
            assert_eq!(problem.is_some(), told, "{text}");
            let says = problem
                .map(|problem| problem.to_string())
                .unwrap_or_default();
            assert!(
                !told || says.contains("/no/such/kvm") && says.contains("qemu"),
                "{says}"
            );
        }
    }
}

//! Rules over several options: contradictions, and options that another one makes necessary.
//!
//! A rule does not report an option that already has an error.

mod accelerator_service;
mod api;
mod audit;
mod client;
mod compute_service;
mod guests;
mod identity_service;
mod listeners;
mod placement_service;
mod scheduler_plugins;
mod two_sections;

use std::collections::{BTreeMap, BTreeSet};

use berth_compute_driver::ComputeDriver;
use berth_output::ErrorCode;

use super::problem::ConfigProblem;
use super::sections::Config;
use super::view::Effective;

pub use placement_service::SNAPSHOT_NEEDS_SQLITE;

/// The problems that the rules found.
#[derive(Default)]
pub(super) struct RuleFindings {
    pub problems: Vec<ConfigProblem>,
    pub warnings: Vec<ConfigProblem>,
}

struct Judge<'a> {
    config: &'a Config,
    origins: BTreeMap<&'a str, &'a Effective>,
    broken: &'a BTreeSet<String>,
    verdict: RuleFindings,
}

pub(super) fn judge(
    config: &Config,
    effective: &[Effective],
    broken: &BTreeSet<String>,
) -> RuleFindings {
    let origins = effective
        .iter()
        .map(|each| (each.name.as_str(), each))
        .collect();
    let mut judge = Judge {
        config,
        origins,
        broken,
        verdict: RuleFindings::default(),
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
    judge.audit();
    judge.internal_api();
    judge.compute_service();
    judge.service_listeners();
    judge.console_urls();
    judge.internal_api_exposure();
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
    ) -> ConfigProblem {
        let at = self
            .origins
            .get(name)
            .map_or("default", |each| each.origin.as_str())
            .to_owned();
        ConfigProblem {
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
                    let wrong = format!("{address} is in [mdev_{owner}] too");
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

/// Secrets in a file that everyone on the host can read.
pub(super) fn exposed_secrets(
    effective: &[Effective],
    world_readable: &BTreeSet<String>,
) -> Vec<ConfigProblem> {
    let file_of = |origin: &str| origin.rsplitn(3, ':').nth(2).map(str::to_owned);
    effective
        .iter()
        .filter(|each| each.row.kind.is_secret())
        .filter_map(|each| Some((each, file_of(&each.origin)?)))
        .filter(|(_, file)| world_readable.contains(file))
        .map(|(each, file)| ConfigProblem {
            at: each.origin.clone(),
            key: each.name.clone(),
            wrong: "a secret in a file that everyone can read".to_owned(),
            right: format!("chmod o-r {file}"),
            code: ErrorCode::Doubtful,
        })
        .collect()
}

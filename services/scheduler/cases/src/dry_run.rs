//! Schedules one case with Berth's defaults, optionally with changes: `berth scheduler explain`.
//!
//! `claim_fails` of the case names the claims that the simulated Placement refuses. Options that the case does not set
//! have Berth's defaults, not Nova's.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::case::{self, SchedulerCase};
use super::claim_failures::{ClaimFailures, claim_failures};
use super::what_if::{WhatIf, WhatIfError, listed, meant};
use super::{
    CaseFileError, CaseKind, allowed_keys, case_error, kind_and_cases, large_numbers,
    without_byte_order_mark,
};
use berth_model::nearest_name;
use berth_scheduler::custom_plugins::CustomPlugins;
use berth_scheduler::options::SchedulerOptions;
use berth_scheduler::select::{
    Alternates, ClaimPolicy, Scheduler, SelectionRequest, SelectionStep,
};
use berth_scheduler_explain::{Explanation, HostVerdicts, diagnose, verdicts};
use berth_scheduler_objects::from_json::CaseRequestError;
use berth_scheduler_objects::from_json::{CaseField, FieldError};
use berth_scheduler_objects::host_state::ConsideredHost;
use berth_scheduler_objects::plugin::PluginAnswers;
use berth_scheduler_objects::request::RequestSpec;

/// A case that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum DryRunError {
    /// The case is invalid.
    #[error(transparent)]
    Case(#[from] CaseFileError),
    /// The file has several cases.
    #[error("the file has the cases {}; which one is meant?", listed(there))]
    WhichCase { there: Vec<String> },
    /// The file has no such case.
    #[error("the file has no case {id}; it has {}", listed(there))]
    NoCase { id: String, there: Vec<String> },
    /// Nova's API would refuse the request.
    #[error("the request would be refused: {0}")]
    Refused(String),
    /// A what-if change is impossible.
    #[error(transparent)]
    WhatIf(#[from] WhatIfError),
    /// The case has no such host.
    #[error("there is no host {host}; there are {}{}", listed(there), meant(.near.as_deref()))]
    NoHost {
        host: String,
        /// The first twenty hosts.
        there: Vec<String>,
        near: Option<String>,
    },
    /// The file is a single case with another ID.
    #[error("the file contains a single case{}, not the case {id}", named(own.as_deref()))]
    CaseAlone {
        id: String,
        /// The name that the file gives itself.
        own: Option<String>,
    },
}

fn named(id: Option<&str>) -> String {
    id.map_or_else(String::new, |id| format!(", {id}"))
}

/// One case, as read from its file.
pub struct DryRunCase {
    options: SchedulerOptions,
    ask: SelectionRequest,
    hosts: Vec<ConsideredHost>,
    fails: ClaimFailures,
}

/// One case, ready to be scheduled.
pub struct CaseDryRun {
    scheduler: Scheduler,
    ask: SelectionRequest,
    hosts: Vec<ConsideredHost>,
    fails: ClaimFailures,
}

impl DryRunCase {
    /// Reads a case: a file of cases of kind `pipeline` or `schedule`, as for `replay`, or a single case. `id` selects
    /// the case of a file with several.
    pub fn read(text: &str, id: Option<&str>, what_if: &WhatIf) -> Result<Self, DryRunError> {
        let text = large_numbers::replace_large_numbers(without_byte_order_mark(text));
        let value: Value = serde_json::from_str(&text).map_err(CaseFileError::NotJson)?;
        let mut case = one_case(value, id)?;
        allowed_keys::case(&case).map_err(|error| case_error(0, &CaseField::root(&case), error))?;
        what_if.change(&mut case)?;
        let field = CaseField::root(&case);
        Self::of(&field, what_if).map_err(|error| match error {
            DryRunCaseError::Case(CaseRequestError::Field(error)) => {
                case_error(0, &field, error).into()
            }
            DryRunCaseError::Case(CaseRequestError::Refused(sentence)) => {
                DryRunError::Refused(sentence)
            }
            DryRunCaseError::WhatIf(error) => error.into(),
        })
    }

    fn of(field: &CaseField<'_>, what_if: &WhatIf) -> Result<Self, DryRunCaseError> {
        let mut case = SchedulerCase::read(field)?;
        what_if.leave_out_filters(&mut case.options)?;
        let (request, hosts) = (case.request()?, case.hosts()?);
        what_if.check(&case.options, &hosts)?;
        let asked = field.required("request")?;
        let one = vec![request.instance_uuid.clone()];
        let ask = SelectionRequest {
            instance_uuids: asked
                .optional_or("instance_uuids", one, |all| all.list(CaseField::string))?,
            alternates: match asked.optional_or("return_alternates", true, CaseField::flag)? {
                true => Alternates::Wanted,
                false => Alternates::None,
            },
            claims: match request.hints.is_rebuild() {
                true => ClaimPolicy::Kept,
                false => ClaimPolicy::Needed,
            },
            seed: 0,
            request,
        };
        Ok(Self {
            options: case.options,
            ask,
            hosts,
            fails: claim_failures(&asked)?,
        })
    }

    /// The case's options, which name the enabled filters and weighers.
    #[must_use]
    pub fn options(&self) -> &SchedulerOptions {
        &self.options
    }

    /// The request and all hosts, for plugins. Answers name hosts by UUID; a host without a UUID gets its node's name
    /// as UUID.
    pub fn question(&mut self) -> (&RequestSpec, &[ConsideredHost]) {
        for host in &mut self.hosts {
            if host.state.uuid.is_empty() {
                let state = Arc::make_mut(&mut host.state);
                state.uuid.clone_from(&state.nodename);
            }
        }
        (&self.ask.request, &self.hosts)
    }

    /// Adds the results of the plugins.
    #[must_use]
    pub fn with_plugin_answers(mut self, answers: PluginAnswers) -> Self {
        self.ask.request.plugin_answers = answers;
        self
    }

    /// Prepares the case with its filters and weighers, and with custom ones.
    pub fn ready(self, own: &CustomPlugins) -> Result<CaseDryRun, DryRunError> {
        let scheduler = case::scheduler(self.options, own)
            .map_err(|error| DryRunError::Case(CaseFileError::Field(error)))?;
        Ok(CaseDryRun {
            scheduler,
            ask: self.ask,
            hosts: self.hosts,
            fails: self.fails,
        })
    }
}

impl CaseDryRun {
    #[must_use]
    pub fn explain(self) -> Explanation {
        let mut step = self.scheduler.select(self.ask, self.hosts);
        loop {
            step = match step {
                SelectionStep::Claim(claiming) => {
                    let claim = claiming.claim();
                    let key = (claim.instance_uuid.to_owned(), claim.host.host.clone());
                    match self.fails.contains(&key) {
                        true => claiming.refused(),
                        false => claiming.granted(),
                    }
                }
                SelectionStep::Selected(selected) => return Explanation::of_selected(&selected),
                SelectionStep::NoValidHost(none) => {
                    let diagnosis = diagnose(&self.scheduler, &none);
                    return Explanation::of_no_valid_host(&none, diagnosis);
                }
            }
        }
    }

    /// The verdict of every filter on one host, for the first instance.
    pub fn verdicts(&self, host: &str) -> Result<HostVerdicts, DryRunError> {
        let mut request = self.ask.request.clone();
        if let Some(first) = self.ask.instance_uuids.first() {
            request.instance_uuid.clone_from(first);
        }
        let is_it = |it: &&ConsideredHost| it.state.host == host || it.state.nodename == host;
        let found = self.hosts.iter().find(is_it);
        let there = || self.hosts.iter().take(20).map(|it| it.state.host.clone());
        let found = found.ok_or_else(|| DryRunError::NoHost {
            host: host.to_owned(),
            near: nearest_name(host, self.hosts.iter().map(|it| it.state.host.as_str()))
                .map(str::to_owned),
            there: there().collect(),
        })?;
        Ok(verdicts(&self.scheduler, &request, found))
    }
}

enum DryRunCaseError {
    Case(CaseRequestError),
    WhatIf(WhatIfError),
}

impl From<FieldError> for DryRunCaseError {
    fn from(error: FieldError) -> Self {
        Self::Case(error.into())
    }
}

impl From<CaseRequestError> for DryRunCaseError {
    fn from(error: CaseRequestError) -> Self {
        Self::Case(error)
    }
}

impl From<WhatIfError> for DryRunCaseError {
    fn from(error: WhatIfError) -> Self {
        Self::WhatIf(error)
    }
}

/// The case that is meant, with Berth's defaults.
fn one_case(file: Value, id: Option<&str>) -> Result<Value, DryRunError> {
    let mut case = match file.get("schema") {
        None => alone(file, id)?,
        Some(_) => {
            allowed_keys::file(&file).map_err(CaseFileError::Field)?;
            of_file(&file, id)?
        }
    };
    if let Value::Object(fields) = &mut case {
        fields.entry("id").or_insert_with(|| json!("request"));
        let config = fields.entry("config");
        if let Value::Object(config) = config.or_insert_with(|| Value::Object(Map::new())) {
            let options = "filter_scheduler.";
            for (option, ours) in [
                ("candidates_per_host", json!(0)),
                ("compare_image_maxphysaddr_bits", json!(true)),
            ] {
                config.entry(format!("{options}{option}")).or_insert(ours);
            }
        }
    }
    Ok(case)
}

/// A file that is a single case.
fn alone(case: Value, id: Option<&str>) -> Result<Value, DryRunError> {
    let own = case.get("id").and_then(Value::as_str);
    match id.filter(|id| own != Some(id)) {
        None => Ok(case),
        Some(id) => Err(DryRunError::CaseAlone {
            id: id.to_owned(),
            own: own.map(str::to_owned),
        }),
    }
}

fn of_file(file: &Value, id: Option<&str>) -> Result<Value, DryRunError> {
    let root = CaseField::root(file);
    let (kind, cases) = kind_and_cases(&root).map_err(CaseFileError::Field)?;
    if !matches!(kind, CaseKind::Pipeline | CaseKind::Schedule) {
        let kind = root.required("kind").map_err(CaseFileError::Field)?;
        let wrong = kind.expected("pipeline or schedule");
        return Err(CaseFileError::Field(wrong).into());
    }
    let named = |case: &CaseField<'_>| {
        case.value()
            .get("id")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let ids = || -> BTreeSet<String> { cases.iter().filter_map(named).collect() };
    let there = || ids().into_iter().take(20).collect();
    match (id, cases.as_slice()) {
        (None, [one]) => Ok(one.value().clone()),
        (None, _) => Err(DryRunError::WhichCase { there: there() }),
        (Some(id), all) => {
            let found = all.iter().find(|case| named(case).as_deref() == Some(id));
            let none = || DryRunError::NoCase {
                id: id.to_owned(),
                there: there(),
            };
            Ok(found.ok_or_else(none)?.value().clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_scheduler_explain::RequestOutcome;

    fn case() -> Value {
        json!({
            "config": {"filter_scheduler.enabled_filters": ["ComputeFilter", "RamFilter"],
                "filter_scheduler.weight_classes": ["RAMWeigher"]},
            "hosts": [
                {"host": "small", "total_ram_mb": 1024, "free_ram_mb": 600},
                {"host": "large", "total_ram_mb": 8192, "free_ram_mb": 4096},
                {"host": "down", "total_ram_mb": 8192, "free_ram_mb": 8192, "service": {"forced_down": true}},
            ],
            "request": {"flavor": {"memory_mb": 512}},
        })
    }

    /// The selected host; empty if there is none.
    fn selected(case: &Value, what_if: &WhatIf) -> Result<String, String> {
        let run = DryRunCase::read(&case.to_string(), None, what_if);
        let run = run.and_then(|case| case.ready(&CustomPlugins::new()));
        match run.map_err(|error| error.to_string())?.explain().outcome {
            RequestOutcome::Selected { instances, .. } => Ok(instances[0].host.clone()),
            RequestOutcome::NoValidHost { .. } | RequestOutcome::Failed { .. } => Ok(String::new()),
        }
    }

    fn pair(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn what_would_be_if_something_were_otherwise() {
        let one = |it: &str| vec![it.to_owned()];
        for (what_if, expected) in [
            (WhatIf::default(), "large"),
            (
                WhatIf {
                    without_filters: one("ComputeFilter"),
                    ..WhatIf::default()
                },
                "down",
            ),
            (
                WhatIf {
                    ignore_hosts: one("LARGE"),
                    ..WhatIf::default()
                },
                "small",
            ),
            (
                WhatIf {
                    options: pair("filter_scheduler.ram_weight_multiplier", "-1"),
                    ..WhatIf::default()
                },
                "small",
            ),
            (
                WhatIf {
                    options: pair("filter_scheduler.enabled_filters", "AllHostsFilter"),
                    ..WhatIf::default()
                },
                "down",
            ),
            (
                WhatIf {
                    options: pair("filter_scheduler.enabled_filters", "RamFilter, JsonFilter"),
                    hints: pair("query", "[\"<\", \"$free_ram_mb\", 1000]"),
                    ..WhatIf::default()
                },
                "small",
            ),
            (
                WhatIf {
                    options: pair(
                        "filter_scheduler.enabled_filters",
                        "[\"ComputeCapabilitiesFilter\"]",
                    ),
                    extra_specs: pair("capabilities:free_ram_mb", "<= 100"),
                    ..WhatIf::default()
                },
                "",
            ),
        ] {
            assert_eq!(
                selected(&case(), &what_if).as_deref(),
                Ok(expected),
                "{what_if:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let wrong = |what_if: WhatIf| selected(&case(), &what_if).expect_err("refused");
        let without = WhatIf {
            without_filters: vec!["RmFilter".to_owned()],
            ..WhatIf::default()
        };
        assert_eq!(
            wrong(without),
            "RmFilter is not among the enabled filters, which are ComputeFilter, RamFilter; is RamFilter meant?"
        );
        let option = |name: &str, value: &str| {
            wrong(WhatIf {
                options: pair(name, value),
                ..WhatIf::default()
            })
        };
        assert_eq!(
            option("filter_scheduler.ram_weigth_multiplier", "2"),
            "there is no option filter_scheduler.ram_weigth_multiplier; is filter_scheduler.ram_weight_multiplier meant?"
        );
        assert_eq!(option("x", "2"), "there is no option x");
        assert!(
            option("filter_scheduler.ram_weight_multiplier", "two")
                .contains("should be a number, and is \"two\"")
        );
        assert!(
            option("filter_scheduler.max_instances_per_host", "0")
                .contains("should be a whole number from 1 on")
        );
    }

    #[test]
    fn what_names_nothing_is_refused_with_what_may_be_meant() {
        for (what_if, sentence) in [
            (
                WhatIf {
                    ignore_hosts: vec!["lrage".to_owned()],
                    ..WhatIf::default()
                },
                "there is no host lrage to leave out; there are small, large, down; is large meant?",
            ),
            (
                WhatIf {
                    hints: pair("diferent_host", "x"),
                    ..WhatIf::default()
                },
                "no filter reads a hint diferent_host; there are build_near_host_ip, cidr, different_host, group, query, \
                 same_host, target_cell; is different_host meant?",
            ),
            (
                WhatIf {
                    hints: pair("rack", "7"),
                    ..WhatIf::default()
                },
                "no filter reads a hint rack; there are build_near_host_ip, cidr, different_host, group, query, same_host, \
                 target_cell",
            ),
            (
                WhatIf {
                    extra_specs: pair("hw:cpu_polcy", "dedicated"),
                    ..WhatIf::default()
                },
                "hw:cpu_polcy: no extra spec has this name, so it is never read; is hw:cpu_policy meant?",
            ),
            (
                WhatIf {
                    extra_specs: pair("capabilities:free_ram_bm", "1"),
                    ..WhatIf::default()
                },
                "; is capabilities:free_ram_mb meant?",
            ),
        ] {
            let error = selected(&case(), &what_if).expect_err(sentence);
            assert!(error.ends_with(sentence), "{error}");
        }
        // A plugin may read any name, so only a name that is similar to a known one is refused.
        let with_plugin = |name: &str| {
            let mut case = case();
            case["config"]["filter_scheduler.enabled_filters"] = json!(["rack_power"]);
            let what_if = WhatIf {
                hints: pair(name, "7"),
                extra_specs: pair("rack:power_w", "7"),
                ..WhatIf::default()
            };
            DryRunCase::read(&case.to_string(), None, &what_if).map(|_| ())
        };
        assert!(with_plugin("rack").is_ok());
        assert!(with_plugin("diferent_host").is_err());
        let mut none = case();
        none["config"]["filter_scheduler.enabled_filters"] = json!([]);
        let without = WhatIf {
            without_filters: vec!["RamFilter".to_owned()],
            ..WhatIf::default()
        };
        let mut evil = case();
        evil["hosts"][0]["host"] = json!("h\u{1b}[2J\nx");
        let left_out = WhatIf {
            ignore_hosts: vec!["y".to_owned()],
            ..WhatIf::default()
        };
        assert_eq!(
            selected(&evil, &left_out).expect_err("no host"),
            "there is no host y to leave out; there are h\\u001b[2J\\nx, large, down"
        );
        assert_eq!(
            selected(&none, &without).expect_err("no filter"),
            "RamFilter is not among the enabled filters, which are none"
        );
    }

    #[test]
    fn of_a_file_one_case_is_meant() {
        let mut second = case();
        second["id"] = json!("b");
        let mut first = case();
        first["id"] = json!("a");
        let file = |kind: &str, cases: &[&Value]| {
            json!({"schema": "sched-golden/1", "kind": kind, "subject": "x", "cases": cases})
                .to_string()
        };
        let read = |text: &str, id| {
            let run = DryRunCase::read(text, id, &WhatIf::default());
            run.map(|_| ()).map_err(|error| error.to_string())
        };
        let two = file("schedule", &[&first, &second]);
        assert_eq!(read(&two, Some("b")), Ok(()));
        assert_eq!(read(&file("pipeline", &[&first]), None), Ok(()));
        assert_eq!(
            read(&two, None),
            Err("the file has the cases a, b; which one is meant?".to_owned())
        );
        assert_eq!(
            read(&two, Some("c")),
            Err("the file has no case c; it has a, b".to_owned())
        );
        let ops = read(&file("ops", &[&first]), None).expect_err("no hosts");
        assert!(
            ops.starts_with("kind: should be pipeline or schedule"),
            "{ops}"
        );
        assert!(read("{", None).is_err());
        assert!(read("{}", None).is_err());
        assert!(read("[]", None).is_err());
        assert_eq!(read(&first.to_string(), Some("a")), Ok(()));
        assert_eq!(
            read(&first.to_string(), Some("b")),
            Err("the file contains a single case, a, not the case b".to_owned())
        );
        assert_eq!(
            read(&case().to_string(), Some("b")),
            Err("the file contains a single case, not the case b".to_owned())
        );
        assert_eq!(
            read(&file("schedule", &[]), None),
            Err("the file has the cases none; which one is meant?".to_owned())
        );
    }

    #[test]
    fn one_host_is_reported_in_full() {
        let run = DryRunCase::read(&case().to_string(), None, &WhatIf::default());
        let run = run
            .and_then(|case| case.ready(&CustomPlugins::new()))
            .expect("a case");
        assert!(run.verdicts("large").is_ok_and(|it| it.passes()));
        assert!(run.verdicts("down").is_ok_and(|it| !it.passes()));
        let none = run.verdicts("x").expect_err("no such host").to_string();
        assert_eq!(none, "there is no host x; there are small, large, down");
        let near = run.verdicts("lage").expect_err("no such host").to_string();
        assert!(near.ends_with("; is large meant?"), "{near}");
    }
}

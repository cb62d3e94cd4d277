//! Rules for the scheduler's options.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::server_groups::{POLICIES, SeenTo};
use super::{Code, Finding, Kind, LintSeverity, Place};
use berth_model::nearest_name;
use berth_scheduler::filters::{self, Chain};
use berth_scheduler::options::{OptionError, OptionsReport, SchedulerOptions};
use berth_scheduler::weighers::{self, Weighers};
use berth_scheduler_objects::plugin::PluginManifest;
use berth_scheduler_objects::request::PciAlias;

/// What the options enable, for other rules.
pub(super) struct Enabled {
    filters: BTreeSet<&'static str>,
    weighers: BTreeSet<&'static str>,
    /// Whether `filter_tenant_id` is read before filters are.
    pub(super) limits_tenants: bool,
    /// Whether traits that aggregates require are.
    pub(super) isolates_aggregates: bool,
    /// The prefix of aggregate keys that are image properties.
    pub(super) image_namespace: Option<String>,
    pub(super) aliases: Vec<PciAlias>,
    /// Whether devices are requested from Placement.
    pub(super) pci_in_placement: bool,
}

impl Enabled {
    pub(super) fn of(options: &SchedulerOptions) -> Self {
        let fs = &options.filter_scheduler;
        let named = fs
            .enabled_filters
            .iter()
            .filter_map(|it| filters::named(it));
        let namespace = fs.aggregate_image_properties_isolation_namespace.as_ref();
        let separator = &fs.aggregate_image_properties_isolation_separator;
        Self {
            filters: named.map(|it| it.name()).collect(),
            weighers: weighers_of(options),
            limits_tenants: options.scheduler.limit_tenants_to_placement_aggregate,
            isolates_aggregates: options.scheduler.enable_isolated_aggregate_filtering,
            image_namespace: namespace
                .filter(|it| !it.is_empty())
                .map(|it| format!("{it}{separator}")),
            aliases: options.pci.alias.clone(),
            pci_in_placement: fs.pci_in_placement,
        }
    }

    pub(super) fn has_filter(&self, name: &str) -> bool {
        self.filters.contains(name)
    }

    pub(super) fn has_weigher(&self, name: &str) -> bool {
        self.weighers.contains(name)
    }
}

/// The weighers that are there, whatever else is named.
fn weighers_of(options: &SchedulerOptions) -> BTreeSet<&'static str> {
    let classes = options.filter_scheduler.weight_classes.iter();
    let alone = classes.filter_map(|name| Weighers::new(&of_class(options, name)).ok());
    alone
        .flat_map(|all| all.names().collect::<Vec<_>>())
        .collect()
}

/// These options, with one weigher.
fn of_class(options: &SchedulerOptions, name: &str) -> SchedulerOptions {
    let mut alone = options.clone();
    alone.filter_scheduler.weight_classes = vec![name.to_owned()];
    alone
}

type Given = BTreeMap<(String, String), Value>;

/// The valid options, with defaults for invalid ones and without plugins; and the findings.
pub(super) fn lint(
    given: &Given,
    plugins: &[PluginManifest],
    hosts: Option<usize>,
) -> (SchedulerOptions, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut groups: Map<String, Value> = Map::new();
    let known = SchedulerOptions::by_name();
    let mut strange = BTreeSet::new();
    for ((group, name), value) in given {
        let place = Place::new(Kind::Option, group, name);
        let full = format!("{group}.{name}");
        if !known.iter().any(|(it, _)| *it == full) {
            findings.extend(unknown(&place, &full, &known, &mut strange));
            continue;
        }
        let alone = json!({group: {name: value}});
        match SchedulerOptions::deserialize(alone) {
            Ok(_) => {
                let options = groups.entry(group.as_str()).or_insert_with(|| json!({}));
                if let Value::Object(options) = options {
                    options.insert(name.clone(), value.clone());
                }
            }
            Err(error) => {
                findings.push(place.finds(LintSeverity::Error, Code::BadValue, error.to_string()))
            }
        }
    }
    // Each was read alone.
    let mut options = SchedulerOptions::deserialize(Value::Object(groups)).unwrap_or_default();
    leave_out(plugins, &mut options);
    let OptionsReport { errors, warnings } = options.check();
    findings.extend(errors.iter().map(|it| bad_value(it, LintSeverity::Error)));
    let warned = warnings.iter().map(|it| {
        let found = bad_value(&it.wrong, LintSeverity::Warning);
        Finding {
            text: format!("{}; {}", found.text, it.instead),
            ..found
        }
    });
    findings.extend(warned);
    chain(&options, &mut findings);
    idle_filters(&options, &mut findings);
    idle_weighers(&options, given, &mut findings);
    groups_refused(&options, given, &mut findings);
    findings.extend(hosts.and_then(|hosts| few_candidates(&options, hosts)));
    (options, findings)
}

/// Only the names of plugins are known.
fn leave_out(plugins: &[PluginManifest], options: &mut SchedulerOptions) {
    let fs = &mut options.filter_scheduler;
    for plugin in plugins {
        if plugin.kind.is_filter() {
            fs.enabled_filters.retain(|name| *name != plugin.name);
        }
        if plugin.kind.is_weigher() {
            fs.weight_classes.retain(|name| *name != plugin.name);
        }
    }
}

/// Nova has options that the scheduler ignores. An option that is similar to one of the scheduler's is reported as a
/// typo, an unknown section once.
fn unknown(
    place: &Place,
    full: &str,
    known: &[(String, Value)],
    strange: &mut BTreeSet<String>,
) -> Option<Finding> {
    if place.name.starts_with("scheduler_plugin_") {
        return None;
    }
    if let Some(near) = nearest_name(full, known.iter().map(|(name, _)| name.as_str())) {
        let text = "no option has this name, so nobody reads it";
        let found = place.finds(LintSeverity::Error, Code::UnknownName, text);
        return Some(found.mend(near));
    }
    let groups = known.iter().filter_map(|(name, _)| name.split_once('.'));
    let groups: BTreeSet<&str> = groups.map(|(group, _)| group).collect();
    if groups.contains(place.name.as_str()) {
        let text = "the scheduler has no option of this name, so it does not read it";
        return Some(place.finds(LintSeverity::Note, Code::UnknownName, text));
    }
    if !strange.insert(place.name.clone()) {
        return None;
    }
    let section = Place {
        key: None,
        ..place.clone()
    };
    let text = "the scheduler has no section of this name, so it does not read it";
    let near = nearest_name(&place.name, groups);
    Some(match near {
        Some(near) => section
            .finds(LintSeverity::Error, Code::UnknownName, text)
            .mend(format!("[{near}]")),
        None => section.finds(LintSeverity::Note, Code::UnknownName, text),
    })
}

fn bad_value(error: &OptionError, severity: LintSeverity) -> Finding {
    let place = Place::new(Kind::Option, error.group, error.option);
    let text = format!("the value is {}", error.value);
    place
        .finds(severity, Code::BadValue, text)
        .mend(error.wanted.clone())
}

const GROUP: &str = "filter_scheduler";

/// Filters and weighers that are not there, not available, or there twice.
fn chain(options: &SchedulerOptions, findings: &mut Vec<Finding>) {
    let fs = &options.filter_scheduler;
    let before = findings.len();
    for (option, names) in [
        ("enabled_filters", &fs.enabled_filters),
        ("available_filters", &fs.available_filters),
    ] {
        let place = Place::new(Kind::Option, GROUP, option);
        let mut seen = BTreeSet::new();
        for name in names
            .iter()
            .filter(|it| *it != "nova.scheduler.filters.all_filters")
        {
            let Some(filter) = filters::named(name) else {
                let near = nearest_name(name, filters::ALL.iter().map(|it| it.name()));
                let found = place.finds(
                    LintSeverity::Error,
                    Code::UnknownName,
                    format!("there is no filter {name}"),
                );
                findings.push(found.near(near));
                continue;
            };
            if !seen.insert(filter.name()) {
                let text = format!("{name} is named twice, and asked twice");
                findings.push(place.finds(LintSeverity::Warning, Code::Twice, text));
            }
        }
    }
    let are_known = findings[before..]
        .iter()
        .all(|it| it.code != Code::UnknownName);
    if let (true, Err(error)) = (are_known, Chain::new(options)) {
        let place = Place::new(Kind::Option, GROUP, "enabled_filters");
        findings.push(place.finds(LintSeverity::Error, Code::BadValue, error.to_string()));
    }
    for name in &fs.weight_classes {
        if Weighers::new(&of_class(options, name)).is_err() {
            let place = Place::new(Kind::Option, GROUP, "weight_classes");
            let near = nearest_name(name, weighers::ALL.iter().map(|it| it.name()));
            let found = place.finds(
                LintSeverity::Error,
                Code::UnknownName,
                format!("there is no weigher {name}"),
            );
            findings.push(found.near(near));
        }
    }
}

/// Filters that another option leaves nothing to do, or everything.
fn idle_filters(options: &SchedulerOptions, findings: &mut Vec<Finding>) {
    let fs = &options.filter_scheduler;
    let enabled = Enabled::of(options);
    let place = Place::new(Kind::Option, GROUP, "enabled_filters");
    let mut idle = |filter: &str, is_idle: bool, why: &str| {
        if enabled.has_filter(filter) && is_idle {
            let text = format!("{filter} does nothing: {why}");
            findings.push(place.finds(LintSeverity::Warning, Code::Idle, text));
        }
    };
    idle(
        "IsolatedHostsFilter",
        fs.isolated_hosts.is_empty() && fs.isolated_images.is_empty(),
        "isolated_hosts and isolated_images are empty",
    );
    idle(
        "MetricsFilter",
        options.metrics.weight_setting.is_empty(),
        "[metrics] weight_setting is empty",
    );
    idle(
        "PciPassthroughFilter",
        options.pci.alias.is_empty(),
        "[pci] alias names no devices that a flavor could ask for",
    );
    idle(
        "AllHostsFilter",
        enabled.filters.len() > 1,
        "every host passes it",
    );
    for (plain, of_aggregates) in [
        ("NumInstancesFilter", "AggregateNumInstancesFilter"),
        ("IoOpsFilter", "AggregateIoOpsFilter"),
        ("CoreFilter", "AggregateCoreFilter"),
        ("RamFilter", "AggregateRamFilter"),
        ("DiskFilter", "AggregateDiskFilter"),
    ] {
        if enabled.has_filter(plain) && enabled.has_filter(of_aggregates) {
            let text = format!(
                "{plain} rejects what {of_aggregates} lets pass where an aggregate allows more"
            );
            findings.push(
                place
                    .finds(LintSeverity::Warning, Code::Twice, text)
                    .mend(format!("{of_aggregates} alone")),
            );
        }
    }
    let of_io_ops = ["IoOpsFilter", "AggregateIoOpsFilter"];
    if fs.max_io_ops_per_host == 0 && of_io_ops.iter().any(|it| enabled.has_filter(it)) {
        let place = Place::new(Kind::Option, GROUP, "max_io_ops_per_host");
        let text = "0 rejects every host, be there no build on it";
        findings.push(
            place
                .finds(LintSeverity::Error, Code::RejectsAll, text)
                .mend("1 at least"),
        );
    }
}

/// Server group policies that no enabled filter or weigher enforces.
fn groups_refused(options: &SchedulerOptions, given: &Given, findings: &mut Vec<Finding>) {
    let enabled = Enabled::of(options);
    for (policy, seen_to) in POLICIES {
        let option = match seen_to {
            SeenTo::Filter(_) => "enabled_filters",
            SeenTo::Weigher(_) => "weight_classes",
        };
        let is_given = given.contains_key(&(GROUP.to_owned(), option.to_owned()));
        if is_given && !seen_to.is_enabled(&enabled) {
            let name = seen_to.name();
            let text =
                format!("without {name} nobody sees to server groups of the policy {policy}");
            let place = Place::new(Kind::Option, GROUP, option);
            let found = place.finds(LintSeverity::Warning, Code::Missing, text);
            findings.push(found.mend(format!("{name} among them")));
        }
    }
}

/// The query limit is lower than the number of hosts.
fn few_candidates(options: &SchedulerOptions, hosts: usize) -> Option<Finding> {
    let limit = options.scheduler.max_placement_results;
    let place = Place::new(Kind::Option, "scheduler", "max_placement_results");
    let text = format!(
        "of {hosts} hosts {limit} at most are looked at for a request, so one that fits may not be found"
    );
    (limit < hosts).then(|| {
        let found = place.finds(LintSeverity::Note, Code::BadValue, text);
        found.mend(format!("{hosts} at least"))
    })
}

/// Weighers that add nothing to any weight.
fn idle_weighers(options: &SchedulerOptions, given: &Given, findings: &mut Vec<Finding>) {
    let enabled = Enabled::of(options);
    let is_given =
        |group: &str, name: &str| given.contains_key(&(group.to_owned(), name.to_owned()));
    let names = &options.filter_scheduler.weight_classes;
    for weigher in weighers::ALL
        .iter()
        .filter(|it| enabled.has_weigher(it.name()))
    {
        let multiplier = weigher.multiplier();
        let is_named = names.iter().any(|it| it.ends_with(weigher.name()));
        // By default all are enabled, and some have 0.
        let is_meant = is_named
            || is_given(GROUP, multiplier.key())
            || is_given("metrics", "weight_multiplier") && weigher.name() == "MetricsWeigher";
        if multiplier.configured(options) == 0.0 && is_meant {
            let text = format!("{} adds nothing: its multiplier is 0", weigher.name());
            let place = Place::new(Kind::Option, GROUP, multiplier.key());
            findings.push(place.finds(LintSeverity::Note, Code::Idle, text));
        }
    }
    let fs = &options.filter_scheduler;
    let mut idle = |group: &str, option: &str, is_idle: bool, text: &str, mend: &str| {
        if is_idle {
            let place = Place::new(Kind::Option, group, option);
            findings.push(
                place
                    .finds(LintSeverity::Warning, Code::Idle, text)
                    .mend(mend),
            );
        }
    };
    idle(
        GROUP,
        "image_props_weight_setting",
        !fs.image_props_weight_setting.is_empty() && fs.image_props_weight_multiplier == 0.0,
        "it counts nothing while image_props_weight_multiplier is 0",
        "image_props_weight_multiplier above 0",
    );
    let is_counted = options.compute.consecutive_build_service_disable_threshold != 0;
    idle(
        "compute",
        "consecutive_build_service_disable_threshold",
        !is_counted && is_given(GROUP, "build_failure_weight_multiplier"),
        "with 0 no failed build is counted, so BuildFailureWeigher adds nothing",
        "1 at least",
    );
}

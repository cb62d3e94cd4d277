//! Warnings about options that have no effect with the enabled filters and weighers, or an unwanted one.

use std::collections::BTreeSet;

use crate::options::{FilterSchedulerOptions, SchedulerOptions};

/// Filters that another option leaves without effect, contradicting filters, and server group policies that nothing enforces.
pub(super) fn warnings<'a>(
    options: &SchedulerOptions,
    filters: impl Iterator<Item = &'a str>,
    weighers: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut enabled = BTreeSet::new();
    for filter in filters {
        if !enabled.insert(filter) {
            let text = format!("{filter} is named twice, and runs twice");
            warnings.push(of_filters(text));
        }
    }
    warnings.extend(ineffective_filters(options, &enabled));
    warnings.extend(ineffective_weighers(options));
    enabled.extend(weighers);
    warnings.extend(unenforced_policies(&enabled));
    warnings
}

fn of_filters(text: String) -> String {
    format!("[filter_scheduler] enabled_filters: {text}")
}

fn ineffective_filters<'a>(
    options: &'a SchedulerOptions,
    enabled: &'a BTreeSet<&str>,
) -> impl Iterator<Item = String> + 'a {
    let fs = &options.filter_scheduler;
    let ineffective = [
        (
            "IsolatedHostsFilter",
            fs.isolated_hosts.is_empty() && fs.isolated_images.is_empty(),
            "isolated_hosts and isolated_images are empty",
        ),
        (
            "MetricsFilter",
            options.metrics.weight_setting.is_empty(),
            "[metrics] weight_setting is empty",
        ),
        (
            "PciPassthroughFilter",
            options.pci.alias.is_empty(),
            "[pci] alias names no devices that a flavor could ask for",
        ),
        ("AllHostsFilter", enabled.len() > 1, "every host passes it"),
    ];
    let ineffective = ineffective
        .into_iter()
        .filter(|(filter, is_ineffective, _)| *is_ineffective && enabled.contains(filter))
        .map(|(filter, _, why)| of_filters(format!("{filter} does nothing: {why}")));
    let overridden = [
        ("NumInstancesFilter", "AggregateNumInstancesFilter"),
        ("IoOpsFilter", "AggregateIoOpsFilter"),
        ("CoreFilter", "AggregateCoreFilter"),
        ("RamFilter", "AggregateRamFilter"),
        ("DiskFilter", "AggregateDiskFilter"),
    ];
    let overridden = overridden
        .into_iter()
        .filter(|(plain, of_aggregates)| {
            enabled.contains(plain) && enabled.contains(of_aggregates)
        })
        .map(|(plain, of_aggregates)| {
            of_filters(format!(
                "{plain} rejects hosts that {of_aggregates} accepts because an aggregate allows more; enable {of_aggregates} alone"
            ))
        });
    let limits_io_ops = ["IoOpsFilter", "AggregateIoOpsFilter"];
    let rejects_all =
        fs.max_io_ops_per_host == 0 && limits_io_ops.iter().any(|filter| enabled.contains(filter));
    let rejects_all = rejects_all.then(|| {
        "[filter_scheduler] max_io_ops_per_host: should be 1 at least, and is 0, which rejects every host".to_owned()
    });
    ineffective.chain(overridden).chain(rejects_all)
}

fn ineffective_weighers(options: &SchedulerOptions) -> impl Iterator<Item = String> {
    let fs = &options.filter_scheduler;
    let usual = FilterSchedulerOptions::default().build_failure_weight_multiplier;
    let weighs_failures = fs.build_failure_weight_multiplier.to_bits() != usual.to_bits();
    let ignores_failures = options.compute.consecutive_build_service_disable_threshold == 0;
    let has_properties = !fs.image_props_weight_setting.is_empty();
    let properties = (has_properties && fs.image_props_weight_multiplier == 0.0).then_some(
        "[filter_scheduler] image_props_weight_setting: it has no effect while image_props_weight_multiplier is 0",
    );
    let failures = (ignores_failures && weighs_failures).then_some(
        "[compute] consecutive_build_service_disable_threshold: with 0 no failed build is counted, so \
         build_failure_weight_multiplier has no effect",
    );
    [properties, failures]
        .into_iter()
        .flatten()
        .map(str::to_owned)
}

fn unenforced_policies(enabled: &BTreeSet<&str>) -> impl Iterator<Item = String> {
    let policies = super::GROUP_POLICIES.into_iter();
    let unenforced = policies.filter(|(_, _, name)| !enabled.contains(name));
    unenforced.map(|(policy, option, name)| {
        format!("[filter_scheduler] {option}: without {name} nothing enforces the policy {policy} of server groups")
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::super::Scheduler;
    use super::*;

    /// The warnings about some options, without those about server groups.
    fn warned(groups: Value) -> Vec<String> {
        let options = SchedulerOptions::deserialize(groups).expect("options");
        let scheduler = Scheduler::new(options).expect("filters and weighers");
        let warnings = scheduler.warnings().iter();
        let warnings = warnings.filter(|text| !text.contains("nothing enforces"));
        warnings.cloned().collect()
    }

    #[test]
    fn options_without_effect_are_named() {
        let fs = "[filter_scheduler]";
        let filters = |names: &[&str]| json!({"filter_scheduler": {"enabled_filters": names}});
        for (groups, expected) in [
            (json!({}), vec![]),
            (filters(&["RamFilter", "ComputeFilter"]), vec![]),
            (
                filters(&["RamFilter", "RamFilter"]),
                vec!["enabled_filters: RamFilter is named twice, and runs twice"],
            ),
            (
                filters(&[
                    "AllHostsFilter",
                    "IsolatedHostsFilter",
                    "MetricsFilter",
                    "PciPassthroughFilter",
                ]),
                vec![
                    "enabled_filters: IsolatedHostsFilter does nothing: isolated_hosts and isolated_images are empty",
                    "enabled_filters: MetricsFilter does nothing: [metrics] weight_setting is empty",
                    "enabled_filters: PciPassthroughFilter does nothing: [pci] alias names no devices that a flavor could ask for",
                    "enabled_filters: AllHostsFilter does nothing: every host passes it",
                ],
            ),
            (filters(&["AllHostsFilter"]), vec![]),
            (
                filters(&["RamFilter", "AggregateRamFilter"]),
                vec![
                    "enabled_filters: RamFilter rejects hosts that AggregateRamFilter accepts because an aggregate allows more; \
                     enable AggregateRamFilter alone",
                ],
            ),
            (
                json!({"filter_scheduler": {"enabled_filters": ["IoOpsFilter"], "max_io_ops_per_host": 0}}),
                vec![
                    "max_io_ops_per_host: should be 1 at least, and is 0, which rejects every host",
                ],
            ),
            (
                json!({"filter_scheduler": {"image_props_weight_setting": ["hw_disk_bus=2"]}}),
                vec![
                    "image_props_weight_setting: it has no effect while image_props_weight_multiplier is 0",
                ],
            ),
        ] {
            let expected: Vec<String> =
                expected.iter().map(|text| format!("{fs} {text}")).collect();
            assert_eq!(warned(groups.clone()), expected, "{groups}");
        }
        let failures = json!({"compute": {"consecutive_build_service_disable_threshold": 0}});
        assert_eq!(warned(failures), [""; 0]);
        let failures = warned(json!({
            "compute": {"consecutive_build_service_disable_threshold": 0},
            "filter_scheduler": {"build_failure_weight_multiplier": 2.0},
        }));
        assert!(
            failures[0]
                .starts_with("[compute] consecutive_build_service_disable_threshold: with 0 ")
        );
    }

    #[test]
    fn filters_and_weighers_that_enforce_group_policies_are_missed() {
        let mut options = SchedulerOptions::default();
        options.filter_scheduler.enabled_filters = vec!["ServerGroupAffinityFilter".to_owned()];
        options.filter_scheduler.weight_classes = vec!["ServerGroupSoftAffinityWeigher".to_owned()];
        let scheduler = Scheduler::new(options).expect("filters and weighers");
        assert_eq!(
            scheduler.warnings(),
            [
                "[filter_scheduler] enabled_filters: without ServerGroupAntiAffinityFilter nothing enforces the policy \
                 anti-affinity of server groups",
                "[filter_scheduler] weight_classes: without ServerGroupSoftAntiAffinityWeigher nothing enforces the policy \
                 soft-anti-affinity of server groups",
            ]
        );
    }
}

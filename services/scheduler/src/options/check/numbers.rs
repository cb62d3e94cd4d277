//! Checks of floating-point options: infinite and NaN values are invalid, and some options must not be negative.

use super::{FILTER_SCHEDULER, OptionError, SchedulerOptions, wrong};

/// Checks every floating-point option.
pub(super) fn errors(options: &SchedulerOptions) -> Vec<OptionError> {
    let any = any_sign(options).into_iter();
    let any = any
        .filter(|(.., value)| !value.is_finite())
        .map(|(group, option, value)| wrong(group, option, value, "a finite number"));
    let from_0 = from_0(options).into_iter();
    // NaN is neither below nor above 0, so `< 0.0` would not catch it.
    let from_0 = from_0.filter(|(_, value)| !(value.is_finite() && *value >= 0.0));
    any.chain(
        from_0.map(|(option, value)| wrong(FILTER_SCHEDULER, option, value, "a number from 0 on")),
    )
    .collect()
}

/// Multipliers of weighers that apply the sign themselves.
fn from_0(options: &SchedulerOptions) -> [(&'static str, f64); 3] {
    let fs = &options.filter_scheduler;
    [
        ("pci_weight_multiplier", fs.pci_weight_multiplier),
        (
            "soft_affinity_weight_multiplier",
            fs.soft_affinity_weight_multiplier,
        ),
        (
            "soft_anti_affinity_weight_multiplier",
            fs.soft_anti_affinity_weight_multiplier,
        ),
    ]
}

fn any_sign(options: &SchedulerOptions) -> [(&'static str, &'static str, f64); 13] {
    let (default, fs, metrics) = (
        &options.default,
        &options.filter_scheduler,
        &options.metrics,
    );
    let of_weighers = |option, value| (FILTER_SCHEDULER, option, value);
    [
        ("DEFAULT", "service_down_time", default.service_down_time),
        ("DEFAULT", "report_interval", default.report_interval),
        ("metrics", "weight_multiplier", metrics.weight_multiplier),
        (
            "metrics",
            "weight_of_unavailable",
            metrics.weight_of_unavailable,
        ),
        of_weighers("ram_weight_multiplier", fs.ram_weight_multiplier),
        of_weighers("cpu_weight_multiplier", fs.cpu_weight_multiplier),
        of_weighers("disk_weight_multiplier", fs.disk_weight_multiplier),
        of_weighers("io_ops_weight_multiplier", fs.io_ops_weight_multiplier),
        of_weighers(
            "num_instances_weight_multiplier",
            fs.num_instances_weight_multiplier,
        ),
        of_weighers(
            "hypervisor_version_weight_multiplier",
            fs.hypervisor_version_weight_multiplier,
        ),
        of_weighers(
            "build_failure_weight_multiplier",
            fs.build_failure_weight_multiplier,
        ),
        of_weighers(
            "cross_cell_move_weight_multiplier",
            fs.cross_cell_move_weight_multiplier,
        ),
        of_weighers(
            "image_props_weight_multiplier",
            fs.image_props_weight_multiplier,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_finite_is_named_with_what_would_be_right() {
        for bad in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let mut options = SchedulerOptions::default();
            options.filter_scheduler.cpu_weight_multiplier = bad;
            options.filter_scheduler.pci_weight_multiplier = bad;
            options.metrics.weight_of_unavailable = bad;
            let sentences: Vec<String> = errors(&options).iter().map(ToString::to_string).collect();
            assert_eq!(
                sentences,
                [
                    format!(
                        "[metrics] weight_of_unavailable: should be a finite number, and is {bad}"
                    ),
                    format!(
                        "[filter_scheduler] cpu_weight_multiplier: should be a finite number, and is {bad}"
                    ),
                    format!(
                        "[filter_scheduler] pci_weight_multiplier: should be a number from 0 on, and is {bad}"
                    ),
                ]
            );
        }
        assert_eq!(errors(&SchedulerOptions::default()), []);
    }

    #[test]
    fn every_option_with_a_point_is_looked_at() {
        let options = SchedulerOptions::default();
        let looked_at: Vec<String> = any_sign(&options)
            .into_iter()
            .map(|(group, option, _)| format!("{group}.{option}"))
            .chain(from_0(&options).map(|(option, _)| format!("{FILTER_SCHEDULER}.{option}")))
            .collect();
        for (name, default) in SchedulerOptions::by_name() {
            assert_eq!(
                default.is_f64(),
                looked_at.contains(&name),
                "{name} {default}"
            );
        }
    }
}

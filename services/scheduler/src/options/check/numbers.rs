//! Checks of numbers: infinite and NaN values are invalid, and no value may be below the minimum that its option has in Nova.

use berth_options::{OptionGroup as _, OptionKind, OptionValue};

use super::{FROM_1, OptionError, SchedulerOptions, wrong};

/// Checks every number: first whole ones, then decimal ones, then those that must not be negative.
pub(super) fn errors(options: &SchedulerOptions) -> Vec<OptionError> {
    let SchedulerOptions {
        default,
        scheduler,
        metrics,
        filter_scheduler,
        ..
    } = options;
    let groups = [
        ("DEFAULT", default.values()),
        ("scheduler", scheduler.values()),
        ("metrics", metrics.values()),
        ("filter_scheduler", filter_scheduler.values()),
    ];
    let checks = [below_minimum, not_finite, negative];
    let errors = checks.iter().flat_map(|check| {
        let values = groups
            .iter()
            .flat_map(|(group, values)| values.iter().map(move |value| (*group, value)));
        values.filter_map(move |(group, value)| {
            let (number, wanted) = check(value)?;
            Some(wrong(group, value.row.key, number, wanted))
        })
    });
    errors.collect()
}

const FINITE: &str = "a finite number";

fn below_minimum(value: &OptionValue) -> Option<(String, &'static str)> {
    let OptionKind::Integer(minimum @ 0..=1, _) = value.row.kind else {
        return None;
    };
    let number = value.value.as_i64().filter(|it| *it < minimum)?;
    let wanted = match minimum {
        1 => FROM_1,
        _ => "a whole number from 0 on",
    };
    Some((number.to_string(), wanted))
}

fn not_finite(value: &OptionValue) -> Option<(String, &'static str)> {
    let number = value.decimal.filter(|it| !it.is_finite())?;
    (!has_sign_of_its_own(value)).then(|| (number.to_string(), FINITE))
}

fn negative(value: &OptionValue) -> Option<(String, &'static str)> {
    // NaN is neither below nor above 0, so `< 0.0` would not catch it.
    let is_right = |number: &f64| number.is_finite() && *number >= 0.0;
    let number = value.decimal.filter(|it| !is_right(it))?;
    has_sign_of_its_own(value).then(|| (number.to_string(), "a number from 0 on"))
}

/// Multipliers of weighers that apply the sign themselves.
fn has_sign_of_its_own(value: &OptionValue) -> bool {
    matches!(value.row.kind, OptionKind::Number(minimum, _) if minimum >= 0.0)
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
}

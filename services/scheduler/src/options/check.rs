//! Validation of option values against Nova's bounds, run by `select::Scheduler`. As in Nova, values that aggregates
//! override are not checked.

mod numbers;

use std::borrow::Cow;
use std::fmt::Display;

use super::{FilterSchedulerOptions, SchedulerOptions, is_not_finite, weight_setting};
use crate::request::architecture;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[{group}] {option}: should be {wanted}, and is {value}")]
pub struct OptionError {
    pub group: &'static str,
    pub option: &'static str,
    pub value: String,
    /// A description of the valid values.
    pub wanted: Cow<'static, str>,
}

/// An invalid value that the scheduler replaces.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{wrong}; {instead}")]
pub struct OptionWarning {
    pub wrong: OptionError,
    pub instead: &'static str,
}

/// The result of [`SchedulerOptions::check`]; empty if all options are valid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptionsReport {
    /// CheckedValues that make the options unusable.
    pub errors: Vec<OptionError>,
    /// CheckedValues that are replaced or have no effect.
    pub warnings: Vec<OptionWarning>,
}

impl SchedulerOptions {
    /// Checks every value that has a bound or a grammar.
    #[must_use]
    pub fn check(&self) -> OptionsReport {
        let errors = numbers::errors(self).into_iter();
        let errors = errors.chain(self.ratios());
        let errors = errors.chain(self.architecture()).chain(self.aliases());
        let subset = self.filter_scheduler.host_subset_size;
        let of_subset = (subset < 1).then(|| OptionWarning {
            wrong: wrong(FILTER_SCHEDULER, "host_subset_size", subset, FROM_1),
            instead: "it counts as 1",
        });
        let settings = self.settings();
        OptionsReport {
            errors: errors.collect(),
            warnings: of_subset
                .into_iter()
                .chain(settings)
                .chain(self.unfed())
                .collect(),
        }
    }

    /// Settings `name=ratio` with a ratio that is not finite.
    fn ratios(&self) -> impl Iterator<Item = OptionError> {
        let bad = self.ratio_settings();
        let bad = bad.filter(|(_, _, text)| is_not_finite(text));
        bad.map(|(group, option, text)| {
            let wanted = "name=ratio with a finite number";
            wrong(group, option, format!("{text:?}"), wanted)
        })
    }

    fn aliases(&self) -> impl Iterator<Item = OptionError> {
        let aliases = self.pci.alias.iter();
        aliases.filter_map(|alias| {
            let error = alias.check().err()?;
            Some(wrong(
                "pci",
                "alias",
                &alias.name,
                format!("an alias ({error})"),
            ))
        })
    }

    /// An unknown default architecture: no image can have it, so every host would be rejected.
    fn architecture(&self) -> Option<OptionError> {
        let filters = &self.filter_scheduler;
        let name = filters.image_properties_default_architecture.as_deref()?;
        let wanted = architecture(name).err()?;
        let (option, value) = ("image_properties_default_architecture", format!("{name:?}"));
        Some(wrong(FILTER_SCHEDULER, option, value, wanted))
    }

    /// Options that have no effect because requests never carry the data that they act on: routed networks, PCI
    /// requests, moves between cells.
    fn unfed(&self) -> impl Iterator<Item = OptionWarning> {
        let (scheduler, filters) = (&self.scheduler, &self.filter_scheduler);
        let usual = FilterSchedulerOptions::default().cross_cell_move_weight_multiplier;
        let across = filters.cross_cell_move_weight_multiplier;
        let networks = scheduler
            .query_placement_for_routed_network_aggregates
            .then(|| OptionWarning {
                wrong: wrong(
                    "scheduler",
                    "query_placement_for_routed_network_aggregates",
                    true,
                    "false",
                ),
                instead: "it does nothing yet: no request tells its routed networks",
            });
        let devices = match (filters.pci_in_placement, self.pci.alias.is_empty()) {
            (true, true) => Some(OptionWarning {
                wrong: wrong(FILTER_SCHEDULER, "pci_in_placement", true, "false"),
                instead: "it does nothing: [pci] alias names no devices that a flavor could ask for",
            }),
            (false, false) => Some(OptionWarning {
                wrong: wrong(FILTER_SCHEDULER, "pci_in_placement", false, "true"),
                instead: "flavors that ask for devices of a [pci] alias are refused",
            }),
            (true, false) | (false, true) => None,
        };
        let is_set = across != 0.0 && across.to_bits() != usual.to_bits();
        let cells = is_set.then(|| OptionWarning {
            wrong: wrong(
                FILTER_SCHEDULER,
                "cross_cell_move_weight_multiplier",
                across,
                format!("{usual} or 0"),
            ),
            instead: "it does nothing yet: no request is a move between cells",
        });
        [networks, devices, cells].into_iter().flatten()
    }

    /// All settings of the form `name=ratio`.
    fn ratio_settings(&self) -> impl Iterator<Item = (&'static str, &'static str, &String)> {
        let metrics = self.metrics.weight_setting.iter();
        let metrics = metrics.map(|text| ("metrics", "weight_setting", text));
        let properties = self.filter_scheduler.image_props_weight_setting.iter();
        let properties =
            properties.map(|text| (FILTER_SCHEDULER, "image_props_weight_setting", text));
        metrics.chain(properties)
    }

    /// Settings that are not of the form `name=ratio`.
    fn settings(&self) -> impl Iterator<Item = OptionWarning> {
        let bad = self.ratio_settings();
        let bad = bad.filter(|(_, _, text)| weight_setting(text).is_none() && !is_not_finite(text));
        bad.map(|(group, option, text)| OptionWarning {
            wrong: wrong(group, option, format!("{text:?}"), "name=ratio"),
            instead: "it is left aside",
        })
    }
}

const FILTER_SCHEDULER: &str = "filter_scheduler";
const FROM_1: &str = "a whole number from 1 on";

fn wrong(
    group: &'static str,
    option: &'static str,
    value: impl Display,
    wanted: impl Into<Cow<'static, str>>,
) -> OptionError {
    OptionError {
        group,
        option,
        value: value.to_string(),
        wanted: wanted.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_out_of_bounds_is_named_with_what_would_be_right() {
        let checked = |group: &str, option: &str, value: serde_json::Value| -> Vec<String> {
            let options =
                SchedulerOptions::deserialize(json!({group: {option: value}})).expect("options");
            let OptionsReport { errors, warnings } = options.check();
            let errors = errors.iter().map(ToString::to_string);
            errors
                .chain(warnings.iter().map(ToString::to_string))
                .collect()
        };
        let fs = "filter_scheduler";
        for (group, option, bad, good, wanted) in [
            ("scheduler", "max_attempts", json!(0), json!(1), FROM_1),
            (
                "scheduler",
                "max_placement_results",
                json!(0),
                json!(1),
                FROM_1,
            ),
            (fs, "max_instances_per_host", json!(0), json!(1), FROM_1),
            (
                fs,
                "max_io_ops_per_host",
                json!(-1),
                json!(0),
                "a whole number from 0 on",
            ),
            (
                fs,
                "pci_weight_multiplier",
                json!(-0.5),
                json!(0),
                "a number from 0 on",
            ),
            (
                fs,
                "soft_affinity_weight_multiplier",
                json!(-1.5),
                json!(0),
                "a number from 0 on",
            ),
            (
                fs,
                "soft_anti_affinity_weight_multiplier",
                json!(-1.5),
                json!(0),
                "a number from 0 on",
            ),
        ] {
            assert_eq!(checked(group, option, good), [""; 0], "{option}");
            let sentence = format!("[{group}] {option}: should be {wanted}, and is {bad}");
            assert_eq!(checked(group, option, bad), [sentence]);
        }
        assert_eq!(
            checked(fs, "host_subset_size", json!(0)),
            [
                "[filter_scheduler] host_subset_size: should be a whole number from 1 on, and is 0; it counts as 1"
            ]
        );
        assert_eq!(
            checked("metrics", "weight_setting", json!(["a=1", "b=x"])),
            ["[metrics] weight_setting: should be name=ratio, and is \"b=x\"; it is left aside"]
        );
        assert_eq!(
            checked(fs, "image_props_weight_setting", json!(["a", "b=1"])),
            [
                "[filter_scheduler] image_props_weight_setting: should be name=ratio, and is \"a\"; it is left aside"
            ]
        );
        assert_eq!(checked(fs, "ram_weight_multiplier", json!(-1.0)), [""; 0]);
        for ratio in ["inf", "-Infinity", " nan "] {
            let setting = format!("a={ratio}");
            let invalid = |option: &str| {
                format!("{option}: should be name=ratio with a finite number, and is {setting:?}")
            };
            assert_eq!(
                checked("metrics", "weight_setting", json!(["b=1", setting])),
                [invalid("[metrics] weight_setting")]
            );
            assert_eq!(
                checked(fs, "image_props_weight_setting", json!([setting])),
                [invalid("[filter_scheduler] image_props_weight_setting")]
            );
        }
        let architecture = |name: &str| {
            let found = checked(fs, "image_properties_default_architecture", json!(name));
            found.first().cloned().unwrap_or_default()
        };
        for known in ["x86_64", "AMD64", "aarch64", "i386"] {
            assert_eq!(architecture(known), "");
        }
        for unknown in ["x86-64", "arm64", ""] {
            let begin = "[filter_scheduler] image_properties_default_architecture: should be an architecture (alpha, ";
            let (got, end) = (architecture(unknown), format!("), and is {unknown:?}"));
            assert!(got.starts_with(begin) && got.ends_with(&end), "{got}");
            assert!(got.contains(", x86_64, "), "{got}");
        }
        assert_eq!(
            SchedulerOptions::default().check(),
            OptionsReport::default()
        );
    }

    #[test]
    fn an_option_without_its_counterpart_is_reported() {
        let mut options = SchedulerOptions::default();
        options
            .scheduler
            .query_placement_for_routed_network_aggregates = true;
        options.filter_scheduler.pci_in_placement = true;
        options.filter_scheduler.cross_cell_move_weight_multiplier = 2.0;
        let OptionsReport { errors, warnings } = options.check();
        assert_eq!(errors, []);
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let sentences = [
            "[scheduler] query_placement_for_routed_network_aggregates: should be false, and is true; it does nothing yet: \
             no request tells its routed networks",
            "[filter_scheduler] pci_in_placement: should be false, and is true; it does nothing: [pci] alias names no \
             devices that a flavor could ask for",
            "[filter_scheduler] cross_cell_move_weight_multiplier: should be 1000000 or 0, and is 2; it does nothing yet: \
             no request is a move between cells",
        ];
        assert_eq!(warnings, sentences);
        options.filter_scheduler.cross_cell_move_weight_multiplier = 0.0;
        assert_eq!(options.check().warnings.len(), 2);
    }
}

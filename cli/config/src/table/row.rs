//! How a row of the table is written: `row(section, key, kind, default, help)`, then `.live()` or `.example(…)`.

use crate::kind::OptionKind;
use crate::option::{Default, OptionEffect, OptionRow};

/// Seconds of a week.
pub(super) const WEEK: i64 = 604_800;

pub(super) const fn row(
    section: &'static str,
    key: &'static str,
    kind: OptionKind,
    default: Default,
    help: &'static str,
) -> OptionRow {
    OptionRow {
        section,
        key,
        kind,
        default,
        effect: OptionEffect::Restart,
        help,
        example: "",
    }
}

impl OptionRow {
    pub(super) const fn live(self) -> Self {
        OptionRow {
            effect: OptionEffect::Live,
            ..self
        }
    }

    pub(super) const fn example(self, example: &'static str) -> Self {
        OptionRow { example, ..self }
    }
}

//! How a row of the table is written: `row(section, key, kind, default, help)`, then `.live()` or `.example(…)`.

use crate::kind::Kind;
use crate::option::{Default, Effect, OptionRow};

/// Seconds of a week.
pub(super) const WEEK: i64 = 604_800;

pub(super) const fn row(
    section: &'static str,
    key: &'static str,
    kind: Kind,
    default: Default,
    help: &'static str,
) -> OptionRow {
    OptionRow {
        section,
        key,
        kind,
        default,
        effect: Effect::Restart,
        help,
        example: "",
    }
}

impl OptionRow {
    pub(super) const fn live(self) -> Self {
        OptionRow {
            effect: Effect::Live,
            ..self
        }
    }

    pub(super) const fn example(self, example: &'static str) -> Self {
        OptionRow { example, ..self }
    }
}

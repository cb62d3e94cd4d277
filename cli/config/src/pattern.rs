//! Section patterns, whose titles contain a name: `[mdev_nvidia-35]`, `[scheduler_plugin_rack_power]`.

use std::collections::{BTreeMap, BTreeSet};

use berth_options::{CheckedValues, OptionGroup, OptionMisfit};
use berth_scheduler::plugin::is_plugin_name;

use super::sections::is_mdev_type;

/// A kind of section whose title contains a name.
pub(super) struct SectionPattern {
    /// The pattern in the option table, such as `mdev_TYPE`.
    pub section: &'static str,
    /// The part before the name.
    pub prefix: &'static str,
    /// An example of a section.
    pub example: &'static str,
    /// The error and its hint for a section with the prefix but without a name.
    pub none: (&'static str, &'static str),
    is_name: fn(&str) -> bool,
}

pub(super) const MDEV: SectionPattern = SectionPattern {
    section: "mdev_TYPE",
    prefix: "mdev_",
    example: "mdev_nvidia-35",
    none: (
        "this names no mediated device type",
        "write the type's name after mdev_, as in [mdev_nvidia-35]",
    ),
    is_name: is_mdev_type,
};

pub(super) const PLUGIN: SectionPattern = SectionPattern {
    section: "scheduler_plugin_NAME",
    prefix: "scheduler_plugin_",
    example: "scheduler_plugin_rack_power",
    none: (
        "this names no plugin of the scheduler",
        "write the plugin's name after scheduler_plugin_: letters, digits and '_', the first a letter, 64 at most",
    ),
    is_name: is_plugin_name,
};

pub(super) static PATTERNS: [SectionPattern; 2] = [MDEV, PLUGIN];

impl SectionPattern {
    /// Reads the options of all sections of this pattern, by their names.
    pub(super) fn read<T: OptionGroup>(
        &self,
        values: &CheckedValues,
        sections: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, T>, OptionMisfit> {
        let named = sections
            .iter()
            .filter_map(|section| Some((section, section.strip_prefix(self.prefix)?)));
        named
            .map(|(section, name)| Ok((name.to_owned(), values.read_onto(section, T::default())?)))
            .collect()
    }
}

/// The pattern with this title in the table.
pub(super) fn named(section: &str) -> Option<&'static SectionPattern> {
    PATTERNS.iter().find(|it| it.section == section)
}

/// The pattern of a section in a file, and the section's name part.
pub(super) fn of(section: &str) -> Option<(&'static SectionPattern, &str)> {
    let name = |it: &'static SectionPattern| Some((it, section.strip_prefix(it.prefix)?));
    let mut written = PATTERNS.iter().filter_map(name);
    written.find(|(pattern, name)| section != pattern.section && (pattern.is_name)(name))
}

/// The pattern whose prefix the section has without a name.
pub(super) fn begun(section: &str) -> Option<&'static SectionPattern> {
    PATTERNS.iter().find(|it| section.starts_with(it.prefix))
}

//! Device profiles: named groups of accelerator resources and traits that an operator offers (Cyborg, API 2.0 to 2.3).
//!
//! A group is a flat JSON object of strings. Keys begin with `resources:`, `trait:` or `accel:`. `accel:same_link_group` is Berth's own. One request (ARQ) is made for
//! each unit of each `resources:` amount of each group. Callers: the accelerator service, the conductor (request groups).

use std::collections::BTreeSet;
use std::fmt;

use crate::{Trait, TraitError};

/// The maximum number of ARQs of one profile. Without it, a body of few bytes could request billions.
pub const MOST_REQUESTS: u32 = 1024;

/// Why a name or an object is not a device profile. Where Cyborg has an error text, it is used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceProfileError {
    /// The name has invalid characters or an invalid length.
    #[error("Device profile name must be of the form ^[a-zA-Z0-9-_]+$, at most 255 characters")]
    Name,
    /// There are no groups.
    #[error("DeviceProfile needs groups field.")]
    NoGroups,
    /// A key has an unknown prefix.
    #[error("Device profile group keys must be of the form ^(resources:|trait:|accel:)")]
    Key,
    /// The trait may not be used in a profile.
    #[error("Unsupported trait name format {0}, should start with CUSTOM_")]
    TraitPrefix(String),
    /// The name of a trait has invalid characters.
    #[error(transparent)]
    Trait(#[from] TraitError),
    /// A trait is neither required nor forbidden.
    #[error("Unsupported trait value {0}, the value must be one among ['required', 'forbidden']")]
    TraitValue(String),
    /// The class is not a class of accelerators.
    #[error("Unsupported resource class {0}")]
    ResourceClass(String),
    /// The amount is not a whole number of at least 1.
    #[error("Resources number {0} is invalid")]
    Amount(String),
    /// The same key occurs twice, ignoring blanks.
    #[error("Device profile group key {0} is given twice")]
    Twice(String),
    /// The profile has too many ARQs.
    #[error("Device profile asks for more than {MOST_REQUESTS} accelerators")]
    TooMany,
}

/// The name of a profile: 1 to 255 letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceProfileName(String);

impl DeviceProfileName {
    /// Checks the name. Fails with [`DeviceProfileError::Name`].
    pub fn new(name: &str) -> Result<Self, DeviceProfileError> {
        let fits = (1..=255).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if fits {
            Ok(Self(name.to_owned()))
        } else {
            Err(DeviceProfileError::Name)
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a trait is required or forbidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraitDemand {
    /// The device must have the trait (`required`).
    Required,
    /// The device must not have the trait (`forbidden`).
    Forbidden,
}

/// One group of a profile, with its keys in their original order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProfileGroup {
    entries: Vec<(String, String)>,
    resources: Vec<(String, u32)>,
    traits: Vec<(Trait, TraitDemand)>,
}

const RESOURCES: &str = "resources:";
const TRAIT: &str = "trait:";
const ACCEL: &str = "accel:";
/// The key of a device profile's group that names a set of groups. The devices of all groups with one value are of one link
/// group. Berth's own key.
pub const SAME_LINK_GROUP_KEY: &str = "accel:same_link_group";
/// Xilinx cards have two physical functions each, and the real service makes a request for each of them.
const TWO_FUNCTIONS: &str = "CUSTOM_FPGA_XILINX";

impl DeviceProfileGroup {
    /// Parses a group; blanks around the names in keys are removed. Fails with the first invalid key or value.
    pub fn new<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, DeviceProfileError> {
        let mut group = Self {
            entries: Vec::new(),
            resources: Vec::new(),
            traits: Vec::new(),
        };
        // A body may have a hundred thousand keys: none is compared with all others.
        let mut keys: BTreeSet<String> = BTreeSet::new();
        for (key, value) in pairs {
            let key = group.read(key, value)?;
            if !keys.insert(key.clone()) {
                return Err(DeviceProfileError::Twice(short(&key)));
            }
            group.entries.push((key, value.to_owned()));
        }
        Ok(group)
    }

    /// Adds one pair; returns the normalized key.
    fn read(&mut self, key: &str, value: &str) -> Result<String, DeviceProfileError> {
        if let Some(class) = key.strip_prefix(RESOURCES) {
            let class = resource_class(class.trim())?;
            let amount = amount(value)?;
            self.resources.push((class.to_owned(), amount));
            return Ok(format!("{RESOURCES}{class}"));
        }
        if let Some(name) = key.strip_prefix(TRAIT) {
            let name = name.trim();
            if !name.starts_with("CUSTOM_") {
                return Err(DeviceProfileError::TraitPrefix(short(name)));
            }
            let demand = match value {
                "required" => TraitDemand::Required,
                "forbidden" => TraitDemand::Forbidden,
                other => return Err(DeviceProfileError::TraitValue(short(other))),
            };
            self.traits.push((Trait::new(name)?, demand));
            return Ok(format!("{TRAIT}{name}"));
        }
        match key.strip_prefix(ACCEL) {
            Some(name) => Ok(format!("{ACCEL}{}", name.trim())),
            None => Err(DeviceProfileError::Key),
        }
    }

    /// The pairs in their original order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of a whole key such as `accel:bitstream_id`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries().find(|(k, _)| *k == key).map(|(_, v)| v)
    }

    /// A label: all groups of the profile with the same one get devices of one link group. `None`: devices of any groups.
    #[must_use]
    pub fn same_link_group(&self) -> Option<&str> {
        self.get(SAME_LINK_GROUP_KEY)
    }

    /// Resource classes and amounts. The names are strings, because Cyborg accepts `GPU`, which is not a class of Placement.
    pub fn resources(&self) -> impl Iterator<Item = (&str, u32)> {
        self.resources
            .iter()
            .map(|(class, amount)| (class.as_str(), *amount))
    }

    /// Traits and whether they are required or forbidden.
    pub fn traits(&self) -> impl Iterator<Item = (&Trait, TraitDemand)> {
        self.traits.iter().map(|(name, demand)| (name, *demand))
    }

    /// The number of ARQs of this group.
    #[must_use]
    pub fn requests(&self) -> u32 {
        let units = self
            .resources
            .iter()
            .fold(0u32, |sum, (_, amount)| sum.saturating_add(*amount));
        let doubled = self.traits.iter().any(|(name, demand)| {
            *demand == TraitDemand::Required && name.as_str() == TWO_FUNCTIONS
        });
        units.saturating_mul(if doubled { 2 } else { 1 })
    }
}

/// The groups of a profile: at least one, with at most [`MOST_REQUESTS`] ARQs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProfileGroups(Vec<DeviceProfileGroup>);

impl DeviceProfileGroups {
    /// Checks the groups together. Fails if there is no group, or there are more than [`MOST_REQUESTS`] ARQs.
    pub fn new(groups: Vec<DeviceProfileGroup>) -> Result<Self, DeviceProfileError> {
        if groups.is_empty() {
            return Err(DeviceProfileError::NoGroups);
        }
        let requests = groups
            .iter()
            .fold(0u32, |sum, group| sum.saturating_add(group.requests()));
        if requests > MOST_REQUESTS {
            return Err(DeviceProfileError::TooMany);
        }
        Ok(Self(groups))
    }

    /// The groups. The index of a group is the group id of its ARQs.
    #[must_use]
    pub fn as_slice(&self) -> &[DeviceProfileGroup] {
        &self.0
    }

    /// The group id of each ARQ, in order.
    pub fn requests(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, group)| {
            let count = usize::try_from(group.requests()).unwrap_or(0);
            std::iter::repeat_n(index, count)
        })
    }
}

fn resource_class(name: &str) -> Result<&str, DeviceProfileError> {
    let custom = name.strip_prefix("CUSTOM_").is_some_and(|rest| {
        !rest.is_empty()
            && name.len() <= 255
            && rest
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    });
    if custom || matches!(name, "FPGA" | "GPU" | "VGPU" | "PGPU") {
        Ok(name)
    } else {
        Err(DeviceProfileError::ResourceClass(short(name)))
    }
}

fn amount(text: &str) -> Result<u32, DeviceProfileError> {
    let refuse = || DeviceProfileError::Amount(short(text));
    let amount: u32 = text.trim().parse().map_err(|_| refuse())?;
    match amount {
        0 => Err(refuse()),
        1..=MOST_REQUESTS => Ok(amount),
        _ => Err(DeviceProfileError::TooMany),
    }
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group(pairs: &[(&str, &str)]) -> Result<DeviceProfileGroup, String> {
        DeviceProfileGroup::new(pairs.iter().copied()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_group_is_read_and_blanks_in_its_keys_go() {
        let read = group(&[
            ("resources: CUSTOM_THING ", "2"),
            ("trait: CUSTOM_T ", "forbidden"),
            ("accel:note", "x"),
        ])
        .unwrap();
        let kept: Vec<_> = read.entries().collect();
        assert_eq!(
            kept,
            [
                ("resources:CUSTOM_THING", "2"),
                ("trait:CUSTOM_T", "forbidden"),
                ("accel:note", "x")
            ]
        );
        assert_eq!(read.requests(), 2);
        assert_eq!(
            read.traits()
                .next()
                .map(|(name, demand)| (name.as_str(), demand)),
            Some(("CUSTOM_T", TraitDemand::Forbidden))
        );
    }

    #[test]
    fn what_is_no_group_is_refused_in_cyborgs_words() {
        for (pair, sentence) in [
            (
                ("foo:x", "1"),
                "must be of the form ^(resources:|trait:|accel:)",
            ),
            (
                ("trait:HW_CPU", "required"),
                "HW_CPU, should start with CUSTOM_",
            ),
            (
                ("trait:OWNER_CYBORG", "required"),
                "should start with CUSTOM_",
            ),
            (("trait:CUSTOM_x", "required"), "not a trait"),
            (("trait:CUSTOM_X", "maybe"), "Unsupported trait value maybe"),
            (
                ("resources:MEMORY_MB", "1"),
                "Unsupported resource class MEMORY_MB",
            ),
            (("resources:CUSTOM_", "1"), "Unsupported resource class"),
            (("resources:FPGA", "one"), "Resources number one is invalid"),
            (("resources:FPGA", "0"), "Resources number 0 is invalid"),
            (("resources:FPGA", "-1"), "Resources number -1 is invalid"),
            (("resources:FPGA", "4000000000"), "more than 1024"),
        ] {
            let refused = group(&[pair]).unwrap_err();
            assert!(refused.contains(sentence), "{pair:?}: {refused}");
        }
        let twice = group(&[("resources:FPGA", "1"), ("resources: FPGA", "1")]);
        assert!(twice.unwrap_err().contains("twice"));
    }

    #[test]
    fn each_unit_of_each_group_is_a_request_and_a_xilinx_card_counts_twice() {
        let groups = DeviceProfileGroups::new(vec![
            group(&[("resources:FPGA", "2")]).unwrap(),
            group(&[("accel:note", "x")]).unwrap(),
            group(&[
                ("resources:FPGA", "1"),
                ("trait:CUSTOM_FPGA_XILINX", "required"),
            ])
            .unwrap(),
        ])
        .unwrap();
        assert_eq!(groups.requests().collect::<Vec<_>>(), [0, 0, 2, 2]);
        let many = vec![group(&[("resources:FPGA", "600")]).unwrap(); 2];
        assert_eq!(
            DeviceProfileGroups::new(many),
            Err(DeviceProfileError::TooMany)
        );
        assert_eq!(
            DeviceProfileGroups::new(Vec::new()),
            Err(DeviceProfileError::NoGroups)
        );
    }

    #[test]
    fn names_are_letters_digits_and_two_signs() {
        for good in ["a", "gpu-1_x", "0"] {
            assert!(DeviceProfileName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a,b", "ä", "a\n", &"a".repeat(256)] {
            assert!(DeviceProfileName::new(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(key in "(resources|trait|accel)?:?\\PC{0,20}", value in "\\PC{0,12}") {
            if let Ok(group) = DeviceProfileGroup::new([(key.as_str(), value.as_str())]) {
                let kept: Vec<_> = group.entries().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
                let again = DeviceProfileGroup::new(kept.iter().map(|(k, v)| (k.as_str(), v.as_str())));
                prop_assert_eq!(again, Ok(group));
            }
        }
    }
}

//! The resources that a flavor's extra specs request: by class, and by PCI alias.

use std::collections::BTreeMap;

use berth_model::ResourceClass;

use crate::create::error::BuildError;

/// Classes of the flavor's CPUs, memory and disk. An extra spec for these changes how they are counted.
const OF_THE_FLAVOR: [ResourceClass; 4] = [
    ResourceClass::VCPU,
    ResourceClass::PCPU,
    ResourceClass::MEMORY_MB,
    ResourceClass::DISK_GB,
];

const ALIAS: &str = "pci_passthrough:alias";
/// An upper limit that no host reaches.
const MOST: u64 = 4096;

fn wrong(key: &str, reason: String) -> BuildError {
    BuildError::field("flavor.extra_specs", format!("{key}: {reason}"))
}

/// Sums `resources:CLASS` and `resources<GROUP>:CLASS` over all groups.
pub(super) fn by_class(
    specs: &BTreeMap<String, String>,
) -> Result<BTreeMap<ResourceClass, u64>, BuildError> {
    let mut asked: BTreeMap<ResourceClass, u64> = BTreeMap::new();
    for (key, value) in specs {
        let Some((group, class)) = key.split_once(':') else {
            continue;
        };
        if !group.starts_with("resources") {
            continue;
        }
        let class = ResourceClass::new(class).map_err(|error| wrong(key, error.to_string()))?;
        let amount = value
            .trim()
            .parse::<u64>()
            .ok()
            .filter(|n| *n <= i32::MAX as u64);
        let amount = amount.ok_or_else(|| {
            wrong(
                key,
                format!("{value:?} is not a valid amount; expected 0 to 2147483647"),
            )
        })?;
        if !OF_THE_FLAVOR.contains(&class) && amount > 0 {
            *asked.entry(class).or_default() += amount;
        }
    }
    Ok(asked)
}

/// The number of devices in `pci_passthrough:alias`, a comma-separated list of `NAME:COUNT`.
pub(super) fn aliased(specs: &BTreeMap<String, String>) -> Result<u64, BuildError> {
    let Some(text) = specs.get(ALIAS) else {
        return Ok(0);
    };
    let mut all = 0;
    for part in text.split(',').map(str::trim) {
        let count = part.rsplit_once(':').filter(|(name, _)| !name.is_empty());
        let count = count.and_then(|(_, count)| count.parse::<u64>().ok());
        let count = count.filter(|count| (1..=MOST).contains(count));
        all += count.ok_or_else(|| {
            wrong(
                ALIAS,
                format!("{part:?} is not an alias with a count, such as gpu:1"),
            )
        })?;
    }
    Ok(all)
}

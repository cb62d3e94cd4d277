//! What a flavor asks of Placement, and of this host's devices.

use std::collections::BTreeMap;

use berth_model::ResourceClass;

use crate::create::error::BuildError;

/// Classes that the flavor's own numbers ask for; a key that names them says how they are counted.
const OF_THE_FLAVOR: [ResourceClass; 4] = [
    ResourceClass::VCPU,
    ResourceClass::PCPU,
    ResourceClass::MEMORY_MB,
    ResourceClass::DISK_GB,
];

const ALIAS: &str = "pci_passthrough:alias";
/// More than any machine has.
const MOST: u64 = 4096;

fn wrong(key: &str, reason: String) -> BuildError {
    BuildError::field("flavor.extra_specs", format!("{key}: {reason}"))
}

/// `resources:CLASS` and `resources<GROUP>:CLASS`, all groups together.
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
        let amount = amount
            .ok_or_else(|| wrong(key, format!("{value:?} is no amount; 0 to 2147483647 is")))?;
        if !OF_THE_FLAVOR.contains(&class) && amount > 0 {
            *asked.entry(class).or_default() += amount;
        }
    }
    Ok(asked)
}

/// How many devices `pci_passthrough:alias` asks for: `NAME:COUNT`, several with commas between them.
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
                format!("{part:?} is no alias with a count, as gpu:1"),
            )
        })?;
    }
    Ok(all)
}

//! [`DeviceTags`]: the tags of one `device_spec` entry. An entry matches PCI devices, and its tags are settings of these
//! devices. The options `[pci] device_spec` and `[accelerators] device_spec` have the same syntax. For example:
//!
//! ```toml
//! [[pci.device_spec]]
//! address = "0000:81:00.*"         # matches devices
//! resource_class = "CUSTOM_A100"   # the tags
//! traits = "nvlink,hw_gpu_x"       # CUSTOM_NVLINK and HW_GPU_X
//! managed = "yes"
//! ```

use std::collections::BTreeSet;

use berth_model::{LinkGroupName, ResourceClass, Trait};
use berth_virt::DeviceType;
use serde_json::{Map, Value};

use super::Flaw;

const KEYS: [&str; 13] = [
    "physical_network",
    "trusted",
    "remote_managed",
    "managed",
    "live_migratable",
    "resource_class",
    "traits",
    "one_time_use",
    "num_vfs",
    "vgpu_type",
    "reset_clears_memory",
    "device_type",
    "link_group",
];

/// An entry's tags, `None` if not set. The comments give Nova's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceTags {
    /// The physical network that a function of a network card is connected to. `Some("")` (an empty text, or `null` in
    /// JSON): a function for tunnelled networks.
    pub physical_network: Option<String>,
    /// Whether guests may use features that can harm other guests (promiscuous mode). Default: no.
    pub trusted: Option<bool>,
    /// Whether the processor of a SmartNIC connects the device to its network. Default: no.
    pub remote_managed: Option<bool>,
    /// Whether the hypervisor unbinds the device from its driver for a guest, and rebinds it afterwards. Default: yes.
    pub managed: Option<bool>,
    /// Whether a guest that has it can be live-migrated. Default: no.
    pub live_migratable: Option<bool>,
    /// Its resource class. Default: derived from vendor and product.
    pub resource_class: Option<ResourceClass>,
    pub traits: BTreeSet<Trait>,
    /// Whether the device is reserved after one guest, until an operator or another program ends the reservation in
    /// Placement. Default: no.
    pub one_time_use: Option<bool>,
    /// The number of virtual functions that a physical function should have when the agent starts. Default:
    /// unchanged. Not in Nova.
    pub num_vfs: Option<u32>,
    /// The vGPU type that a virtual function of NVIDIA's driver without mediated devices should have when the agent starts.
    /// Default: unchanged. Not in Nova.
    pub vgpu_type: Option<u32>,
    /// Whether any reset but a change of its power state clears its memory. Default: no for display controllers and
    /// processing accelerators, else yes. Not in Nova.
    pub reset_clears_memory: Option<bool>,
    /// What it is, in Cyborg's terms. Default: by vendor, product and class. Not in Nova.
    pub device_type: Option<DeviceType>,
    /// The group of devices that a fast link connects. Default: none. Not in Nova.
    pub link_group: Option<LinkGroupName>,
}

impl DeviceTags {
    /// Reads the tags of an entry, and skips `match_keys`, the keys that match devices.
    pub(super) fn read(table: &Map<String, Value>, match_keys: &[&str]) -> Result<Self, Flaw> {
        let mut tags = Self::default();
        for (key, value) in table {
            match key.as_str() {
                "physical_network" if value.is_null() => {
                    tags.physical_network = Some(String::new());
                }
                // Any other tag without a value has its default.
                key if value.is_null() && KEYS.contains(&key) => {}
                "physical_network" => tags.physical_network = Some(text(key, value)?.to_owned()),
                "trusted" => tags.trusted = Some(truth(key, value)?),
                "remote_managed" => tags.remote_managed = Some(truth(key, value)?),
                "managed" => tags.managed = Some(truth(key, value)?),
                "live_migratable" => tags.live_migratable = Some(truth(key, value)?),
                "one_time_use" => tags.one_time_use = Some(truth(key, value)?),
                "num_vfs" => tags.num_vfs = Some(count(key, value)?),
                "vgpu_type" => tags.vgpu_type = Some(vgpu_type(key, value)?),
                "reset_clears_memory" => tags.reset_clears_memory = Some(truth(key, value)?),
                "device_type" => tags.device_type = Some(device_type(key, value)?),
                "link_group" => tags.link_group = Some(link_group(key, value)?),
                "resource_class" => tags.resource_class = Some(class(key, text(key, value)?)?),
                "traits" => tags.traits = traits(key, value)?,
                key if match_keys.contains(&key) => {}
                key => {
                    let shown: String = key.chars().take(80).collect();
                    let known = [match_keys, &KEYS].concat().join(", ");
                    return Err(Flaw::new(&shown, format!("unknown key; known are {known}")));
                }
            }
        }
        Ok(tags)
    }
}

fn text<'a>(key: &str, value: &'a Value) -> Result<&'a str, Flaw> {
    value
        .as_str()
        .map(str::trim)
        .ok_or_else(|| Flaw::new(key, "a text in quotes is expected"))
}

/// `true` or `false`, or one of the texts that oslo accepts as a boolean.
fn truth(key: &str, value: &Value) -> Result<bool, Flaw> {
    let word = match value {
        Value::Bool(word) => return Ok(*word),
        Value::String(word) => word.trim().to_ascii_lowercase(),
        _ => String::new(),
    };
    match word.as_str() {
        "yes" | "true" | "on" | "1" | "y" | "t" => Ok(true),
        "no" | "false" | "off" | "0" | "n" | "f" => Ok(false),
        _ => Err(Flaw::new(key, "yes or no is expected")),
    }
}

/// A device type by its name, in any case.
fn device_type(key: &str, value: &Value) -> Result<DeviceType, Flaw> {
    let written = text(key, value)?;
    let mut all = DeviceType::ALL.into_iter();
    let found = all.find(|known| known.as_str().eq_ignore_ascii_case(written));
    found.ok_or_else(|| {
        let known = DeviceType::ALL.map(DeviceType::as_str).join(", ");
        Flaw::new(key, format!("one of {known} is expected"))
    })
}

fn link_group(key: &str, value: &Value) -> Result<LinkGroupName, Flaw> {
    LinkGroupName::new(text(key, value)?).map_err(|error| Flaw::new(key, error))
}

/// A number, or a number as text.
fn count(key: &str, value: &Value) -> Result<u32, Flaw> {
    let number = match value {
        Value::Number(number) => number.as_u64().and_then(|n| u32::try_from(n).ok()),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let fits = |number: &u32| (1..=65_535).contains(number);
    number
        .filter(fits)
        .ok_or_else(|| Flaw::new(key, "a number from 1 to 65535 is expected"))
}

/// A number, also in the form of mediated devices: `nvidia-558`.
fn vgpu_type(key: &str, value: &Value) -> Result<u32, Flaw> {
    let number = match value {
        Value::Number(number) => number.as_u64().and_then(|n| u32::try_from(n).ok()),
        Value::String(text) => {
            let text = text.trim();
            text.strip_prefix("nvidia-").unwrap_or(text).parse().ok()
        }
        _ => None,
    };
    number.filter(|number| *number > 0).ok_or_else(|| {
        let expected = "a number above 0 is expected: an ID of nvidia/creatable_vgpu_types";
        Flaw::new(key, expected)
    })
}

/// Normalises a name like Nova: converts it to upper case, and replaces characters other than letters and digits by `_`.
/// The callers add `CUSTOM_` to names that are not standard.
fn normalized(written: &str) -> String {
    written
        .chars()
        .map(|c| c.to_ascii_uppercase())
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

/// A resource class; with `CUSTOM_` if the name is not a valid class without it.
fn class(key: &str, written: &str) -> Result<ResourceClass, Flaw> {
    let name = normalized(written);
    if written.is_empty() {
        return Err(Flaw::new(key, "it is empty"));
    }
    ResourceClass::new(&name)
        .or_else(|_| ResourceClass::new(&format!("CUSTOM_{name}")))
        .map_err(|error| Flaw::new(key, error))
}

/// Traits, from a text with commas or from a list.
fn traits(key: &str, value: &Value) -> Result<BTreeSet<Trait>, Flaw> {
    let written: Vec<&str> = match value {
        Value::Array(list) => list
            .iter()
            .map(|one| text(key, one))
            .collect::<Result<_, _>>()?,
        one => text(key, one)?.split(',').map(str::trim).collect(),
    };
    let named = written.into_iter().filter(|name| !name.is_empty());
    named
        .map(|written| {
            let name = normalized(written);
            // A name with a prefix of Placement's standard or custom traits is complete.
            let is_complete = ["CUSTOM_", "HW_", "COMPUTE_", "MISC_", "STORAGE_", "OWNER_"]
                .iter()
                .any(|prefix| name.starts_with(prefix));
            let name = if is_complete {
                name
            } else {
                format!("CUSTOM_{name}")
            };
            Trait::new(&name).map_err(|error| Flaw::new(key, error))
        })
        .collect()
}

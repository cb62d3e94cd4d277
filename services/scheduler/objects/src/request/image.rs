//! What an instance is booted from.
//!
//! The image service keeps properties under names and in spellings of many years. Here they get the name and the spelling that Nova
//! gives them when it builds a request; a value that Nova refuses then is refused here.

mod kind;
mod property;

use std::collections::BTreeMap;

use berth_model::LEGACY_IMAGE_PROPERTIES;

pub use kind::architecture;
use property::KINDS;

/// What an instance is booted from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestImage {
    pub id: Option<String>,
    pub disk_format: Option<String>,
    /// Properties of guests that are booted from the image.
    pub properties: ImageProperties,
}

/// The properties of an image, by Nova's names, each in its one spelling: `amd64` is `x86_64`, `yes` is `True`, `KVM` is `kvm`.
/// Names that Nova does not know are kept as they came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageProperties(BTreeMap<String, String>);

/// A property that no image may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("image property {property}: should be {should_be}, and is {value:?}")]
pub struct ImagePropertyError {
    /// As the image names it.
    pub property: String,
    /// As the image has it.
    pub value: String,
    /// What would be right.
    pub should_be: String,
}

impl ImageProperties {
    /// Reads the properties of an image. A property under its current name takes precedence over an old name.
    ///
    /// Errors: the value of a property is invalid.
    pub fn new(kept: BTreeMap<String, String>) -> Result<Self, ImagePropertyError> {
        let mut properties = BTreeMap::new();
        for (old, name) in LEGACY_IMAGE_PROPERTIES {
            if let Some(value) = kept.get(old) {
                properties.insert(name.to_owned(), canonical(old, name, value)?);
            }
        }
        properties.extend(of_vmware(&kept)?);
        let traits = required_traits(&kept);
        for (name, value) in kept {
            if is_old(&name) {
                continue;
            }
            let value = canonical(&name, &name, &value)?;
            properties.insert(name, value);
        }
        properties.extend(traits.map(|traits| ("traits_required".to_owned(), traits)));
        properties.extend(numa_memory(&properties));
        Ok(Self(properties))
    }

    /// The value of a property in its one spelling; none where the image has none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The names that Nova knows, today's and old ones.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let old = LEGACY_IMAGE_PROPERTIES.iter().map(|(old, _)| *old);
        KINDS.iter().map(|(name, _)| *name).chain(old)
    }

    /// The properties that Nova knows, by name.
    pub fn known(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(|(name, _)| kind_of(name).is_some())
    }

    /// The known properties with a value other than false, 0, and an empty text or list.
    pub fn meaningful(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter()
            .filter(|(name, value)| kind_of(name).is_some_and(|kind| !kind.is_empty(value)))
    }

    /// Keeps the values unchecked.
    #[cfg(test)]
    pub fn unread(properties: BTreeMap<String, String>) -> Self {
        Self(properties)
    }
}

fn kind_of(name: &str) -> Option<kind::PropertyKind> {
    let place = KINDS.binary_search_by_key(&name, |(it, _)| it);
    place.ok().map(|place| KINDS[place].1)
}

fn is_old(name: &str) -> bool {
    name == "vmware_adaptertype" || LEGACY_IMAGE_PROPERTIES.iter().any(|(old, _)| *old == name)
}

/// The one spelling of a value; as it came where Nova does not know the name.
fn canonical(written_as: &str, name: &str, value: &str) -> Result<String, ImagePropertyError> {
    let read = match kind_of(name) {
        Some(kind) => kind.canonical(value),
        None if name.starts_with("hw_numa_mem.") => kind::PropertyKind::Int.canonical(value),
        None => return Ok(value.to_owned()),
    };
    read.map_err(|should_be| ImagePropertyError {
        property: written_as.to_owned(),
        value: value.to_owned(),
        should_be,
    })
}

/// `vmware_adaptertype` sets two properties.
fn of_vmware(kept: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, ImagePropertyError> {
    const OLD: &str = "vmware_adaptertype";
    let bus = |bus: &str| ("hw_disk_bus".to_owned(), bus.to_owned());
    match kept.get(OLD).map(String::as_str) {
        None | Some("") => Ok(Vec::new()),
        Some("ide") => Ok(vec![bus("ide")]),
        Some(model) => {
            let name = "hw_scsi_model";
            let model = canonical(OLD, name, model)?;
            Ok(vec![bus("scsi"), (name.to_owned(), model)])
        }
    }
}

/// The traits of `trait:NAME=required`, as the text of a list.
fn required_traits(kept: &BTreeMap<String, String>) -> Option<String> {
    let required = kept.iter().filter(|(_, value)| *value == "required");
    let traits: Vec<String> = required
        .filter_map(|(name, _)| name.strip_prefix("trait:"))
        .map(|name| format!("'{name}'"))
        .collect();
    (!traits.is_empty()).then(|| format!("[{}]", traits.join(", ")))
}

/// `hw_numa_mem.0`, `hw_numa_mem.1` and so on, as the text of a list.
fn numa_memory(properties: &BTreeMap<String, String>) -> Option<(String, String)> {
    let cells = (0..128).map_while(|cell| properties.get(&format!("hw_numa_mem.{cell}")));
    let cells: Vec<&str> = cells.map(String::as_str).collect();
    let text = || format!("[{}]", cells.join(", "));
    (!cells.is_empty()).then(|| ("hw_numa_mem".to_owned(), text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kept: &[(&str, &str)]) -> Result<ImageProperties, ImagePropertyError> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        ImageProperties::new(kept.iter().map(own).collect())
    }

    #[test]
    fn a_property_has_one_name_and_one_spelling() {
        for (kept, name, value) in [
            (("architecture", "AMD64"), "hw_architecture", "x86_64"),
            (("hw_architecture", "i586"), "hw_architecture", "i686"),
            (("hypervisor_type", "xapi"), "img_hv_type", "xen"),
            (("vm_mode", "baremetal"), "hw_vm_mode", "hvm"),
            (("hw_vm_mode", "pv"), "hw_vm_mode", "xen"),
            (
                ("hw_qemu_guest_agent", "yes"),
                "hw_qemu_guest_agent",
                "True",
            ),
            (("hw_boot_menu", "maybe"), "hw_boot_menu", "False"),
            (("hw_numa_nodes", " 2 "), "hw_numa_nodes", "2"),
            (("os_type", "Linux"), "os_type", "linux"),
            (("hw_vif_model", "VirtualE1000"), "hw_vif_model", "e1000"),
            (
                ("vmware_adaptertype", "paraVirtual"),
                "hw_scsi_model",
                "vmpvscsi",
            ),
            (("vmware_adaptertype", "ide"), "hw_disk_bus", "ide"),
            (
                ("trait:HW_GPU", "required"),
                "traits_required",
                "['HW_GPU']",
            ),
            (("trait:HW_GPU", "required"), "trait:HW_GPU", "required"),
            (("hw_numa_mem.0", "512"), "hw_numa_mem", "[512]"),
            (
                ("hypervisor_version_requires", ">=1.0, <2"),
                "img_hv_requested_version",
                ">=1.0, <2",
            ),
            (("mine", "AMD64"), "mine", "AMD64"),
        ] {
            let properties = read(&[kept]).expect(kept.0);
            assert_eq!(properties.get(name), Some(value), "{kept:?}");
        }
        let both = read(&[("architecture", "i686"), ("hw_architecture", "x86_64")]);
        let both = both.expect("both are known");
        assert_eq!(
            both.iter().collect::<Vec<_>>(),
            [("hw_architecture", "x86_64")]
        );
    }

    #[test]
    fn a_value_that_is_none_is_refused_by_name() {
        for (kept, sentence) in [
            (
                ("architecture", "arm64"),
                "image property architecture: should be an architecture (alpha, ",
            ),
            (
                ("img_hv_type", "powervm"),
                "image property img_hv_type: should be one of ",
            ),
            (
                ("hw_vm_mode", "bogus"),
                "image property hw_vm_mode: should be one of hvm, xen, ",
            ),
            (
                ("hw_disk_bus", "Virtio"),
                "image property hw_disk_bus: should be one of ",
            ),
            (
                ("hw_numa_nodes", "two"),
                "image property hw_numa_nodes: should be a whole number, and is \"two\"",
            ),
            (
                ("img_hv_requested_version", "1.5"),
                "image property img_hv_requested_version: should be ",
            ),
            (
                ("hypervisor_version_requires", ""),
                "image property hypervisor_version_requires: ",
            ),
            (
                ("hw_numa_mem.0", "x"),
                "image property hw_numa_mem.0: should be a whole number",
            ),
        ] {
            let error = read(&[kept]).expect_err(sentence).to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
        let old = read(&[("architecture", "bogus"), ("hw_architecture", "x86_64")]);
        assert!(old.is_err(), "an old name is read too");
    }

    #[test]
    fn an_empty_property_is_not_meaningful() {
        let properties = read(&[
            ("os_distro", ""),
            ("hw_numa_nodes", "0"),
            ("hw_qemu_guest_agent", "no"),
            ("hw_machine_type", "0"),
            ("mine", "x"),
        ]);
        let properties = properties.expect("all are read");
        assert_eq!(
            properties.meaningful().collect::<Vec<_>>(),
            [("hw_machine_type", "0")]
        );
    }
}

//! Resource classes: the quantitative names, standard (os-resource-classes 1.1.0) or `CUSTOM_`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::symbol::{Symbol, shortened};

/// The text is not the name of a resource class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a resource class: {reason}")]
pub struct ResourceClassError {
    name: String,
    reason: &'static str,
}

/// A resource class: upper-case letters, digits and underscores, at most 255; either a name of Placement's 21 standard
/// classes or a name that starts with `CUSTOM_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceClass(Symbol);

impl ResourceClass {
    /// Standard classes in the order of their ids in Placement's table, 0 to 20.
    pub const STANDARD: [&'static str; 21] = [
        "VCPU",
        "MEMORY_MB",
        "DISK_GB",
        "PCI_DEVICE",
        "SRIOV_NET_VF",
        "NUMA_SOCKET",
        "NUMA_CORE",
        "NUMA_THREAD",
        "NUMA_MEMORY_MB",
        "IPV4_ADDRESS",
        "VGPU",
        "VGPU_DISPLAY_HEAD",
        "NET_BW_EGR_KILOBIT_PER_SEC",
        "NET_BW_IGR_KILOBIT_PER_SEC",
        "PCPU",
        "MEM_ENCRYPTION_CONTEXT",
        "FPGA",
        "PGPU",
        "NET_PACKET_RATE_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
    ];
    /// Host CPUs that guests share, in virtual CPUs.
    pub const VCPU: ResourceClass = ResourceClass(Symbol(Cow::Borrowed("VCPU")));
    /// Host CPUs that are dedicated to one guest each.
    pub const PCPU: ResourceClass = ResourceClass(Symbol(Cow::Borrowed("PCPU")));
    /// Memory of the host for guests, in MiB.
    pub const MEMORY_MB: ResourceClass = ResourceClass(Symbol(Cow::Borrowed("MEMORY_MB")));
    /// Local disk for guests, in GiB.
    pub const DISK_GB: ResourceClass = ResourceClass(Symbol(Cow::Borrowed("DISK_GB")));
    /// Guests with encrypted memory.
    pub const MEM_ENCRYPTION_CONTEXT: ResourceClass =
        ResourceClass(Symbol(Cow::Borrowed("MEM_ENCRYPTION_CONTEXT")));
    /// Virtual GPUs (mediated devices).
    pub const VGPU: ResourceClass = ResourceClass(Symbol(Cow::Borrowed("VGPU")));
    /// Physical GPUs that are allocated as a whole.
    pub const PGPU: ResourceClass = ResourceClass(Symbol(Cow::Borrowed("PGPU")));
    /// Field-programmable gate arrays (FPGA) as devices.
    pub const FPGA: ResourceClass = ResourceClass(Symbol(Cow::Borrowed("FPGA")));
    /// SR-IOV virtual functions of network cards.
    pub const SRIOV_NET_VF: ResourceClass = ResourceClass(Symbol(Cow::Borrowed("SRIOV_NET_VF")));
    /// A whole network card for a Neutron port. Placement has no standard class for it.
    pub const CUSTOM_SRIOV_NET_PF: ResourceClass =
        ResourceClass(Symbol(Cow::Borrowed("CUSTOM_SRIOV_NET_PF")));

    /// A custom class that is known at build time. Panics at build time, when used in a constant, if the
    /// name's form is wrong.
    #[must_use]
    pub const fn known_custom(name: &'static str) -> Self {
        Self(Symbol::known(name))
    }

    /// The class that Nova gives PCI devices of these ids: `CUSTOM_PCI_10DE_1EB8`.
    #[must_use]
    pub fn pci_device(vendor: u16, product: u16) -> Self {
        let name = format!("CUSTOM_PCI_{vendor:04X}_{product:04X}");
        Self(Symbol(Cow::Owned(name)))
    }

    /// Checks the name. Fails if the name has other characters than `A-Z`, `0-9`, `_`, is longer than 255, or is
    /// neither standard nor `CUSTOM_`.
    pub fn new(name: &str) -> Result<Self, ResourceClassError> {
        if let Some(standard) = Self::STANDARD.iter().find(|s| **s == name) {
            return Ok(Self(Symbol::known(standard)));
        }
        let class = Self::answered(name)?;
        if class.is_custom() {
            return Ok(class);
        }
        Err(refused(
            name,
            "it is not a standard class, and a custom class starts with CUSTOM_",
        ))
    }

    /// A class from an answer of Placement. A newer Placement may have standard classes that this list does not have.
    /// Fails if the name has invalid characters or an invalid length.
    pub fn answered(name: &str) -> Result<Self, ResourceClassError> {
        Symbol::new(name)
            .map(Self)
            .map_err(|reason| refused(name, reason))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the class starts with `CUSTOM_` and so must be created in Placement before its first use.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.0.is_custom()
    }
}

fn refused(name: &str, reason: &'static str) -> ResourceClassError {
    let name = shortened(name);
    ResourceClassError { name, reason }
}

impl fmt::Display for ResourceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ResourceClass {
    type Err = ResourceClassError;

    fn from_str(text: &str) -> Result<Self, ResourceClassError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pci_devices_class_is_novas() {
        let class = ResourceClass::pci_device(0x10de, 0x1eb8);
        assert_eq!(ResourceClass::new("CUSTOM_PCI_10DE_1EB8"), Ok(class));
    }

    #[test]
    fn names_are_standard_or_custom() {
        for good in ["VCPU", "VGPU", "CUSTOM_FPGA_1", "CUSTOM_"] {
            assert_eq!(ResourceClass::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "vgpu", "GPU", "CUSTOM_é", "CUSTOM GPU", "XCUSTOM_A"] {
            assert!(ResourceClass::new(bad).is_err(), "{bad}");
        }
        assert!(ResourceClass::answered("SOMETHING_NEW").is_ok());
        assert!(ResourceClass::answered("lower").is_err());
    }
}

//! Listed devices that cannot be offered, with the reason.

use berth_model::PciAddress;

/// A device that matches a list but is not offered. At the start it is a configuration error; a device that was plugged
/// in later must not affect the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceRefusal {
    /// Both lists match it.
    #[error(
        "PCI function {address} is meant by entry {compute} of [pci] device_spec and by entry {accelerator} of [accelerators] \
         device_spec; a device has one owner, so narrow one of the two entries"
    )]
    TwoOwners {
        address: PciAddress,
        /// The entry of the one list, counted from 1.
        compute: usize,
        /// The entry of the other list.
        accelerator: usize,
    },
    /// A card is offered as a whole and by its virtual functions.
    #[error(
        "PCI function {physical} is offered whole, and so are its virtual functions ({}): who gets the one takes the others away; \
         list either, for instance by product_id",
        listed(parts)
    )]
    WholeAndInParts {
        physical: PciAddress,
        parts: Vec<PciAddress>,
    },
    /// A card is offered as a whole and by its mediated devices.
    #[error(
        "PCI function {address} is meant by entry {entry} of [pci] device_spec, and [devices] enabled_mdev_types parts it into \
         {mdev_type}; take it out of one of the two"
    )]
    WholeAndMediated {
        address: PciAddress,
        /// The entry, counted from 1.
        entry: usize,
        mdev_type: String,
    },
    /// The virtual functions of one card differ.
    #[error(
        "virtual functions {first} and {other} of PCI function {physical} have different resource classes, traits, physical networks \
         or link groups in [pci] device_spec; they count on one provider and must have the same"
    )]
    MixedCard {
        physical: PciAddress,
        first: PciAddress,
        other: PciAddress,
    },
    /// The functions of a card that is one device differ.
    #[error(
        "functions {first} and {other} of one card have different resource classes or traits, or different link groups, in \
         [accelerators] device_spec; they are one provider and must have the same"
    )]
    MixedFunctions {
        first: PciAddress,
        other: PciAddress,
    },
    /// A virtual function is for ports, which request another class.
    #[error(
        "virtual function {address} has physical_network and resource_class in entry {entry} of [pci] device_spec; Neutron ports \
         request SRIOV_NET_VF, so omit resource_class"
    )]
    PortClass {
        address: PciAddress,
        /// The entry, counted from 1.
        entry: usize,
    },
    /// A virtual function is to be used once.
    #[error(
        "virtual function {address} has one_time_use in entry {entry} of [pci] device_spec; only whole functions can be kept back \
         after one guest"
    )]
    VirtualOnce {
        address: PciAddress,
        /// The entry, counted from 1.
        entry: usize,
    },
    /// An entry names a network interface.
    #[error(
        "entry {entry} of [pci] device_spec has devname, which cannot be reported in Placement (report_in_placement); name the \
         device by its address"
    )]
    Devname {
        /// The entry, counted from 1.
        entry: usize,
    },
}

impl DeviceRefusal {
    /// The option to correct.
    #[must_use]
    pub fn option(&self) -> &'static str {
        match self {
            DeviceRefusal::TwoOwners { .. } | DeviceRefusal::MixedFunctions { .. } => {
                "[accelerators] device_spec"
            }
            _ => "[pci] device_spec",
        }
    }
}

fn listed(addresses: &[PciAddress]) -> String {
    let mut shown: Vec<_> = addresses.iter().take(4).map(ToString::to_string).collect();
    if addresses.len() > shown.len() {
        shown.push(format!("{} more", addresses.len() - shown.len()));
    }
    shown.join(", ")
}

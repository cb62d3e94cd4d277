//! [`FunctionDemand`]: what a port needs of its host in Placement. Pure.

use std::collections::BTreeSet;

use berth_model::{ResourceClass, Trait};
use berth_wire::conductor::{FunctionVnicType, RequestedNetwork};

/// A function of a network card (SR-IOV), as Placement counts it: one unit of a class, of a provider with these traits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionDemand {
    pub(crate) class: ResourceClass,
    pub(crate) traits: BTreeSet<Trait>,
    /// The physical network that the card is connected to.
    pub(crate) physical_network: String,
}

impl FunctionDemand {
    /// What a requested port needs; `None` if it is on a virtual switch.
    pub(crate) fn of(wanted: &RequestedNetwork) -> Option<Self> {
        let physical_network = wanted.physical_network.clone()?;
        let mut traits: BTreeSet<_> = [Trait::physical_network(&physical_network)].into();
        if wanted.trusted {
            traits.insert(Trait::HW_NIC_SRIOV_TRUSTED);
        }
        Some(Self {
            class: match wanted.vnic_type {
                FunctionVnicType::Direct | FunctionVnicType::Macvtap => ResourceClass::SRIOV_NET_VF,
                FunctionVnicType::DirectPhysical => ResourceClass::CUSTOM_SRIOV_NET_PF,
            },
            traits,
            physical_network,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_needs_a_unit_of_its_kind_on_its_network_and_a_trusted_one_the_trait_too() {
        let demand = |vnic_type, trusted| {
            let wanted = RequestedNetwork {
                physical_network: Some("storage-1".to_owned()),
                vnic_type,
                trusted,
                ..RequestedNetwork::default()
            };
            let demand = FunctionDemand::of(&wanted).unwrap();
            let traits = demand.traits.iter().map(ToString::to_string);
            (demand.class.to_string(), traits.collect::<Vec<_>>())
        };
        let (class, traits) = demand(FunctionVnicType::Macvtap, false);
        assert_eq!((class.as_str(), traits.len()), ("SRIOV_NET_VF", 1));
        let (class, traits) = demand(FunctionVnicType::Direct, true);
        assert_eq!(class, "SRIOV_NET_VF");
        assert_eq!(traits, ["CUSTOM_PHYSNET_STORAGE_1", "HW_NIC_SRIOV_TRUSTED"]);
        let (class, _) = demand(FunctionVnicType::DirectPhysical, false);
        assert_eq!(class, "CUSTOM_SRIOV_NET_PF");
        assert_eq!(FunctionDemand::of(&RequestedNetwork::default()), None);
    }
}

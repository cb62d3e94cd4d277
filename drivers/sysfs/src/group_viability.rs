//! Checks whether an IOMMU group can be given to a guest as a whole: its members share the guest's view of memory.

use berth_model::PciAddress;

use crate::Sysfs;
use crate::allow_list::{AllowList, AllowedFunction, NotAllowed, is_bridge};
use crate::read::SysfsError;

/// An IOMMU group with only allowed endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViableGroup {
    id: u32,
    endpoints: Vec<PciAddress>,
}

impl ViableGroup {
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its functions except bridges, including the requested one.
    #[must_use]
    pub fn endpoints(&self) -> &[PciAddress] {
        &self.endpoints
    }
}

/// Why a group cannot be handed over.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The host translates no addresses for the function.
    #[error(
        "PCI function {address} is in no IOMMU group; switch the IOMMU on in the firmware and the kernel \
         (intel_iommu=on or amd_iommu=on)"
    )]
    NoGroup { address: PciAddress },
    /// A member is not allowed.
    #[error(
        "IOMMU group {group} of PCI function {address} cannot go to a guest whole, because of {member}: {reason}; put the \
         card in another slot, or list that device too"
    )]
    NotViable {
        address: PciAddress,
        group: u32,
        /// The member that is not allowed.
        member: String,
        reason: String,
    },
    /// The tree could not be read.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
}

impl Sysfs {
    /// The function's IOMMU group, if each of its members is a bridge or in the list.
    pub fn viable_group(
        &self,
        allowed: &AllowedFunction,
        list: &AllowList,
    ) -> Result<ViableGroup, GroupError> {
        let address = allowed.address();
        let group = self
            .iommu_group_of(address)?
            .ok_or(GroupError::NoGroup { address })?;
        let mut endpoints = Vec::new();
        for member in &group.members {
            let in_the_way = |reason: String| GroupError::NotViable {
                address,
                group: group.id,
                member: member.clone(),
                reason,
            };
            let Ok(other) = member.parse::<PciAddress>() else {
                return Err(in_the_way("it is not a PCI function".to_owned()));
            };
            match self.allowed(list, other) {
                Ok(_) => endpoints.push(other),
                // The kernel's bridge driver may keep it; a bridge does not access memory by itself.
                Err(NotAllowed::Bridge { .. }) => {}
                Err(NotAllowed::Sysfs(error)) => return Err(error.into()),
                Err(refused) => return Err(in_the_way(refused.to_string())),
            }
        }
        if endpoints.contains(&address) && !is_bridge(allowed.function()) {
            Ok(ViableGroup {
                id: group.id,
                endpoints,
            })
        } else {
            Err(GroupError::NoGroup { address })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{CardFixture, TestTree};
    use serde_json::json;

    #[test]
    fn a_group_goes_whole_or_not_at_all() {
        let tree = TestTree::new();
        tree.card(CardFixture::gpu("0000:81:00.0", 12));
        tree.card(CardFixture::gpu("0000:81:00.1", 12));
        tree.card(CardFixture {
            class: 0x06_0400,
            ..CardFixture::gpu("0000:80:01.0", 12)
        });
        let sysfs = tree.sysfs();
        let of = |entries: serde_json::Value| {
            let list = AllowList::read(entries.as_array().unwrap()).unwrap();
            let allowed = sysfs.allowed(&list, "81:00.0".parse().unwrap()).unwrap();
            sysfs.viable_group(&allowed, &list)
        };
        let whole = of(json!([{"address": "81:00.*"}])).unwrap();
        assert_eq!((whole.id(), whole.endpoints().len()), (12, 2));
        let text = of(json!([{"address": "81:00.0"}])).unwrap_err().to_string();
        assert!(
            text.contains("group 12") && text.contains("81:00.1"),
            "{text}"
        );
    }

    #[test]
    fn without_an_iommu_there_is_no_group() {
        let tree = TestTree::new();
        tree.card(CardFixture {
            iommu_group: None,
            ..CardFixture::gpu("0000:81:00.0", 0)
        });
        let list = AllowList::read(&[json!({"vendor_id": "10de"})]).unwrap();
        let allowed = tree
            .sysfs()
            .allowed(&list, "81:00.0".parse().unwrap())
            .unwrap();
        let refused = tree.sysfs().viable_group(&allowed, &list);
        assert!(matches!(refused, Err(GroupError::NoGroup { .. })));
    }
}

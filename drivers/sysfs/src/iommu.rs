//! IOMMU groups: functions that can be given to a guest only together.

use std::collections::BTreeSet;
use std::path::PathBuf;

use berth_model::PciAddress;

use crate::Sysfs;
use crate::read::{self, SysfsError};

/// One IOMMU group of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IommuGroup {
    pub id: u32,
    /// Its devices by the kernel's name, sorted: a PCI address, a mediated device's UUID, or a platform device's name.
    pub members: Vec<String>,
}

impl Sysfs {
    /// All groups by number; empty without an IOMMU.
    pub fn iommu_groups(&self) -> Result<Vec<IommuGroup>, SysfsError> {
        let directory = self.iommu_directory();
        let mut groups = Vec::new();
        for name in read::names(&directory)? {
            let id = read::decimal(&name).ok_or_else(|| {
                SysfsError::malformed(&directory, &name, "directories named by number")
            })?;
            groups.extend(self.iommu_group(id)?);
        }
        groups.sort_unstable_by_key(|group| group.id);
        Ok(groups)
    }

    /// One group; `None` if it does not exist or has no members.
    pub fn iommu_group(&self, id: u32) -> Result<Option<IommuGroup>, SysfsError> {
        let members = read::names(&self.iommu_directory().join(id.to_string()).join("devices"))?;
        Ok((!members.is_empty()).then_some(IommuGroup { id, members }))
    }

    /// The other PCI functions of a function's group, including bridges; empty without others or without an IOMMU.
    pub fn other_group_members(
        &self,
        address: PciAddress,
    ) -> Result<BTreeSet<PciAddress>, SysfsError> {
        let group = self.iommu_group_of(address)?;
        let members = group.into_iter().flat_map(|group| group.members);
        let functions = members.filter_map(|member| member.parse().ok());
        Ok(functions.filter(|member| *member != address).collect())
    }

    fn iommu_directory(&self) -> PathBuf {
        self.root().join("kernel/iommu_groups")
    }
}

#[cfg(test)]
mod tests {
    use crate::tree::{CardFixture, TestTree};

    #[test]
    fn a_group_names_all_its_members() {
        let tree = TestTree::new();
        tree.card(CardFixture::gpu("0000:81:00.0", 12));
        tree.card(CardFixture::gpu("0000:81:00.1", 12));
        tree.card(CardFixture::gpu("0000:82:00.0", 7));
        let groups = tree.sysfs().iommu_groups().unwrap();
        assert_eq!(groups.iter().map(|g| g.id).collect::<Vec<_>>(), [7, 12]);
        let of_card = tree.sysfs().iommu_group_of("0000:81:00.0".parse().unwrap());
        assert_eq!(
            of_card.unwrap().unwrap().members,
            ["0000:81:00.0", "0000:81:00.1"]
        );
        let others = |address: &str| tree.sysfs().other_group_members(address.parse().unwrap());
        let other = "0000:81:00.1".parse().unwrap();
        assert_eq!(others("0000:81:00.0").unwrap(), [other].into());
        assert!(others("0000:82:00.0").unwrap().is_empty());
    }

    #[test]
    fn a_host_without_an_iommu_has_no_groups() {
        let tree = TestTree::new();
        tree.card(CardFixture {
            iommu_group: None,
            ..CardFixture::gpu("0000:81:00.0", 0)
        });
        assert!(tree.sysfs().iommu_groups().unwrap().is_empty());
        let of_card = tree.sysfs().iommu_group_of("0000:81:00.0".parse().unwrap());
        assert_eq!(of_card.unwrap(), None);
    }

    #[test]
    fn a_group_that_is_no_number_is_an_error() {
        let tree = TestTree::new();
        tree.write("kernel/iommu_groups/first/type", "DMA");
        assert!(tree.sysfs().iommu_groups().is_err());
    }
}

//! The vGPU types that each physical GPU offers, given the enabled types and existing devices. Pure.

use std::collections::BTreeMap;

use berth_model::PciAddress;
use berth_virt::{OfferedMdevs, PhysicalGpu};

use crate::node_device::{Mdev, MdevParentFunction};
use crate::options::{MdevTypeOptions, MdevTypes};

/// The GPUs of the host, by address.
///
/// A GPU offers the type it is used for, if its driver supports that type or mediated devices of it exist: as many as
/// exist and as can still be created. `max_instances` first counts the existing devices, and then admits GPUs in the
/// order of their addresses while everything that they can still create fits, like Nova. A GPU that does not fit offers
/// only its existing devices, because a guest may have them.
pub(crate) fn physical_gpus(
    parents: &[MdevParentFunction],
    mdevs: &[Mdev],
    types: &MdevTypes,
) -> Vec<PhysicalGpu> {
    // A card with a driver that no longer offers anything is seen by its existing mediated devices.
    let silent = mdevs.iter().filter_map(|mdev| {
        let parent = MdevParentFunction {
            address: mdev.parent?,
            numa_node: None,
            available: BTreeMap::new(),
        };
        Some((parent.address, parent))
    });
    let mut by_address: BTreeMap<PciAddress, MdevParentFunction> = silent.collect();
    by_address.extend(
        parents
            .iter()
            .map(|parent| (parent.address, parent.clone())),
    );
    let mut counted = MdevCounts::new(mdevs, types);
    by_address
        .values()
        .map(|parent| PhysicalGpu {
            address: parent.address,
            numa_node: parent.numa_node,
            offered: types
                .of(parent.address)
                .and_then(|one| counted.offered(parent, one)),
        })
        .collect()
}

/// The number of mediated devices by GPU and type, and by type in total.
struct MdevCounts {
    existing: BTreeMap<(PciAddress, String), u64>,
    of_type: BTreeMap<String, u64>,
}

impl MdevCounts {
    fn new(mdevs: &[Mdev], types: &MdevTypes) -> Self {
        let mut counted = Self {
            existing: BTreeMap::new(),
            of_type: BTreeMap::new(),
        };
        for mdev in mdevs {
            let Some(parent) = mdev.parent else { continue };
            *counted
                .existing
                .entry((parent, mdev.type_id.clone()))
                .or_default() += 1;
            if types.of(parent).is_some_and(|one| one.id == mdev.type_id) {
                *counted.of_type.entry(mdev.type_id.clone()).or_default() += 1;
            }
        }
        counted
    }

    fn offered(
        &mut self,
        parent: &MdevParentFunction,
        one: &MdevTypeOptions,
    ) -> Option<OfferedMdevs> {
        let key = (parent.address, one.id.clone());
        let existing = self.existing.get(&key).copied();
        let available = parent.available.get(&one.id).copied();
        if existing.is_none() && available.is_none() {
            return None;
        }
        let in_all = self.of_type.entry(one.id.clone()).or_default();
        let mut available = available.unwrap_or(0);
        if one
            .max_instances
            .is_some_and(|most| in_all.saturating_add(available) > most)
        {
            available = 0;
        }
        *in_all = in_all.saturating_add(available);
        Some(OfferedMdevs {
            mdev_type: one.id.clone(),
            class: one.class.clone(),
            total: existing.unwrap_or(0).saturating_add(available),
        })
    }
}

#[cfg(test)]
mod tests {
    use berth_model::ResourceClass;
    use uuid::Uuid;

    use super::*;

    fn address(number: u8) -> PciAddress {
        format!("0000:{number:02x}:00.0").parse().unwrap()
    }

    fn gpu(number: u8, available: &[(&str, u64)]) -> MdevParentFunction {
        MdevParentFunction {
            address: address(number),
            numa_node: None,
            available: available
                .iter()
                .map(|(id, left)| ((*id).to_owned(), *left))
                .collect(),
        }
    }

    fn mdev(number: u8, id: &str) -> Mdev {
        Mdev {
            uuid: Uuid::nil(),
            type_id: id.to_owned(),
            parent: Some(address(number)),
        }
    }

    fn totals(
        parents: &[MdevParentFunction],
        mdevs: &[Mdev],
        types: &MdevTypes,
    ) -> Vec<Option<u64>> {
        physical_gpus(parents, mdevs, types)
            .iter()
            .map(|gpu| gpu.offered.as_ref().map(|offered| offered.total))
            .collect()
    }

    #[test]
    fn a_gpu_offers_what_exists_and_what_can_still_be_made() {
        let types = MdevTypes::new([MdevTypeOptions::new("a")]).unwrap();
        let parents = [
            gpu(2, &[("a", 3), ("b", 1)]),
            gpu(1, &[("a", 4)]),
            gpu(3, &[("b", 2)]),
            gpu(4, &[("a", 0)]),
        ];
        let mdevs = [mdev(2, "a"), mdev(2, "b")];
        assert_eq!(
            totals(&parents, &mdevs, &types),
            [Some(4), Some(4), None, Some(0)]
        );
        assert_eq!(totals(&parents, &mdevs, &MdevTypes::default()), [None; 4]);
    }

    #[test]
    fn a_type_that_filled_its_gpu_is_still_offered() {
        let types = MdevTypes::new([MdevTypeOptions::new("a")]).unwrap();
        assert_eq!(totals(&[gpu(1, &[])], &[mdev(1, "a")], &types), [Some(1)]);
    }

    #[test]
    fn a_card_whose_driver_offers_nothing_is_seen_by_what_exists_of_it() {
        let types = MdevTypes::new([MdevTypeOptions::new("a")]).unwrap();
        let mdevs = [mdev(9, "a"), mdev(9, "b")];
        assert_eq!(totals(&[], &mdevs, &types), [Some(1)]);
    }

    #[test]
    fn each_gpu_has_its_own_type_and_class() {
        let class = ResourceClass::new("CUSTOM_BIG").unwrap();
        let types = MdevTypes::new([
            MdevTypeOptions {
                device_addresses: [address(2)].into(),
                class: class.clone(),
                ..MdevTypeOptions::new("b")
            },
            MdevTypeOptions::new("a"),
        ])
        .unwrap();
        let parents = [gpu(1, &[("a", 4), ("b", 2)]), gpu(2, &[("a", 4), ("b", 2)])];
        let offered: Vec<_> = physical_gpus(&parents, &[], &types)
            .into_iter()
            .filter_map(|gpu| gpu.offered)
            .collect();
        assert_eq!(
            offered,
            [
                OfferedMdevs {
                    mdev_type: "a".to_owned(),
                    class: ResourceClass::VGPU,
                    total: 4
                },
                OfferedMdevs {
                    mdev_type: "b".to_owned(),
                    class,
                    total: 2
                },
            ]
        );
    }

    #[test]
    fn a_limit_admits_whole_gpus_and_never_hides_what_exists() {
        let limited = |most| {
            MdevTypes::new([MdevTypeOptions {
                max_instances: Some(most),
                ..MdevTypeOptions::new("a")
            }])
            .unwrap()
        };
        let parents = [
            gpu(1, &[("a", 4)]),
            gpu(2, &[("a", 4)]),
            gpu(3, &[("a", 1)]),
        ];
        assert_eq!(
            totals(&parents, &[], &limited(5)),
            [Some(4), Some(0), Some(1)]
        );
        let full = [gpu(1, &[("a", 4)]), gpu(2, &[("a", 2)])];
        let mdevs = [mdev(2, "a"), mdev(2, "a")];
        assert_eq!(totals(&full, &mdevs, &limited(4)), [Some(0), Some(4)]);
        assert_eq!(totals(&full, &mdevs, &limited(1)), [Some(0), Some(2)]);
    }
}

//! The PCI Express tree of a guest that follows its host's: [`GuestPciTree`].

use std::collections::BTreeMap;

use berth_model::PciAddress;

use super::pci_place::HostPciPlace;
use super::{GuestSpec, GuestSpecError};
use crate::HostDeviceId;

/// The number of slots of a bus.
const SLOTS: usize = 32;
/// The bus numbers of expanders end with 255 and begin here at the lowest. The default bus and what is below it have the lower ones.
const FIRST_EXPANDER: usize = 144;

/// The buses of a guest for its passed-through devices, where the guest requests the host's PCI topology
/// ([`berth_model::MachineOptions::host_pci_topology`]). It depends only on the specification, so each start gives a device the same
/// place.
///
/// ```text
/// default bus ── root port ── device without a cell
/// expander of cell 0 ─┬─ root port ── device
///                     └─ root port ── switch ─┬─ port ── device
///                                             └─ port ── device
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuestPciTree {
    buses: Vec<GuestPciBus>,
    devices: BTreeMap<HostDeviceId, u32>,
}

/// A slot on one of the buses of a [`GuestPciTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestPciSlot {
    /// The index of the bus.
    pub bus: u32,
    /// The slot, below 32.
    pub slot: u8,
}

/// A bus of a [`GuestPciTree`], by the port that it is behind. A bus behind a port for devices has one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestPciBus {
    /// A root bus on a NUMA cell of the guest. Operating systems show its devices on that cell.
    Expander {
        /// The bus number. The buses below it have the next numbers.
        number: u8,
        /// The guest's cell.
        cell: u32,
    },
    /// Behind a root port; `None`: on the default bus, where the hypervisor chooses the slot.
    RootPort(Option<GuestPciSlot>),
    /// Inside of a switch, whose upstream port is on the bus of this index.
    Switch(u32),
    /// Behind a downstream port of a switch.
    SwitchPort(GuestPciSlot),
}

/// Devices behind one root port: one device, or those of a switch.
struct PortGroup {
    switch: Option<PciAddress>,
    cell: Option<u32>,
    devices: Vec<HostDeviceId>,
}

impl PortGroup {
    /// The number of buses.
    fn buses(&self) -> usize {
        match self.devices.len() {
            1 => 1,
            ports => 2 + ports,
        }
    }
}

impl GuestPciTree {
    /// The tree of a guest; empty if the guest does not request the host's topology or has no devices.
    ///
    /// Errors: the machine has no PCI Express, or there are more devices than a tree has room for.
    pub fn of(spec: &GuestSpec) -> Result<Self, GuestSpecError> {
        if !spec.machine.host_pci_topology {
            return Ok(Self::default());
        }
        if spec.machine.is_pc() {
            return Err(GuestSpecError::text(
                "machine.machine_type",
                "pc",
                "the PCI topology of the host (berth:pci_topology) needs a q35",
            ));
        }
        let devices = spec.devices.as_slice().iter();
        let devices = devices.map(|attached| {
            let device = HostDeviceId::of(attached.device);
            let place = spec.devices.places().get(device);
            (device, place.unwrap_or_default())
        });
        let cells = spec.topology.cells().iter();
        let cells: Vec<_> = cells.map(|cell| cell.host_cell).collect();
        Self::plan(devices, &cells)
    }

    /// Places devices. `host_cells` are the host's NUMA nodes of the guest's cells, cell 0 first.
    fn plan(
        devices: impl Iterator<Item = (HostDeviceId, HostPciPlace)>,
        host_cells: &[u32],
    ) -> Result<Self, GuestSpecError> {
        let by_cell = by_cell(groups(devices, host_cells));
        for groups in by_cell.values() {
            let mut ports = groups.iter().map(|group| group.devices.len());
            check_slots(groups.len())?;
            ports.try_for_each(check_slots)?;
        }
        let of_expander =
            |groups: &Vec<PortGroup>| 1 + groups.iter().map(PortGroup::buses).sum::<usize>();
        let expanders = by_cell.iter().filter(|(cell, _)| cell.is_some());
        let needed: usize = expanders.map(|(_, groups)| of_expander(groups)).sum();
        let most = 256 - FIRST_EXPANDER;
        if needed > most {
            return Err(GuestSpecError::Number {
                field: "devices",
                found: needed as u64,
                expected: "the devices of all NUMA cells need at most 112 PCI buses with berth:pci_topology",
            });
        }
        let mut tree = Self::default();
        let mut number = 256 - needed;
        for (cell, groups) in &by_cell {
            let expander = cell.map(|cell| {
                // Below 256: an expander has at least its own bus.
                let first = u8::try_from(number).unwrap_or(u8::MAX);
                number += of_expander(groups);
                tree.add(GuestPciBus::Expander {
                    number: first,
                    cell,
                })
            });
            for (slot, group) in (0..).zip(groups) {
                let slot = expander.map(|bus| GuestPciSlot { bus, slot });
                tree.place(group, slot);
            }
        }
        Ok(tree)
    }

    fn place(&mut self, group: &PortGroup, slot: Option<GuestPciSlot>) {
        let port = self.add(GuestPciBus::RootPort(slot));
        if let [device] = group.devices[..] {
            self.devices.insert(device, port);
            return;
        }
        let bus = self.add(GuestPciBus::Switch(port));
        for (slot, device) in (0..).zip(&group.devices) {
            let port = self.add(GuestPciBus::SwitchPort(GuestPciSlot { bus, slot }));
            self.devices.insert(*device, port);
        }
    }

    /// Adds a bus, and returns its index.
    fn add(&mut self, bus: GuestPciBus) -> u32 {
        self.buses.push(bus);
        // The default bus has index 0.
        u32::try_from(self.buses.len()).unwrap_or(u32::MAX)
    }

    /// The buses with their indexes. The default bus, which each machine has, has index 0 and is left out.
    pub fn buses(&self) -> impl Iterator<Item = (u32, GuestPciBus)> + '_ {
        (1..).zip(self.buses.iter().copied())
    }

    /// The index of the bus that a device is on; `None` if the hypervisor chooses.
    #[must_use]
    pub fn bus_of(&self, device: HostDeviceId) -> Option<u32> {
        self.devices.get(&device).copied()
    }
}

fn check_slots(found: usize) -> Result<(), GuestSpecError> {
    match found > SLOTS {
        true => Err(GuestSpecError::Number {
            field: "devices",
            found: found as u64,
            expected: "a PCI bus has room for 32 with berth:pci_topology",
        }),
        false => Ok(()),
    }
}

/// The devices by the root port that they are behind, in their order. The cell of a switch is that of its first device.
fn groups(
    devices: impl Iterator<Item = (HostDeviceId, HostPciPlace)>,
    host_cells: &[u32],
) -> Vec<PortGroup> {
    let mut groups: Vec<PortGroup> = Vec::new();
    for (device, place) in devices {
        let mut known = groups.iter_mut();
        let known = known.find(|group| group.switch.is_some() && group.switch == place.switch);
        if let Some(group) = known {
            group.devices.push(device);
            continue;
        }
        let mut cells = (0..).zip(host_cells);
        let cell = cells.find(|(_, host_cell)| Some(**host_cell) == place.numa_node);
        groups.push(PortGroup {
            switch: place.switch,
            cell: cell.map(|(cell, _)| cell),
            devices: vec![device],
        });
    }
    groups
}

fn by_cell(groups: Vec<PortGroup>) -> BTreeMap<Option<u32>, Vec<PortGroup>> {
    let mut by_cell: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for group in groups {
        by_cell.entry(group.cell).or_default().push(group);
    }
    by_cell
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type PlacedDevice = (HostDeviceId, HostPciPlace);

    /// The device of this number, on a node and below a switch.
    fn placed(device: u8, numa_node: Option<u32>, switch: Option<u8>) -> PlacedDevice {
        let switch = switch.map(|bus| format!("0000:{bus:02x}:00.0").parse().unwrap());
        let address = format!("0001:{device:02x}:00.0").parse().unwrap();
        let place = HostPciPlace { numa_node, switch };
        (HostDeviceId::Function(address), place)
    }

    fn plan(devices: &[PlacedDevice], host_cells: &[u32]) -> Result<GuestPciTree, GuestSpecError> {
        GuestPciTree::plan(devices.iter().copied(), host_cells)
    }

    #[test]
    fn devices_of_one_switch_share_a_switch_on_the_cell_of_their_node() {
        let devices = [
            placed(1, Some(1), Some(0x10)),
            placed(2, Some(0), Some(0x20)),
            placed(3, Some(1), Some(0x10)),
            placed(4, None, None),
            placed(5, Some(7), Some(0x30)),
        ];
        // Guest cell 0 is on node 1.
        let tree = plan(&devices, &[1, 0]).unwrap();
        let slot = |bus, slot| GuestPciSlot { bus, slot };
        let expected = [
            GuestPciBus::RootPort(None),
            GuestPciBus::RootPort(None),
            GuestPciBus::Expander {
                number: 249,
                cell: 0,
            },
            GuestPciBus::RootPort(Some(slot(3, 0))),
            GuestPciBus::Switch(4),
            GuestPciBus::SwitchPort(slot(5, 0)),
            GuestPciBus::SwitchPort(slot(5, 1)),
            GuestPciBus::Expander {
                number: 254,
                cell: 1,
            },
            GuestPciBus::RootPort(Some(slot(8, 0))),
        ];
        assert_eq!(
            tree.buses().map(|(_, bus)| bus).collect::<Vec<_>>(),
            expected
        );
        let buses = devices.map(|(device, _)| tree.bus_of(device).unwrap());
        assert_eq!(buses, [6, 9, 7, 1, 2]);
    }

    #[test]
    fn without_cells_there_are_switches_alone() {
        let devices = [
            placed(1, Some(0), Some(0x10)),
            placed(2, Some(0), Some(0x10)),
        ];
        let tree = plan(&devices, &[]).unwrap();
        assert_eq!(tree.buses().count(), 4);
        assert_eq!(tree.buses().next(), Some((1, GuestPciBus::RootPort(None))));
        assert!(plan(&[], &[0]).unwrap().buses().next().is_none());
    }

    #[test]
    fn more_devices_than_a_bus_has_slots_are_refused() {
        let many = |switch, count| (0..count).map(move |number| placed(number, Some(0), switch));
        let refused = |devices: Vec<PlacedDevice>| plan(&devices, &[0]).unwrap_err().to_string();
        assert!(plan(&many(None, 32).collect::<Vec<_>>(), &[0]).is_ok());
        for switch in [None, Some(0x10)] {
            let text = refused(many(switch, 33).collect());
            assert_eq!(
                text,
                "devices is 33: a PCI bus has room for 32 with berth:pci_topology"
            );
        }
        // 29 switches of two devices: each has four buses.
        let pairs = (0..58).map(|number| placed(number, Some(0), Some(0x80 + number / 2)));
        let text = refused(pairs.collect());
        assert!(text.starts_with("devices is 117: "), "{text}");
    }

    /// The numbers of the buses below a bus and its own, as firmware counts them: depth first.
    fn size(tree: &GuestPciTree, index: u32) -> usize {
        let below = tree.buses().filter(|(_, bus)| match bus {
            GuestPciBus::Expander { .. } | GuestPciBus::RootPort(None) => false,
            GuestPciBus::RootPort(Some(slot)) | GuestPciBus::SwitchPort(slot) => slot.bus == index,
            GuestPciBus::Switch(parent) => *parent == index,
        });
        1 + below.map(|(below, _)| size(tree, below)).sum::<usize>()
    }

    proptest! {
        #[test]
        fn each_device_has_one_place_and_no_bus_number_is_there_twice(
            places in proptest::collection::vec((proptest::option::of(0..4_u32), proptest::option::of(0..6_u8)), 0..40),
            host_cells in proptest::collection::vec(0..3_u32, 0..3),
        ) {
            let numbered = (0..).zip(places);
            let devices: Vec<_> = numbered.map(|(number, (node, switch))| placed(number, node, switch)).collect();
            let Ok(tree) = plan(&devices, &host_cells) else {
                // Only a full bus is refused.
                prop_assert!(devices.len() > SLOTS);
                return Ok(());
            };
            let own: BTreeSet<_> = devices.iter().filter_map(|(device, _)| tree.bus_of(*device)).collect();
            prop_assert_eq!(own.len(), devices.len());
            let mut numbers = BTreeSet::new();
            let mut slots = BTreeSet::new();
            for (index, bus) in tree.buses() {
                match bus {
                    GuestPciBus::Expander { number, .. } => {
                        let first = usize::from(number);
                        for number in first..first + size(&tree, index) {
                            prop_assert!((FIRST_EXPANDER..256).contains(&number) && numbers.insert(number));
                        }
                    }
                    GuestPciBus::RootPort(Some(slot)) | GuestPciBus::SwitchPort(slot) => {
                        prop_assert!(slot.slot < 32 && slot.bus < index && slots.insert((slot.bus, slot.slot)));
                        prop_assert!(!own.contains(&slot.bus));
                    }
                    GuestPciBus::Switch(port) => prop_assert!(port < index && !own.contains(&port)),
                    GuestPciBus::RootPort(None) => {}
                }
            }
            let switch_of = |device: HostDeviceId| {
                tree.buses().find_map(|(index, bus)| match bus {
                    GuestPciBus::SwitchPort(slot) if Some(index) == tree.bus_of(device) => Some(slot.bus),
                    _ => None,
                })
            };
            for (one, place) in &devices {
                for (other, other_place) in devices.iter().filter(|(other, _)| other != one) {
                    let shares = place.switch.is_some() && place.switch == other_place.switch;
                    let is_shared = switch_of(*one).is_some() && switch_of(*one) == switch_of(*other);
                    prop_assert_eq!(shares, is_shared);
                }
            }
            prop_assert_eq!(plan(&devices, &host_cells), Ok(tree));
        }
    }
}

//! The hardware of a guest apart from host devices: processors, memory, disks, interfaces. Computed from the
//! hypervisor's definition or from a [`GuestSpec`], so that the two can be compared.
//!
//! Drivers report it for listed guests and use it to redefine a guest before a start; the agent compares it to report
//! differences.

use std::collections::{BTreeMap, BTreeSet};

use crate::CpuSet;
use crate::guest_spec::{GuestSpec, InterfaceSource, PortConnection, VcpuPin};

/// A guest's processors, memory, disks and interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuestHardware {
    /// The number of virtual CPUs.
    pub vcpus: u32,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// The host CPUs that each virtual CPU may run on; a missing one may run on any.
    pub pins: BTreeMap<u32, CpuSet>,
    /// The files its disks are in.
    pub disks: BTreeSet<String>,
    /// The networks of its interfaces (`bridge br0`, `network default`, `tap tap0123abcd-ef`), by MAC address. An interface that
    /// is a device of the host (SR-IOV) has the device: `function 0000:05:10.2`. A macvtap is `a macvtap`.
    pub interfaces: BTreeMap<String, String>,
}

impl GuestHardware {
    /// The hardware that a specification requests.
    #[must_use]
    pub fn of(spec: &GuestSpec) -> Self {
        let topology = &spec.topology;
        let everywhere = topology.cpu_set().into_iter();
        let everywhere =
            everywhere.flat_map(|set| (0..topology.vcpus()).map(|it| (it, set.clone())));
        let pinned = topology.pinning().into_iter();
        let pinned = pinned.flat_map(|pinning| (0..).zip(pinning.pins()));
        let pinned = pinned.map(|(vcpu, pin)| match pin {
            VcpuPin::Dedicated(cpu) => (vcpu, CpuSet::from_iter([*cpu])),
            VcpuPin::Shared(cpus) => (vcpu, cpus.clone()),
        });
        let disks = spec.disks.root().into_iter().chain(spec.disks.ephemeral());
        let disks = disks.map(|disk| &disk.path);
        let disks = disks.chain(spec.disks.config_drive());
        let interfaces = spec.interfaces.as_slice().iter();
        Self {
            vcpus: topology.vcpus(),
            memory_mib: topology.memory_mib(),
            pins: everywhere.chain(pinned).collect(),
            disks: disks.map(ToString::to_string).collect(),
            interfaces: interfaces
                .filter_map(|interface| {
                    Some((interface.mac.to_string(), plugged_into(&interface.source)?))
                })
                .collect(),
        }
    }

    /// How this differs from `wanted`, as text; `None` if equal.
    #[must_use]
    pub fn difference(&self, wanted: &Self) -> Option<String> {
        let mut differences = Vec::new();
        if self.vcpus != wanted.vcpus {
            differences.push(format!("{} virtual CPUs, not {}", self.vcpus, wanted.vcpus));
        }
        if self.memory_mib != wanted.memory_mib {
            let (has, wanted) = (self.memory_mib, wanted.memory_mib);
            differences.push(format!("{has} MiB of memory, not {wanted}"));
        }
        let vcpus: BTreeSet<&u32> = self.pins.keys().chain(wanted.pins.keys()).collect();
        let moved = vcpus
            .into_iter()
            .map(|vcpu| (vcpu, self.pins.get(vcpu), wanted.pins.get(vcpu)));
        for (vcpu, has, wanted) in moved.filter(|(_, has, wanted)| has != wanted) {
            let (has, wanted) = (runs_on(has), runs_on(wanted));
            differences.push(format!("virtual CPU {vcpu} on {has}, not on {wanted}"));
        }
        for file in self.disks.difference(&wanted.disks) {
            differences.push(format!("disk {file}, which is not its own"));
        }
        for file in wanted.disks.difference(&self.disks) {
            differences.push(format!("no disk {file}"));
        }
        for (mac, source) in &self.interfaces {
            match wanted.interfaces.get(mac) {
                Some(own) if own == source => {}
                Some(own) => differences.push(format!("interface {mac} on {source}, not on {own}")),
                None => {
                    differences.push(format!("interface {mac} on {source}, which is not its own"))
                }
            }
        }
        let missing = wanted.interfaces.keys();
        for mac in missing.filter(|mac| !self.interfaces.contains_key(*mac)) {
            differences.push(format!("no interface {mac}"));
        }
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

/// The text for the network of an interface; `None` for a whole network card, which is a device.
fn plugged_into(source: &InterfaceSource) -> Option<String> {
    Some(match source {
        InterfaceSource::Network(name) => format!("network {name}"),
        InterfaceSource::Bridge(name) => format!("bridge {name}"),
        InterfaceSource::Port(port) => match port.connection() {
            PortConnection::OpenVswitch { .. } => format!("tap {}", port.tap()),
            PortConnection::NetworkFunction { address, .. } => format!("function {address}"),
            PortConnection::Macvtap { .. } => "a macvtap".to_owned(),
            PortConnection::PhysicalFunction { .. } => return None,
        },
    })
}

fn runs_on(cpus: Option<&CpuSet>) -> String {
    cpus.map_or_else(|| "any CPU".to_owned(), |cpus| format!("CPUs {cpus}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware() -> GuestHardware {
        GuestHardware {
            vcpus: 2,
            memory_mib: 512,
            pins: BTreeMap::from([(0, CpuSet::first(1)), (1, CpuSet::first(2))]),
            disks: BTreeSet::from(["/guests/root".to_owned()]),
            interfaces: BTreeMap::from([("52:54:00:00:00:01".to_owned(), "bridge br0".to_owned())]),
        }
    }

    #[test]
    fn the_same_hardware_differs_in_nothing() {
        assert_eq!(hardware().difference(&hardware()), None);
    }

    #[test]
    fn all_that_differs_is_named() {
        let other = GuestHardware {
            vcpus: 1,
            memory_mib: 256,
            pins: BTreeMap::from([(0, CpuSet::first(2))]),
            disks: BTreeSet::from(["/etc/shadow".to_owned()]),
            interfaces: BTreeMap::from([
                ("52:54:00:00:00:01".to_owned(), "bridge br1".to_owned()),
                ("52:54:00:00:00:02".to_owned(), "network n".to_owned()),
            ]),
        };
        assert_eq!(
            other.difference(&hardware()).unwrap(),
            "1 virtual CPUs, not 2; 256 MiB of memory, not 512; virtual CPU 0 on CPUs 0-1, not on CPUs 0; virtual CPU 1 on any \
             CPU, not on CPUs 0-1; disk /etc/shadow, which is not its own; no disk /guests/root; interface 52:54:00:00:00:01 on \
             bridge br1, not on bridge br0; interface 52:54:00:00:00:02 on network n, which is not its own"
        );
        let none = GuestHardware {
            interfaces: BTreeMap::new(),
            ..hardware()
        };
        assert_eq!(
            none.difference(&hardware()).unwrap(),
            "no interface 52:54:00:00:00:01"
        );
    }
}

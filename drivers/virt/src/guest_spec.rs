//! The specification of a guest: everything a driver needs to create it, as one validated value.
//!
//! The agent builds a [`GuestSpec`] from a request and the bound devices, stores it in its journal, and passes it to
//! the driver, which translates it (libvirt: to domain XML). Each part validates itself ([`GuestSpecError`] names the
//! field), so a specification with too few pins, overlapping cells or duplicate devices cannot exist. Deserialising
//! uses the same constructors. No part contains a secret: a config drive is a path.

mod cpus;
mod description;
mod device;
mod disk;
mod error;
mod interface;
mod name;
mod pci_place;
mod pci_tree;
mod port;
pub(crate) mod text;
mod topology;

use std::collections::BTreeSet;

use berth_model::{ConsumerUuid, InterfaceModel, NodeName};
use serde::{Deserialize, Serialize};

pub use berth_model::{DesiredPower, MachineOptions};
pub use cpus::{CpuModel, CpuModelName, CpuPinning, VcpuPin};
pub use description::InstanceDescription;
pub use device::{AttachedDevice, DeviceOrigin, GuestDevice, GuestDevices, PciManagement};
pub use disk::{BaseImage, DiskFormat, GuestDisks, QcowDisk};
pub use error::GuestSpecError;
pub use interface::{GuestInterface, GuestInterfaces, InterfaceSource, LinkName};
pub use name::{GuestName, HostPath, KernelCommandLine, Label, ProjectId};
pub use pci_place::{HostPciPlace, HostPciPlaces};
pub use pci_tree::{GuestPciBus, GuestPciSlot, GuestPciTree};
pub use port::{GuestPort, PlugSignal, PortConnection, TapName};
pub use topology::{GuestNumaCell, GuestTopology, MemoryPages};

/// The desired state of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSpec {
    /// The instance's UUID, which is also the guest's on the hypervisor.
    #[serde(with = "text")]
    pub uuid: ConsumerUuid,
    /// The node of a host with several nodes (like Ironic's); `None` in journals of earlier releases.
    #[serde(default, with = "text::maybe", skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// Its unique name on the hypervisor.
    pub name: GuestName,
    /// The project and consumer that own the guest.
    pub owner: GuestOwner,
    /// What users know of the instance; `None` in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<InstanceDescription>,
    /// Virtual CPUs, memory, and their placement on the host.
    pub topology: GuestTopology,
    /// The CPU model visible to the guest.
    pub cpu_model: CpuModel,
    /// Watchdog, CPU topology and others; in journals of earlier releases it is missing.
    #[serde(default, skip_serializing_if = "MachineOptions::is_default")]
    pub machine: MachineOptions,
    /// What the guest boots from: disk, firmware or kernel.
    pub boot: GuestBoot,
    /// Root disk, ephemeral disks and config drive.
    pub disks: GuestDisks,
    /// Its network interfaces; none for a guest without a network.
    pub interfaces: GuestInterfaces,
    /// The host's file that its serial console is written to.
    pub console_log: HostPath,
    /// The devices bound for it.
    pub devices: GuestDevices,
    /// The desired power state.
    pub power: DesiredPower,
}

impl GuestSpec {
    /// The number of queues of each of its virtio interfaces, 2 to 256; `None`: one queue. Linux gives an interface at most
    /// 256 queues.
    #[must_use]
    pub fn interface_queues(&self) -> Option<u32> {
        let queues = self.topology.vcpus().min(256);
        let is_virtio = self.machine.interface_model == InterfaceModel::Virtio;
        (is_virtio && self.machine.multiqueue && queues > 1).then_some(queues)
    }

    /// Checks that the network functions of the interfaces are devices of the guest, each given for its port, and that each device
    /// that is given for a port is in its interface. Devices alone are claimed, checked and reset. Only the function of a macvtap
    /// stays on the host's driver.
    pub fn check_network_functions(&self) -> Result<(), GuestSpecError> {
        let of_interfaces = self.interfaces.ports().filter_map(|(_, port)| {
            let is_macvtap = matches!(port.connection(), PortConnection::Macvtap { .. });
            Some((port.id(), port.network_function()?, is_macvtap))
        });
        let of_interfaces: BTreeSet<_> = of_interfaces.collect();
        let of_devices = self.devices.as_slice().iter();
        let of_devices =
            of_devices.filter_map(|attached| match (attached.origin, attached.device) {
                (DeviceOrigin::Port(port), GuestDevice::Pci { address, managed }) => {
                    Some((port, address, managed == PciManagement::HostDriver))
                }
                _ => None,
            });
        let of_devices: BTreeSet<_> = of_devices.collect();
        match of_interfaces.symmetric_difference(&of_devices).next() {
            None => Ok(()),
            Some((port, address, _)) => Err(GuestSpecError::text(
                "interfaces.port.connection",
                &format!("{address} of port {port}"),
                "a network function is in its port's interface and in the guest's devices; a macvtap's is managed host_driver, \
                 and no other",
            )),
        }
    }
}

/// The owner of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestOwner {
    /// The id of the Keystone project that owns the guest.
    pub project: ProjectId,
    /// The consumer that holds the guest's allocations in Placement: usually the instance, during a move its migration.
    #[serde(with = "text")]
    pub consumer: ConsumerUuid,
}

/// The boot source of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestBoot {
    /// The root disk, or the firmware alone if there is none.
    Disk,
    /// Its root disk, by UEFI firmware instead of a BIOS (Nova's `hw_firmware_type=uefi`).
    Uefi {
        /// Whether only signed code is started (`os_secure_boot=required`).
        secure_boot: bool,
        /// Whether it keeps no variables from one start to the next (`hw_firmware_stateless`).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stateless: bool,
    },
    /// A kernel that lies on the host (Nova's `kernel_id` and `ramdisk_id`).
    Kernel {
        /// The kernel image, a file of the host.
        kernel: HostPath,
        /// Its initial RAM disk.
        ramdisk: Option<HostPath>,
        /// The command line that is passed to the kernel.
        command_line: KernelCommandLine,
    },
}

#[cfg(test)]
mod tests;

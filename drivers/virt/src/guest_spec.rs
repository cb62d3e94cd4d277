//! A guest as it is wanted: everything a driver needs to make it, as one checked value.
//!
//! The agent builds a [`GuestSpec`] from a request and the handles that were bound for it, journals it, and hands it to the
//! driver; what a driver makes of it is the driver's (libvirt: a domain XML). Each part checks itself when it is made
//! ([`GuestSpecError`] names the field), so a spec whose pinning covers too few virtual CPUs, whose cells overlap or which
//! holds a device twice cannot be built, and none comes out of a journal either: reading goes through the same
//! constructors. No part holds a secret: a config drive is a path.

mod cpus;
mod device;
mod disk;
mod error;
mod interface;
mod name;
pub(crate) mod text;
mod topology;

use berth_model::{ConsumerUuid, NodeName};
use serde::{Deserialize, Serialize};

pub use cpus::{CpuModel, CpuModelName, Pinning, VcpuPin};
pub use device::{AttachedDevice, DeviceOrigin, GuestDevice, GuestDevices, PciManagement};
pub use disk::{BaseImage, DiskFormat, GuestDisks, QcowDisk};
pub use error::GuestSpecError;
pub use interface::{GuestInterface, GuestInterfaces, InterfaceSource, LinkName, MacAddress};
pub use name::{GuestName, HostPath, KernelCommandLine, ProjectId};
pub use topology::{GuestNumaCell, GuestTopology, MemoryPages};

/// A guest as it is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSpec {
    /// The instance's UUID, which is the guest's on the hypervisor too.
    #[serde(with = "text")]
    pub uuid: ConsumerUuid,
    /// The node it shall be on, of a host that has several (Ironic's manner); none in what earlier releases wrote down.
    #[serde(default, with = "text::maybe", skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// Its name on the hypervisor, unlike every other guest's there.
    pub name: GuestName,
    /// Whose it is.
    pub owner: GuestOwner,
    /// Virtual CPUs, memory, and where on the host they are.
    pub topology: GuestTopology,
    /// The processor it sees.
    pub cpu_model: CpuModel,
    /// What it starts from.
    pub boot: GuestBoot,
    /// Its disks.
    pub disks: GuestDisks,
    /// Its network interfaces; none for a guest without a network.
    pub interfaces: GuestInterfaces,
    /// The host's file that its serial console is written to.
    pub console_log: HostPath,
    /// The devices that were bound for it.
    pub devices: GuestDevices,
    /// Whether it should run.
    pub power: DesiredPower,
}

/// Whose a guest is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestOwner {
    /// The project's id.
    pub project: ProjectId,
    /// The consumer that holds the guest's allocations in Placement: usually the instance, during a move its migration.
    #[serde(with = "text")]
    pub consumer: ConsumerUuid,
}

/// What a guest starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestBoot {
    /// Its root disk (or the firmware alone, where it has none).
    Disk,
    /// Its root disk, by UEFI firmware instead of a BIOS (Nova's `hw_firmware_type=uefi`).
    Uefi {
        /// Whether only signed code is started (`os_secure_boot=required`).
        secure_boot: bool,
    },
    /// A kernel that lies on the host (Nova's `kernel_id` and `ramdisk_id`).
    Kernel {
        /// The kernel.
        kernel: HostPath,
        /// Its initial RAM disk.
        ramdisk: Option<HostPath>,
        /// Its command line.
        command_line: KernelCommandLine,
    },
}

/// Whether a guest should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DesiredPower {
    /// It should run.
    Running,
    /// It should be there, stopped in its tracks.
    Paused,
    /// It should be defined and off.
    ShutOff,
}

#[cfg(test)]
mod tests;

//! A guest for the tests of drivers.

use berth_model::ConsumerUuid;

use crate::guest_spec::{
    CpuModel, DesiredPower, GuestBoot, GuestDevices, GuestDisks, GuestInterfaces, GuestName,
    GuestOwner, GuestSpec, GuestTopology, HostPath, MachineOptions, ProjectId,
};

/// A small guest that should run: one CPU, 64 MiB, no disks, no interfaces, no devices.
///
/// # Panics
///
/// The name is not valid for a guest.
#[must_use]
pub fn sample_guest(uuid: ConsumerUuid, name: &str) -> GuestSpec {
    GuestSpec {
        uuid,
        node: None,
        name: GuestName::new(name).expect("the name of a guest"),
        owner: GuestOwner {
            project: ProjectId::new("a project").expect("a project"),
            consumer: uuid,
        },
        description: None,
        topology: GuestTopology::plain(1, 64).expect("a small guest"),
        cpu_model: CpuModel::Default,
        machine: MachineOptions::default(),
        boot: GuestBoot::Disk,
        disks: GuestDisks::default(),
        interfaces: GuestInterfaces::default(),
        console_log: HostPath::new("/nowhere/console.log").expect("a path"),
        devices: GuestDevices::default(),
        power: DesiredPower::Running,
    }
}

//! Guests and devices for tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_model::{ArqUuid, AttachHandle, AttachHandleInfo, ConsumerUuid, NodeName};
use berth_virt::guest_spec::{
    CpuModel, DesiredPower, GuestBoot, GuestDevices, GuestDisks, GuestInterfaces, GuestName,
    GuestOwner, GuestSpec, GuestTopology, HostPath, ProjectId,
};

use crate::bound_devices::{BoundDevice, BoundDevices};
use crate::request::GuestRequest;

pub const NODE: &str = "compute1";

pub fn guest(number: u32) -> ConsumerUuid {
    format!("11111111-2222-4333-8444-{number:012x}")
        .parse()
        .unwrap()
}

pub fn arq(number: u32) -> ArqUuid {
    format!("aaaaaaaa-bbbb-4ccc-8ddd-{number:012x}")
        .parse()
        .unwrap()
}

/// The handle of the function 0000:NUMBER:00.0.
pub fn handle(number: u32) -> AttachHandle {
    AttachHandle {
        uuid: format!("cccccccc-bbbb-4ccc-8ddd-{number:012x}")
            .parse()
            .unwrap(),
        info: AttachHandleInfo::Pci {
            address: format!("0000:{number:02x}:00.0").parse().unwrap(),
            physical_network: None,
        },
    }
}

pub fn bound(numbers: &[u32]) -> BoundDevices {
    let devices = numbers
        .iter()
        .map(|number| BoundDevice::of(arq(*number), &handle(*number)).unwrap());
    BoundDevices::new(devices).unwrap()
}

pub fn spec(number: u32) -> GuestSpec {
    GuestSpec {
        uuid: guest(number),
        node: None,
        name: GuestName::new(&format!("instance-{number:08x}")).unwrap(),
        owner: GuestOwner {
            project: ProjectId::new("project").unwrap(),
            consumer: guest(number),
        },
        description: None,
        topology: GuestTopology::plain(1, 128).unwrap(),
        cpu_model: CpuModel::HostPassthrough,
        machine: berth_virt::guest_spec::MachineOptions::default(),
        boot: GuestBoot::Disk,
        disks: GuestDisks::default(),
        interfaces: GuestInterfaces::default(),
        console_log: HostPath::new(&format!("/instances/{}/console.log", guest(number))).unwrap(),
        devices: GuestDevices::default(),
        power: DesiredPower::Running,
    }
}

/// A guest of this project, without accelerator requests.
pub fn request_of(project: &str, number: u32) -> GuestRequest {
    let owner = GuestOwner {
        project: ProjectId::new(project).unwrap(),
        consumer: guest(number),
    };
    let spec = GuestSpec {
        owner,
        ..spec(number)
    };
    GuestRequest::new(NodeName::new(NODE).unwrap(), Default::default(), spec).unwrap()
}

/// A guest with these accelerator requests.
pub fn request(number: u32, arqs: &[u32]) -> GuestRequest {
    let arqs = arqs.iter().map(|number| arq(*number)).collect();
    GuestRequest::new(NodeName::new(NODE).unwrap(), arqs, spec(number)).unwrap()
}

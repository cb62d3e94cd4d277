//! A machine as a value: the checked content of a machine file.

use std::collections::BTreeMap;

use berth_model::{ConsumerUuid, NodeName, PciAddress, ProviderUuid, ResourceClass, Trait};
use berth_virt::{
    CpuSet, CustomResource, GuestCpuPolicy, GuestMdev, GuestView, HostNumaCell, HypervisorInfo,
    NodeCpus, NodeDisk, OfferedDevice, PciInPlacement, PowerState, ResourceModel, VirtualFunctions,
};
use uuid::Uuid;

/// A machine: its hypervisor and its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The hypervisor's own description.
    pub hypervisor: HypervisorInfo,
    pub nodes: Vec<MachineNode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineNode {
    pub name: NodeName,
    /// The UUID of the root provider, if the hypervisor determines it.
    pub uuid: Option<ProviderUuid>,
    /// How the resources are modelled. An upgrade changes it.
    pub model: ResourceModel,
    pub cpus: NodeCpus,
    /// Its memory in MiB.
    pub memory_mib: u64,
    pub disk: NodeDisk,
    pub cells: Vec<HostNumaCell>,
    pub gpus: Vec<Gpu>,
    pub nics: Vec<VirtualFunctions>,
    /// Devices offered as a whole, as virtual functions or as mediated devices.
    pub devices: Vec<OfferedDevice>,
    /// Whether the compute service's devices among them are reported to Placement.
    pub pci: PciInPlacement,
    /// Further resources on the root.
    pub customs: Vec<CustomResource>,
    pub traits: Vec<Trait>,
    pub faults: Faults,
    pub guests: Vec<MachineGuest>,
}

/// Device faults by address: that of the function, or of the physical function it belongs to.
pub type Faults = BTreeMap<PciAddress, DeviceFault>;

/// A fault that shows when an operation uses the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceFault {
    /// The host itself uses the device, so no guest may have it.
    InUseByHost,
    PrepareFails,
    /// The device's configuration space is unreadable.
    ConfigSpaceDead,
    /// Its reset does not take.
    ResetFails,
    /// A reset times out; the next one may succeed.
    ResetHangs,
}

impl DeviceFault {
    pub const ALL: [DeviceFault; 5] = [
        DeviceFault::InUseByHost,
        DeviceFault::PrepareFails,
        DeviceFault::ConfigSpaceDead,
        DeviceFault::ResetFails,
        DeviceFault::ResetHangs,
    ];

    /// The value in the machine file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            DeviceFault::InUseByHost => "hosts-own",
            DeviceFault::PrepareFails => "prepare-fails",
            DeviceFault::ConfigSpaceDead => "config-space-dead",
            DeviceFault::ResetFails => "reset-fails",
            DeviceFault::ResetHangs => "reset-hangs",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    pub address: PciAddress,
    pub numa_node: Option<u32>,
    /// The supported mediated device types, with the maximum number of each.
    pub types: BTreeMap<String, u64>,
    /// The type that is enabled; none is a GPU that is not configured.
    pub enabled: Option<String>,
    /// The class its mediated devices have.
    pub class: ResourceClass,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineGuest {
    pub uuid: ConsumerUuid,
    /// The hypervisor's view of the guest. `also` is empty here; it comes from `MachineGuest::migration`.
    pub seen: GuestView,
    /// Disk allocated in Placement, in GiB.
    pub disk_gib: u64,
    /// Allocated units of the node's custom resources.
    pub customs: BTreeMap<ResourceClass, u64>,
    /// The migration that holds its resources here, if one does.
    pub migration: Option<Migration>,
}

/// A migration record that holds a guest's resources on this node in the place of the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    pub consumer: ConsumerUuid,
    /// Whether the hypervisor reports the migration.
    pub sight: MigrationSight,
}

/// Whether the hypervisor reports which migration a guest is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationSight {
    Known,
    /// Not reported (like libvirt): the guest must be inferred.
    Unknown,
}

/// The shape of a generated GPU host, for tests and benchmarks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuHost {
    pub name: NodeName,
    /// How many GPUs, 1 to 255.
    pub gpus: u8,
    /// The number of guests. Each has one CPU, 512 MiB, 1 GiB of disk, and one unit of a GPU; the GPUs
    /// are used in rotation.
    pub guests: u32,
    /// Each so manyth guest has a second unit on the next GPU; 0 for none.
    pub second_unit_every: u32,
    /// Of every so many guests, one has its resources held by a migration that the hypervisor does not know; 0 for
    /// none. Such a guest has additional memory (its number in MiB), so that the migration's allocations identify it.
    pub migration_every: u32,
    /// How its resources are modelled.
    pub model: ResourceModel,
}

impl Machine {
    /// A host with GPUs for exactly its guests: GPUs on buses 1 and up, each with one unit more than its guests need. A
    /// guest's UUID is its number from 1, a migration's the same with the highest bit set.
    #[must_use]
    pub fn gpu_host(shape: &GpuHost) -> Machine {
        let gpus = u32::from(shape.gpus.max(1));
        let guests: Vec<MachineGuest> =
            (0..shape.guests).map(|n| a_guest(shape, n, gpus)).collect();
        let units = u64::from(shape.guests.div_ceil(gpus)) * 2 + 1;
        let memory_mib = guests.iter().map(|guest| guest.seen.memory_mib).sum();
        let gib = guests.iter().map(|guest| guest.disk_gib).sum();
        let node = MachineNode {
            name: shape.name.clone(),
            uuid: None,
            model: shape.model,
            cpus: NodeCpus {
                online: CpuSet::first(shape.guests.clamp(1, 65_536)),
                shared: None,
                dedicated: None,
            },
            memory_mib,
            disk: NodeDisk::Local { gib },
            cells: Vec::new(),
            gpus: (0..gpus).map(|bus| a_gpu(bus, units)).collect(),
            nics: Vec::new(),
            devices: Vec::new(),
            pci: PciInPlacement::default(),
            customs: Vec::new(),
            traits: Vec::new(),
            faults: Faults::new(),
            guests,
        };
        Machine {
            hypervisor: HypervisorInfo {
                kind: "fake".to_owned(),
                version: "1.0".to_owned(),
                hostname: shape.name.to_string(),
            },
            nodes: vec![node],
        }
    }
}

/// The type that generated GPUs are parted into.
const MDEV_TYPE: &str = "nvidia-558";

fn gpu_address(number: u32) -> PciAddress {
    format!("{:02x}:00.0", (number % 255) + 1)
        .parse()
        .expect("a bus of two digits makes an address")
}

fn a_gpu(number: u32, units: u64) -> Gpu {
    Gpu {
        address: gpu_address(number),
        numa_node: None,
        types: BTreeMap::from([(MDEV_TYPE.to_owned(), units)]),
        enabled: Some(MDEV_TYPE.to_owned()),
        class: ResourceClass::VGPU,
    }
}

fn a_guest(shape: &GpuHost, n: u32, gpus: u32) -> MachineGuest {
    let is_turn = |every: u32| every > 0 && (n + 1).is_multiple_of(every);
    let number = u128::from(n) + 1;
    let migrates = is_turn(shape.migration_every);
    let extra = if migrates { u64::from(n) + 1 } else { 0 };
    let units = if is_turn(shape.second_unit_every) {
        2
    } else {
        1
    };
    let mdev = |unit: u32| GuestMdev {
        uuid: Uuid::from_u128((u128::from(unit) + 1) << 64 | number),
        parent: Some(gpu_address((n + unit) % gpus)),
    };
    MachineGuest {
        uuid: Uuid::from_u128(number).into(),
        seen: GuestView {
            name: format!("instance-{number:08x}"),
            power: PowerState::Running,
            also: std::collections::BTreeSet::new(),
            cpu_policy: GuestCpuPolicy::Shared,
            vcpus: 1,
            memory_mib: 512 + extra,
            cells: Vec::new(),
            mdevs: (0..units).map(mdev).collect(),
            functions: std::collections::BTreeSet::new(),
        },
        disk_gib: 1,
        customs: BTreeMap::new(),
        migration: migrates.then(|| Migration {
            consumer: Uuid::from_u128(1 << 127 | number).into(),
            sight: MigrationSight::Unknown,
        }),
    }
}

//! An in-memory host for tests of builds. It accepts every guest and device, and records them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_agent_images::InstancesPath;
use berth_agent_journal::{ReleasedDevices, SqlJournal};
use berth_model::{
    ConsumerUuid, MacAddress, MemoryEncryption, NodeName, Provider, ProviderName, ProviderTree,
    ProviderUuid, ResourceClass,
};
use berth_virt::guest_spec::{
    CpuModel, DeviceOrigin, GuestDevices, GuestInterfaces, GuestSpec, HostPath, InterfaceSource,
};
use berth_virt::{
    DeviceCondition, DeviceOwner, DeviceType, GuestDestroyOutcome, GuestError, GuestMark,
    GuestOnHost, GuestPowerOutcome, GuestSpawnOutcome, HostEvents, HostNumaCell, HostView,
    HypervisorInfo, InterfaceOutcome, NoLink, NodeCpus, NodeDisk, NodeView, ObserveError,
    OfferedDevice, OfferedHandle, OfferedMdevs, PciInPlacement, PhysicalGpu, PowerAction,
    PowerState, ResourceModel, VirtDriver, WantedDevice,
};
use berth_wire::guest::GuestBuild;
use serde_json::json;
use uuid::Uuid;

use crate::accelerators::Accelerators;
use crate::create::{BuildContext, BuildOptions};
use crate::external_events::ExternalEvents;
use crate::files::GuestFiles;
use crate::guests::{Guests, GuestsParts};
use crate::resources::{GuestResources, Provision, ResourceError};

pub fn uuid(number: u32) -> ConsumerUuid {
    berth_agent_journal::samples::guest(number)
}

/// A small build with these fields replaced.
pub fn build(number: u32, with: serde_json::Value) -> GuestBuild {
    serde_json::from_value(body(number, with)).unwrap()
}

pub fn body(number: u32, with: serde_json::Value) -> serde_json::Value {
    let mut body = json!({
        "uuid": uuid(number).to_string(), "name": format!("vm-{number}"), "project_id": "p", "node": "compute1",
        "flavor": {"name": "small", "vcpus": 1, "ram_mb": 64},
    });
    for (key, value) in with.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[derive(Default)]
pub struct BenchState {
    specs: BTreeMap<ConsumerUuid, GuestSpec>,
    made: Vec<WantedDevice>,
    refuses: bool,
    has_tree: bool,
}

/// The host, and the state that survives an agent.
pub struct Bench {
    cells: u32,
    each: u32,
    shared: String,
    nodes: Vec<NodeName>,
    pub gpus: Vec<PhysicalGpu>,
    pub devices: Vec<OfferedDevice>,
    /// Of each cell, by size in KiB.
    pub huge_pages: BTreeMap<u64, u64>,
    pub encryption_contexts: BTreeMap<MemoryEncryption, u64>,
    world: Arc<Mutex<BenchState>>,
    journal: Mutex<Option<Arc<SqlJournal>>>,
}

pub type BenchGuests = Guests<BenchHost, BenchHost>;

/// The host as driver and resources of an agent.
pub struct BenchHost {
    view: HostView,
    world: Arc<Mutex<BenchState>>,
    files: GuestFiles,
}

impl Bench {
    /// A host with `cells` NUMA cells of `each` CPUs, two per core. CPUs that are not in `shared` are dedicated.
    pub fn new(cells: u32, each: u32, shared: &str) -> Self {
        let world = BenchState {
            has_tree: true,
            ..BenchState::default()
        };
        Self {
            cells,
            each,
            shared: shared.to_owned(),
            nodes: vec![NodeName::new("compute1").unwrap()],
            gpus: Vec::new(),
            devices: Vec::new(),
            huge_pages: BTreeMap::new(),
            encryption_contexts: BTreeMap::new(),
            world: Arc::new(Mutex::new(world)),
            journal: Mutex::default(),
        }
    }

    /// The same host with several nodes, each with all resources.
    pub fn with_nodes(self, names: &[&str]) -> Self {
        let nodes = names.iter().map(|name| NodeName::new(name).unwrap());
        Self {
            nodes: nodes.collect(),
            ..self
        }
    }

    fn node(&self) -> NodeName {
        self.nodes[0].clone()
    }

    fn view(&self) -> HostView {
        let cells: Vec<_> = (0..self.cells)
            .map(|id| {
                let first = id * self.each;
                let cpus = first..first + self.each;
                HostNumaCell {
                    siblings: cpus
                        .clone()
                        .step_by(2)
                        .map(|cpu| [cpu, cpu + 1].into_iter().collect())
                        .collect(),
                    huge_pages: self.huge_pages.clone(),
                    ..HostNumaCell::new(id, cpus.collect(), 4096)
                }
            })
            .collect();
        let online = berth_virt::CpuSet::first(self.cells * self.each);
        let shared = self.shared.parse().unwrap();
        let node = NodeView {
            uuid: None,
            cpus: NodeCpus {
                dedicated: Some(online.difference(&shared)),
                shared: (!shared.is_empty()).then_some(shared),
                online,
            },
            memory_mib: 4096 * u64::from(self.cells),
            disk: NodeDisk::None,
            cells,
            gpus: self.gpus.clone(),
            functions: Vec::new(),
            devices: self.devices.clone(),
            pci: PciInPlacement::default(),
            customs: Vec::new(),
            encryption_contexts: self.encryption_contexts.clone(),
            traits: BTreeSet::new(),
            capabilities: berth_virt::NodeCapabilities::default(),
            guests: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            model: ResourceModel::default(),
        };
        HostView {
            hypervisor: HypervisorInfo {
                kind: "bench".to_owned(),
                version: "1".to_owned(),
                hostname: "compute1".to_owned(),
            },
            nodes: {
                let nodes = self.nodes.iter();
                nodes.map(|name| (name.clone(), node.clone())).collect()
            },
        }
    }

    /// Placement's provider tree: the host, its devices and its cells.
    fn tree(&self) -> ProviderTree {
        let root = ProviderUuid::from(Uuid::from_u128(1));
        let mut tree = ProviderTree::new(Provider::root(root, self.node().root_name().clone()));
        let mut child = |name: &str| {
            let name = ProviderName::new(name).unwrap();
            tree.insert(Provider::child(root.child(&name), name, root))
                .unwrap();
        };
        let gpus = self
            .gpus
            .iter()
            .map(|gpu| format!("compute1_{}", gpu.address.nodedev_name()));
        let devices = self
            .devices
            .iter()
            .map(|device| device.provider_name(&self.node()).to_string());
        let cells = (0..self.cells).map(|cell| format!("compute1_numa{cell}"));
        gpus.chain(devices)
            .chain(cells)
            .for_each(|name| child(&name));
        tree
    }

    pub fn provider(&self, name: &str) -> ProviderUuid {
        let tree = self.tree();
        tree.by_name(&ProviderName::new(name).unwrap())
            .unwrap()
            .uuid()
    }

    pub fn forget_tree(&self) {
        self.world.lock().unwrap().has_tree = false;
    }

    pub fn journal(&self) -> Arc<SqlJournal> {
        self.journal.lock().unwrap().clone().unwrap()
    }

    pub fn refuse_guests(&self) {
        self.world.lock().unwrap().refuses = true;
    }

    pub fn take_guests(&self) {
        self.world.lock().unwrap().refuses = false;
    }

    /// The spec that the hypervisor got.
    pub fn running(&self, number: u32) -> GuestSpec {
        self.world.lock().unwrap().specs[&uuid(number)].clone()
    }

    /// The mediated devices that were prepared.
    pub fn made(&self) -> Vec<WantedDevice> {
        self.world.lock().unwrap().made.clone()
    }

    /// A new agent that accepts only complete specs.
    pub async fn bare_guests(&self) -> BenchGuests {
        let known = self.journal.lock().unwrap().clone();
        let journal = match known {
            Some(journal) => journal,
            None => Arc::new(SqlJournal::in_memory().await.unwrap()),
        };
        *self.journal.lock().unwrap() = Some(Arc::clone(&journal));
        let host = |world: &Arc<Mutex<BenchState>>| {
            Arc::new(BenchHost {
                view: self.view(),
                world: Arc::clone(world),
                files: GuestFiles {
                    image_directories: vec![HostPath::new("/images").unwrap()],
                    kernel_directories: vec![HostPath::new("/boot/guests").unwrap()],
                    ..GuestFiles::below(InstancesPath::new(HostPath::new("/instances").unwrap()))
                },
            })
        };
        Guests::new(GuestsParts {
            journal,
            driver: host(&self.world),
            resources: host(&self.world),
            accelerators: Accelerators {
                client: None,
                events: ExternalEvents::default(),
                binding_timeout: Duration::from_secs(1),
            },
            boot_id: "boot".to_owned(),
            max_concurrent_builds: 10,
        })
    }

    pub async fn guests(&self) -> BenchGuests {
        let tree = Arc::new(self.tree());
        let world = Arc::clone(&self.world);
        let path = |text: &str| HostPath::new(text).unwrap();
        self.bare_guests().await.with_build_context(BuildContext {
            options: BuildOptions {
                instances: InstancesPath::new(path("/instances")),
                cpu_model: CpuModel::HostPassthrough,
                kernel_directories: vec![path("/boot/guests")],
            },
            provider_trees: Arc::new(move |_| {
                world.lock().unwrap().has_tree.then(|| Arc::clone(&tree))
            }),
            device_conditions: None,
        })
    }
}

impl VirtDriver for BenchHost {
    fn name(&self) -> &'static str {
        "bench"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        Ok(self.view.clone())
    }

    fn watch(&self) -> HostEvents {
        Box::pin(futures_util::stream::pending())
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        let mut world = self.world.lock().unwrap();
        if world.refuses {
            return Err(GuestError::NotSupported { driver: "bench" });
        }
        world.specs.insert(spec.uuid, spec.clone());
        Ok(GuestSpawnOutcome::Spawned)
    }

    async fn attach_interface(
        &self,
        spec: &GuestSpec,
        _: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        let mut world = self.world.lock().unwrap();
        world.specs.insert(spec.uuid, spec.clone());
        Ok(InterfaceOutcome::Changed)
    }

    async fn detach_interface(
        &self,
        guest: ConsumerUuid,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        let mut world = self.world.lock().unwrap();
        let spec = world.specs.get_mut(&guest).unwrap();
        let others = spec.interfaces.as_slice().iter();
        let others = others.filter(|interface| interface.mac != mac).cloned();
        spec.interfaces = GuestInterfaces::new(others.collect()).unwrap();
        let devices = spec.devices.as_slice().iter().copied();
        let devices = devices.filter(|held| !matches!(held.origin, DeviceOrigin::Port(_)));
        spec.devices = GuestDevices::new(devices.collect()).unwrap();
        Ok(InterfaceOutcome::Changed)
    }

    async fn destroy(&self, guest: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
        match self.world.lock().unwrap().specs.remove(&guest) {
            Some(_) => Ok(GuestDestroyOutcome::Destroyed),
            None => Ok(GuestDestroyOutcome::NotThere),
        }
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        let world = self.world.lock().unwrap();
        let guests = world.specs.iter().map(|(uuid, spec)| {
            let guest = GuestOnHost {
                name: spec.name.to_string(),
                state: PowerState::Running,
                owner: Some(GuestMark {
                    project: spec.owner.project.to_string(),
                    consumer: spec.owner.consumer,
                    requests: BTreeSet::new(),
                }),
                devices: spec.held_devices(),
                unreadable: None,
                hardware: None,
                stuck: None,
                ended_by_hypervisor: false,
            };
            (*uuid, guest)
        });
        Ok(guests.collect())
    }

    async fn no_link(&self, interfaces: &GuestInterfaces) -> Result<Option<NoLink>, GuestError> {
        let interfaces = interfaces.as_slice().iter();
        let mut sources = interfaces.map(|interface| interface.source.clone());
        let missing = sources.find(
            |source| matches!(source, InterfaceSource::Network(name) if name.as_str() != "default"),
        );
        Ok(missing.map(|source| NoLink {
            source,
            reason: "libvirt has no network of this name; it has default".to_owned(),
        }))
    }

    async fn power(
        &self,
        _: ConsumerUuid,
        _: PowerAction,
    ) -> Result<GuestPowerOutcome, GuestError> {
        Ok(GuestPowerOutcome::Unchanged)
    }
}

impl GuestResources for BenchHost {
    fn files(&self) -> &GuestFiles {
        &self.files
    }

    async fn check(&self, _: Provision<'_>) -> Result<(), ResourceError> {
        Ok(())
    }

    async fn prepare(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        self.world
            .lock()
            .unwrap()
            .made
            .extend_from_slice(guest.mdevs);
        Ok(())
    }

    async fn check_function(&self, _: &WantedDevice) -> Result<(), ResourceError> {
        Ok(())
    }

    async fn prepare_function(
        &self,
        _: ConsumerUuid,
        function: &WantedDevice,
    ) -> Result<(), ResourceError> {
        self.world.lock().unwrap().made.push(function.clone());
        Ok(())
    }

    async fn release_function(
        &self,
        _: ConsumerUuid,
        function: &WantedDevice,
    ) -> Result<ReleasedDevices, ResourceError> {
        let mut world = self.world.lock().unwrap();
        world.made.retain(|made| made != function);
        Ok(ReleasedDevices::default())
    }

    async fn release(&self, _: Provision<'_>) -> Result<ReleasedDevices, ResourceError> {
        Ok(ReleasedDevices::default())
    }
}

pub const GPU: &str = "compute1_pci_0000_81_00_0";
pub const CARD: &str = "compute1_0000:41:00.0";
pub const ACCELERATOR: &str = "compute1_0000:42:00.0";

/// Two cells of 16 CPUs, 0-3 and 16-19 shared. Cell 1 has a GPU with four slots, a NIC with two free functions and an
/// accelerator.
pub fn bench_of_devices() -> Bench {
    let mut bench = Bench::new(2, 16, "0-3,16-19");
    bench.gpus.push(PhysicalGpu {
        address: "0000:81:00.0".parse().unwrap(),
        numa_node: Some(1),
        offered: Some(OfferedMdevs {
            mdev_type: "nvidia-558".to_owned(),
            class: ResourceClass::VGPU,
            total: 4,
        }),
    });
    let card = |address: &str, owner, functions: &[&str]| OfferedDevice {
        address: address.parse().unwrap(),
        vendor_id: 0x8086,
        product_id: 0x1572,
        owner,
        device_type: DeviceType::Nic,
        model: None,
        numa_node: Some(1),
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: ResourceClass::new("CUSTOM_NIC").unwrap(),
        class_origin: berth_virt::ClassOrigin::Configured,
        traits: BTreeSet::new(),
        handles: functions
            .iter()
            .map(|at| OfferedHandle::Function(at.parse().unwrap()))
            .collect(),
        unit: berth_virt::DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition: DeviceCondition::Fit,
    };
    bench.devices = vec![
        card(
            "0000:41:00.0",
            DeviceOwner::Compute,
            &["0000:41:02.0", "0000:41:02.1"],
        ),
        card("0000:42:00.0", DeviceOwner::Accelerator, &["0000:42:00.0"]),
    ];
    bench
}

/// `GuestBuild::allocations` for an amount of a class on a provider.
pub fn allocated(provider: ProviderUuid, class: &str, amount: u64) -> serde_json::Value {
    json!({ provider.to_string(): { class: amount } })
}

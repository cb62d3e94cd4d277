//! The hypervisor, and the host that it runs on.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::samples::{NODE, guest, handle};
use berth_model::{ConsumerUuid, NodeName};
use berth_virt::guest_spec::{DesiredPower, DeviceOrigin, GuestSpec};
use berth_virt::{
    CpuSet, Cpus, Destroyed, Disk, GuestError, GuestHardware, GuestMark, GuestOnHost, GuestState,
    HeldDevice, HostDevice, HostEvents, HostView, NodeView, ObserveError, PciInPlacement,
    PowerAction, Powered, Redefined, ResourceModel, Spawned, VirtDriver,
};

use crate::spawn_context::host_device;
use crate::stage::devices::devices_of;
use crate::stage::{Bug, Mishap, Stage};

impl Stage {
    /// The host goes off and on: the agent with it, guests are off, devices are as the firmware leaves them.
    pub fn reboot_host(&self) {
        self.kill_at(None);
        let mut world = self.world();
        world.boots += 1;
        for found in world.guests.values_mut() {
            found.state = GuestState::ShutOff;
        }
        world.devices.clear();
    }

    /// The guest switches itself off.
    pub fn guest_ends(&self, number: u32) {
        let mut world = self.world();
        world.guests.get_mut(&guest(number)).unwrap().state = GuestState::ShutOff;
    }

    /// The names of the devices with which a guest runs.
    pub fn running(&self, number: u32) -> Vec<String> {
        let world = self.world();
        let running = world.guests.get(&guest(number));
        let running = running.filter(|found| found.state == GuestState::Running);
        running.map(names).unwrap_or_default()
    }

    /// Somebody gives the guest more memory by the hypervisor's own means.
    pub fn give_memory(&self, number: u32, mib: u64) {
        let mut world = self.world();
        let found = world.guests.get_mut(&guest(number)).unwrap();
        found.hardware.as_mut().unwrap().memory_mib += mib;
    }

    /// The same of one that runs, for its next start.
    pub fn give_memory_next(&self, number: u32, mib: u64) {
        self.world().next_memory.insert(guest(number), mib);
    }

    /// The guest's memory on the hypervisor, in MiB.
    pub fn memory_mib(&self, number: u32) -> u64 {
        let world = self.world();
        world.guests[&guest(number)]
            .hardware
            .as_ref()
            .unwrap()
            .memory_mib
    }

    pub fn on_hypervisor(&self, number: u32) -> bool {
        self.world().guests.contains_key(&guest(number))
    }

    /// A call to define and start a guest, given up long ago, comes to its end.
    pub fn made_late(&self, spec: &GuestSpec) {
        let _nobody_waits = Hypervisor(self.clone()).spawn_now(spec);
    }

    /// A guest that cannot be read, until it can: then it has nothing.
    pub fn unreadable_guest(&self, number: u32, is_unreadable: bool) {
        self.foreign_guest(number, None);
        let mut world = self.world();
        if let Some(found) = world.guests.get_mut(&guest(number)) {
            found.unreadable = is_unreadable.then(|| "its document is no XML".to_owned());
        }
    }

    /// A guest that somebody made by hand.
    pub fn foreign_guest(&self, number: u32, device: Option<u32>) {
        let device = device.map(|device| HeldDevice {
            device: HostDevice::Function(handle(device).info.address()),
            arq: None,
        });
        let foreign = GuestOnHost {
            name: "by-hand".to_owned(),
            state: GuestState::Running,
            owner: None,
            devices: device.into_iter().collect(),
            unreadable: None,
            hardware: None,
            stuck: None,
        };
        self.world().guests.insert(guest(number), foreign);
    }
}

pub fn names(found: &GuestOnHost) -> Vec<String> {
    let devices = found.devices.iter();
    devices
        .map(|held| match held.device {
            HostDevice::Function(address) => address.to_string(),
            HostDevice::Mdev(uuid) => uuid.to_string(),
        })
        .collect()
}

pub struct Hypervisor(pub Stage);

impl Hypervisor {
    fn refused(uuid: ConsumerUuid, call: &'static str) -> GuestError {
        GuestError::Refused {
            uuid,
            call,
            reason: "no".to_owned(),
        }
    }

    fn spawn_now(&self, spec: &GuestSpec) -> Result<Spawned, GuestError> {
        let mut world = self.0.world();
        let wanted: BTreeSet<_> = spec
            .devices
            .as_slice()
            .iter()
            .map(|attached| HeldDevice {
                device: host_device(&attached.device),
                arq: match attached.origin {
                    DeviceOrigin::Arq(arq) => Some(arq),
                    DeviceOrigin::Flavor => None,
                },
            })
            .collect();
        if let Some(found) = world.guests.get(&spec.uuid) {
            if found.owner.is_none() || found.devices != wanted {
                return Err(GuestError::Another {
                    uuid: spec.uuid,
                    difference: "its devices".to_owned(),
                });
            }
            let found = world.guests.get_mut(&spec.uuid);
            if let Some(found) = found.filter(|found| found.state == GuestState::ShutOff) {
                found.hardware = Some(GuestHardware::of(spec));
                world.next_memory.remove(&spec.uuid);
            }
        } else {
            if world.mishaps.contains(&Mishap::DefineFails) {
                return Err(Self::refused(spec.uuid, "virDomainDefineXML"));
            }
            let defined = GuestOnHost {
                name: spec.name.to_string(),
                state: GuestState::ShutOff,
                owner: Some(GuestMark {
                    project: spec.owner.project.to_string(),
                    consumer: spec.owner.consumer,
                    requests: wanted.iter().filter_map(|held| held.arq).collect(),
                }),
                devices: wanted,
                unreadable: None,
                hardware: Some(GuestHardware::of(spec)),
                stuck: None,
            };
            world.guests.insert(spec.uuid, defined);
            world.documents.insert(spec.uuid, spec.clone());
        }
        if spec.power == DesiredPower::Running {
            if world.mishaps.contains(&Mishap::StartFails) {
                return Err(Self::refused(spec.uuid, "virDomainCreate"));
            }
            for name in devices_of(spec) {
                let device = world.devices.entry(name.clone()).or_default();
                if device.prepared != Some(spec.uuid) {
                    world.broken.push(format!(
                        "a guest started on {name}, which is not ready for it"
                    ));
                    continue;
                }
                device.used_by.insert(spec.uuid);
                if device.used_by.len() > 1 {
                    world
                        .broken
                        .push(format!("S5: {name} had two owners without a reset"));
                }
            }
            if let Some(found) = world.guests.get_mut(&spec.uuid) {
                found.state = GuestState::Running;
            }
        }
        Ok(Spawned::Spawned)
    }
}

impl VirtDriver for Hypervisor {
    fn name(&self) -> &'static str {
        "stage"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        let node = NodeView {
            uuid: None,
            cpus: Cpus {
                online: CpuSet::first(8),
                ..Cpus::default()
            },
            memory_mib: 4096,
            disk: Disk::None,
            cells: Vec::new(),
            gpus: Vec::new(),
            functions: Vec::new(),
            devices: Vec::new(),
            pci: PciInPlacement::default(),
            customs: Vec::new(),
            traits: BTreeSet::new(),
            capabilities: berth_virt::NodeCapabilities::default(),
            guests: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            model: ResourceModel::default(),
        };
        Ok(HostView {
            hypervisor: berth_virt::Hypervisor {
                kind: "stage".to_owned(),
                version: "1".to_owned(),
                hostname: NODE.to_owned(),
            },
            nodes: [(NodeName::new(NODE).unwrap(), node)].into(),
        })
    }

    fn watch(&self) -> HostEvents {
        panic!("guests watch nothing")
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<Spawned, GuestError> {
        let effect = async { self.spawn_now(spec) };
        self.0.cross("driver write spawn".to_owned(), effect).await
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<Destroyed, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            if world.bug == Some(Bug::KeepsGuests) {
                return Ok(Destroyed::Destroyed);
            }
            world.documents.remove(&uuid);
            match world.guests.remove(&uuid) {
                Some(_) => Ok(Destroyed::Destroyed),
                None => Ok(Destroyed::NotThere),
            }
        };
        self.0
            .cross("driver write destroy".to_owned(), effect)
            .await
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        let effect = async { Ok(self.0.world().guests.clone()) };
        self.0.cross("driver read guests".to_owned(), effect).await
    }

    async fn redefine(&self, spec: &GuestSpec) -> Result<Redefined, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            let uuid = spec.uuid;
            if world.mishaps.contains(&Mishap::RedefineFails) {
                return Err(Self::refused(uuid, "virDomainDefineXML"));
            }
            match world.guests.get(&uuid).map(|found| found.state) {
                None => return Ok(Redefined::NotThere),
                Some(GuestState::ShutOff) => {}
                Some(state) => return Err(GuestError::NotOff { uuid, state }),
            }
            world.documents.insert(uuid, spec.clone());
            Ok(Redefined::Redefined)
        };
        self.0
            .cross("driver write redefine".to_owned(), effect)
            .await
    }

    async fn suspend(&self, uuid: ConsumerUuid) -> Result<Powered, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            let Some(found) = world.guests.get_mut(&uuid) else {
                return Ok(Powered::NotThere);
            };
            found.holds_nothing_for(uuid, "be suspended", "a device has a state")?;
            found.state = GuestState::ShutOff;
            Ok(Powered::Done)
        };
        self.0
            .cross("driver write suspend".to_owned(), effect)
            .await
    }

    async fn power(&self, uuid: ConsumerUuid, action: PowerAction) -> Result<Powered, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            if action == PowerAction::Start && world.mishaps.contains(&Mishap::StartFails) {
                return Err(Self::refused(uuid, "virDomainCreate"));
            }
            let cannot_start = world.mishaps.contains(&Mishap::StartFails);
            let starts = matches!(action, PowerAction::Start | PowerAction::HardReboot);
            let given = starts.then(|| world.next_memory.remove(&uuid)).flatten();
            let Some(found) = world.guests.get_mut(&uuid) else {
                return Ok(Powered::NotThere);
            };
            if action == PowerAction::HardReboot && cannot_start {
                found.state = GuestState::ShutOff;
                return Err(Self::refused(uuid, "virDomainCreate"));
            }
            if let (Some(mib), Some(hardware)) = (given, &mut found.hardware) {
                hardware.memory_mib += mib;
            }
            found.state = match action {
                PowerAction::Stop { .. } => GuestState::ShutOff,
                PowerAction::Pause => GuestState::Paused,
                _ => GuestState::Running,
            };
            Ok(Powered::Done)
        };
        self.0.cross("driver write power".to_owned(), effect).await
    }
}

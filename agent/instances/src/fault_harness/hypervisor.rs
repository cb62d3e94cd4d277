//! The simulated hypervisor of the fault harness: the driver that the agent calls ([`SimulatedHypervisor`]), and the changes
//! to the host that a test makes without the agent (methods of [`FaultHarness`]).

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::samples::{NODE, guest, handle};
use berth_model::{ConsoleKind, ConsumerUuid, MacAddress, NodeName};
use berth_virt::guest_spec::{
    DesiredPower, GuestInterface, GuestInterfaces, GuestSpec, HostPciPlace,
};
use berth_virt::{
    ConsoleAddress, CpuSet, DeviceError, GuestDestroyOutcome, GuestError, GuestHardware, GuestMark,
    GuestOnHost, GuestPowerOutcome, GuestRedefineOutcome, GuestSpawnOutcome, HeldDevice,
    HostDeviceId, HostEvents, HostView, InterfaceOutcome, NodeCpus, NodeDisk, NodeView,
    ObserveError, PciInPlacement, PowerAction, PowerState, ResourceModel, VirtDriver, WantedDevice,
};

use crate::fault_harness::resources::{devices_of, plugged_ports};
use crate::fault_harness::{FaultHarness, PlantedBug, SimulatedFailure, SimulatedWorld};

impl SimulatedWorld {
    /// Replaces the interface with this address.
    fn change_interfaces(
        &mut self,
        guest: ConsumerUuid,
        mac: MacAddress,
        added: impl IntoIterator<Item = GuestInterface>,
    ) -> InterfaceOutcome {
        let Some(defined) = self.documents.get_mut(&guest) else {
            return InterfaceOutcome::NotThere;
        };
        let others = defined.interfaces.as_slice().iter();
        let others = others.filter(|interface| interface.mac != mac).cloned();
        let interfaces = GuestInterfaces::new(others.chain(added).collect()).unwrap();
        if interfaces == defined.interfaces {
            return InterfaceOutcome::Unchanged;
        }
        defined.interfaces = interfaces;
        let found = self.guests.get_mut(&guest).unwrap();
        found.hardware = Some(GuestHardware::of(defined));
        found.devices.retain(|held| !held.is_interface);
        let functions = defined.interfaces.ports();
        let functions = functions.filter_map(|(_, port)| port.network_function());
        let functions: Vec<_> = functions.collect();
        for function in functions {
            found.devices.insert(HeldDevice {
                device: HostDeviceId::Function(function),
                arq: None,
                is_interface: true,
            });
            let device = self.devices.entry(function.to_string()).or_default();
            if device.prepared != Some(guest) {
                let violation = format!("{function} was attached, and is not prepared");
                self.violations.push(violation);
            }
            device.used_by.insert(guest);
        }
        InterfaceOutcome::Changed
    }
}

impl FaultHarness {
    /// Reboots the host: the agent is killed, guests are off, and devices are reset.
    pub fn reboot_host(&self) {
        self.kill_agent();
        let mut world = self.world();
        world.boots += 1;
        for found in world.guests.values_mut() {
            found.state = PowerState::ShutOff;
        }
        world.devices.clear();
        world.plugged.clear();
    }

    /// The guest shuts itself down.
    pub fn shut_guest_down(&self, number: u32) {
        let mut world = self.world();
        world.guests.get_mut(&guest(number)).unwrap().state = PowerState::ShutOff;
    }

    /// The names of the guest's devices; empty if it does not run.
    pub fn devices_of_running_guest(&self, number: u32) -> Vec<String> {
        let world = self.world();
        let running = world.guests.get(&guest(number));
        let running = running.filter(|found| found.state == PowerState::Running);
        running.map(device_names).unwrap_or_default()
    }

    /// Adds memory to the guest on the hypervisor.
    pub fn change_memory(&self, number: u32, mib: u64) {
        let mut world = self.world();
        let found = world.guests.get_mut(&guest(number)).unwrap();
        found.hardware.as_mut().unwrap().memory_mib += mib;
    }

    /// Adds memory to the guest, from its next start by [`VirtDriver::power`] on.
    pub fn change_memory_at_next_start(&self, number: u32, mib: u64) {
        self.world().next_memory.insert(guest(number), mib);
    }

    pub fn memory_mib(&self, number: u32) -> u64 {
        let world = self.world();
        world.guests[&guest(number)]
            .hardware
            .as_ref()
            .unwrap()
            .memory_mib
    }

    pub fn exists_on_hypervisor(&self, number: u32) -> bool {
        self.world().guests.contains_key(&guest(number))
    }

    /// Completes a spawn late: the agent no longer waits for it, but the hypervisor creates and starts the guest.
    pub fn complete_late_spawn(&self, spec: &GuestSpec) {
        let _ignored = SimulatedHypervisor(self.clone()).create_and_start(spec);
    }

    /// Adds a foreign guest without devices. Its definition cannot be read while `is_unreadable` is true.
    pub fn unreadable_guest(&self, number: u32, is_unreadable: bool) {
        self.foreign_guest(number, None);
        let mut world = self.world();
        if let Some(found) = world.guests.get_mut(&guest(number)) {
            found.unreadable = is_unreadable.then(|| "its document is no XML".to_owned());
        }
    }

    /// Adds a running guest that Berth did not create.
    pub fn foreign_guest(&self, number: u32, device: Option<u32>) {
        let device = device.map(|device| HeldDevice {
            device: HostDeviceId::Function(handle(device).info.address()),
            arq: None,
            is_interface: false,
        });
        let foreign = GuestOnHost {
            name: "by-hand".to_owned(),
            state: PowerState::Running,
            owner: None,
            devices: device.into_iter().collect(),
            unreadable: None,
            hardware: None,
            stuck: None,
            ended_by_hypervisor: false,
        };
        self.world().guests.insert(guest(number), foreign);
    }
}

/// The names of a guest's devices, as the hypervisor reports them.
pub fn device_names(found: &GuestOnHost) -> Vec<String> {
    let devices = found.devices.iter();
    devices
        .map(|held| match held.device {
            HostDeviceId::Function(address) => address.to_string(),
            HostDeviceId::Mdev(uuid) => uuid.to_string(),
        })
        .collect()
}

pub struct SimulatedHypervisor(pub FaultHarness);

impl SimulatedHypervisor {
    fn refused(uuid: ConsumerUuid, call: &'static str) -> GuestError {
        GuestError::Refused {
            uuid,
            call,
            reason: "no".to_owned(),
        }
    }

    /// The effect of a spawn, without fault injection.
    fn create_and_start(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        let mut world = self.0.world();
        let wanted = spec.held_devices();
        if let Some(found) = world.guests.get(&spec.uuid) {
            if let Some(difference) = found.difference(spec) {
                return Err(GuestError::Another {
                    uuid: spec.uuid,
                    difference,
                });
            }
            let found = world.guests.get_mut(&spec.uuid);
            if let Some(found) = found.filter(|found| found.state == PowerState::ShutOff) {
                found.hardware = Some(GuestHardware::of(spec));
                found.devices = wanted;
                world.next_memory.remove(&spec.uuid);
                world.documents.insert(spec.uuid, spec.clone());
            }
        } else {
            if world.failures.contains(&SimulatedFailure::DefineFails) {
                return Err(Self::refused(spec.uuid, "virDomainDefineXML"));
            }
            let defined = GuestOnHost {
                name: spec.name.to_string(),
                state: PowerState::ShutOff,
                owner: Some(GuestMark {
                    project: spec.owner.project.to_string(),
                    consumer: spec.owner.consumer,
                    requests: wanted.iter().filter_map(|held| held.arq).collect(),
                }),
                devices: wanted,
                unreadable: None,
                hardware: Some(GuestHardware::of(spec)),
                stuck: None,
                ended_by_hypervisor: false,
            };
            world.guests.insert(spec.uuid, defined);
            world.documents.insert(spec.uuid, spec.clone());
        }
        if spec.power == DesiredPower::Running {
            for port in plugged_ports(spec) {
                if !world.plugged.contains_key(&port.id()) {
                    let violation = format!("a guest was started without its port {}", port.id());
                    world.violations.push(violation);
                }
            }
            if world.failures.contains(&SimulatedFailure::StartFails) {
                return Err(Self::refused(spec.uuid, "virDomainCreate"));
            }
            for name in devices_of(spec) {
                let device = world.devices.entry(name.clone()).or_default();
                if device.prepared != Some(spec.uuid) {
                    world.violations.push(format!(
                        "a guest started on {name}, which is not prepared for it"
                    ));
                    continue;
                }
                device.used_by.insert(spec.uuid);
                if device.used_by.len() > 1 {
                    world
                        .violations
                        .push(format!("{name} had two owners without a reset"));
                }
            }
            if let Some(found) = world.guests.get_mut(&spec.uuid) {
                found.state = PowerState::Running;
            }
        }
        Ok(GuestSpawnOutcome::Spawned)
    }
}

impl VirtDriver for SimulatedHypervisor {
    fn name(&self) -> &'static str {
        "simulated"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        let node = NodeView {
            uuid: None,
            cpus: NodeCpus {
                online: CpuSet::first(8),
                ..NodeCpus::default()
            },
            memory_mib: 4096,
            disk: NodeDisk::None,
            cells: Vec::new(),
            gpus: Vec::new(),
            functions: Vec::new(),
            devices: Vec::new(),
            pci: PciInPlacement::default(),
            customs: Vec::new(),
            encryption_contexts: BTreeMap::new(),
            traits: BTreeSet::new(),
            capabilities: berth_virt::NodeCapabilities::default(),
            guests: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            model: ResourceModel::default(),
        };
        Ok(HostView {
            hypervisor: berth_virt::HypervisorInfo {
                kind: "simulated".to_owned(),
                version: "1".to_owned(),
                hostname: NODE.to_owned(),
            },
            nodes: [(NodeName::new(NODE).unwrap(), node)].into(),
        })
    }

    fn watch(&self) -> HostEvents {
        panic!("no test watches the host for changes")
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        let effect = async { self.create_and_start(spec) };
        self.0.inject("driver write spawn".to_owned(), effect).await
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            if world.bug == Some(PlantedBug::KeepsGuests) {
                return Ok(GuestDestroyOutcome::Destroyed);
            }
            world.documents.remove(&uuid);
            match world.guests.remove(&uuid) {
                Some(_) => Ok(GuestDestroyOutcome::Destroyed),
                None => Ok(GuestDestroyOutcome::NotThere),
            }
        };
        self.0
            .inject("driver write destroy".to_owned(), effect)
            .await
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        let effect = async { Ok(self.0.world().guests.clone()) };
        self.0.inject("driver read guests".to_owned(), effect).await
    }

    async fn console(
        &self,
        uuid: ConsumerUuid,
        kind: ConsoleKind,
    ) -> Result<ConsoleAddress, GuestError> {
        let screens = self.0.world().screens;
        let screens = screens.filter(|_| kind == ConsoleKind::Vnc);
        let reason = "it gets one at its next start";
        let none = GuestError::NoConsole { uuid, kind, reason };
        screens.map(ConsoleAddress::Tcp).ok_or(none)
    }

    async fn pci_place(&self, _: &WantedDevice) -> Result<Option<HostPciPlace>, DeviceError> {
        let switch = format!("0000:{:02x}:00.0", self.0.world().switch_bus);
        Ok(Some(HostPciPlace {
            numa_node: Some(0),
            switch: Some(switch.parse().unwrap()),
        }))
    }

    async fn redefine(&self, spec: &GuestSpec) -> Result<GuestRedefineOutcome, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            let uuid = spec.uuid;
            if world.failures.contains(&SimulatedFailure::RedefineFails) {
                return Err(Self::refused(uuid, "virDomainDefineXML"));
            }
            match world.guests.get(&uuid).map(|found| found.state) {
                None => return Ok(GuestRedefineOutcome::NotThere),
                Some(PowerState::ShutOff) => {}
                Some(state) => return Err(GuestError::NotOff { uuid, state }),
            }
            world.documents.insert(uuid, spec.clone());
            Ok(GuestRedefineOutcome::Redefined)
        };
        self.0
            .inject("driver write redefine".to_owned(), effect)
            .await
    }

    async fn attach_interface(
        &self,
        spec: &GuestSpec,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            for port in plugged_ports(spec) {
                if !world.plugged.contains_key(&port.id()) {
                    let violation = format!("port {} was attached unplugged", port.id());
                    world.violations.push(violation);
                }
            }
            if world.failures.contains(&SimulatedFailure::AttachFails) {
                return Err(Self::refused(spec.uuid, "virDomainAttachDeviceFlags"));
            }
            let added = spec.interfaces.as_slice().iter();
            let added = added.filter(|interface| interface.mac == mac);
            Ok(world.change_interfaces(spec.uuid, mac, added.cloned()))
        };
        self.0
            .inject("driver write attach_interface".to_owned(), effect)
            .await
    }

    async fn detach_interface(
        &self,
        uuid: ConsumerUuid,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            Ok(world.change_interfaces(uuid, mac, []))
        };
        self.0
            .inject("driver write detach_interface".to_owned(), effect)
            .await
    }

    async fn suspend(&self, uuid: ConsumerUuid) -> Result<GuestPowerOutcome, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            let Some(found) = world.guests.get_mut(&uuid) else {
                return Ok(GuestPowerOutcome::NotThere);
            };
            found.refuse_if_it_holds_devices(uuid, "be suspended", "a device has a state")?;
            found.state = PowerState::ShutOff;
            Ok(GuestPowerOutcome::Done)
        };
        self.0
            .inject("driver write suspend".to_owned(), effect)
            .await
    }

    async fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> Result<GuestPowerOutcome, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            let cannot_start = world.failures.contains(&SimulatedFailure::StartFails);
            if action == PowerAction::Start && cannot_start {
                return Err(Self::refused(uuid, "virDomainCreate"));
            }
            let starts = matches!(action, PowerAction::Start | PowerAction::HardReboot);
            let added_memory = starts.then(|| world.next_memory.remove(&uuid)).flatten();
            let Some(found) = world.guests.get_mut(&uuid) else {
                return Ok(GuestPowerOutcome::NotThere);
            };
            // A hard reboot has already turned the guest off when the start fails.
            if action == PowerAction::HardReboot && cannot_start {
                found.state = PowerState::ShutOff;
                return Err(Self::refused(uuid, "virDomainCreate"));
            }
            if let (Some(mib), Some(hardware)) = (added_memory, &mut found.hardware) {
                hardware.memory_mib += mib;
            }
            found.state = match action {
                PowerAction::Stop { .. } => PowerState::ShutOff,
                PowerAction::Pause => PowerState::Paused,
                _ => PowerState::Running,
            };
            Ok(GuestPowerOutcome::Done)
        };
        self.0.inject("driver write power".to_owned(), effect).await
    }
}

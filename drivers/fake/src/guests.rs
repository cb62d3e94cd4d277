//! The guests that the driver created on a fake machine: the book in addition to the machine file.
//!
//! The machine file belongs to its author and is never written. Its guests are listed, hold resources, and are changed
//! by editing the file. Guests that the driver creates are in the book; [`crate::guest_file`] stores it.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_model::{ConsumerUuid, MacAddress};
use berth_virt::guest_spec::{DesiredPower, GuestInterface, GuestInterfaces, GuestSpec, VcpuPin};
use berth_virt::{
    GuestCell, GuestCpuPolicy, GuestDestroyOutcome, GuestError, GuestHardware, GuestMark,
    GuestMdev, GuestOnHost, GuestPowerOutcome, GuestRedefineOutcome, GuestSpawnOutcome, GuestView,
    HeldDevice, HostDeviceId, HostView, InterfaceOutcome, NodeView, OfferedHandle, PowerAction,
    PowerState,
};
use serde::{Deserialize, Serialize};

use crate::device_assignment::DeviceBook;

/// A guest created by the driver, with its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FakeGuest {
    spec: GuestSpec,
    /// Running, paused or shut off; a fake guest never crashes.
    state: DesiredPower,
}

impl FakeGuest {
    fn set_interfaces(
        &mut self,
        interfaces: Vec<GuestInterface>,
    ) -> Result<InterfaceOutcome, GuestError> {
        let interfaces = GuestInterfaces::new(interfaces).map_err(|error| GuestError::Another {
            uuid: self.spec.uuid,
            difference: error.to_string(),
        })?;
        self.spec.interfaces = interfaces;
        Ok(InterfaceOutcome::Changed)
    }
}

/// The guests created by the driver. Copies share the guests: a change copies only the guest that it changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GuestBook {
    pub(crate) guests: BTreeMap<ConsumerUuid, Arc<FakeGuest>>,
    pub(crate) devices: DeviceBook,
}

impl GuestBook {
    /// All guests of the machine: those of the book and those of the machine file.
    pub(crate) fn all(&self, machine: &HostView) -> BTreeMap<ConsumerUuid, GuestOnHost> {
        let nodes = machine.nodes.values();
        let written = nodes.flat_map(|node| &node.guests);
        let written = written.map(|(uuid, guest)| (*uuid, of_file(guest)));
        let made = self
            .guests
            .iter()
            .map(|(uuid, made)| (*uuid, made.on_host()));
        written.chain(made).collect()
    }

    /// The guest with this UUID, as in `all`.
    pub(crate) fn one(&self, uuid: ConsumerUuid, machine: &HostView) -> Option<GuestOnHost> {
        let made = self.guests.get(&uuid).map(|made| made.on_host());
        made.or_else(|| {
            let mut nodes = machine.nodes.values();
            nodes.find_map(|node| node.guests.get(&uuid)).map(of_file)
        })
    }

    /// Adds the book's guests to the view, each to its node. A guest without a known node is added to the first node.
    pub(crate) fn add_to(&self, machine: &mut HostView) {
        for made in self.guests.values() {
            let named = made.spec.node.as_ref();
            let named = named.filter(|node| machine.nodes.contains_key(*node));
            let Some(node) = named.or(machine.nodes.keys().next()).cloned() else {
                return;
            };
            if let Some(node) = machine.nodes.get_mut(&node) {
                node.guests.insert(made.spec.uuid, made.view());
            }
        }
    }

    pub(crate) fn spawn(
        &mut self,
        spec: &GuestSpec,
        machine: &HostView,
    ) -> Result<GuestSpawnOutcome, GuestError> {
        let uuid = spec.uuid;
        if let Some(there) = self.one(uuid, machine) {
            return match there.difference(spec) {
                Some(difference) => Err(GuestError::Another { uuid, difference }),
                None => self.bring_to(spec),
            };
        }
        if let Some(holder) = self.guest_by_name(spec.name.as_str(), machine) {
            return Err(GuestError::NameTaken {
                name: spec.name.to_string(),
                holder,
            });
        }
        let wanted = spec.held_devices();
        let all = match wanted.is_empty() {
            true => BTreeMap::new(),
            false => self.all(machine),
        };
        for wanted in wanted {
            check_exists(machine, uuid, wanted.device)?;
            let holds = |guest: &GuestOnHost| {
                guest
                    .devices
                    .iter()
                    .any(|held| held.device == wanted.device)
            };
            if let Some((holder, _)) = all.iter().find(|(_, guest)| holds(guest)) {
                let reason = format!("{} belongs to guest {holder}", wanted.device);
                return Err(GuestError::DeviceBusy { uuid, reason });
            }
        }
        let made = FakeGuest {
            spec: spec.clone(),
            state: spec.power,
        };
        self.guests.insert(uuid, Arc::new(made));
        Ok(GuestSpawnOutcome::Spawned)
    }

    /// The guest of this name.
    fn guest_by_name(&self, name: &str, machine: &HostView) -> Option<ConsumerUuid> {
        let made = self.guests.iter();
        let mut made = made.filter(|(_, made)| made.spec.name.as_str() == name);
        let nodes = machine.nodes.values();
        let mut written = nodes
            .flat_map(|node| &node.guests)
            .filter(|(_, guest)| guest.name == name)
            .map(|(uuid, _)| *uuid);
        let made = made.next().map(|(uuid, _)| *uuid);
        made.or_else(|| written.next())
    }

    /// Brings a guest that is there to the power that is wanted.
    fn bring_to(&mut self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        let Some(made) = self.of(spec.uuid) else {
            return Ok(GuestSpawnOutcome::AlreadyThere);
        };
        if made.state == spec.power {
            return Ok(GuestSpawnOutcome::AlreadyThere);
        }
        if spec.power == DesiredPower::ShutOff {
            return Err(GuestError::Another {
                uuid: spec.uuid,
                difference: format!(
                    "it is {}, but should be shut off",
                    PowerState::from(made.state)
                ),
            });
        }
        if made.state == DesiredPower::ShutOff {
            made.spec = spec.clone();
        }
        made.state = spec.power;
        Ok(GuestSpawnOutcome::Spawned)
    }

    pub(crate) fn destroy(
        &mut self,
        uuid: ConsumerUuid,
        machine: &HostView,
    ) -> Result<GuestDestroyOutcome, GuestError> {
        if self.guests.remove(&uuid).is_some() {
            return Ok(GuestDestroyOutcome::Destroyed);
        }
        is_not_of_file(machine, uuid, "destroy").map(|()| GuestDestroyOutcome::NotThere)
    }

    pub(crate) fn power(
        &mut self,
        uuid: ConsumerUuid,
        action: PowerAction,
        machine: &HostView,
    ) -> Result<GuestPowerOutcome, GuestError> {
        use DesiredPower::{Paused, Running, ShutOff};
        let Some(made) = self.of(uuid) else {
            return is_not_of_file(machine, uuid, action.as_str())
                .map(|()| GuestPowerOutcome::NotThere);
        };
        let becomes = match (action, made.state) {
            (PowerAction::Start | PowerAction::Unpause, Running)
            | (PowerAction::Stop { .. }, ShutOff)
            | (PowerAction::Pause, Paused) => return Ok(GuestPowerOutcome::Unchanged),
            (PowerAction::Start, ShutOff)
            | (PowerAction::Unpause, Paused)
            | (PowerAction::SoftReboot, Running)
            | (PowerAction::HardReboot, _) => Running,
            (PowerAction::Stop { .. }, Running | Paused) => ShutOff,
            (PowerAction::Pause, Running) => Paused,
            (PowerAction::Start | PowerAction::SoftReboot, Paused)
            | (PowerAction::Pause | PowerAction::Unpause | PowerAction::SoftReboot, ShutOff) => {
                let state = made.state.into();
                return Err(GuestError::WrongState {
                    uuid,
                    state,
                    action,
                });
            }
        };
        made.state = becomes;
        Ok(GuestPowerOutcome::Done)
    }

    pub(crate) fn redefine(
        &mut self,
        spec: &GuestSpec,
        machine: &HostView,
    ) -> Result<GuestRedefineOutcome, GuestError> {
        let uuid = spec.uuid;
        let Some(made) = self.of(uuid) else {
            return is_not_of_file(machine, uuid, "redefine")
                .map(|()| GuestRedefineOutcome::NotThere);
        };
        if let Some(difference) = made.on_host().difference(spec) {
            return Err(GuestError::Another { uuid, difference });
        }
        if made.state != DesiredPower::ShutOff {
            let state = made.state.into();
            return Err(GuestError::NotOff { uuid, state });
        }
        made.spec = spec.clone();
        Ok(GuestRedefineOutcome::Redefined)
    }

    pub(crate) fn attach_interface(
        &mut self,
        spec: &GuestSpec,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        let Some(made) = self.of(spec.uuid) else {
            return Ok(InterfaceOutcome::NotThere);
        };
        let added = spec.interfaces.as_slice().iter();
        let added = added.filter(|interface| interface.mac == mac).cloned();
        let mut interfaces = made.spec.interfaces.as_slice().to_vec();
        if interfaces.iter().any(|interface| interface.mac == mac) {
            return Ok(InterfaceOutcome::Unchanged);
        }
        interfaces.extend(added);
        made.set_interfaces(interfaces)
    }

    pub(crate) fn detach_interface(
        &mut self,
        uuid: ConsumerUuid,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        let Some(made) = self.of(uuid) else {
            return Ok(InterfaceOutcome::NotThere);
        };
        let mut interfaces = made.spec.interfaces.as_slice().to_vec();
        let before = interfaces.len();
        interfaces.retain(|interface| interface.mac != mac);
        match interfaces.len() == before {
            true => Ok(InterfaceOutcome::Unchanged),
            false => made.set_interfaces(interfaces),
        }
    }

    pub(crate) fn suspend(
        &mut self,
        uuid: ConsumerUuid,
        machine: &HostView,
    ) -> Result<GuestPowerOutcome, GuestError> {
        let Some(made) = self.of(uuid) else {
            return is_not_of_file(machine, uuid, "suspend").map(|()| GuestPowerOutcome::NotThere);
        };
        made.on_host().refuse_if_it_holds_devices(
            uuid,
            "be suspended",
            "the state of a device cannot be written to disk",
        )?;
        match made.state {
            DesiredPower::Running | DesiredPower::Paused => {
                made.state = DesiredPower::ShutOff;
                Ok(GuestPowerOutcome::Done)
            }
            DesiredPower::ShutOff => Err(GuestError::NotRunning {
                uuid,
                state: PowerState::ShutOff,
            }),
        }
    }

    fn of(&mut self, uuid: ConsumerUuid) -> Option<&mut FakeGuest> {
        self.guests.get_mut(&uuid).map(Arc::make_mut)
    }
}

/// A guest of the machine file is its author's.
fn is_not_of_file(
    machine: &HostView,
    uuid: ConsumerUuid,
    call: &'static str,
) -> Result<(), GuestError> {
    let written = machine
        .nodes
        .values()
        .any(|node| node.guests.contains_key(&uuid));
    if written {
        return Err(GuestError::Refused {
            uuid,
            call,
            reason: "it is defined in the machine file; edit the file".to_owned(),
        });
    }
    Ok(())
}

/// Checks a guest's device: a function must exist on the machine; mediated devices are created on demand.
fn check_exists(
    machine: &HostView,
    uuid: ConsumerUuid,
    device: HostDeviceId,
) -> Result<(), GuestError> {
    let HostDeviceId::Function(address) = device else {
        return Ok(());
    };
    let has = |node: &NodeView| {
        let of_card = |card: &berth_virt::VirtualFunctions| {
            card.physical == address || card.addresses.contains(&address)
        };
        let offers = |device: &berth_virt::OfferedDevice| {
            let function = OfferedHandle::Function(address);
            device.handles.contains(&function)
        };
        node.gpus.iter().any(|gpu| gpu.address == address)
            || node.functions.iter().any(of_card)
            || node.devices.iter().any(offers)
    };
    if machine.nodes.values().any(has) {
        return Ok(());
    }
    Err(GuestError::DeviceMissing { uuid, device })
}

fn of_file(guest: &GuestView) -> GuestOnHost {
    let functions = guest.functions.iter().copied().map(HostDeviceId::Function);
    let mdevs = guest.mdevs.iter().map(|mdev| HostDeviceId::Mdev(mdev.uuid));
    GuestOnHost {
        name: guest.name.clone(),
        state: guest.power,
        owner: None,
        devices: functions
            .chain(mdevs)
            .map(|device| HeldDevice {
                device,
                arq: None,
                is_interface: false,
            })
            .collect(),
        unreadable: None,
        hardware: None,
        stuck: None,
        ended_by_hypervisor: false,
    }
}

impl FakeGuest {
    pub(crate) fn uuid(&self) -> ConsumerUuid {
        self.spec.uuid
    }

    fn on_host(&self) -> GuestOnHost {
        let devices = self.spec.held_devices();
        GuestOnHost {
            name: self.spec.name.to_string(),
            state: self.state.into(),
            owner: Some(GuestMark {
                project: self.spec.owner.project.to_string(),
                consumer: self.spec.owner.consumer,
                requests: devices.iter().filter_map(|held| held.arq).collect(),
            }),
            devices,
            unreadable: None,
            hardware: Some(GuestHardware::of(&self.spec)),
            stuck: None,
            ended_by_hypervisor: false,
        }
    }

    fn view(&self) -> GuestView {
        let topology = &self.spec.topology;
        let mut functions = std::collections::BTreeSet::new();
        let mut mdevs = Vec::new();
        for held in self.spec.held_devices() {
            match held.device {
                HostDeviceId::Function(address) => {
                    functions.insert(address);
                }
                HostDeviceId::Mdev(uuid) => mdevs.push(GuestMdev { uuid, parent: None }),
            }
        }
        let cells = topology.cells().iter().map(|cell| GuestCell {
            host_cell: cell.host_cell,
            vcpus: cell.vcpus.len() as u64,
            memory_mib: cell.memory_mib,
        });
        let consumer = self.spec.owner.consumer;
        GuestView {
            name: self.spec.name.to_string(),
            power: self.state.into(),
            also: (consumer != self.spec.uuid)
                .then_some(consumer)
                .into_iter()
                .collect(),
            cpu_policy: self.cpu_policy(),
            vcpus: topology.vcpus().into(),
            memory_mib: topology.memory_mib(),
            cells: cells.collect(),
            mdevs,
            functions,
        }
    }

    fn cpu_policy(&self) -> GuestCpuPolicy {
        let Some(pinning) = self.spec.topology.pinning() else {
            return GuestCpuPolicy::Shared;
        };
        let is_dedicated = |pin: &&VcpuPin| matches!(pin, VcpuPin::Dedicated(_));
        let dedicated = pinning.pins().iter().filter(is_dedicated).count();
        match dedicated {
            0 => GuestCpuPolicy::Shared,
            all if all == pinning.pins().len() => GuestCpuPolicy::Dedicated,
            some => GuestCpuPolicy::Mixed {
                dedicated: some as u64,
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use berth_virt::conformance::sample_guest;
    use berth_virt::guest_spec::CpuModel;

    use super::*;

    /// A guest of this number, that runs or is off.
    pub(crate) fn test_guest(number: u8, runs: bool) -> FakeGuest {
        let uuid: ConsumerUuid = format!("11111111-2222-4333-8444-{number:012x}")
            .parse()
            .unwrap();
        let spec = GuestSpec {
            cpu_model: CpuModel::HostPassthrough,
            ..sample_guest(uuid, &format!("gäst-{number}"))
        };
        let state = match runs {
            true => DesiredPower::Running,
            false => DesiredPower::ShutOff,
        };
        FakeGuest { spec, state }
    }
}

//! The guests that the driver created on a fake machine: the book in addition to the machine file.
//!
//! The machine file belongs to its author and is never written. Its guests are listed, hold resources, and are changed
//! by editing the file. Guests that the driver creates are in the book; [`crate::guest_file`] stores it.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{DesiredPower, GuestSpec, VcpuPin};
use berth_virt::{
    CpuPolicy, Destroyed, GuestCell, GuestError, GuestHardware, GuestMark, GuestMdev, GuestOnHost,
    GuestState, GuestView, HeldDevice, HostDevice, HostView, NodeView, OfferedHandle, PowerAction,
    PowerState, Powered, Redefined, Spawned,
};
use serde::{Deserialize, Serialize};

use crate::device_life::DeviceBook;

/// A guest created by the driver, with its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Made {
    spec: GuestSpec,
    /// Running, paused or shut off; a fake guest never crashes.
    state: DesiredPower,
}

/// The guests created by the driver. Copies share the guests: a change copies only the guest that it changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GuestBook {
    pub(crate) guests: BTreeMap<ConsumerUuid, Arc<Made>>,
    pub(crate) devices: DeviceBook,
}

impl GuestBook {
    /// All guests of the machine: those of the book and those of the machine file.
    pub(crate) fn all(&self, machine: &HostView) -> BTreeMap<ConsumerUuid, GuestOnHost> {
        let nodes = machine.nodes.values();
        let written = nodes.flat_map(|node| &node.guests);
        let written = written.map(|(uuid, guest)| (*uuid, of_file(guest)));
        let made = self.guests.iter().map(|(uuid, made)| (*uuid, made.seen()));
        written.chain(made).collect()
    }

    /// The guest with this UUID, as in `all`.
    pub(crate) fn one(&self, uuid: ConsumerUuid, machine: &HostView) -> Option<GuestOnHost> {
        let made = self.guests.get(&uuid).map(|made| made.seen());
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
    ) -> Result<Spawned, GuestError> {
        let uuid = spec.uuid;
        if let Some(there) = self.one(uuid, machine) {
            return match there.difference(spec) {
                Some(difference) => Err(GuestError::Another { uuid, difference }),
                None => self.bring_to(spec),
            };
        }
        if let Some(holder) = self.named(spec.name.as_str(), machine) {
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
            is_there(machine, uuid, wanted.device)?;
            let holds = |guest: &GuestOnHost| {
                guest
                    .devices
                    .iter()
                    .any(|held| held.device == wanted.device)
            };
            if let Some((holder, _)) = all.iter().find(|(_, guest)| holds(guest)) {
                let reason = format!("{} is guest {holder}'s", wanted.device);
                return Err(GuestError::DeviceBusy { uuid, reason });
            }
        }
        let made = Made {
            spec: spec.clone(),
            state: spec.power,
        };
        self.guests.insert(uuid, Arc::new(made));
        Ok(Spawned::Spawned)
    }

    /// The guest of this name.
    fn named(&self, name: &str, machine: &HostView) -> Option<ConsumerUuid> {
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
    fn bring_to(&mut self, spec: &GuestSpec) -> Result<Spawned, GuestError> {
        let Some(made) = self.of(spec.uuid) else {
            return Ok(Spawned::AlreadyThere);
        };
        if made.state == spec.power {
            return Ok(Spawned::AlreadyThere);
        }
        if spec.power == DesiredPower::ShutOff {
            return Err(GuestError::Another {
                uuid: spec.uuid,
                difference: format!("it is {}, but should be shut off", state(made.state)),
            });
        }
        if made.state == DesiredPower::ShutOff {
            made.spec = spec.clone();
        }
        made.state = spec.power;
        Ok(Spawned::Spawned)
    }

    pub(crate) fn destroy(
        &mut self,
        uuid: ConsumerUuid,
        machine: &HostView,
    ) -> Result<Destroyed, GuestError> {
        if self.guests.remove(&uuid).is_some() {
            return Ok(Destroyed::Destroyed);
        }
        is_not_of_file(machine, uuid, "destroy").map(|()| Destroyed::NotThere)
    }

    pub(crate) fn power(
        &mut self,
        uuid: ConsumerUuid,
        action: PowerAction,
        machine: &HostView,
    ) -> Result<Powered, GuestError> {
        use DesiredPower::{Paused, Running, ShutOff};
        let Some(made) = self.of(uuid) else {
            return is_not_of_file(machine, uuid, action.as_str()).map(|()| Powered::NotThere);
        };
        let becomes = match (action, made.state) {
            (PowerAction::Start | PowerAction::Unpause, Running)
            | (PowerAction::Stop { .. }, ShutOff)
            | (PowerAction::Pause, Paused) => return Ok(Powered::AlreadySo),
            (PowerAction::Start, ShutOff)
            | (PowerAction::Unpause, Paused)
            | (PowerAction::SoftReboot, Running)
            | (PowerAction::HardReboot, _) => Running,
            (PowerAction::Stop { .. }, Running | Paused) => ShutOff,
            (PowerAction::Pause, Running) => Paused,
            (PowerAction::Start | PowerAction::SoftReboot, Paused)
            | (PowerAction::Pause | PowerAction::Unpause | PowerAction::SoftReboot, ShutOff) => {
                let state = state(made.state);
                return Err(GuestError::WrongState {
                    uuid,
                    state,
                    action,
                });
            }
        };
        made.state = becomes;
        Ok(Powered::Done)
    }

    pub(crate) fn redefine(
        &mut self,
        spec: &GuestSpec,
        machine: &HostView,
    ) -> Result<Redefined, GuestError> {
        let uuid = spec.uuid;
        let Some(made) = self.of(uuid) else {
            return is_not_of_file(machine, uuid, "redefine").map(|()| Redefined::NotThere);
        };
        if let Some(difference) = made.seen().difference(spec) {
            return Err(GuestError::Another { uuid, difference });
        }
        if made.state != DesiredPower::ShutOff {
            let state = state(made.state);
            return Err(GuestError::NotOff { uuid, state });
        }
        made.spec = spec.clone();
        Ok(Redefined::Redefined)
    }

    pub(crate) fn suspend(
        &mut self,
        uuid: ConsumerUuid,
        machine: &HostView,
    ) -> Result<Powered, GuestError> {
        let Some(made) = self.of(uuid) else {
            return is_not_of_file(machine, uuid, "suspend").map(|()| Powered::NotThere);
        };
        made.seen().holds_nothing_for(
            uuid,
            "be suspended",
            "the state of a device cannot be written to disk",
        )?;
        match made.state {
            DesiredPower::Running | DesiredPower::Paused => {
                made.state = DesiredPower::ShutOff;
                Ok(Powered::Done)
            }
            DesiredPower::ShutOff => Err(GuestError::NotRunning {
                uuid,
                state: GuestState::ShutOff,
            }),
        }
    }

    fn of(&mut self, uuid: ConsumerUuid) -> Option<&mut Made> {
        self.guests.get_mut(&uuid).map(Arc::make_mut)
    }
}

fn state(power: DesiredPower) -> GuestState {
    match power {
        DesiredPower::Running => GuestState::Running,
        DesiredPower::Paused => GuestState::Paused,
        DesiredPower::ShutOff => GuestState::ShutOff,
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
fn is_there(machine: &HostView, uuid: ConsumerUuid, device: HostDevice) -> Result<(), GuestError> {
    let HostDevice::Function(address) = device else {
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
    let functions = guest.functions.iter().copied().map(HostDevice::Function);
    let mdevs = guest.mdevs.iter().map(|mdev| HostDevice::Mdev(mdev.uuid));
    GuestOnHost {
        name: guest.name.clone(),
        state: match guest.power {
            PowerState::Running => GuestState::Running,
            PowerState::ShutOff => GuestState::ShutOff,
        },
        owner: None,
        devices: functions
            .chain(mdevs)
            .map(|device| HeldDevice { device, arq: None })
            .collect(),
        unreadable: None,
        hardware: None,
        stuck: None,
    }
}

impl Made {
    pub(crate) fn uuid(&self) -> ConsumerUuid {
        self.spec.uuid
    }

    fn seen(&self) -> GuestOnHost {
        let devices = self.spec.held_devices();
        GuestOnHost {
            name: self.spec.name.to_string(),
            state: state(self.state),
            owner: Some(GuestMark {
                project: self.spec.owner.project.to_string(),
                consumer: self.spec.owner.consumer,
                requests: devices.iter().filter_map(|held| held.arq).collect(),
            }),
            devices,
            unreadable: None,
            hardware: Some(GuestHardware::of(&self.spec)),
            stuck: None,
        }
    }

    fn view(&self) -> GuestView {
        let topology = &self.spec.topology;
        let mut functions = std::collections::BTreeSet::new();
        let mut mdevs = Vec::new();
        for held in self.spec.held_devices() {
            match held.device {
                HostDevice::Function(address) => {
                    functions.insert(address);
                }
                HostDevice::Mdev(uuid) => mdevs.push(GuestMdev { uuid, parent: None }),
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
            power: match self.state {
                DesiredPower::Running | DesiredPower::Paused => PowerState::Running,
                DesiredPower::ShutOff => PowerState::ShutOff,
            },
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

    fn cpu_policy(&self) -> CpuPolicy {
        let Some(pinning) = self.spec.topology.pinning() else {
            return CpuPolicy::Shared;
        };
        let is_dedicated = |pin: &&VcpuPin| matches!(pin, VcpuPin::Dedicated(_));
        let dedicated = pinning.pins().iter().filter(is_dedicated).count();
        match dedicated {
            0 => CpuPolicy::Shared,
            all if all == pinning.pins().len() => CpuPolicy::Dedicated,
            some => CpuPolicy::Mixed {
                dedicated: some as u64,
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use berth_virt::guest_spec::{
        CpuModel, GuestBoot, GuestDevices, GuestDisks, GuestInterfaces, GuestName, GuestOwner,
        GuestTopology, HostPath, ProjectId,
    };

    use super::*;

    /// A guest of this number, that runs or is off.
    pub(crate) fn made(number: u8, runs: bool) -> Made {
        let uuid: ConsumerUuid = format!("11111111-2222-4333-8444-{number:012x}")
            .parse()
            .unwrap();
        let spec = GuestSpec {
            uuid,
            node: None,
            name: GuestName::new(&format!("gäst-{number}")).unwrap(),
            owner: GuestOwner {
                project: ProjectId::new("project").unwrap(),
                consumer: uuid,
            },
            topology: GuestTopology::plain(1, 128).unwrap(),
            cpu_model: CpuModel::HostPassthrough,
            boot: GuestBoot::Disk,
            disks: GuestDisks::default(),
            interfaces: GuestInterfaces::default(),
            console_log: HostPath::new("/instances/console.log").unwrap(),
            devices: GuestDevices::default(),
            power: DesiredPower::Running,
        };
        let state = match runs {
            true => DesiredPower::Running,
            false => DesiredPower::ShutOff,
        };
        Made { spec, state }
    }
}

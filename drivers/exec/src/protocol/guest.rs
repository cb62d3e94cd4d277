//! Guests as a driver reports them, and the parameters and results of guest methods.

use std::collections::BTreeMap;

use berth_model::{ArqUuid, ConsumerUuid, NodeName, PciAddress};
use berth_virt::guest_spec::GuestSpec;
use berth_virt::{
    DeviceReset, GuestCell, GuestCpuPolicy, GuestMark, GuestMdev, GuestOnHost, GuestView,
    HeldDevice, PowerAction, PowerState, PreparedDevice, Preparer, UnreadableGuest, WantedDevice,
};
use serde::{Deserialize, Serialize};

use super::value::{AsText, Text, list, twice};

/// A guest in the result of `observe`: what it uses of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestFacts {
    /// Its UUID, which is its consumer in Placement. Unique in a node.
    pub uuid: AsText<ConsumerUuid>,
    /// Its name on the hypervisor.
    pub name: Text<255>,
    /// Whether it runs. A paused guest counts as running, because it keeps its resources.
    pub running: bool,
    /// Other consumers that hold allocations for it on this node (a migration), at most 16. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 16>")]
    pub also: Vec<AsText<ConsumerUuid>>,
    /// How its CPUs are placed: `"shared"`, `"dedicated"` (pinned) or `{"mixed": {"dedicated": 2}}`. Optional: `"shared"`.
    #[serde(default = "shared")]
    pub cpu_policy: GuestCpuPolicy,
    pub vcpus: u64,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// The host's NUMA cells that it is placed on, at most 1024. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 1024>")]
    pub cells: Vec<GuestCell>,
    /// Its mediated devices, at most 1024. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 1024>")]
    pub mdevs: Vec<GuestMdev>,
    /// Its PCI functions, at most 1024. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 1024>")]
    pub functions: Vec<AsText<PciAddress>>,
}

/// A guest that exists but cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnreadableFacts {
    /// Its UUID; none of `guests`.
    pub uuid: AsText<ConsumerUuid>,
    /// Its name on the hypervisor.
    pub name: Text<255>,
    /// Why it cannot be read.
    pub reason: Text<2048>,
}

/// The owner of a guest created by Berth, stored by the driver as given in the spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkFacts {
    /// The project's id (`owner.project`).
    pub project: Text<255>,
    /// The consumer (`owner.consumer`).
    pub consumer: AsText<ConsumerUuid>,
    /// The ARQs of its devices, at most 1024.
    #[serde(deserialize_with = "list::<_, _, 1024>")]
    pub requests: Vec<AsText<ArqUuid>>,
}

/// A guest in the result of `guests`: its owner and devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestOnHostFacts {
    /// Its UUID. Each once.
    pub uuid: AsText<ConsumerUuid>,
    /// Its name on the hypervisor.
    pub name: Text<255>,
    /// The state of the guest: `"running"`, `"paused"`, `"shut_off"` or `"crashed"`.
    pub state: PowerState,
    /// The owner. Null or omitted for guests that Berth did not create, which Berth never changes.
    #[serde(default)]
    pub owner: Option<MarkFacts>,
    /// The devices of the host that it has, each with the ARQ that it was given for, at most 1024: `{"device": {"function":
    /// "0000:81:00.0"}}`, `{"device": {"mdev": "UUID"}, "arq": "UUID"}`.
    #[serde(deserialize_with = "list::<_, _, 1024>")]
    pub devices: Vec<HeldDevice>,
}

/// The result of `guests`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestsResult {
    /// All guests of the hypervisor, at most 65536.
    #[serde(deserialize_with = "list::<_, _, 65536>")]
    pub guests: Vec<GuestOnHostFacts>,
}

/// The params of `observe`, `guests` and `prepare_host`: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// An empty result, which only confirms the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmptyResult {}

/// The params of `spawn` and `redefine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpecParams<'a> {
    /// The complete specification of the guest.
    pub spec: &'a GuestSpec,
}

/// The params of `destroy` and `suspend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UuidParams {
    pub uuid: AsText<ConsumerUuid>,
}

/// The params of `power`: `action`, and with `stop` the `grace_seconds` that the guest has to shut down by itself; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PowerParams {
    pub uuid: AsText<ConsumerUuid>,
    #[serde(flatten)]
    pub action: PowerAction,
}

/// The params of `live_migrate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrateParams {
    pub uuid: AsText<ConsumerUuid>,
    pub destination: AsText<NodeName>,
}

/// The params of `check_device`, `prepare_device` and `reset_device`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedParams<'a> {
    /// The device; for a mediated device also its parent and type.
    pub wanted: &'a WantedDevice,
}

/// The result of `reset_device`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
pub enum ResetResult {
    /// The function was reset and is healthy.
    Reset {
        /// Its current driver. Optional: none.
        #[serde(default)]
        driver: Option<Text<255>>,
    },
    /// The mediated device was removed, together with its state.
    Removed,
    /// The mediated device was not created by the driver, and was kept.
    LeftStanding,
    /// There was no such mediated device.
    NotThere,
}

/// The result of `prepared_devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreparedDevicesResult {
    /// Every mediated device that exists, and every function that was unbound from its resting driver; at most 65536.
    #[serde(deserialize_with = "list::<_, _, 65536>")]
    pub devices: Vec<PreparedFacts>,
}

/// A device that is prepared for guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreparedFacts {
    /// The device as requested.
    pub wanted: WantedDevice,
    /// `"berth"` (the driver, on Berth's request) or `"another"` (another party, or unknown).
    pub by: Preparer,
    /// The functions that must go to the same guest, at most 1024. Optional: none.
    #[serde(rename = "fellows", default, deserialize_with = "list::<_, _, 1024>")]
    pub group_members: Vec<AsText<PciAddress>>,
}

impl From<PreparedDevicesResult> for Vec<PreparedDevice> {
    fn from(result: PreparedDevicesResult) -> Self {
        let devices = result.devices.into_iter().map(|device| PreparedDevice {
            wanted: device.wanted,
            by: device.by,
            group_members: device.group_members.into_iter().map(|it| it.0).collect(),
        });
        devices.collect()
    }
}

/// The result of `spawn`, `destroy`, `redefine`, `power` and `suspend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeResult<T> {
    pub outcome: T,
}

fn shared() -> GuestCpuPolicy {
    GuestCpuPolicy::Shared
}

impl UuidParams {
    pub(crate) fn of(uuid: ConsumerUuid) -> Self {
        Self { uuid: AsText(uuid) }
    }
}

impl MigrateParams {
    pub(crate) fn of(uuid: ConsumerUuid, destination: &NodeName) -> Self {
        Self {
            uuid: AsText(uuid),
            destination: AsText(destination.clone()),
        }
    }
}

impl From<ResetResult> for DeviceReset {
    fn from(result: ResetResult) -> Self {
        match result {
            ResetResult::Reset { driver } => DeviceReset::Reset {
                driver: driver.map(Into::into),
            },
            ResetResult::Removed => DeviceReset::Removed,
            ResetResult::LeftStanding => DeviceReset::Retained,
            ResetResult::NotThere => DeviceReset::NotThere,
        }
    }
}

impl From<GuestFacts> for (ConsumerUuid, GuestView) {
    fn from(guest: GuestFacts) -> Self {
        let view = GuestView {
            name: guest.name.into(),
            power: match guest.running {
                true => PowerState::Running,
                false => PowerState::ShutOff,
            },
            also: guest.also.into_iter().map(|it| it.0).collect(),
            cpu_policy: guest.cpu_policy,
            vcpus: guest.vcpus,
            memory_mib: guest.memory_mib,
            cells: guest.cells,
            mdevs: guest.mdevs,
            functions: guest.functions.into_iter().map(|it| it.0).collect(),
        };
        (guest.uuid.0, view)
    }
}

impl From<UnreadableFacts> for (ConsumerUuid, UnreadableGuest) {
    fn from(guest: UnreadableFacts) -> Self {
        let unreadable = UnreadableGuest {
            name: guest.name.into(),
            reason: guest.reason.into(),
        };
        (guest.uuid.0, unreadable)
    }
}

impl GuestsResult {
    pub fn guests(self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, String> {
        if let Some((place, uuid)) = twice(self.guests.iter().map(|guest| guest.uuid.0)) {
            return Err(format!("guests[{place}].uuid: {uuid} is there twice"));
        }
        let guests = self.guests.into_iter().map(|guest| {
            let owner = guest.owner.map(|mark| GuestMark {
                project: mark.project.into(),
                consumer: mark.consumer.0,
                requests: mark.requests.into_iter().map(|arq| arq.0).collect(),
            });
            let seen = GuestOnHost {
                name: guest.name.into(),
                state: guest.state,
                owner,
                devices: guest.devices.into_iter().collect(),
                unreadable: None,
                hardware: None,
                stuck: None,
                ended_by_hypervisor: false,
            };
            (guest.uuid.0, seen)
        });
        Ok(guests.collect())
    }
}

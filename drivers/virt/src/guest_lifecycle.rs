//! Guest operations and their outcomes, states and errors. All operations are idempotent: if there is nothing to do,
//! that is an outcome and not an error.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_model::{
    ArqUuid, ConsoleKind, ConsumerUuid, Disposition, MacAddress, PciAddress, PowerState,
};
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::guest_hardware::GuestHardware;
use crate::guest_spec::{DeviceOrigin, GuestDevice, GuestSpec, InterfaceSource, text};

/// The outcome of a spawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use = "the outcome must be handled"]
pub enum GuestSpawnOutcome {
    /// The guest matches its specification now, after a change.
    Spawned,
    /// The guest matched before the call; nothing was changed.
    AlreadyThere,
}

/// The outcome of a destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use = "the outcome must be handled"]
pub enum GuestDestroyOutcome {
    /// The guest was deleted.
    Destroyed,
    /// No guest with this UUID existed.
    NotThere,
}

/// The outcome of redefining a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use = "the outcome must be handled"]
pub enum GuestRedefineOutcome {
    /// The guest has the new definition.
    Redefined,
    /// The guest does not exist.
    NotThere,
}

/// The outcome of attaching or detaching an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use = "the outcome must be handled"]
pub enum InterfaceOutcome {
    /// The guest has the interface now, or has it no longer.
    Changed,
    /// That was so before the call; nothing was changed.
    Unchanged,
    /// The guest does not exist.
    NotThere,
}

/// An interface that cannot be plugged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoLink {
    /// The network it should be connected to.
    pub source: InterfaceSource,
    /// Why that cannot be.
    pub reason: String,
}

/// A power operation on a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum PowerAction {
    /// Switches the guest on.
    Start,
    /// Requests a shutdown, and switches the guest off after the grace period. Zero: immediately.
    Stop {
        /// The time that the guest has to shut down by itself.
        #[serde(rename = "grace_seconds", serialize_with = "whole_seconds")]
        grace: Duration,
    },
    /// Stops the CPUs; the guest keeps its resources.
    Pause,
    /// Resumes the CPUs of a paused guest.
    Unpause,
    /// Requests a reboot of the guest; it keeps its resources.
    SoftReboot,
    /// Switches the guest off and on. Devices that the hypervisor manages are reset as between two guests.
    HardReboot,
}

/// Rounds up, so that the guest does not lose a part of its grace period.
fn whole_seconds<S: Serializer>(grace: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(grace.as_secs() + u64::from(grace.subsec_nanos() > 0))
}

impl PowerAction {
    /// The action's name in the compute API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            PowerAction::Start => "start",
            PowerAction::Stop { .. } => "stop",
            PowerAction::Pause => "pause",
            PowerAction::Unpause => "unpause",
            PowerAction::SoftReboot => "soft reboot",
            PowerAction::HardReboot => "hard reboot",
        }
    }
}

/// The outcome of a power operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use = "the outcome must be handled"]
pub enum GuestPowerOutcome {
    /// The operation was executed.
    Done,
    /// The guest was so already.
    #[serde(rename = "already_so")]
    Unchanged,
    /// The guest does not exist.
    NotThere,
}

/// A device of the host as used by a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostDeviceId {
    /// A PCI function of the host, physical or virtual.
    #[serde(with = "text")]
    Function(PciAddress),
    /// A mediated device, by its UUID in sysfs.
    #[serde(with = "text")]
    Mdev(Uuid),
}

impl HostDeviceId {
    /// The host's device that a guest's is.
    #[must_use]
    pub fn of(device: GuestDevice) -> Self {
        match device {
            GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address } => {
                HostDeviceId::Function(address)
            }
            GuestDevice::Mdev { uuid } => HostDeviceId::Mdev(uuid),
        }
    }
}

impl std::fmt::Display for HostDeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostDeviceId::Function(address) => write!(f, "PCI function {address}"),
            HostDeviceId::Mdev(uuid) => write!(f, "mediated device {uuid}"),
        }
    }
}

/// A device, and the ARQ it was given for if the hypervisor's definition names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldDevice {
    /// The host device that the guest has.
    pub device: HostDeviceId,
    /// The accelerator request it was bound by; `None` if unknown or none.
    #[serde(default, with = "text::maybe")]
    pub arq: Option<ArqUuid>,
    /// Whether it is a network interface (SR-IOV). Interfaces can be attached and detached, so
    /// [`GuestHardware`] compares them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_interface: bool,
}

/// A guest on the hypervisor, whether or not Berth created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestOnHost {
    /// Its name on the hypervisor, unique per host.
    pub name: String,
    /// Its state at the observation.
    pub state: PowerState,
    /// The owner, if the guest has Berth's mark. Berth must not change guests without it.
    pub owner: Option<GuestMark>,
    /// The devices of the host that it has.
    pub devices: BTreeSet<HeldDevice>,
    /// Why it could not be read completely; `None` if it could. Its owner and devices are then unknown, so it
    /// may have any device.
    pub unreadable: Option<String>,
    /// Its other hardware; `None` if the driver does not report it.
    pub hardware: Option<GuestHardware>,
    /// Why the hypervisor refuses all operations on it, and how an operator can repair that; `None` normally. The
    /// guest keeps its resources.
    pub stuck: Option<String>,
    /// Whether it is off because the hypervisor ended it, and neither the guest nor a user did: libvirtd does so with a
    /// guest that it cannot take over when it restarts. `false` if it is not off, or the driver does not report it.
    pub ended_by_hypervisor: bool,
}

impl GuestSpec {
    /// The host's devices that the guest is to have.
    #[must_use]
    pub fn held_devices(&self) -> BTreeSet<HeldDevice> {
        let whole_cards = self
            .interfaces
            .ports()
            .filter(|(_, port)| port.is_physical());
        let whole_cards: BTreeSet<_> = whole_cards.map(|(_, port)| port.id()).collect();
        let is_interface = |origin| match origin {
            DeviceOrigin::Port(port) => !whole_cards.contains(&port),
            _ => false,
        };
        let devices = self.devices.as_slice().iter();
        devices
            .map(|attached| HeldDevice {
                device: HostDeviceId::of(attached.device),
                arq: attached.origin.arq(),
                is_interface: is_interface(attached.origin),
            })
            .collect()
    }
}

impl GuestOnHost {
    /// How the guest differs from the specification of the same UUID; `None` if it does not. Compares what must never
    /// be confused: the owner, the name and the devices.
    #[must_use]
    pub fn difference(&self, spec: &GuestSpec) -> Option<String> {
        let Some(mark) = &self.owner else {
            return Some("it was not created by Berth".to_owned());
        };
        let wanted = spec.held_devices();
        let interfaces = wanted.iter().filter(|held| held.is_interface);
        let interfaces: BTreeSet<_> = interfaces.map(|held| held.device).collect();
        let others = |devices: &BTreeSet<HeldDevice>| -> BTreeSet<HeldDevice> {
            let devices = devices.iter().copied();
            devices
                .filter(|held| !held.is_interface && !interfaces.contains(&held.device))
                .collect()
        };
        let (has, wanted) = (others(&self.devices), others(&wanted));
        if has != wanted {
            let (has, wanted) = (listed(&has), listed(&wanted));
            Some(format!("it has {has} instead of {wanted}"))
        } else if self.name != spec.name.as_str() {
            Some(format!("its name is {:?}", self.name))
        } else if mark.project != spec.owner.project.as_str() {
            Some("it belongs to another project".to_owned())
        } else {
            None
        }
    }
}

impl GuestOnHost {
    /// Checks that the guest could be read. While it cannot, no device may be considered free. Fails with
    /// [`GuestError::Malformed`] with the guest.
    pub fn is_readable(&self, uuid: ConsumerUuid) -> Result<(), GuestError> {
        match &self.unreadable {
            None => Ok(()),
            Some(reason) => Err(GuestError::Malformed {
                origin: format!("guest {uuid} cannot be read, and may have any device"),
                reason: reason.clone(),
            }),
        }
    }

    /// Fails with [`GuestError::HoldsDevices`] if the guest has devices of the host, running or not. The error names the
    /// action that the guest cannot do (`be suspended`) and the reason.
    pub fn refuse_if_it_holds_devices(
        &self,
        uuid: ConsumerUuid,
        action: &'static str,
        reason: &'static str,
    ) -> Result<(), GuestError> {
        if self.devices.is_empty() {
            return Ok(());
        }
        Err(GuestError::HoldsDevices {
            uuid,
            action,
            devices: self.devices.clone(),
            reason,
        })
    }
}

fn listed(devices: &BTreeSet<HeldDevice>) -> String {
    if devices.is_empty() {
        return "no devices".to_owned();
    }
    let devices = devices.iter().map(|held| match held.arq {
        Some(arq) => format!("{} for ARQ {arq}", held.device),
        None => held.device.to_string(),
    });
    devices.collect::<Vec<_>>().join(", ")
}

/// The mark of guests created by Berth, stored in the hypervisor's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestMark {
    /// The id of the Keystone project that owns the guest.
    pub project: String,
    /// The consumer that holds its allocations.
    pub consumer: ConsumerUuid,
    /// The ARQs it was created with.
    pub requests: BTreeSet<ArqUuid>,
}

/// An error of a guest operation.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The guest has devices of the host, which prevent the operation.
    #[error(
        "guest {uuid} holds {}: it cannot {action}, because {reason}; stop it, or delete it and create it again",
        listed(devices)
    )]
    HoldsDevices {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The operation as text: `be suspended`.
        action: &'static str,
        /// The host devices that prevent the operation.
        devices: BTreeSet<HeldDevice>,
        /// Why the devices prevent it, as text.
        reason: &'static str,
    },
    /// The operation needs a guest that is off.
    #[error("guest {uuid} is {state}: only a guest that is off can be redefined; stop it first")]
    NotOff {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The state that does not permit the operation.
        state: PowerState,
    },
    /// The operation needs a running guest.
    #[error("guest {uuid} is {state}: only a running guest can be suspended")]
    NotRunning {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The state that does not permit the operation.
        state: PowerState,
    },
    /// The guest did not release an interface. It may do so later.
    #[error(
        "guest {uuid} did not release the interface {mac} within {limit:?}: its operating system must support the removal of PCI \
         devices and be up; try again later, or while the guest is off"
    )]
    InterfaceInUse {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The Ethernet address of the interface.
        mac: MacAddress,
        /// How long was waited.
        limit: Duration,
    },
    /// The guest has no such console now.
    #[error("guest {uuid} has no {kind} console: {reason}")]
    NoConsole {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The kind of console that was requested.
        kind: ConsoleKind,
        /// Why it has none, and when it gets one, as text.
        reason: &'static str,
    },
    /// The driver cannot do that with guests.
    #[error("the driver {driver} cannot {action}")]
    Unsupported {
        /// The name of the driver, by `compute_driver`.
        driver: &'static str,
        /// The operation as text.
        action: &'static str,
    },
    /// The driver does not support guests.
    #[error("the driver {driver} does not support guests")]
    NotSupported {
        /// The name of the driver, by `compute_driver`.
        driver: &'static str,
    },
    /// The hypervisor is away or refuses the connection.
    #[error("the hypervisor at {target} does not answer: {reason}")]
    Unreachable {
        /// The hypervisor's URI, or the path of its socket.
        target: String,
        /// The message of the hypervisor or the system.
        reason: String,
    },
    /// A call timed out; it may still be executed.
    #[error(
        "{call} of the hypervisor at {target} timed out after {limit:?}; it may still be executed"
    )]
    TimedOut {
        /// The hypervisor's URI, or the path of its socket.
        target: String,
        /// The call of the hypervisor's API, by name.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The firmware that the guest is to start by is not on the host.
    #[error(
        "guest {uuid}: the host has no {firmware}: install one (on Debian the package ovmf, or qemu-efi-aarch64), or take \
         an image whose hw_firmware_type is bios"
    )]
    NoFirmware {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The missing firmware, as text.
        firmware: &'static str,
    },
    /// A device is another guest's.
    #[error("guest {uuid}: a device is not free: {reason}")]
    DeviceBusy {
        /// The guest that should have the device.
        uuid: ConsumerUuid,
        /// The device and its user, in the hypervisor's words.
        reason: String,
    },
    /// A device is not on the host.
    #[error("guest {uuid}: the host has no {device}; the guest was not started")]
    DeviceMissing {
        /// The guest that should have the device.
        uuid: ConsumerUuid,
        /// The host device that is missing.
        device: HostDeviceId,
    },
    /// The guest changed during the operation: it ended, or another party changed it.
    #[error("guest {uuid} changed concurrently: {call}: {reason}")]
    Changed {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The call of the hypervisor's API, by name.
        call: &'static str,
        /// The error message of the hypervisor.
        reason: String,
    },
    /// A different guest has this UUID.
    #[error(
        "guest {uuid} exists on the hypervisor and is a different one ({difference}); it was not changed: destroy it first"
    )]
    Another {
        /// The UUID of both guests.
        uuid: ConsumerUuid,
        /// The first difference to the specification, as text.
        difference: String,
    },
    /// Another guest has the name.
    #[error("guest {holder} already has the name {name:?}")]
    NameTaken {
        /// The name that both guests would have.
        name: String,
        /// The guest that has the name.
        holder: ConsumerUuid,
    },
    /// The guest's state does not permit the operation.
    #[error("guest {uuid} is {state}: it cannot {}", action.as_str())]
    WrongState {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The state that does not permit the operation.
        state: PowerState,
        /// The power operation that was refused.
        action: PowerAction,
    },
    /// The hypervisor refuses all operations on the guest until an operator repairs it.
    #[error("guest {uuid} is stuck: {reason}")]
    Stuck {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The symptom, and how to repair it.
        reason: String,
    },
    /// The hypervisor refused a call; a retry does not help.
    #[error("guest {uuid}: the hypervisor refused {call}: {reason}")]
    Refused {
        /// The UUID of the affected guest.
        uuid: ConsumerUuid,
        /// The call of the hypervisor's API, by name.
        call: &'static str,
        /// The error message of the hypervisor.
        reason: String,
    },
    /// Data of the hypervisor or a state file is malformed.
    #[error("{origin}: {reason}")]
    Malformed {
        /// The document or file.
        origin: String,
        /// The part that is malformed, and what is expected.
        reason: String,
    },
    /// A file of the driver could not be read or written.
    #[error("cannot store guests in {path}")]
    State {
        /// The path of the driver's state file.
        path: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

impl GuestError {
    /// Whether a retry may help, immediately or after another observation.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            GuestError::Unreachable { .. }
            | GuestError::TimedOut { .. }
            | GuestError::Changed { .. }
            | GuestError::Stuck { .. }
            | GuestError::Malformed { .. }
            | GuestError::State { .. } => Disposition::Retry,
            GuestError::DeviceBusy { .. }
            | GuestError::DeviceMissing { .. }
            | GuestError::Another { .. }
            | GuestError::NameTaken { .. }
            | GuestError::NotOff { .. }
            | GuestError::NotRunning { .. }
            | GuestError::NoConsole { .. }
            | GuestError::InterfaceInUse { .. }
            | GuestError::WrongState { .. } => Disposition::Refresh,
            GuestError::NotSupported { .. }
            | GuestError::Unsupported { .. }
            | GuestError::HoldsDevices { .. }
            | GuestError::NoFirmware { .. }
            | GuestError::Refused { .. } => Disposition::Fatal,
        }
    }
}

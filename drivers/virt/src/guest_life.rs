//! What can be done with guests, and what comes of it. Every one of these may be asked for again after its answer was lost:
//! what is done already is an outcome, not an error.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_model::{ArqUuid, ConsumerUuid, Disposition, PciAddress};
use uuid::Uuid;

use crate::guest_hardware::GuestHardware;
use crate::guest_spec::{DeviceOrigin, GuestDevice, GuestSpec, InterfaceSource};

/// What came of a spawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an outcome is to be told"]
pub enum Spawned {
    /// The guest is as wanted now; something had to be done.
    Spawned,
    /// It was as wanted before.
    AlreadyThere,
}

/// What came of a destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an outcome is to be told"]
pub enum Destroyed {
    /// The guest is gone.
    Destroyed,
    /// There was none.
    NotThere,
}

/// What came of giving a guest another document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an outcome is to be told"]
pub enum Redefined {
    /// It has the document that was given.
    Redefined,
    /// There is no such guest.
    NotThere,
}

/// An interface that cannot be plugged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoLink {
    /// What it was to be plugged into.
    pub source: InterfaceSource,
    /// Why that cannot be.
    pub reason: String,
}

/// What is to be done with a guest's power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerAction {
    /// Switch it on.
    Start,
    /// Ask it to end, and switch it off where it has not after the grace. None: at once.
    Stop {
        /// How long it may take.
        grace: Duration,
    },
    /// Stop it in its tracks; it keeps what it holds.
    Pause,
    /// Let it go on.
    Unpause,
    /// Ask it to start anew; it keeps what it holds all the while.
    SoftReboot,
    /// Switch it off and on again; its devices are reset as between two guests where the hypervisor manages them.
    HardReboot,
}

impl PowerAction {
    /// The word for it, as the compute API has it.
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

/// What came of a power action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an outcome is to be told"]
pub enum Powered {
    /// It was done.
    Done,
    /// The guest was so already.
    AlreadySo,
    /// There is no such guest.
    NotThere,
}

/// What a guest is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestState {
    /// It runs.
    Running,
    /// It is stopped in its tracks, by us or by the hypervisor (a disk that is full, say).
    Paused,
    /// It is defined and off.
    ShutOff,
    /// It ended by an error and still holds what it held.
    Crashed,
}

impl std::fmt::Display for GuestState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            GuestState::Running => "running",
            GuestState::Paused => "paused",
            GuestState::ShutOff => "shut off",
            GuestState::Crashed => "crashed",
        })
    }
}

/// A device of the host, as a guest has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostDevice {
    /// A PCI function.
    Function(PciAddress),
    /// A mediated device.
    Mdev(Uuid),
}

impl HostDevice {
    /// The host's device that a guest's is.
    #[must_use]
    pub fn of(device: GuestDevice) -> Self {
        match device {
            GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address } => {
                HostDevice::Function(address)
            }
            GuestDevice::Mdev { uuid } => HostDevice::Mdev(uuid),
        }
    }
}

impl std::fmt::Display for HostDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostDevice::Function(address) => write!(f, "PCI function {address}"),
            HostDevice::Mdev(uuid) => write!(f, "mediated device {uuid}"),
        }
    }
}

/// A device and the ARQ it was given for, where the hypervisor's document says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldDevice {
    /// The device.
    pub device: HostDevice,
    /// The ARQ.
    pub arq: Option<ArqUuid>,
}

/// A guest that the hypervisor has, whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestOnHost {
    /// Its name there.
    pub name: String,
    /// What it is doing.
    pub state: GuestState,
    /// Whose it is, where it says so in our words: guests without are not ours to touch.
    pub owner: Option<GuestMark>,
    /// The devices of the host that it was given.
    pub devices: BTreeSet<HeldDevice>,
    /// Why not all of it could be read; none where it could. What is not known of it then is its owner and its devices, so that
    /// it may have any.
    pub unreadable: Option<String>,
    /// What it is made of beside those devices; none where the driver does not say.
    pub hardware: Option<GuestHardware>,
    /// Why the hypervisor lets nobody do anything with it, and what an operator can do about that; none where it does. It holds
    /// what it holds until then.
    pub stuck: Option<String>,
}

impl GuestSpec {
    /// The host's devices that the guest is to have.
    #[must_use]
    pub fn held_devices(&self) -> BTreeSet<HeldDevice> {
        let devices = self.devices.as_slice().iter();
        devices
            .map(|attached| HeldDevice {
                device: HostDevice::of(attached.device),
                arq: match attached.origin {
                    DeviceOrigin::Arq(uuid) => Some(uuid),
                    DeviceOrigin::Flavor => None,
                },
            })
            .collect()
    }
}

impl GuestOnHost {
    /// In what the guest differs from the one that a spec of the same UUID asks for; none where it is that one. What is
    /// compared is what must never be mixed up: whose it is, its name, and what it holds.
    #[must_use]
    pub fn difference(&self, spec: &GuestSpec) -> Option<String> {
        let Some(mark) = &self.owner else {
            return Some("it was not made by berth".to_owned());
        };
        let wanted = spec.held_devices();
        if self.devices != wanted {
            let (has, wanted) = (listed(&self.devices), listed(&wanted));
            Some(format!("it has {has}, wanted are {wanted}"))
        } else if self.name != spec.name.as_str() {
            Some(format!("its name is {:?}", self.name))
        } else if mark.project != spec.owner.project.as_str() {
            Some("it is another project's".to_owned())
        } else {
            None
        }
    }
}

impl GuestOnHost {
    /// Refuses to go by what is known of a guest that cannot be read: no device is free as long as it may have it.
    ///
    /// # Errors
    /// [`GuestError::Malformed`], naming the guest.
    pub fn is_readable(&self, uuid: ConsumerUuid) -> Result<(), GuestError> {
        match &self.unreadable {
            None => Ok(()),
            Some(reason) => Err(GuestError::Malformed {
                origin: format!("guest {uuid} cannot be read, and may have any device"),
                reason: reason.clone(),
            }),
        }
    }

    /// Refuses what cannot be done while the guest holds devices of the host, whether it runs or not.
    ///
    /// # Errors
    /// [`GuestError::HoldsDevices`], with the action (`be suspended`) and the reason as they are given here.
    pub fn holds_nothing_for(
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

/// What a guest of ours says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestMark {
    /// The project's id.
    pub project: String,
    /// The consumer that holds its allocations.
    pub consumer: ConsumerUuid,
    /// The ARQs it was made with.
    pub requests: BTreeSet<ArqUuid>,
}

/// Why a guest is not as it was asked to be.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The guest holds devices of the host, with which this cannot be done.
    #[error(
        "guest {uuid} holds {}: it cannot {action}, because {reason}; stop it, or delete it and create it anew",
        listed(devices)
    )]
    HoldsDevices {
        /// The guest.
        uuid: ConsumerUuid,
        /// What was asked, in words: `be suspended`.
        action: &'static str,
        /// What it holds.
        devices: BTreeSet<HeldDevice>,
        /// Why not.
        reason: &'static str,
    },
    /// It is done only with a guest that is off.
    #[error(
        "guest {uuid} is {state}: only one that is off is given another document; stop it first"
    )]
    NotOff {
        /// The guest.
        uuid: ConsumerUuid,
        /// What it is doing.
        state: GuestState,
    },
    /// It is done only with a guest that runs.
    #[error("guest {uuid} is {state}: only one that runs can be suspended")]
    NotRunning {
        /// The guest.
        uuid: ConsumerUuid,
        /// What it is doing.
        state: GuestState,
    },
    /// The driver cannot do that with guests.
    #[error("the driver {driver} cannot {action}")]
    Unsupported {
        /// The driver's name.
        driver: &'static str,
        /// What, in words.
        action: &'static str,
    },
    /// The driver makes no guests.
    #[error("the driver {driver} makes no guests")]
    NotSupported {
        /// The driver's name.
        driver: &'static str,
    },
    /// The hypervisor is away or refuses the connection.
    #[error("the hypervisor at {target} does not answer: {reason}")]
    Unreachable {
        /// URI or path.
        target: String,
        /// What it or the system said.
        reason: String,
    },
    /// A call did not come back; it may still be done.
    #[error(
        "{call} of the hypervisor at {target} did not come back within {limit:?}; it may still be done"
    )]
    TimedOut {
        /// URI or path.
        target: String,
        /// The call.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The firmware that the guest is to start by is not on the host.
    #[error(
        "guest {uuid}: the host has no {firmware}: install one (on Debian the package ovmf), or take an image whose \
         hw_firmware_type is bios"
    )]
    NoFirmware {
        /// The guest.
        uuid: ConsumerUuid,
        /// What is missing, in words.
        firmware: &'static str,
    },
    /// A device is another guest's.
    #[error("guest {uuid}: a device is not free: {reason}")]
    DeviceBusy {
        /// The guest that was to have it.
        uuid: ConsumerUuid,
        /// Which device, and whose it is, in the hypervisor's words.
        reason: String,
    },
    /// A device is not on the host.
    #[error("guest {uuid}: the host has no {device}; it was not started without it")]
    DeviceMissing {
        /// The guest that was to have it.
        uuid: ConsumerUuid,
        /// The device.
        device: HostDevice,
    },
    /// The guest became another while it was acted on: it ended, or somebody else changed it.
    #[error("guest {uuid} changed meanwhile: {call}: {reason}")]
    Changed {
        /// The guest.
        uuid: ConsumerUuid,
        /// The call.
        call: &'static str,
        /// What the hypervisor said.
        reason: String,
    },
    /// There is another guest of this UUID.
    #[error(
        "guest {uuid} is on the hypervisor already and is another one ({difference}); it was left alone: destroy it first"
    )]
    Another {
        /// The UUID.
        uuid: ConsumerUuid,
        /// In what it differs.
        difference: String,
    },
    /// Another guest has the name.
    #[error("the name {name:?} is guest {holder}'s")]
    NameTaken {
        /// The name.
        name: String,
        /// Whose it is.
        holder: ConsumerUuid,
    },
    /// The guest cannot do that as it is.
    #[error("guest {uuid} is {state}: it cannot {}", action.as_str())]
    WrongState {
        /// The guest.
        uuid: ConsumerUuid,
        /// What it is doing.
        state: GuestState,
        /// What was asked.
        action: PowerAction,
    },
    /// The hypervisor lets nobody do anything with it, until an operator mends that.
    #[error("guest {uuid} is stuck: {reason}")]
    Stuck {
        /// The guest.
        uuid: ConsumerUuid,
        /// How that is seen, and the mend.
        reason: String,
    },
    /// The hypervisor refused.
    #[error("guest {uuid}: the hypervisor refused {call}: {reason}")]
    Refused {
        /// The guest.
        uuid: ConsumerUuid,
        /// The call.
        call: &'static str,
        /// What it said.
        reason: String,
    },
    /// What the hypervisor or its state file says makes no sense.
    #[error("{origin}: {reason}")]
    Malformed {
        /// The document or file.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// A file of the driver's own could not be read or written.
    #[error("cannot keep guests in {path}")]
    State {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl GuestError {
    /// Whether asking again may help: at once, after a new look at the host, or not.
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
            | GuestError::WrongState { .. } => Disposition::Refresh,
            GuestError::NotSupported { .. }
            | GuestError::Unsupported { .. }
            | GuestError::HoldsDevices { .. }
            | GuestError::NoFirmware { .. }
            | GuestError::Refused { .. } => Disposition::Fatal,
        }
    }
}

//! What two of the five truths disagree about: journal, hypervisor, devices, accelerator requests, allocations.

use std::fmt;
use std::time::Duration;

use berth_model::{ArqUuid, ConsumerUuid, ProviderUuid};

use crate::reconcile::kind::FindingKind;

/// How long something may look like an orphan while a guest is being made.
pub const GRACE: Duration = Duration::from_mins(5);

/// What is done about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The agent mends it.
    Repaired,
    /// It ends by itself, or somebody else's clock mends it.
    Awaited,
    /// Nobody but an operator can tell which side is right.
    Reported,
}

impl Remedy {
    /// The word in bodies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Repaired => "repaired",
            Self::Awaited => "awaited",
            Self::Reported => "reported",
        }
    }
}

/// Who gives back what a request holds for a guest that its host does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unbinding {
    /// The accelerator service: the host tells it its guests.
    ByService,
    /// Nobody, unless an operator does: the host tells the service nothing. Cyborg is such a one.
    ByOperator,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Journal and hypervisor: a guest is on its way.
    GuestUnfinished {
        guest: ConsumerUuid,
        /// What is under way.
        what: String,
    },
    /// Journal and hypervisor: a guest that should run is not there, or off since the host was booted.
    GuestAway { guest: ConsumerUuid },
    /// Journal and hypervisor: a guest that should run has ended itself.
    GuestEnded { guest: ConsumerUuid },
    /// Journal and hypervisor: a guest that should be off or paused runs.
    GuestNotAtRest { guest: ConsumerUuid },
    /// Journal and hypervisor: a guest that should run is paused, and berth did not pause it.
    GuestPaused { guest: ConsumerUuid },
    /// Journal and hypervisor: a guest that could not be built and was undone is there.
    GuestUndone { guest: ConsumerUuid },
    /// Journal and hypervisor: the hypervisor has another guest of the UUID, or the guest with other devices.
    GuestDiffers {
        guest: ConsumerUuid,
        difference: String,
    },
    /// Journal and hypervisor: the hypervisor has the guest with other processors, memory, disks or interfaces.
    DomainDiffers {
        guest: ConsumerUuid,
        difference: String,
    },
    /// Journal and hypervisor: the hypervisor lets nobody do anything with the guest.
    GuestStuck {
        guest: ConsumerUuid,
        /// How that is seen, and the mend.
        reason: String,
    },
    /// Journal and hypervisor: a guest that berth made and the journal does not know.
    GuestOrphan {
        guest: ConsumerUuid,
        /// Its name on the hypervisor.
        name: String,
    },
    /// Journal and devices: a device that a guest holds is gone or sick.
    DeviceUnfit {
        device: String,
        guest: ConsumerUuid,
        reason: String,
    },
    /// Devices and hypervisor: a guest that is not berth's has an offered device.
    DeviceTaken { device: String, guest: ConsumerUuid },
    /// Devices and requests: a device that was given back and is not clean.
    DeviceUnclean { device: String },
    /// Devices and journal: a function that was taken off its driver for a guest and is nobody's.
    DeviceLeft { device: String },
    /// Devices and journal: a mediated device that nobody holds.
    MdevOrphan { device: String },
    /// Journal and requests: a guest's requests are not bound to its devices any more.
    RequestsDiffer { guest: ConsumerUuid, reason: String },
    /// Requests and guests: a request holds a device for a guest that this host does not have.
    RequestOrphan {
        arq: ArqUuid,
        /// The guest it is bound for, where it says.
        guest: Option<ConsumerUuid>,
        device: String,
        /// Who gives it back.
        unbinding: Unbinding,
    },
    /// Allocations and guests: a consumer holds something of this host and is no guest of it.
    AllocationOrphan {
        consumer: ConsumerUuid,
        providers: Vec<String>,
    },
    /// Allocations and guests: a guest holds nothing of this host.
    AllocationMissing { guest: ConsumerUuid },
    /// Allocations and guests: a guest holds something of this host, and nothing of the provider of one of its devices.
    AllocationDiffers {
        guest: ConsumerUuid,
        device: String,
        /// The device's provider, by its name.
        provider: String,
    },
    /// Devices and Placement: Placement lost a device's provider.
    ProviderMissing { provider: ProviderUuid },
}

impl Finding {
    /// Of which kind it is.
    #[must_use]
    pub const fn kind(&self) -> FindingKind {
        match self {
            Self::GuestUnfinished { .. } => FindingKind::GuestUnfinished,
            Self::GuestAway { .. } => FindingKind::GuestAway,
            Self::GuestEnded { .. } => FindingKind::GuestEnded,
            Self::GuestNotAtRest { .. } => FindingKind::GuestNotAtRest,
            Self::GuestPaused { .. } => FindingKind::GuestPaused,
            Self::GuestUndone { .. } => FindingKind::GuestUndone,
            Self::GuestDiffers { .. } => FindingKind::GuestDiffers,
            Self::DomainDiffers { .. } => FindingKind::DomainDiffers,
            Self::GuestStuck { .. } => FindingKind::GuestStuck,
            Self::GuestOrphan { .. } => FindingKind::GuestOrphan,
            Self::DeviceUnfit { .. } => FindingKind::DeviceUnfit,
            Self::DeviceTaken { .. } => FindingKind::DeviceTaken,
            Self::DeviceUnclean { .. } => FindingKind::DeviceUnclean,
            Self::DeviceLeft { .. } => FindingKind::DeviceLeft,
            Self::MdevOrphan { .. } => FindingKind::MdevOrphan,
            Self::RequestsDiffer { .. } => FindingKind::RequestsDiffer,
            Self::RequestOrphan { .. } => FindingKind::RequestOrphan,
            Self::AllocationOrphan { .. } => FindingKind::AllocationOrphan,
            Self::AllocationMissing { .. } => FindingKind::AllocationMissing,
            Self::AllocationDiffers { .. } => FindingKind::AllocationDiffers,
            Self::ProviderMissing { .. } => FindingKind::ProviderMissing,
        }
    }

    /// A word for scripts.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.kind().code()
    }

    /// What it is about: a UUID or an address.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Self::GuestUnfinished { guest, .. }
            | Self::GuestAway { guest }
            | Self::GuestEnded { guest }
            | Self::GuestNotAtRest { guest }
            | Self::GuestPaused { guest }
            | Self::GuestUndone { guest }
            | Self::GuestDiffers { guest, .. }
            | Self::DomainDiffers { guest, .. }
            | Self::GuestStuck { guest, .. }
            | Self::GuestOrphan { guest, .. }
            | Self::RequestsDiffer { guest, .. }
            | Self::AllocationMissing { guest }
            | Self::AllocationDiffers { guest, .. } => guest.to_string(),
            Self::DeviceUnfit { device, .. }
            | Self::DeviceTaken { device, .. }
            | Self::DeviceUnclean { device }
            | Self::DeviceLeft { device }
            | Self::MdevOrphan { device } => device.clone(),
            Self::RequestOrphan { arq, .. } => arq.to_string(),
            Self::AllocationOrphan { consumer, .. } => consumer.to_string(),
            Self::ProviderMissing { provider } => provider.to_string(),
        }
    }

    /// What is done about it.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::GuestUnfinished { .. }
            | Self::GuestAway { .. }
            | Self::GuestEnded { .. }
            | Self::GuestNotAtRest { .. }
            | Self::GuestUndone { .. }
            | Self::DeviceLeft { .. }
            | Self::MdevOrphan { .. }
            | Self::ProviderMissing { .. } => Remedy::Repaired,
            Self::DeviceUnclean { .. }
            | Self::RequestOrphan {
                unbinding: Unbinding::ByService,
                ..
            } => Remedy::Awaited,
            Self::RequestOrphan {
                unbinding: Unbinding::ByOperator,
                ..
            }
            | Self::GuestPaused { .. }
            | Self::GuestDiffers { .. }
            | Self::DomainDiffers { .. }
            | Self::GuestStuck { .. }
            | Self::GuestOrphan { .. }
            | Self::DeviceUnfit { .. }
            | Self::DeviceTaken { .. }
            | Self::RequestsDiffer { .. }
            | Self::AllocationOrphan { .. }
            | Self::AllocationMissing { .. }
            | Self::AllocationDiffers { .. } => Remedy::Reported,
        }
    }

    /// Whether a guest that is being made, or a host that starts, looks like this for a while.
    #[must_use]
    pub const fn may_be_under_way(&self) -> bool {
        matches!(
            self,
            Self::RequestOrphan { .. }
                | Self::DeviceUnclean { .. }
                | Self::DeviceLeft { .. }
                | Self::MdevOrphan { .. }
                | Self::AllocationOrphan { .. }
                | Self::AllocationMissing { .. }
                | Self::AllocationDiffers { .. }
                | Self::GuestUnfinished { .. }
                | Self::ProviderMissing { .. }
        )
    }
}

impl Finding {
    /// Whether one that has been there for `age` is no passing sight.
    #[must_use]
    pub fn lasts(&self, age: Duration) -> bool {
        !self.may_be_under_way() || age >= GRACE
    }

    /// What is done about one that has been there for `age`, and the sentence. What looks like work for an operator while a guest
    /// is being made or taken back is waited for first: what it holds is not to be taken from it by hand.
    #[must_use]
    pub fn told(&self, age: Duration) -> (Remedy, String) {
        let text = self.to_string();
        if self.remedy() != Remedy::Reported || self.lasts(age) {
            return (self.remedy(), text);
        }
        let what = text
            .split_once("; ")
            .map_or(text.as_str(), |(what, _)| what);
        let text = format!(
            "{what}; so does one that is being made or taken back: what can be done is told of one that lasts for {} s",
            GRACE.as_secs()
        );
        (Remedy::Awaited, text)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GuestUnfinished { what, .. } => {
                write!(f, "not done yet: {what}; the agent goes on with it")
            }
            Self::GuestAway { guest } => write!(
                f,
                "guest {guest} should run and does not; it is brought back with its devices"
            ),
            Self::GuestEnded { guest } => write!(
                f,
                "guest {guest} has ended itself and stays off until it is started"
            ),
            Self::GuestNotAtRest { guest } => write!(
                f,
                "guest {guest} should be off or paused and is not; it is brought to rest"
            ),
            Self::GuestPaused { guest } => write!(
                f,
                "guest {guest} should run and is paused, by the hypervisor (a full disk does that) or by hand; mend what paused \
                 it, and unpause it (berth guest unpause {guest})"
            ),
            Self::GuestUndone { guest } => write!(
                f,
                "guest {guest} could not be built and is on the hypervisor; it is taken off"
            ),
            Self::GuestDiffers { guest, difference } => write!(
                f,
                "guest {guest} on the hypervisor is not as it was made: {difference}; look who changed it"
            ),
            Self::DomainDiffers { guest, difference } => write!(
                f,
                "guest {guest} was changed on the hypervisor; it has {difference}; it is given its own again when it is started, \
                 or rebooted hard (berth guest reboot --hard {guest})"
            ),
            Self::GuestStuck { guest, reason } => write!(
                f,
                "nothing can be done with guest {guest}, and what it holds stays its own: {reason}"
            ),
            Self::GuestOrphan { guest, name } => write!(
                f,
                "guest {guest} ({name}) was made by berth, and the journal does not know it; restore guests.db from a backup, \
                 or end the guest by the hypervisor's own means and delete it then, for its allocations and accelerator requests \
                 stay until it is off the hypervisor"
            ),
            Self::DeviceUnfit {
                device,
                guest,
                reason,
            } => write!(f, "device {device}, which guest {guest} holds: {reason}"),
            Self::DeviceTaken { device, guest } => write!(
                f,
                "device {device} is offered, and guest {guest}, which berth did not make, has it; take it from one of the two"
            ),
            Self::DeviceUnclean { device } => write!(
                f,
                "device {device} was given back and is not clean; it is reset before anybody gets it"
            ),
            Self::DeviceLeft { device } => write!(
                f,
                "device {device} was taken off its driver for a guest, and nobody holds it; it is reset and given back to its driver"
            ),
            Self::MdevOrphan { device } => {
                write!(f, "mediated device {device} is nobody's; it is removed")
            }
            Self::RequestsDiffer { guest, reason } => write!(
                f,
                "the accelerator requests of guest {guest} are not bound to its devices any more: {reason}; bring them over \
                 from the service that bound them (berth accelerator adopt), or delete the guest"
            ),
            Self::RequestOrphan {
                arq,
                guest,
                device,
                unbinding,
            } => {
                write!(f, "accelerator request {arq} holds {device} for ")?;
                match guest {
                    Some(guest) => write!(f, "guest {guest}, which this host does not have")?,
                    None => f.write_str("nobody")?,
                }
                match unbinding {
                    Unbinding::ByService => {
                        f.write_str("; the accelerator service unbinds it after its grace time")
                    }
                    Unbinding::ByOperator => write!(
                        f,
                        "; the accelerator service never unbinds it by itself: delete it if nobody builds that guest (berth \
                         accelerator request delete {arq})"
                    ),
                }
            }
            Self::AllocationOrphan {
                consumer,
                providers,
            } => write!(
                f,
                "consumer {consumer} holds allocations of {} and is no guest of this host; take away \
                 what stays so (berth placement audit --delete)",
                providers.join(", ")
            ),
            Self::AllocationMissing { guest } => write!(
                f,
                "guest {guest} holds no allocation of this host: what it uses may be promised to others; \
                 `berth placement heal-allocations` gives it back"
            ),
            Self::AllocationDiffers {
                guest,
                device,
                provider,
            } => write!(
                f,
                "guest {guest} has device {device} and holds nothing of its provider {provider}: the device may be promised to \
                 others; `berth placement heal-allocations` puts it right"
            ),
            Self::ProviderMissing { provider } => write!(
                f,
                "Placement was seen without provider {provider} of a device; a pass makes it again"
            ),
        }
    }
}

//! [`ReconcileFinding`]: a difference between two of the six sources journal, hypervisor, devices, ports, accelerator
//! requests and allocations, with its remedy and message.

use std::fmt;
use std::time::Duration;

use berth_model::{ArqUuid, ConsumerUuid, ProviderUuid};

use crate::reconcile::kind::FindingKind;

/// How long an instance that is being created may look like an orphan.
pub const FINDING_GRACE: Duration = Duration::from_mins(5);

/// What happens about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    Repaired,
    /// It resolves itself, or another component repairs it.
    Awaited,
    /// Only an operator can decide which side is right.
    Reported,
}

impl Remedy {
    /// The value in API responses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Repaired => "repaired",
            Self::Awaited => "awaited",
            Self::Reported => "reported",
        }
    }
}

/// Who unbinds a request that is bound for an instance that this host does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unbinder {
    /// The accelerator service, because the host reports its instances to it.
    Service,
    /// An operator, because the host reports nothing to the service. Cyborg is such a service.
    Operator,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReconcileFinding {
    /// Journal and hypervisor: an operation is in progress.
    GuestUnfinished { guest: ConsumerUuid, what: String },
    /// Journal and hypervisor: a guest that should run is missing, or off since the host booted.
    GuestAway { guest: ConsumerUuid },
    /// Journal and hypervisor: a guest that should run shut itself down.
    GuestEnded { guest: ConsumerUuid },
    /// Journal and hypervisor: a guest that should be off or paused is running.
    GuestNotAtRest { guest: ConsumerUuid },
    /// Journal and hypervisor: a guest that should run is paused, and not by Berth.
    GuestPaused { guest: ConsumerUuid },
    /// Journal and hypervisor: a guest whose spawn was undone exists.
    GuestUndone { guest: ConsumerUuid },
    /// Journal and hypervisor: another guest has the UUID, or the guest has other devices.
    GuestDiffers {
        guest: ConsumerUuid,
        difference: String,
    },
    /// Journal and hypervisor: the guest has other processors, memory, disks or interfaces.
    DomainDiffers {
        guest: ConsumerUuid,
        difference: String,
    },
    /// Journal and hypervisor: the hypervisor accepts no operation on the guest.
    GuestStuck {
        guest: ConsumerUuid,
        /// The symptom and the repair.
        reason: String,
    },
    /// Journal and hypervisor: Berth created the guest, and the journal has no record of it.
    GuestOrphan {
        guest: ConsumerUuid,
        /// The guest's name on the hypervisor.
        name: String,
    },
    /// Journal and devices: a device of a guest has vanished or is unhealthy.
    DeviceUnfit {
        device: String,
        guest: ConsumerUuid,
        reason: String,
    },
    /// Devices and hypervisor: a guest that Berth did not create uses an offered device.
    DeviceTaken { device: String, guest: ConsumerUuid },
    /// Devices and requests: a released device has not been cleaned.
    DeviceUnclean { device: String },
    /// Devices and journal: a function was unbound from its driver for a guest and has no user.
    DeviceLeft { device: String },
    /// Devices and journal: a mediated device has no user.
    MdevOrphan { device: String },
    /// Ports and journal: the switch has an interface that Berth added for a guest, and no guest uses it.
    PortOrphan {
        /// The name of the interface and its tap.
        interface: String,
        /// The port's UUID; empty if the interface has none.
        port: String,
    },
    /// Journal and requests: the requests are no longer bound to the guest's devices.
    RequestsDiffer { guest: ConsumerUuid, reason: String },
    /// Requests and guests: a request is bound for a guest that this host does not have.
    RequestOrphan {
        arq: ArqUuid,
        /// The guest, if the request names one.
        guest: Option<ConsumerUuid>,
        device: String,
        unbinder: Unbinder,
    },
    /// Allocations and guests: a consumer has allocations on this host and is not a guest of it.
    AllocationOrphan {
        consumer: ConsumerUuid,
        providers: Vec<String>,
    },
    /// Allocations and guests: a guest has no allocations on this host.
    AllocationMissing { guest: ConsumerUuid },
    /// Allocations and guests: a guest has no allocation on the provider of one of its devices.
    AllocationDiffers {
        guest: ConsumerUuid,
        device: String,
        /// The name of the device's provider.
        provider: String,
    },
    /// Devices and Placement: Placement lost a device's provider.
    ProviderMissing { provider: ProviderUuid },
}

impl ReconcileFinding {
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
            Self::PortOrphan { .. } => FindingKind::PortOrphan,
            Self::RequestsDiffer { .. } => FindingKind::RequestsDiffer,
            Self::RequestOrphan { .. } => FindingKind::RequestOrphan,
            Self::AllocationOrphan { .. } => FindingKind::AllocationOrphan,
            Self::AllocationMissing { .. } => FindingKind::AllocationMissing,
            Self::AllocationDiffers { .. } => FindingKind::AllocationDiffers,
            Self::ProviderMissing { .. } => FindingKind::ProviderMissing,
        }
    }

    /// The identifier for scripts and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.kind().code()
    }

    /// The UUID or address that the finding is about.
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
            Self::PortOrphan { interface, .. } => interface.clone(),
            Self::RequestOrphan { arq, .. } => arq.to_string(),
            Self::AllocationOrphan { consumer, .. } => consumer.to_string(),
            Self::ProviderMissing { provider } => provider.to_string(),
        }
    }

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
            | Self::PortOrphan { .. }
            | Self::ProviderMissing { .. } => Remedy::Repaired,
            Self::DeviceUnclean { .. }
            | Self::RequestOrphan {
                unbinder: Unbinder::Service,
                ..
            } => Remedy::Awaited,
            Self::RequestOrphan {
                unbinder: Unbinder::Operator,
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

    /// Whether the finding may be a transient state while an instance is created or the host starts.
    #[must_use]
    pub const fn may_be_transient(&self) -> bool {
        matches!(
            self,
            Self::RequestOrphan { .. }
                | Self::DeviceUnclean { .. }
                | Self::DeviceLeft { .. }
                | Self::MdevOrphan { .. }
                | Self::PortOrphan { .. }
                | Self::AllocationOrphan { .. }
                | Self::AllocationMissing { .. }
                | Self::AllocationDiffers { .. }
                | Self::GuestUnfinished { .. }
                | Self::ProviderMissing { .. }
        )
    }
}

impl ReconcileFinding {
    /// Whether a finding of this age is not transient.
    #[must_use]
    pub fn is_persistent(&self, age: Duration) -> bool {
        !self.may_be_transient() || age >= FINDING_GRACE
    }

    /// The remedy and message for a finding of this age. A finding that may be transient has the remedy `Awaited` at
    /// first, so that no operator takes resources away from an instance that is being created or removed.
    #[must_use]
    pub fn describe(&self, age: Duration) -> (Remedy, String) {
        let text = self.to_string();
        if self.remedy() != Remedy::Reported || self.is_persistent(age) {
            return (self.remedy(), text);
        }
        let what = text
            .split_once("; ")
            .map_or(text.as_str(), |(what, _)| what);
        let text = format!(
            "{what}; this is normal while a guest is being created or removed; the remedy is shown if it lasts for {} s",
            FINDING_GRACE.as_secs()
        );
        (Remedy::Awaited, text)
    }
}

impl fmt::Display for ReconcileFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GuestUnfinished { what, .. } => {
                write!(f, "in progress: {what}; the agent continues it")
            }
            Self::GuestAway { guest } => write!(
                f,
                "guest {guest} should be running and is not; the agent starts it again with its devices"
            ),
            Self::GuestEnded { guest } => write!(
                f,
                "guest {guest} shut itself down and stays off until it is started"
            ),
            Self::GuestNotAtRest { guest } => write!(
                f,
                "guest {guest} should be off or paused and is running; the agent stops or pauses it"
            ),
            Self::GuestPaused { guest } => write!(
                f,
                "guest {guest} should be running and is paused, by the hypervisor (for example because of a full disk) or by \
                 hand; fix the cause and unpause it (berth guest unpause {guest})"
            ),
            Self::GuestUndone { guest } => write!(
                f,
                "guest {guest} exists although its build failed and was undone; the agent removes it"
            ),
            Self::GuestDiffers { guest, difference } => write!(
                f,
                "guest {guest} on the hypervisor differs from its spec: {difference}; find out who changed it"
            ),
            Self::DomainDiffers { guest, difference } => write!(
                f,
                "guest {guest} was changed on the hypervisor; it has {difference}; the next start or hard reboot restores it \
                 (berth guest reboot --hard {guest})"
            ),
            Self::GuestStuck { guest, reason } => write!(
                f,
                "guest {guest} is stuck, and its resources stay allocated: {reason}"
            ),
            Self::GuestOrphan { guest, name } => write!(
                f,
                "guest {guest} ({name}) was created by Berth and has no record in the journal; restore guests.db from a backup, \
                 or remove the guest with the hypervisor's tools and then delete it: its allocations and accelerator requests \
                 remain until it is removed from the hypervisor"
            ),
            Self::DeviceUnfit {
                device,
                guest,
                reason,
            } => write!(
                f,
                "device {device} of guest {guest} is not usable: {reason}"
            ),
            Self::DeviceTaken { device, guest } => write!(
                f,
                "device {device} is offered, but guest {guest}, which Berth did not create, uses it; \
                 remove it from the guest or from the offered devices"
            ),
            Self::DeviceUnclean { device } => write!(
                f,
                "device {device} was released and is not clean; it is reset before its next use"
            ),
            Self::DeviceLeft { device } => write!(
                f,
                "device {device} was unbound from its driver for a guest and has no user; the agent resets it \
                 and returns it to its driver"
            ),
            Self::MdevOrphan { device } => {
                write!(
                    f,
                    "mediated device {device} has no user; the agent removes it"
                )
            }
            Self::PortOrphan { interface, port } => write!(
                f,
                "interface {interface} of port {port} was plugged for a guest and has no user; the agent unplugs it"
            ),
            Self::RequestsDiffer { guest, reason } => write!(
                f,
                "the accelerator requests of guest {guest} are no longer bound to its devices: {reason}; adopt them \
                 from the service that bound them (berth accelerator adopt), or delete the guest"
            ),
            Self::RequestOrphan {
                arq,
                guest,
                device,
                unbinder,
            } => {
                write!(f, "accelerator request {arq} is bound to {device} for ")?;
                match guest {
                    Some(guest) => write!(f, "guest {guest}, which does not exist on this host")?,
                    None => f.write_str("no guest")?,
                }
                match unbinder {
                    Unbinder::Service => {
                        f.write_str("; the accelerator service unbinds it after its grace period")
                    }
                    Unbinder::Operator => write!(
                        f,
                        "; the accelerator service never unbinds it by itself: delete it unless the guest is being built (berth \
                         accelerator request delete {arq})"
                    ),
                }
            }
            Self::AllocationOrphan {
                consumer,
                providers,
            } => write!(
                f,
                "consumer {consumer} has allocations on {} and is not a guest of this host; delete \
                 them if this lasts (berth placement audit --delete)",
                providers.join(", ")
            ),
            Self::AllocationMissing { guest } => write!(
                f,
                "guest {guest} has no allocations on this host, so its resources may be allocated to others; run \
                 `berth placement heal-allocations`"
            ),
            Self::AllocationDiffers {
                guest,
                device,
                provider,
            } => write!(
                f,
                "guest {guest} has device {device} but no allocation on its provider {provider}, so the device may be allocated \
                 to others; run `berth placement heal-allocations`"
            ),
            Self::ProviderMissing { provider } => write!(
                f,
                "Placement lost the provider {provider} of a device; the agent creates it again"
            ),
        }
    }
}

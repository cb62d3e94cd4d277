//! What an operator asks for: reset, quarantine, release.
//!
//! Nothing of it touches a device that a guest has. A release resets the device first and lifts the quarantine only where the
//! reset was verified; who knows better says so by the risk's name.

use std::fmt;

use berth_agent_journal::{JournalError, NamedDevice, Quarantine, QuarantineStays, QuarantinedBy};
use berth_model::{ArqUuid, ConsumerUuid};
use berth_virt::{DeviceError, GuestError, OfferedHandle, VirtDriver};

use crate::devices::Devices;
use crate::report::wanted;
use crate::reset::{ResetError, ResetOutcome, ResetRequest};

/// The longest reason, in characters.
const LONGEST: usize = 300;

/// A risk that an operator takes by its name.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Risk {
    /// The next guest may find in the device what the last one left there.
    UncleanDevice,
}

impl Risk {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UncleanDevice => "unclean-device",
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether something is to be done, or only said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    /// Done.
    No,
    /// Said.
    Yes,
}

/// What came of it, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionReport {
    /// The devices, by name.
    pub devices: Vec<String>,
    /// What was done, or would be, in a sentence.
    pub text: String,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// No device has the name.
    #[error(
        "this host offers no device {name:?}; a PCI address (0000:84:00.0) or a mediated device's UUID is expected: see berth \
         device list"
    )]
    NotFound {
        /// What was named.
        name: String,
    },
    /// The reason is none.
    #[error("reason: 1 to {LONGEST} characters without control characters are expected")]
    Reason,
    /// A guest has it.
    #[error("device {name} is guest {guest}'s: end that guest first (berth guest delete {guest})")]
    Held {
        /// The device.
        name: String,
        /// Whose it is.
        guest: ConsumerUuid,
    },
    /// An accelerator request has it.
    #[error("device {name} is bound to accelerator request {arq}: unbind or delete that first")]
    Bound {
        /// The device.
        name: String,
        /// The request.
        arq: ArqUuid,
    },
    /// It is not in quarantine.
    #[error("device {name} is not in quarantine")]
    NotQuarantined {
        /// What was named.
        name: String,
    },
    /// It is being reset.
    #[error("device {name} is being reset; ask again when that is over")]
    Busy {
        /// The device.
        name: String,
    },
    /// The reset failed.
    #[error(
        "{source}; it stays out of use (to give it out all the same: berth device release --accept-risk unclean-device)"
    )]
    Reset {
        /// Why.
        source: DeviceError,
    },
    /// The hypervisor does not tell its guests.
    #[error("nobody knows whether a guest has the device: {0}")]
    Hypervisor(#[from] GuestError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<ResetError> for ActError {
    fn from(error: ResetError) -> Self {
        match error {
            ResetError::Journal(error) => Self::Journal(error),
            ResetError::Hypervisor(error) => Self::Hypervisor(error),
        }
    }
}

impl<D: VirtDriver> Devices<D> {
    /// The handles that a name means: one, or all of a card's.
    fn meant(&self, name: &str) -> Result<Vec<OfferedHandle>, ActError> {
        let name = name.trim().to_ascii_lowercase();
        let known = self.known();
        let devices = || known.seen.values().flat_map(|seen| &seen.devices);
        let handles = devices().flat_map(|device| &device.handles);
        let one: Vec<_> = handles.filter(|it| it.name() == name).cloned().collect();
        if !one.is_empty() {
            return Ok(one);
        }
        let card = devices().find(|device| device.address.to_string() == name);
        match card {
            Some(card) if !card.handles.is_empty() => Ok(card.handles.clone()),
            _ => Err(ActError::NotFound { name }),
        }
    }

    /// Resets a device that nobody has, and each handle of a card. A quarantine stays.
    ///
    /// # Errors
    /// There is no such device, somebody has it, or the reset fails: then it is in quarantine.
    pub async fn reset(&self, name: &str, doing: DryRun) -> Result<ActionReport, ActError> {
        let handles = self.meant(name)?;
        for handle in &handles {
            self.check_free(handle).await?;
        }
        if doing == DryRun::Yes {
            return Ok(acted(&handles, "would be reset"));
        }
        for handle in &handles {
            self.reset_now(handle, QuarantineStays::Yes).await?;
        }
        Ok(acted(&handles, "reset and verified"))
    }

    /// Sets a device aside: it goes to nobody. A guest that has it keeps it.
    ///
    /// # Errors
    /// There is no such device, or the reason is none.
    pub async fn quarantine(
        &self,
        name: &str,
        reason: &str,
        doing: DryRun,
    ) -> Result<ActionReport, ActError> {
        let handles = self.meant(name)?;
        let reason = checked(reason)?;
        if doing == DryRun::Yes {
            return Ok(acted(&handles, "would go into quarantine"));
        }
        let why = Quarantine::new(reason, QuarantinedBy::Operator);
        for handle in &handles {
            let name = handle.name();
            self.inner.register.quarantine(&name, &why).await?;
            tracing::warn!(device = %name, reason = %why.reason, "an operator put a device into quarantine");
        }
        self.refresh().await?;
        self.inner.stir.notify_one();
        Ok(acted(&handles, "in quarantine"))
    }

    /// Lifts a quarantine, after a verified reset; `risk`: without one. A device that a guest has is cleaned when the guest
    /// has ended.
    ///
    /// # Errors
    /// There is no such device, it is not in quarantine, or the reset fails: then it stays there.
    pub async fn release(
        &self,
        name: &str,
        risk: Option<Risk>,
        doing: DryRun,
    ) -> Result<ActionReport, ActError> {
        let handles = self.meant(name)?;
        let quarantined = {
            let known = self.known();
            let is_aside =
                |handle: &OfferedHandle| known.register.quarantines.contains_key(&handle.name());
            handles.into_iter().filter(is_aside).collect::<Vec<_>>()
        };
        if quarantined.is_empty() {
            let name = name.to_owned();
            return Err(ActError::NotQuarantined { name });
        }
        if doing == DryRun::Yes {
            return Ok(acted(
                &quarantined,
                "would be reset, and released if that succeeds",
            ));
        }
        for handle in &quarantined {
            match (self.check_free(handle).await, risk) {
                (Ok(()), None) => self.reset_now(handle, QuarantineStays::No).await?,
                (Ok(()), Some(Risk::UncleanDevice)) => {
                    let name = handle.name();
                    tracing::warn!(device = %name, "an operator released a device without a reset");
                    let releases = self.releases(&name);
                    self.inner.register.release(&name, releases).await?;
                }
                (Err(ActError::Held { .. } | ActError::Bound { .. }), _) => {
                    let name = handle.name();
                    self.inner.register.release(&name, None).await?;
                }
                (Err(error), _) => return Err(error),
            }
        }
        self.refresh().await?;
        self.inner.stir.notify_one();
        Ok(acted(&quarantined, "out of quarantine"))
    }

    async fn reset_now(
        &self,
        handle: &OfferedHandle,
        quarantine: QuarantineStays,
    ) -> Result<(), ActError> {
        let name = handle.name();
        let order = ResetRequest {
            releases: self.releases(&name),
            quarantine,
            failures: 0,
        };
        match self.reset_free(&name, &wanted(handle), order).await? {
            ResetOutcome::Clean(_) => {
                self.known().attempts.remove(&name);
                tracing::info!(device = %name, "an operator had a device reset");
                Ok(())
            }
            ResetOutcome::Held(guest) => Err(ActError::Held { name, guest }),
            ResetOutcome::UnderWay => Err(ActError::Busy { name }),
            ResetOutcome::Failed(source) => Err(ActError::Reset { source }),
        }
    }

    /// How often the accelerator service saw the device given back; none where it does not know it.
    fn releases(&self, name: &str) -> Option<i64> {
        let known = self.known();
        let mut told = known.told.values();
        told.find_map(|told| told.advice.releases.get(name).copied())
    }

    async fn check_free(&self, handle: &OfferedHandle) -> Result<(), ActError> {
        let name = handle.name();
        self.refresh().await?;
        let (held, bound) = {
            let known = self.known();
            let bound = known.told.values();
            let bound = bound
                .filter_map(|told| told.advice.holders.get(&name))
                .next();
            (
                known.register.held.get(&name).copied(),
                bound.map(|holder| holder.arq),
            )
        };
        if let Some(guest) = held {
            return Err(ActError::Held { name, guest });
        }
        if let Some(guest) = self.used_by(&wanted(handle), &name).await? {
            return Err(ActError::Held { name, guest });
        }
        match bound {
            Some(arq) => Err(ActError::Bound { name, arq }),
            None => Ok(()),
        }
    }
}

fn checked(reason: &str) -> Result<&str, ActError> {
    let reason = reason.trim();
    if reason.is_empty() || reason.chars().count() > LONGEST || reason.chars().any(char::is_control)
    {
        return Err(ActError::Reason);
    }
    Ok(reason)
}

fn acted(handles: &[OfferedHandle], what: &str) -> ActionReport {
    let devices: Vec<String> = handles.iter().map(NamedDevice::name).collect();
    ActionReport {
        text: format!("{what}: {}", devices.join(", ")),
        devices,
    }
}

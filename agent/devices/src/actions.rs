//! The actions of an operator on devices: reset, quarantine, release ([`DeviceManager`]'s `reset`, `quarantine`,
//! `release`).
//!
//! No action touches a device that a guest uses. A release resets a free device first, and ends the quarantine only if the reset was
//! verified. An operator may skip the reset by accepting the [`Risk`] by name. The quarantine of a device in use ends at once; the
//! device is reset when its guest ends.

use std::collections::BTreeMap;
use std::fmt;

use berth_agent_journal::{
    JournalError, NamedDevice, Quarantine, QuarantineAfterReset, QuarantinedBy,
};
use berth_model::{ArqUuid, ConsumerUuid};
use berth_virt::{DeviceError, GuestError, OfferedHandle, VirtDriver};

use crate::devices::DeviceManager;
use crate::report::wanted_device;
use crate::reset::{DeviceResetError, ResetOutcome, ResetRequest};

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 300;

/// A risk that an operator accepts by name.
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
    /// The next guest may find data of the previous one in the device.
    UncleanDevice,
}

impl Risk {
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

/// Whether an action is executed or only described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionMode {
    Execute,
    DryRun,
}

/// The result of an action, or the expected result of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionReport {
    /// The names of the devices.
    pub devices: Vec<String>,
    /// What was done, or would be done.
    pub text: String,
}

/// Why an action was refused.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    #[error(
        "this host offers no device {name:?}; expected a PCI address (0000:84:00.0) or a mediated device's UUID: see berth \
         device list"
    )]
    NotFound { name: String },
    #[error("reason: expected 1 to {MAX_REASON_CHARS} characters without control characters")]
    Reason,
    #[error(
        "device {name} is in use by guest {guest}: delete that guest first (berth guest delete {guest})"
    )]
    Held { name: String, guest: ConsumerUuid },
    #[error(
        "device {name} is bound to accelerator request {arq}: unbind or delete the request first"
    )]
    Bound { name: String, arq: ArqUuid },
    #[error("device {name} is not in quarantine")]
    NotQuarantined { name: String },
    #[error("device {name} is being reset; retry when the reset has finished")]
    Busy { name: String },
    #[error(
        "{source}; the device stays out of use (to release it without a reset: berth device release --accept-risk unclean-device)"
    )]
    Reset { source: DeviceError },
    /// The hypervisor did not list its guests.
    #[error("cannot determine whether a guest uses the device: {0}")]
    Hypervisor(#[from] GuestError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<DeviceResetError> for ActError {
    fn from(error: DeviceResetError) -> Self {
        match error {
            DeviceResetError::Journal(error) => Self::Journal(error),
            DeviceResetError::Hypervisor(error) => Self::Hypervisor(error),
        }
    }
}

impl<D: VirtDriver> DeviceManager<D> {
    /// Resolves a name to its handle, or a card's address to all its handles.
    fn resolve_name(&self, name: &str) -> Result<Vec<OfferedHandle>, ActError> {
        let name = name.trim().to_ascii_lowercase();
        let table = self.table();
        let devices = || {
            table
                .observed
                .values()
                .flat_map(|observation| &observation.devices)
        };
        let handles = devices().flat_map(|device| &device.handles);
        let one: Vec<_> = handles
            .filter(|handle| handle.name() == name)
            .cloned()
            .collect();
        if !one.is_empty() {
            return Ok(one);
        }
        let card = devices().find(|device| device.address.to_string() == name);
        match card {
            Some(card) if !card.handles.is_empty() => Ok(card.handles.clone()),
            _ => Err(ActError::NotFound { name }),
        }
    }

    /// Resets a free device, or each handle of a card. A quarantine remains.
    ///
    /// Errors: the device is unknown or in use, or the reset fails and the device is quarantined.
    pub async fn reset(&self, name: &str, mode: ActionMode) -> Result<ActionReport, ActError> {
        let handles = self.resolve_name(name)?;
        for handle in &handles {
            self.check_free(handle).await?;
        }
        if mode == ActionMode::DryRun {
            return Ok(report(&handles, "would be reset"));
        }
        for handle in &handles {
            self.reset_now(handle, QuarantineAfterReset::Keep).await?;
        }
        Ok(report(&handles, "reset and verified"))
    }

    /// Quarantines a device: no guest gets it. A guest that uses it keeps it.
    ///
    /// Errors: the device is unknown, or the reason is invalid.
    pub async fn quarantine(
        &self,
        name: &str,
        reason: &str,
        mode: ActionMode,
    ) -> Result<ActionReport, ActError> {
        let handles = self.resolve_name(name)?;
        let reason = check_reason(reason)?;
        if mode == ActionMode::DryRun {
            return Ok(report(&handles, "would be quarantined"));
        }
        let why = Quarantine::new(reason, QuarantinedBy::Operator);
        for handle in &handles {
            let name = handle.name();
            self.inner.register.quarantine(&name, &why).await?;
            tracing::warn!(device = %name, reason = %why.reason, "device quarantined by an operator");
        }
        self.refresh().await?;
        self.inner.report_requested.notify_one();
        Ok(report(&handles, "in quarantine"))
    }

    /// Ends a quarantine after a verified reset, or without a reset if the operator accepts the risk. A device in use
    /// is cleaned when its guest ends.
    ///
    /// Errors: the device is unknown or not in quarantine, or the reset fails and the device remains quarantined.
    pub async fn release(
        &self,
        name: &str,
        risk: Option<Risk>,
        mode: ActionMode,
    ) -> Result<ActionReport, ActError> {
        let handles = self.resolve_name(name)?;
        let quarantined = {
            let table = self.table();
            let is_quarantined =
                |handle: &OfferedHandle| table.register.quarantines.contains_key(&handle.name());
            handles
                .into_iter()
                .filter(is_quarantined)
                .collect::<Vec<_>>()
        };
        if quarantined.is_empty() {
            let name = name.to_owned();
            return Err(ActError::NotQuarantined { name });
        }
        if mode == ActionMode::DryRun {
            return self.release_plan(&quarantined, risk).await;
        }
        for handle in &quarantined {
            match (self.check_free(handle).await, risk) {
                (Ok(()), None) => self.reset_now(handle, QuarantineAfterReset::End).await?,
                (Ok(()), Some(Risk::UncleanDevice)) => {
                    let name = handle.name();
                    tracing::warn!(device = %name, "device released from quarantine by an operator without a reset");
                    let release_count = self.release_count(&name);
                    self.inner
                        .register
                        .end_quarantine(&name, release_count)
                        .await?;
                }
                (Err(ActError::Held { .. } | ActError::Bound { .. }), _) => {
                    let name = handle.name();
                    self.inner.register.end_quarantine(&name, None).await?;
                }
                (Err(error), _) => return Err(error),
            }
        }
        self.refresh().await?;
        self.inner.report_requested.notify_one();
        Ok(report(&quarantined, "out of quarantine"))
    }

    /// What a release would do. The handles of a card may differ in it.
    async fn release_plan(
        &self,
        quarantined: &[OfferedHandle],
        risk: Option<Risk>,
    ) -> Result<ActionReport, ActError> {
        let mut plans: BTreeMap<&str, Vec<OfferedHandle>> = BTreeMap::new();
        for handle in quarantined {
            let plan = match (self.check_free(handle).await, risk) {
                (Ok(()), None) => "would be reset, and released if that succeeds",
                (Ok(()), Some(Risk::UncleanDevice)) => "would be released without a reset",
                (Err(ActError::Held { .. } | ActError::Bound { .. }), _) => {
                    "would be released, and reset when the guest or request that has it ends"
                }
                (Err(error), _) => return Err(error),
            };
            plans.entry(plan).or_default().push(handle.clone());
        }
        let plans = plans.iter().map(|(plan, handles)| report(handles, plan));
        let plans: Vec<ActionReport> = plans.collect();
        let texts: Vec<&str> = plans.iter().map(|plan| plan.text.as_str()).collect();
        Ok(ActionReport {
            text: texts.join("; "),
            devices: plans.iter().flat_map(|plan| plan.devices.clone()).collect(),
        })
    }

    async fn reset_now(
        &self,
        handle: &OfferedHandle,
        quarantine: QuarantineAfterReset,
    ) -> Result<(), ActError> {
        let name = handle.name();
        let request = ResetRequest {
            release_count: self.release_count(&name),
            quarantine,
            failures: 0,
        };
        match self
            .reset_free(&name, &wanted_device(handle), request)
            .await?
        {
            ResetOutcome::Clean(_) => {
                self.table().reset_attempts.remove(&name);
                tracing::info!(device = %name, "device reset by an operator");
                Ok(())
            }
            ResetOutcome::Held(guest) => Err(ActError::Held { name, guest }),
            ResetOutcome::InProgress => Err(ActError::Busy { name }),
            ResetOutcome::Failed(source) => Err(ActError::Reset { source }),
        }
    }

    /// The accelerator service's release count of the device; `None` if the service does not know it.
    fn release_count(&self, name: &str) -> Option<i64> {
        let table = self.table();
        let mut report = table.reports.values();
        report.find_map(|report| report.advice.release_counts.get(name).copied())
    }

    async fn check_free(&self, handle: &OfferedHandle) -> Result<(), ActError> {
        let name = handle.name();
        self.refresh().await?;
        let (held, bound) = {
            let table = self.table();
            let bound = table.reports.values();
            let bound = bound
                .filter_map(|report| report.advice.holders.get(&name))
                .next();
            (
                table.register.held.get(&name).copied(),
                bound.map(|holder| holder.arq),
            )
        };
        if let Some(guest) = held {
            return Err(ActError::Held { name, guest });
        }
        if let Some(guest) = self.used_by(&wanted_device(handle), &name).await? {
            return Err(ActError::Held { name, guest });
        }
        match bound {
            Some(arq) => Err(ActError::Bound { name, arq }),
            None => Ok(()),
        }
    }
}

fn check_reason(reason: &str) -> Result<&str, ActError> {
    let reason = reason.trim();
    if reason.is_empty()
        || reason.chars().count() > MAX_REASON_CHARS
        || reason.chars().any(char::is_control)
    {
        return Err(ActError::Reason);
    }
    Ok(reason)
}

fn report(handles: &[OfferedHandle], what: &str) -> ActionReport {
    let devices: Vec<String> = handles.iter().map(NamedDevice::name).collect();
    ActionReport {
        text: format!("{what}: {}", devices.join(", ")),
        devices,
    }
}

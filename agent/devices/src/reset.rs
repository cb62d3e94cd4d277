//! Resets devices between two guests ([`DeviceManager::reset_free`] is the common path).
//!
//! ```text
//! reset_free: no guest uses it --> begin_reset (register) --> driver reset --> finish_reset (register) --> report
//! ```
//!
//! A device is reset only while no guest uses it and none can claim it. It is reported as clean only after the reset was verified
//! and stored, so a kill in between leaves it unclean.

use std::time::Duration;

use berth_agent_journal::{
    JournalError, NamedDevice as _, Quarantine, QuarantineAfterReset, QuarantinedBy, ResetEnd,
    ResetStart, names,
};
use berth_agent_tracker::backoff::LoopBackoff;
use berth_model::{ConsumerUuid, Disposition};
use berth_virt::{
    DeviceCondition, DeviceError, DeviceReset, GuestError, OfferedHandle, UnfitReason, VirtDriver,
    WantedDevice,
};
use tokio::time::Instant;

use crate::devices::{DeviceManager, DeviceTable, ResetAttempt};
use crate::report::{self, UncleanHandle, wanted_device};

/// Maximum number of temporary failures before the device is quarantined.
const TRIES: u32 = 5;

/// The pause after the first failure. Each further pause is twice as long, up to the interval of reports.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum ResetOutcome {
    Clean(DeviceReset),
    /// A guest uses the device.
    Held(ConsumerUuid),
    /// Another reset of the device is running.
    InProgress,
    /// The reset failed or could not be verified.
    Failed(DeviceError),
}

/// Why a reset was not attempted.
#[derive(Debug, thiserror::Error)]
pub enum DeviceResetError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Hypervisor(#[from] GuestError),
}

/// The parameters of a reset.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResetRequest {
    /// The release count that the reset belongs to.
    pub(super) release_count: Option<i64>,
    pub(super) quarantine: QuarantineAfterReset,
    /// Number of previous failures with a cause that may be temporary.
    pub(super) failures: u32,
}

impl<D: VirtDriver> DeviceManager<D> {
    /// Whether a reset may be attempted now: the device is healthy, and its retry is due.
    pub(super) fn may_reset(&self, unclean: &UncleanHandle) -> bool {
        let table = self.table();
        let attempt = table.reset_attempts.get(&unclean.name);
        attempt.is_none_or(|attempt| attempt.retry_at <= Instant::now())
            && table.is_fit(&unclean.name)
    }

    /// The earliest retry of a failed reset that is later than `after`.
    pub(super) fn next_retry(&self, after: Instant) -> Option<Instant> {
        let table = self.table();
        let times = table
            .reset_attempts
            .values()
            .map(|attempt| attempt.retry_at);
        times.filter(|again| *again > after).min()
    }

    /// Cleans all devices that need it and can be cleaned now. The next report contains the results.
    pub async fn clean_all_unclean(&self) {
        for unclean in self.unclean() {
            if self.may_reset(&unclean) {
                self.clean(&unclean).await;
            }
        }
        for (name, device) in self.interrupted_resets() {
            self.reset_interrupted(&name, &device).await;
        }
    }

    /// Devices whose reset the previous process did not finish. Only healthy ones that the accelerator service does not
    /// list as unclean.
    pub(super) fn interrupted_resets(&self) -> Vec<(String, WantedDevice)> {
        let unclean = self.unclean_names();
        let table = self.table();
        let devices = table
            .observed
            .values()
            .flat_map(|observation| &observation.devices);
        let handles = devices.flat_map(|device| &device.handles);
        let named = handles.map(|handle| (handle.name(), wanted_device(handle)));
        let is_due = |name: &String| {
            let attempt = table.reset_attempts.get(name);
            let may_try = attempt.is_none_or(|attempt| attempt.retry_at <= Instant::now());
            table.interrupted.contains(name)
                && !unclean.contains(name)
                && may_try
                && table.is_fit(name)
        };
        named.filter(|(name, _)| is_due(name)).collect()
    }

    /// Repeats an interrupted reset. A failure quarantines the device.
    pub(super) async fn reset_interrupted(&self, name: &str, device: &WantedDevice) {
        let request = ResetRequest {
            release_count: None,
            quarantine: QuarantineAfterReset::Keep,
            failures: TRIES,
        };
        let text = match self.reset_free(name, device, request).await {
            Ok(ResetOutcome::Clean(reset)) => {
                self.table().reset_attempts.remove(name);
                self.clear_message(&subject(name));
                tracing::info!(device = %name, ?reset, "repeated a reset that the end of the previous process had interrupted");
                return;
            }
            Ok(ResetOutcome::InProgress) => return,
            Ok(ResetOutcome::Held(guest)) => format!("guest {guest} uses it"),
            Ok(ResetOutcome::Failed(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let again = Instant::now() + FIRST_PAUSE;
        let attempt = ResetAttempt {
            failures: 0,
            retry_at: again,
        };
        self.table().reset_attempts.insert(name.to_owned(), attempt);
        if self.is_new_message(&subject(name), &text) {
            tracing::warn!(device = %name, reason = %text, "repeating an interrupted reset failed");
        }
    }

    /// Removes mediated devices without a user, and returns their names. Devices that are bound, being cleaned or
    /// quarantined have a user. Each device is checked once per process, because only an earlier process can leave an orphan.
    pub async fn remove_orphan_mdevs(&self) -> Result<Vec<String>, JournalError> {
        self.refresh().await?;
        let mut removed = Vec::new();
        for handle in self.free_mdevs() {
            let name = handle.name();
            let request = ResetRequest {
                release_count: None,
                quarantine: QuarantineAfterReset::Keep,
                failures: 0,
            };
            match self
                .reset_free(&name, &wanted_device(&handle), request)
                .await
            {
                Ok(ResetOutcome::Clean(reset)) => {
                    self.table().checked_mdevs.insert(name.clone());
                    if reset == DeviceReset::Removed {
                        removed.push(name);
                    }
                }
                Ok(_) => {}
                Err(DeviceResetError::Journal(error)) => return Err(error),
                // A guest may use it.
                Err(DeviceResetError::Hypervisor(_)) => {}
            }
        }
        Ok(removed)
    }

    /// Reclaims a device that was prepared for an instance that no longer exists: resets it and returns it to its
    /// driver, or removes it. Returns whether that was done. A failed reset is retried, or quarantines the device.
    pub async fn reclaim_leftover(&self, left: &WantedDevice) -> Result<bool, DeviceResetError> {
        let request = ResetRequest {
            release_count: None,
            quarantine: QuarantineAfterReset::Keep,
            failures: 0,
        };
        let name = left.device.name();
        let text = match self.reset_free(&name, left, request).await? {
            ResetOutcome::Clean(_) => {
                self.clear_message(&subject(&name));
                return Ok(true);
            }
            ResetOutcome::InProgress | ResetOutcome::Held(_) => return Ok(false),
            ResetOutcome::Failed(error) => error.to_string(),
        };
        if self.is_new_message(&subject(&name), &text) {
            tracing::warn!(device = %name, reason = %text, "reclaiming a leftover device failed");
        }
        Ok(false)
    }

    fn free_mdevs(&self) -> Vec<OfferedHandle> {
        let unclean = self.unclean_names();
        let table = self.table();
        let mut free = Vec::new();
        for (node, observation) in &table.observed {
            // Before the service's first answer, the bindings are unknown.
            let Some(advice) = table.advice(node) else {
                continue;
            };
            let reported = report::reportable_devices(&observation.devices)
                .filter(|device| device.condition == DeviceCondition::Fit);
            let mdevs = reported.flat_map(|device| &device.handles);
            let mdevs = mdevs.filter(|handle| matches!(handle, OfferedHandle::Mdev { .. }));
            free.extend(
                mdevs
                    .filter(|handle| {
                        let name = handle.name();
                        advice.release_counts.contains_key(&name)
                            && !table.checked_mdevs.contains(&name)
                            && !unclean.contains(&name)
                            && !table.register.quarantines.contains_key(&name)
                            && !table.register.held.contains_key(&name)
                            && !observation.used.contains_key(&name)
                    })
                    .cloned(),
            );
        }
        free
    }

    /// Cleans one device after its release.
    pub(super) async fn clean(&self, unclean: &UncleanHandle) {
        let name = &unclean.name;
        if self.use_reset_at_deletion(unclean).await {
            self.table().reset_attempts.remove(name);
            self.clear_message(&subject(name));
            tracing::debug!(device = %name, "device reset at its release and free");
            return;
        }
        let failures = self
            .table()
            .reset_attempts
            .get(name)
            .map_or(0, |attempt| attempt.failures);
        let request = ResetRequest {
            release_count: Some(unclean.release_count),
            quarantine: QuarantineAfterReset::Keep,
            failures,
        };
        let (failures, text) = match self.reset_free(name, &unclean.wanted, request).await {
            Ok(ResetOutcome::Clean(reset)) => {
                self.table().reset_attempts.remove(name);
                self.clear_message(&subject(name));
                tracing::info!(device = %name, ?reset, "device reset after its release and free");
                return;
            }
            Ok(ResetOutcome::InProgress) => {
                // The end of that reset wakes the reporter; otherwise retry.
                let again = Instant::now() + FIRST_PAUSE;
                let attempt = ResetAttempt {
                    failures,
                    retry_at: again,
                };
                self.table().reset_attempts.insert(name.clone(), attempt);
                return;
            }
            Ok(ResetOutcome::Held(guest)) => (
                failures,
                format!("guest {guest} uses it without an accelerator request"),
            ),
            Ok(ResetOutcome::Failed(error)) => match error.disposition() {
                Disposition::Retry => (failures + 1, error.to_string()),
                Disposition::Refresh | Disposition::Fatal => (failures, error.to_string()),
            },
            Err(error) => (failures, error.to_string()),
        };
        let pause = self
            .inner
            .options
            .interval
            .min(FIRST_PAUSE * 2_u32.pow(failures.min(8)));
        let again = Instant::now() + pause;
        let attempt = ResetAttempt {
            failures,
            retry_at: again,
        };
        self.table().reset_attempts.insert(name.clone(), attempt);
        if self.is_new_message(&subject(name), &text) {
            tracing::warn!(device = %name, reason = %text, "reset failed; device withheld");
        }
    }

    /// Uses the reset that was done when the guest was deleted, and requests a report. Returns false if there is none, or on an
    /// error.
    async fn use_reset_at_deletion(&self, unclean: &UncleanHandle) -> bool {
        let name = &unclean.name;
        if !matches!(self.used_by(&unclean.wanted, name).await, Ok(None)) {
            return false;
        }
        let register = &self.inner.register;
        let taken = register
            .take_reset_at_deletion(name, unclean.release_count)
            .await;
        if !matches!(taken, Ok(true)) || self.refresh().await.is_err() {
            return false;
        }
        self.inner.report_requested.notify_one();
        true
    }

    /// Resets a device that no guest uses. The result is stored when this returns.
    pub(super) async fn reset_free(
        &self,
        name: &str,
        wanted: &WantedDevice,
        request: ResetRequest,
    ) -> Result<ResetOutcome, DeviceResetError> {
        if let Some(guest) = self.used_by(wanted, name).await? {
            return Ok(ResetOutcome::Held(guest));
        }
        match self.begin_reset(name).await? {
            ResetStart::Begun => {}
            ResetStart::Held(guest) => return Ok(ResetOutcome::Held(guest)),
            ResetStart::InProgress => return Ok(ResetOutcome::InProgress),
        }
        // From here on, the reset must be finished, whatever fails.
        let refreshed = self.refresh().await;
        let reset = self.inner.driver.reset_device(wanted).await;
        let end = match &reset {
            Ok(_) => ResetEnd::Clean {
                release_count: request.release_count,
                quarantine: request.quarantine,
            },
            Err(error) => failed_outcome(error, request),
        };
        self.finish_reset(name, end).await?;
        refreshed.and(self.refresh().await)?;
        self.inner.report_requested.notify_one();
        Ok(match reset {
            Ok(reset) => ResetOutcome::Clean(reset),
            Err(error) => ResetOutcome::Failed(error),
        })
    }

    /// Marks the start of a reset or programming, unless a guest uses the device. Takes over one that the previous
    /// process did not finish.
    pub(super) async fn begin_reset(&self, name: &str) -> Result<ResetStart, JournalError> {
        let begun = self.inner.register.begin_reset(name).await?;
        if begun == ResetStart::InProgress && self.table().interrupted.remove(name) {
            return Ok(ResetStart::Begun);
        }
        Ok(begun)
    }

    /// Stores the end of a reset or programming, now or as soon as the journal is writable. The device is withheld
    /// until then.
    pub(super) async fn finish_reset(&self, name: &str, end: ResetEnd) -> Result<(), JournalError> {
        let ended = self.inner.register.end_reset(name, &end).await;
        if ended.is_err() {
            let (devices, name) = (self.clone(), name.to_owned());
            tokio::spawn(async move { devices.retry_finish_reset(&name, &end).await });
        }
        ended
    }

    async fn retry_finish_reset(&self, name: &str, end: &ResetEnd) {
        let mut backoff = LoopBackoff::seeded(self.inner.options.seed);
        loop {
            tokio::time::sleep(backoff.next_delay()).await;
            if self.inner.register.end_reset(name, end).await.is_ok() {
                break;
            }
        }
        tracing::info!(device = %name, "stored the end of a reset or programming after retries");
        // The next report uses the stored state.
        self.request_report();
    }

    /// The guest that uses a device, according to the hypervisor, or to the last observation if the driver cannot list
    /// guests.
    pub(super) async fn used_by(
        &self,
        wanted: &WantedDevice,
        name: &str,
    ) -> Result<Option<ConsumerUuid>, GuestError> {
        let on_host = match self.inner.driver.guests().await {
            Ok(guests) => guests,
            Err(GuestError::NotSupported { .. }) => {
                let table = self.table();
                let mut used = table
                    .observed
                    .values()
                    .filter_map(|observation| observation.used.get(name));
                return Ok(used.next().copied());
            }
            Err(error) => return Err(error),
        };
        let device = wanted.host_device();
        let mut holders = on_host.iter().filter(|(_, guest)| {
            let mut devices = guest.devices.iter();
            devices.any(|held| held.device == device)
        });
        if let Some((uuid, _)) = holders.next() {
            return Ok(Some(*uuid));
        }
        for (uuid, guest) in &on_host {
            guest.is_readable(*uuid)?;
        }
        Ok(None)
    }
}

impl DeviceTable {
    /// Whether an offered device with this name was healthy when observed.
    pub(super) fn is_fit(&self, name: &str) -> bool {
        let devices = self
            .observed
            .values()
            .flat_map(|observation| &observation.devices);
        let mut owners =
            devices.filter(|device| names(device).iter().any(|offered| offered == name));
        owners.any(|device| device.condition == DeviceCondition::Fit)
    }
}

fn subject(name: &str) -> String {
    format!("reset {name}")
}

/// The stored outcome of a failed reset.
fn failed_outcome(error: &DeviceError, request: ResetRequest) -> ResetEnd {
    match must_quarantine(error, request.failures + 1) {
        false => ResetEnd::Unknown,
        true => ResetEnd::Failed(Quarantine::new(error.to_string(), QuarantinedBy::Agent)),
    }
}

/// Whether a device must be quarantined after this error. `failures` is the number of consecutive temporary failures,
/// including this one.
pub fn must_quarantine(error: &DeviceError, failures: u32) -> bool {
    // A vanished device is still unclean and is reset when it returns. Without driver support, no reset was attempted.
    let is_inconclusive = error.quarantine() == Some(UnfitReason::Vanished)
        || matches!(error, DeviceError::NotSupported { .. });
    match error.disposition() {
        _ if is_inconclusive => false,
        Disposition::Fatal => true,
        // The device is in use or blocked, which is not the device's fault.
        Disposition::Refresh => false,
        Disposition::Retry => failures >= TRIES,
    }
}

#[cfg(test)]
mod tests;

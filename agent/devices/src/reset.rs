//! Resets between two guests. A device is reset only while no guest has it and none can claim it, and told clean only after
//! the reset was verified and written down: a kill in between leaves it unclean.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_agent_journal::{
    CleaningOutcome, CleaningStart, JournalError, NamedDevice as _, Quarantine, QuarantineStays,
    QuarantinedBy, names,
};
use berth_agent_tracker::backoff::Backoff;
use berth_model::{ConsumerUuid, Disposition};
use berth_virt::{
    DeviceCondition, DeviceError, DeviceReset, GuestError, OfferedHandle, UnfitReason, VirtDriver,
    WantedDevice,
};
use tokio::time::Instant;

use crate::devices::{Attempt, Devices, Known};
use crate::report::{self, Unclean, wanted};

/// How often a reset that ends in nothing is tried before the device is set aside.
const TRIES: u32 = 5;

/// The pause after the first failure; each further one is twice as long, up to the interval of reports.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// What came of a reset.
#[derive(Debug)]
pub(super) enum ResetOutcome {
    /// The device is clean.
    Clean(DeviceReset),
    /// A guest has it.
    Held(ConsumerUuid),
    /// Another reset of it is under way.
    UnderWay,
    /// It was not reset, or not verified.
    Failed(DeviceError),
}

/// Why nothing is known of a reset.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Hypervisor(#[from] GuestError),
}

/// What was asked for when a device was reset.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResetRequest {
    /// The release of its handle that it is cleaned after.
    pub(super) releases: Option<i64>,
    pub(super) quarantine: QuarantineStays,
    /// How often it failed before for a reason that may pass.
    pub(super) failures: u32,
}

impl<D: VirtDriver> Devices<D> {
    /// Whether a reset may be tried now: a device that is sick as seen waits until it is well, and one whose reset failed
    /// for a while.
    pub(super) fn may_try(&self, unclean: &Unclean) -> bool {
        let known = self.known();
        let attempt = known.attempts.get(&unclean.name);
        attempt.is_none_or(|attempt| attempt.again <= Instant::now()) && known.is_fit(&unclean.name)
    }

    /// When the next reset that failed is tried again. What was due at `after` is under way, or waits for something else that
    /// will be heard of: the device to be well, an operator.
    pub(super) fn next_try(&self, after: Instant) -> Option<Instant> {
        let known = self.known();
        let times = known.attempts.values().map(|attempt| attempt.again);
        times.filter(|again| *again > after).min()
    }

    /// Cleans everything that the accelerator service waits for and that can be cleaned now; what came of it is told with the
    /// next report.
    pub async fn clean_all(&self) {
        for unclean in self.unclean() {
            if self.may_try(&unclean) {
                self.clean(&unclean).await;
            }
        }
        for (name, device) in self.cut_off() {
            self.reset_anew(&name, &device).await;
        }
    }

    /// What was being reset when the process before this one ended, is there and well, and is not among what the accelerator
    /// service waits for.
    pub(super) fn cut_off(&self) -> Vec<(String, WantedDevice)> {
        let unclean: BTreeSet<String> = self.unclean().into_iter().map(|it| it.name).collect();
        let known = self.known();
        let devices = known.seen.values().flat_map(|seen| &seen.devices);
        let handles = devices.flat_map(|device| &device.handles);
        let named = handles.map(|handle| (handle.name(), wanted(handle)));
        let is_due = |name: &String| {
            let attempt = known.attempts.get(name);
            let may_try = attempt.is_none_or(|attempt| attempt.again <= Instant::now());
            known.cut_off.contains(name) && !unclean.contains(name) && may_try && known.is_fit(name)
        };
        named.filter(|(name, _)| is_due(name)).collect()
    }

    /// Resets one whose reset was cut off; where that fails, it is set aside.
    pub(super) async fn reset_anew(&self, name: &str, device: &WantedDevice) {
        let order = ResetRequest {
            releases: None,
            quarantine: QuarantineStays::Yes,
            failures: TRIES,
        };
        let text = match self.reset_free(name, device, order).await {
            Ok(ResetOutcome::Clean(reset)) => {
                self.known().attempts.remove(name);
                self.no_news(&subject(name));
                tracing::info!(device = %name, ?reset, "a reset that was cut off when berth ended was made anew");
                return;
            }
            Ok(ResetOutcome::UnderWay) => return,
            Ok(ResetOutcome::Held(guest)) => format!("guest {guest} has it"),
            Ok(ResetOutcome::Failed(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let again = Instant::now() + FIRST_PAUSE;
        let attempt = Attempt { failures: 0, again };
        self.known().attempts.insert(name.to_owned(), attempt);
        if self.is_news(&subject(name), &text) {
            tracing::warn!(device = %name, reason = %text, "a reset that was cut off when berth ended was not made anew");
        }
    }

    /// Removes mediated devices that are there and nobody's; their names. One that an accelerator request holds, or that is
    /// being cleaned or set aside, is somebody's. Each is looked for once in a process's life: a guest that ends under it
    /// leaves none.
    pub async fn remove_orphan_mdevs(&self) -> Result<Vec<String>, JournalError> {
        self.refresh().await?;
        let mut removed = Vec::new();
        for handle in self.free_mdevs() {
            let name = handle.name();
            let order = ResetRequest {
                releases: None,
                quarantine: QuarantineStays::Yes,
                failures: 0,
            };
            match self.reset_free(&name, &wanted(&handle), order).await {
                Ok(ResetOutcome::Clean(reset)) => {
                    self.known().swept.insert(name.clone());
                    if reset == DeviceReset::Removed {
                        removed.push(name);
                    }
                }
                Ok(_) => {}
                Err(ResetError::Journal(error)) => return Err(error),
                // Nobody knows whether a guest has it.
                Err(ResetError::Hypervisor(_)) => {}
            }
        }
        Ok(removed)
    }

    /// Takes back what a guest that is no more left behind: gives it to its driver, reset, or removes it, by the same way as after
    /// any guest. Whether that was done; what somebody has is left, and what does not come back is tried again or set aside.
    pub async fn take_back_left(&self, left: &WantedDevice) -> Result<bool, ResetError> {
        let order = ResetRequest {
            releases: None,
            quarantine: QuarantineStays::Yes,
            failures: 0,
        };
        let name = left.device.name();
        let text = match self.reset_free(&name, left, order).await? {
            ResetOutcome::Clean(_) => {
                self.no_news(&subject(&name));
                return Ok(true);
            }
            ResetOutcome::UnderWay | ResetOutcome::Held(_) => return Ok(false),
            ResetOutcome::Failed(error) => error.to_string(),
        };
        if self.is_news(&subject(&name), &text) {
            tracing::warn!(device = %name, reason = %text, "a device that was left behind was not taken back");
        }
        Ok(false)
    }

    fn free_mdevs(&self) -> Vec<OfferedHandle> {
        let unclean: BTreeSet<String> = self.unclean().into_iter().map(|it| it.name).collect();
        let known = self.known();
        let mut free = Vec::new();
        for (node, seen) in &known.seen {
            // Without the service's word nobody knows what is bound.
            let Some(advice) = known.advice(node) else {
                continue;
            };
            let told =
                report::told(&seen.devices).filter(|it| it.condition == DeviceCondition::Fit);
            let mdevs = told.flat_map(|device| &device.handles);
            let mdevs = mdevs.filter(|handle| matches!(handle, OfferedHandle::Mdev { .. }));
            free.extend(
                mdevs
                    .filter(|handle| {
                        let name = handle.name();
                        advice.releases.contains_key(&name)
                            && !known.swept.contains(&name)
                            && !unclean.contains(&name)
                            && !known.register.quarantines.contains_key(&name)
                            && !known.register.held.contains_key(&name)
                            && !seen.used.contains_key(&name)
                    })
                    .cloned(),
            );
        }
        free
    }

    /// Cleans one device after a release.
    pub(super) async fn clean(&self, unclean: &Unclean) {
        let name = &unclean.name;
        if self.was_cleaned(unclean).await {
            self.known().attempts.remove(name);
            self.no_news(&subject(name));
            tracing::debug!(device = %name, "the device was reset when its last guest gave it back, and is free");
            return;
        }
        let failures = self.known().attempts.get(name).map_or(0, |it| it.failures);
        let order = ResetRequest {
            releases: Some(unclean.releases),
            quarantine: QuarantineStays::Yes,
            failures,
        };
        let (failures, text) = match self.reset_free(name, &unclean.wanted, order).await {
            Ok(ResetOutcome::Clean(reset)) => {
                self.known().attempts.remove(name);
                self.no_news(&subject(name));
                tracing::info!(device = %name, ?reset, "the device was reset after its last guest and is free");
                return;
            }
            Ok(ResetOutcome::UnderWay) => {
                // Its end stirs; else it is looked at again.
                let again = Instant::now() + FIRST_PAUSE;
                let attempt = Attempt { failures, again };
                self.known().attempts.insert(name.clone(), attempt);
                return;
            }
            Ok(ResetOutcome::Held(guest)) => (
                failures,
                format!("guest {guest} has it, and no accelerator request"),
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
        let attempt = Attempt { failures, again };
        self.known().attempts.insert(name.clone(), attempt);
        if self.is_news(&subject(name), &text) {
            tracing::warn!(device = %name, reason = %text, "the device was not reset and goes to nobody");
        }
    }

    /// Whether its last guest's own reset is the one that is asked for. What cannot be said now is no: then it is reset.
    async fn was_cleaned(&self, unclean: &Unclean) -> bool {
        let name = &unclean.name;
        if !matches!(self.used_by(&unclean.wanted, name).await, Ok(None)) {
            return false;
        }
        let register = &self.inner.register;
        let taken = register.count_as_cleaned(name, unclean.releases).await;
        if !matches!(taken, Ok(true)) || self.refresh().await.is_err() {
            return false;
        }
        self.inner.stir.notify_one();
        true
    }

    /// Resets a device that nobody has. Its end is on the disk when this returns.
    pub(super) async fn reset_free(
        &self,
        name: &str,
        wanted: &WantedDevice,
        order: ResetRequest,
    ) -> Result<ResetOutcome, ResetError> {
        if let Some(guest) = self.used_by(wanted, name).await? {
            return Ok(ResetOutcome::Held(guest));
        }
        match self.begin(name).await? {
            CleaningStart::Begun => {}
            CleaningStart::Held(guest) => return Ok(ResetOutcome::Held(guest)),
            CleaningStart::UnderWay => return Ok(ResetOutcome::UnderWay),
        }
        // What was begun has an end, whatever else fails.
        let refreshed = self.refresh().await;
        let reset = self.inner.driver.reset_device(wanted).await;
        let end = match &reset {
            Ok(_) => CleaningOutcome::Clean {
                releases: order.releases,
                quarantine: order.quarantine,
            },
            Err(error) => spoilt(error, order),
        };
        self.end(name, end).await?;
        refreshed.and(self.refresh().await)?;
        self.inner.stir.notify_one();
        Ok(match reset {
            Ok(reset) => ResetOutcome::Clean(reset),
            Err(error) => ResetOutcome::Failed(error),
        })
    }

    /// Begins a reset or a programming, unless a guest has the device; also one that a process before this one began: its end is
    /// nobody else's.
    pub(super) async fn begin(&self, name: &str) -> Result<CleaningStart, JournalError> {
        let begun = self.inner.register.begin_cleaning(name).await?;
        if begun == CleaningStart::UnderWay && self.known().cut_off.remove(name) {
            return Ok(CleaningStart::Begun);
        }
        Ok(begun)
    }

    /// Writes down the end of a reset or of a programming: now, or as soon as the journal takes it. Until then the device goes
    /// to nobody.
    pub(super) async fn end(&self, name: &str, end: CleaningOutcome) -> Result<(), JournalError> {
        let ended = self.inner.register.end_cleaning(name, &end).await;
        if ended.is_err() {
            let (devices, name) = (self.clone(), name.to_owned());
            tokio::spawn(async move { devices.end_later(&name, &end).await });
        }
        ended
    }

    async fn end_later(&self, name: &str, end: &CleaningOutcome) {
        let mut backoff = Backoff::seeded(self.inner.options.seed);
        loop {
            tokio::time::sleep(backoff.failed()).await;
            if self.inner.register.end_cleaning(name, end).await.is_ok() {
                break;
            }
        }
        tracing::info!(device = %name, "the end of what was done with the device is written down at last");
        // Whoever tells next reads what is written.
        self.stir();
    }

    /// The guest that has a device, by the last look and by the hypervisor's word.
    pub(super) async fn used_by(
        &self,
        wanted: &WantedDevice,
        name: &str,
    ) -> Result<Option<ConsumerUuid>, GuestError> {
        let on_host = match self.inner.driver.guests().await {
            Ok(guests) => guests,
            Err(GuestError::NotSupported { .. }) => {
                let known = self.known();
                let mut used = known.seen.values().filter_map(|seen| seen.used.get(name));
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

impl Known {
    /// Whether a device that is offered by this name is well as it was seen.
    pub(super) fn is_fit(&self, name: &str) -> bool {
        let devices = self.seen.values().flat_map(|seen| &seen.devices);
        let mut owners =
            devices.filter(|device| names(device).iter().any(|offered| offered == name));
        owners.any(|device| device.condition == DeviceCondition::Fit)
    }
}

fn subject(name: &str) -> String {
    format!("reset {name}")
}

/// What a failed reset leaves of a device.
fn spoilt(error: &DeviceError, order: ResetRequest) -> CleaningOutcome {
    match must_quarantine(error, order.failures + 1) {
        false => CleaningOutcome::Unknown,
        true => CleaningOutcome::Failed(Quarantine::new(error.to_string(), QuarantinedBy::Agent)),
    }
}

/// Whether a device goes to nobody from now on whose reset failed so, for the `failures`th time in a row for a reason that may pass.
pub fn must_quarantine(error: &DeviceError, failures: u32) -> bool {
    // One that is out of the host is as unclean as before; it is reset when it is back. Where no driver resets anything, nothing
    // was tried.
    let says_nothing = error.quarantine() == Some(UnfitReason::Vanished)
        || matches!(error, DeviceError::NotSupported { .. });
    match error.disposition() {
        _ if says_nothing => false,
        Disposition::Fatal => true,
        // Somebody has it, or holds it up: that is not the device's fault.
        Disposition::Refresh => false,
        Disposition::Retry => failures >= TRIES,
    }
}

#[cfg(test)]
mod tests;

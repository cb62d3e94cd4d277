//! Runs the operator's health check program for each device, to learn what only the vendor's tools can tell.
//!
//! A device is unhealthy if the program fails or does not finish in time, because a hanging tool is a common symptom. The last
//! verdict is persistent and holds until the program returns another one; without a program, verdicts are deleted. Checks run
//! concurrently with the service loop, and observations use the last verdict without waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_agent_journal::{JournalError, names};
use berth_hook::{Hook, HookError};
use berth_virt::{OfferedDevice, UnfitReason, VirtDriver};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::devices::{DeviceManager, DeviceTable, NodeObservation};

/// Maximum number of concurrent checks.
const AT_ONCE: usize = 4;

/// The pause before another check of a device that was being reset or programmed, or whose verdict could not be stored.
const BREATH: Duration = Duration::from_secs(1);

/// The program, and the interval of its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    pub hook: Hook,
    /// From the end of one check of a device to the next.
    pub interval: Duration,
}

/// Running and scheduled checks, by device.
#[derive(Default)]
struct Checks {
    tasks: JoinSet<(String, Instant)>,
    running: BTreeSet<String>,
    due: BTreeMap<String, Instant>,
}

impl Checks {
    async fn reap(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok((address, due))) => {
                self.running.remove(&address);
                self.due.insert(address, due);
            }
            // An aborted check remains due.
            Some(Err(_)) | None => self.running.clear(),
        }
    }

    /// When the next check is due; `None` at the maximum number of running checks.
    fn next(&self) -> Option<Instant> {
        if self.running.len() >= AT_ONCE {
            return None;
        }
        let waiting = self.due.iter();
        let waiting = waiting.filter(|(address, _)| !self.running.contains(*address));
        waiting.map(|(_, due)| *due).min()
    }
}

/// The input of the program for one device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HealthQuery {
    address: String,
    about: [(&'static str, String); 5],
    handles: Vec<String>,
}

impl HealthQuery {
    fn of(device: &OfferedDevice, observation: &NodeObservation, table: &DeviceTable) -> Self {
        let address = device.address.to_string();
        let handles = names(device);
        let guests: BTreeSet<String> = handles
            .iter()
            .filter_map(|name| table.register.held.get(name).or(observation.used.get(name)))
            .map(ToString::to_string)
            .collect();
        let guests: Vec<String> = guests.into_iter().collect();
        let about = [
            ("BERTH_DEVICE_ADDRESS", address.clone()),
            ("BERTH_DEVICE_VENDOR", format!("{:04x}", device.vendor_id)),
            ("BERTH_DEVICE_PRODUCT", format!("{:04x}", device.product_id)),
            ("BERTH_DEVICE_TYPE", device.device_type.to_string()),
            ("BERTH_DEVICE_GUESTS", guests.join(" ")),
        ];
        Self {
            address,
            about,
            handles,
        }
    }
}

impl<D: VirtDriver> DeviceManager<D> {
    /// Runs checks until `shutdown`. Without a program, deletes old verdicts and returns.
    pub(super) async fn run_health_checks(&self, shutdown: CancellationToken) {
        let Some(check) = self.inner.health_check.get() else {
            return self.clear_stale_verdicts().await;
        };
        let mut checks = Checks::default();
        loop {
            self.begin_checks(check, &mut checks);
            let next = checks.next();
            tokio::select! {
                // Dropping the set aborts running checks and ends their programs.
                () = shutdown.cancelled() => return,
                () = self.inner.observed.notified() => {}
                () = checks.reap(), if !checks.running.is_empty() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    /// Deletes the verdicts of a program that is no longer configured.
    async fn clear_stale_verdicts(&self) {
        if self.table().register.unhealthy.is_empty() {
            return;
        }
        let forgotten = async {
            self.inner.register.clear_health_checks().await?;
            self.refresh().await
        };
        match forgotten.await {
            Ok(()) => {
                tracing::info!("no health check is configured; old verdicts deleted");
                self.inner.report_requested.notify_one();
            }
            Err(error) => {
                tracing::warn!(%error, "deleting old health check verdicts failed; they remain until a restart");
            }
        }
    }

    /// Starts the checks that are due. A device that vanished is unscheduled, and is checked at once when it returns.
    fn begin_checks(&self, check: &HealthCheck, checks: &mut Checks) {
        let now = Instant::now();
        let asked = self.queries();
        checks.due.retain(|address, _| asked.contains_key(address));
        for (address, asked) in asked {
            let due = *checks.due.entry(address.clone()).or_insert(now);
            if checks.running.len() >= AT_ONCE {
                // It is scheduled now and starts when another check has ended.
                continue;
            }
            if due > now || !checks.running.insert(address) {
                continue;
            }
            let (devices, check) = (self.clone(), check.clone());
            checks.tasks.spawn(async move {
                let pause = devices.check_one(&check, &asked).await;
                (asked.address, Instant::now() + pause)
            });
        }
    }

    fn queries(&self) -> BTreeMap<String, HealthQuery> {
        let table = self.table();
        let mut all = BTreeMap::new();
        for observation in table.observed.values() {
            let there = observation.devices.iter().filter(|device| {
                device.condition.reason() != Some(UnfitReason::Vanished)
                    && !device.handles.is_empty()
            });
            let asked = there.map(|device| HealthQuery::of(device, observation, &table));
            all.extend(asked.map(|asked| (asked.address.clone(), asked)));
        }
        all
    }

    /// Checks one device and stores the verdict. Returns the time until its next check.
    async fn check_one(&self, check: &HealthCheck, asked: &HealthQuery) -> Duration {
        let breath = BREATH.min(check.interval);
        if self.is_being_cleaned(asked) {
            return breath;
        }
        let result = check.hook.ask(asked.about.clone()).await;
        if result.is_err() && self.is_being_cleaned(asked) {
            // A device does not answer during its reset.
            return breath;
        }
        let subject = format!("check {}", asked.address);
        match self.record_verdict(&asked.address, result).await {
            Ok(()) => {
                self.clear_message(&subject);
                check.interval
            }
            Err(error) => {
                let text = error.to_string();
                if self.is_new_message(&subject, &text) {
                    tracing::warn!(device = %asked.address, error = %text, "storing a health check verdict failed; retrying");
                }
                breath
            }
        }
    }

    fn is_being_cleaned(&self, asked: &HealthQuery) -> bool {
        let table = self.table();
        let mut handles = asked.handles.iter();
        handles.any(|name| table.register.running_resets.contains(name))
    }

    async fn record_verdict(
        &self,
        address: &str,
        result: Result<(), HookError>,
    ) -> Result<(), JournalError> {
        let before = self.table().register.unhealthy.get(address).cloned();
        match (result, before) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(_)) => {
                self.inner.register.record_healthy(address).await?;
                tracing::info!(device = %address, "device is healthy again");
            }
            (Err(error), before) => {
                let reason = error.reason();
                if before.as_ref() == Some(&reason) {
                    return Ok(());
                }
                self.inner
                    .register
                    .record_unhealthy(address, &reason)
                    .await?;
                if before.is_none() {
                    tracing::warn!(device = %address, %error, "device is unhealthy; not assigned until a check succeeds");
                }
            }
        }
        self.refresh().await?;
        self.inner.report_requested.notify_one();
        Ok(())
    }
}

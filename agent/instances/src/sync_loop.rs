//! The sync loop: reconciles all instances with the hypervisor at the start of the agent, every `reconcile_interval`,
//! and shortly after the hypervisor reports a change.
//!
//! ```text
//! run --> sync_all --> wait_until_due --> sync_all --> ...
//!                        | change reported
//!                        +--> sync_now
//! ```
//!
//! `sync_with_hypervisor` applies `plan_power_sync` to each instance: it starts an instance that should run and is missing or off since
//! the host booted, accepts that a guest shut itself down in the current boot, and stops a guest that should be off. An instance that cannot
//! be started is blocked and retried, never undone.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use berth_agent_journal::{GuestRecord, InstanceOverrides, SpawnStep, StepRecord, StepState};
use berth_keyed_tasks::KeyGuard;
use berth_model::{ConsumerUuid, Disposition};
use berth_virt::guest_spec::DesiredPower;
use berth_virt::{GuestError, PowerAction, VirtDriver};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::guests::{Guests, GuestsError};
use crate::outcome::{BlockedReason, ReconcileOutcome, log_outcome};
use crate::power_sync::{PowerSyncAction, plan_power_sync};
use crate::resources::GuestResources;

/// Time for a guest to shut itself down before it is stopped: Nova's `shutdown_timeout`.
const SHUTDOWN_GRACE: Duration = Duration::from_mins(1);

/// Debounce interval after a reported change. One guest's start causes several changes.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// Wait at least `REST` times the duration of the previous sync, so that syncing takes at most 10 % of the time.
const REST: u32 = 9;

/// Why a sync failed.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error(transparent)]
    Guests(#[from] GuestsError),
    /// The hypervisor did not list its guests.
    #[error(transparent)]
    Driver(#[from] GuestError),
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Runs [`Guests::sync_all`] periodically until `shutdown`.
    pub async fn run(&self, interval: Duration, shutdown: CancellationToken) {
        loop {
            let result = self.sync_all().await;
            self.probe_journal().await;
            if let Err(error) = result {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "sync of the instances failed"
                );
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = self.wait_until_due(interval) => {}
            }
        }
        self.stop().await;
    }

    /// Waits until the next periodic sync is due. Meanwhile, syncs the instances after each reported change
    /// ([`Guests::notify_changed`]).
    pub(super) async fn wait_until_due(&self, interval: Duration) {
        let due = Instant::now() + interval;
        let mut earliest = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(due) => return,
                () = self.inner.changed.notified() => {}
            }
            let sync_at = earliest.max(Instant::now() + DEBOUNCE);
            sleep_until(sync_at.min(due)).await;
            if sync_at >= due {
                return;
            }
            let began = Instant::now();
            let result = self.sync_now().await;
            earliest = Instant::now() + began.elapsed().saturating_mul(REST);
            if let Err(error) = result {
                // A lasting failure is logged by the periodic sync.
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "early sync of the instances failed"
                );
            }
        }
    }

    /// Syncs all instances, and removes files that no instance uses. That scans every instance's folder, so it is not
    /// done after each change. Tasks started here may run longer than this call.
    pub async fn sync_all(&self) -> Result<(), SyncError> {
        self.resume().await?;
        let records = self.list().await?;
        self.remove_unused(&records).await;
        self.sync_with_hypervisor(&records).await
    }

    /// Syncs all instances without removing unused files.
    async fn sync_now(&self) -> Result<(), SyncError> {
        self.resume().await?;
        self.sync_with_hypervisor(&self.list().await?).await
    }

    /// Compares each instance with the hypervisor, and starts a task for each one that needs an action.
    async fn sync_with_hypervisor(&self, records: &[Arc<GuestRecord>]) -> Result<(), SyncError> {
        if records.is_empty() {
            return Ok(());
        }
        let found = self.inner.context.driver.guests().await?;
        for record in records {
            let uuid = record.request.uuid();
            match plan_power_sync(record, found.get(&uuid), &self.inner.context.boot_id) {
                PowerSyncAction::InSync | PowerSyncAction::UnexpectedlyPaused => {}
                PowerSyncAction::StartAgain
                | PowerSyncAction::AcceptShutOff
                | PowerSyncAction::Stop
                | PowerSyncAction::Suspend
                | PowerSyncAction::Pause
                | PowerSyncAction::Remove => {
                    let guests = self.clone();
                    self.inner.tasks.spawn_detached(async move {
                        log_outcome(uuid, guests.sync_one(uuid).await);
                    });
                }
            }
        }
        Ok(())
    }

    /// Removes files that no instance uses, mainly old images.
    async fn remove_unused(&self, records: &[Arc<GuestRecord>]) {
        let own = records.iter().map(|record| Cow::Borrowed(&record.request));
        let others = records.iter().flat_map(|record| record.other_forms());
        let requests: Vec<_> = own.chain(others.map(Cow::Owned)).collect();
        let requests: Vec<_> = requests.iter().map(Cow::as_ref).collect();
        self.inner.context.resources.remove_unused(&requests).await;
    }

    /// Locks the instance, compares it again, and repairs it.
    pub(super) async fn sync_one(&self, uuid: ConsumerUuid) -> ReconcileOutcome {
        let guard = self.lock(uuid).await;
        let outcome = match self.sync_locked(&guard, uuid).await {
            Ok(outcome) => outcome,
            Err(reason) => ReconcileOutcome::Blocked { reason },
        };
        self.record_outcome(uuid, &outcome);
        outcome
    }

    async fn sync_locked(
        &self,
        guard: &KeyGuard<ConsumerUuid>,
        uuid: ConsumerUuid,
    ) -> Result<ReconcileOutcome, BlockedReason> {
        let context = &self.inner.context;
        let Some(record) = context.journal.guest(uuid).await? else {
            return Ok(ReconcileOutcome::Gone);
        };
        let found = context
            .driver
            .guest(uuid)
            .await
            .map_err(BlockedReason::Hypervisor)?;
        match plan_power_sync(&record, found.as_ref(), &context.boot_id) {
            PowerSyncAction::InSync | PowerSyncAction::UnexpectedlyPaused => {}
            PowerSyncAction::Stop => {
                let stop = PowerAction::Stop {
                    grace: SHUTDOWN_GRACE,
                };
                let _ = context
                    .driver
                    .power(uuid, stop)
                    .await
                    .map_err(BlockedReason::StopFailed)?;
                // Logged after the fact: a failed stop is logged with its reason.
                tracing::info!(guest = %uuid, "stopped a guest that should have been off");
            }
            PowerSyncAction::Suspend => {
                match context.driver.suspend(uuid).await {
                    Err(error) if error.disposition() == Disposition::Retry => {
                        return Err(BlockedReason::StopFailed(error));
                    }
                    // A refused suspend leaves the guest running.
                    Err(error) => {
                        tracing::warn!(guest = %uuid, %error, "suspend failed; the guest stays running");
                        context
                            .journal
                            .set_power(uuid, DesiredPower::Running)
                            .await?;
                    }
                    Ok(_) => {}
                }
                let overrides = InstanceOverrides {
                    suspending: false,
                    ..record.overrides.clone()
                };
                context
                    .journal
                    .record_overrides(uuid, &overrides, &[])
                    .await?;
            }
            PowerSyncAction::Pause => {
                let pause = PowerAction::Pause;
                let _ = context
                    .driver
                    .power(uuid, pause)
                    .await
                    .map_err(BlockedReason::StopFailed)?;
            }
            PowerSyncAction::AcceptShutOff => {
                tracing::info!(guest = %uuid, "guest shut itself down or was stopped by hand; it stays off until it is started");
                // Write the reason first: once the desired state agrees with the hypervisor, no sync reaches this line
                // again.
                let overrides = InstanceOverrides {
                    ended: true,
                    ..record.overrides.clone()
                };
                context
                    .journal
                    .record_overrides(uuid, &overrides, &[])
                    .await?;
                context
                    .journal
                    .set_power(uuid, DesiredPower::ShutOff)
                    .await?;
            }
            PowerSyncAction::Remove => {
                tracing::warn!(guest = %uuid, "removing a guest whose spawn was undone");
            }
            PowerSyncAction::StartAgain => {
                let begun = StepRecord {
                    state: StepState::Begun,
                    detail: record.ran_in().to_owned(),
                };
                context
                    .journal
                    .record_step(uuid, SpawnStep::Start, &begun)
                    .await?;
            }
        }
        self.run_to_goal(guard, uuid).await
    }
}

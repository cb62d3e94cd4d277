//! Keeping guests as they should be: at the start of the agent, after a boot of the host, every `reconcile_interval`, and when
//! the hypervisor says that something of them changed.
//!
//! A guest that should run and is not there, or is off since the host was booted, is brought back through the steps of its
//! spawn, devices first. One that is off in the boot it was started in has ended itself: then that is what it should be (Nova's
//! power sync). One that does something and should be at rest is brought to rest. One that cannot be brought back is held and
//! tried again, never undone.

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
use crate::outcome::{BlockedReason, ReconcileOutcome, told};
use crate::power_sync::{PowerSyncAction, plan_power_sync};
use crate::resources::GuestResources;

/// How long a guest that should be off may take to end by itself: Nova's `shutdown_timeout`.
const GRACE: Duration = Duration::from_mins(1);

/// How long changes of guests are gathered before the hypervisor is looked at: one guest's start is several.
const GATHERED: Duration = Duration::from_millis(200);
/// And at least so many times as long as it took to look last: on a host of many guests that start one after another it is done
/// for a tenth of the time, and not all the time.
const REST: u32 = 9;

/// Guests could not be compared with the hypervisor's.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The journal cannot be read.
    #[error(transparent)]
    Guests(#[from] GuestsError),
    /// The hypervisor does not tell its guests.
    #[error(transparent)]
    Driver(#[from] GuestError),
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Goes on with what is open and brings back what should run, again and again, until `shutdown`.
    pub async fn keep(&self, interval: Duration, shutdown: CancellationToken) {
        loop {
            let compared = self.reconcile().await;
            self.try_write().await;
            if let Err(error) = compared {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "guests could not be compared"
                );
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = self.between(interval) => {}
            }
        }
        self.stop().await;
    }

    /// Until the next comparison is due by the clock. Meanwhile guests are compared with the hypervisor's whenever something of
    /// them was said to have changed there ([`Guests::stir`]).
    pub(super) async fn between(&self, interval: Duration) {
        let due = Instant::now() + interval;
        let mut rested = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(due) => return,
                () = self.inner.stirred.notified() => {}
            }
            let gathered = rested.max(Instant::now() + GATHERED);
            sleep_until(gathered.min(due)).await;
            if gathered >= due {
                return;
            }
            let began = Instant::now();
            let compared = self.compared_now().await;
            rested = Instant::now() + began.elapsed().saturating_mul(REST);
            if let Err(error) = compared {
                // The clock's comparison says it, if it lasts.
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "guests could not be compared early"
                );
            }
        }
    }

    /// One comparison of all guests with the hypervisor's, and what no guest uses any more is removed: every guest's folder is
    /// looked at, so this is for the clock, and not for each change. Their journeys go on by themselves afterwards.
    pub async fn reconcile(&self) -> Result<(), SyncError> {
        self.resume().await?;
        let records = self.list().await?;
        self.tidy(&records).await;
        self.compare(&records).await
    }

    /// The same without what is for the clock.
    async fn compared_now(&self) -> Result<(), SyncError> {
        self.resume().await?;
        self.compare(&self.list().await?).await
    }

    /// Compares guests with the hypervisor's, and has those mended that are not as they should be.
    async fn compare(&self, records: &[Arc<GuestRecord>]) -> Result<(), SyncError> {
        if records.is_empty() {
            return Ok(());
        }
        let found = self.inner.context.driver.guests().await?;
        for record in records {
            let uuid = record.request.uuid();
            match plan_power_sync(record, found.get(&uuid), &self.inner.context.boot_id) {
                PowerSyncAction::InSync | PowerSyncAction::UnexpectedlyPaused => {}
                PowerSyncAction::BringBack
                | PowerSyncAction::EndedItself
                | PowerSyncAction::Stop
                | PowerSyncAction::Suspend
                | PowerSyncAction::Pause
                | PowerSyncAction::TakeOff => {
                    let guests = self.clone();
                    self.inner.journeys.spawn_detached(async move {
                        told(uuid, guests.mend(uuid).await);
                    });
                }
            }
        }
        Ok(())
    }

    /// Removes what none of these guests uses any more: old images first of all.
    async fn tidy(&self, records: &[Arc<GuestRecord>]) {
        let own = records.iter().map(|record| Cow::Borrowed(&record.request));
        let others = records.iter().flat_map(|record| record.other_forms());
        let forms: Vec<_> = own.chain(others.map(Cow::Owned)).collect();
        let forms: Vec<_> = forms.iter().map(Cow::as_ref).collect();
        self.inner.context.resources.tidy(&forms).await;
    }

    /// Looks again, in its turn, and mends one guest.
    pub(super) async fn mend(&self, uuid: ConsumerUuid) -> ReconcileOutcome {
        let turn = self.turn(uuid).await;
        let end = match self.mended(&turn, uuid).await {
            Ok(end) => end,
            Err(reason) => ReconcileOutcome::Held { reason },
        };
        self.ended(uuid, &end);
        end
    }

    async fn mended(
        &self,
        turn: &KeyGuard<ConsumerUuid>,
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
                let stop = PowerAction::Stop { grace: GRACE };
                let _ = context
                    .driver
                    .power(uuid, stop)
                    .await
                    .map_err(BlockedReason::NotAtRest)?;
                // Once it was: what cannot be stopped is told by what holds it up.
                tracing::info!(guest = %uuid, "the guest should have been off and was not; it was stopped");
            }
            PowerSyncAction::Suspend => {
                match context.driver.suspend(uuid).await {
                    Err(error) if error.disposition() == Disposition::Retry => {
                        return Err(BlockedReason::NotAtRest(error));
                    }
                    // As if it had been refused at once: it goes on.
                    Err(error) => {
                        tracing::warn!(guest = %uuid, %error, "the guest is not suspended");
                        context
                            .journal
                            .set_power(uuid, DesiredPower::Running)
                            .await?;
                    }
                    Ok(_) => {}
                }
                let life = InstanceOverrides {
                    suspending: false,
                    ..record.life.clone()
                };
                context.journal.record_overrides(uuid, &life, &[]).await?;
            }
            PowerSyncAction::Pause => {
                let pause = PowerAction::Pause;
                let _ = context
                    .driver
                    .power(uuid, pause)
                    .await
                    .map_err(BlockedReason::NotAtRest)?;
            }
            PowerSyncAction::EndedItself => {
                tracing::info!(guest = %uuid, "the guest ended itself, or was stopped by hand; it stays off until it is started");
                // First why: what is wanted then agrees with the hypervisor, and is looked at no more.
                let life = InstanceOverrides {
                    ended: true,
                    ..record.life.clone()
                };
                context.journal.record_overrides(uuid, &life, &[]).await?;
                context
                    .journal
                    .set_power(uuid, DesiredPower::ShutOff)
                    .await?;
            }
            PowerSyncAction::TakeOff => {
                tracing::warn!(guest = %uuid, "the guest was undone and is on the hypervisor; it is taken off again");
            }
            PowerSyncAction::BringBack => {
                let open = StepRecord {
                    state: StepState::Begun,
                    detail: record.ran_in().to_owned(),
                };
                context
                    .journal
                    .record_step(uuid, SpawnStep::Start, &open)
                    .await?;
            }
        }
        self.travel(turn, uuid).await
    }
}

//! Keeping guests as they should be: at the start of the agent, after a boot of the host, and every `reconcile_interval`.
//!
//! A guest that should run and is not there, or is off since the host was booted, is brought back through the steps of its
//! spawn, devices first. One that is off in the boot it was started in has ended itself: then that is what it should be (Nova's
//! power sync). One that cannot be brought back is held and tried again, never undone.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::DesiredPower;
use berth_virt::{GuestError, GuestOnHost, GuestState, VirtDriver};
use tokio_util::sync::CancellationToken;

use super::guests::{Guests, GuestsError, Held, JourneyEnd, told};
use super::journal::{Course, GuestRecord, Life, SpawnStep, StepRecord, StepState};
use super::resources::GuestResources;
use super::way::is_ours;

/// What a look at a settled guest comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    AsItShouldBe,
    BringBack,
    EndedItself,
}

/// Guests could not be compared with the hypervisor's.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The journal cannot be read.
    #[error(transparent)]
    Guests(#[from] GuestsError),
    /// The hypervisor does not tell its guests.
    #[error(transparent)]
    Driver(#[from] GuestError),
}

pub(super) fn look(record: &GuestRecord, found: Option<&GuestOnHost>, boot_id: &str) -> Look {
    let settled =
        record.course == Course::Spawn && record.state(SpawnStep::Start) == Some(StepState::Done);
    if !settled || record.power == DesiredPower::ShutOff {
        return Look::AsItShouldBe;
    }
    match found {
        None => Look::BringBack,
        // Somebody else's: the spawn would be refused, and holding it would say nothing new.
        Some(found) if !is_ours(found, &record.request) => Look::AsItShouldBe,
        Some(found) => match found.state {
            GuestState::Running | GuestState::Paused => Look::AsItShouldBe,
            GuestState::ShutOff | GuestState::Crashed if record.ran_in() != boot_id => {
                Look::BringBack
            }
            GuestState::ShutOff | GuestState::Crashed => Look::EndedItself,
        },
    }
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Goes on with what is open and brings back what should run, again and again, until `shutdown`.
    pub async fn keep(&self, interval: Duration, shutdown: CancellationToken) {
        loop {
            if let Err(error) = self.reconcile().await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "guests could not be compared"
                );
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(interval) => {}
            }
        }
        self.stop().await;
    }

    /// One comparison of all guests with the hypervisor's. Their journeys go on by themselves afterwards.
    ///
    /// # Errors
    /// The journal or the hypervisor does not answer.
    pub async fn reconcile(&self) -> Result<(), KeepError> {
        self.resume().await?;
        let records = self.list().await?;
        let forms = records.iter().flat_map(|record| {
            let forms = [Ok(record.request.clone()), record.own(), record.present()];
            forms.into_iter().flatten()
        });
        let forms: Vec<_> = forms.collect();
        let forms: Vec<_> = forms.iter().collect();
        self.inner.way.resources.tidy(&forms).await;
        if records.is_empty() {
            return Ok(());
        }
        let found = self.inner.way.driver.guests().await?;
        for record in &records {
            let uuid = record.request.uuid();
            let seen = look(record, found.get(&uuid), &self.inner.way.boot_id);
            if seen != Look::AsItShouldBe {
                let guests = self.clone();
                self.inner.tasks().spawn(async move {
                    told(uuid, guests.mend(uuid).await);
                });
            }
        }
        Ok(())
    }

    /// Looks again, in its turn, and mends one guest.
    pub(super) async fn mend(&self, uuid: ConsumerUuid) -> JourneyEnd {
        let _turn = self.turn(uuid).await;
        let end = match self.mended(uuid).await {
            Ok(end) => end,
            Err(reason) => JourneyEnd::Held { reason },
        };
        self.ended(uuid, &end);
        end
    }

    async fn mended(&self, uuid: ConsumerUuid) -> Result<JourneyEnd, Held> {
        let way = &self.inner.way;
        let Some(record) = way.journal.guest(uuid).await? else {
            return Ok(JourneyEnd::Gone);
        };
        let found: BTreeMap<_, _> = way.driver.guests().await.map_err(Held::Hypervisor)?;
        match look(&record, found.get(&uuid), &way.boot_id) {
            Look::AsItShouldBe => {}
            Look::EndedItself => {
                tracing::info!(guest = %uuid, "the guest ended itself, or was stopped by hand; it stays off until it is started");
                // First why: what is wanted then agrees with the hypervisor, and is looked at no more.
                let life = Life {
                    ended: true,
                    ..record.life
                };
                way.journal.live(uuid, &life, &[]).await?;
                way.journal.want(uuid, DesiredPower::ShutOff).await?;
            }
            Look::BringBack => {
                let open = StepRecord {
                    state: StepState::Begun,
                    detail: record.ran_in().to_owned(),
                };
                way.journal.note(uuid, SpawnStep::Start, &open).await?;
            }
        }
        self.travel(uuid).await
    }
}

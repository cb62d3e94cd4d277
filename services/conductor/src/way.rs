//! The journal and the services that a boot goes through.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_client::{AcceleratorClient, PlacementClient};
use berth_hosts::{GroupMember, OwnedGuest};
use berth_model::{ConsumerUuid, DeviceProfileName};
use berth_wire::guest::ImageComing;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::conductor::ConductorOptions;
use crate::journal::{BootJournal, BootStep, JournalError, StepDetail, StepRecord, StepState};
use crate::late_claims::LateClaims;
use crate::metrics::Metrics;
use crate::strays::Strays;
use crate::{Agents, FilterScheduler};

pub(crate) struct Way {
    pub(crate) journal: Arc<dyn BootJournal>,
    pub(crate) placement: PlacementClient,
    pub(crate) accelerators: AcceleratorClient,
    pub(crate) agents: Arc<dyn Agents>,
    pub(crate) scheduler: Arc<FilterScheduler>,
    pub(crate) options: ConductorOptions,
    /// The images that guests wait for, as their agents last told.
    pub(crate) images: Mutex<BTreeMap<ConsumerUuid, ImageComing>>,
    /// A place for each guest that may be searched a host beside others.
    pub(crate) searches: Semaphore,
    pub(crate) metrics: Metrics,
    pub(crate) strays: Strays,
    pub(crate) late_claims: LateClaims,
}

impl Way {
    /// Keeps what a guest's agent tells of its image.
    pub(crate) fn image_is(&self, guest: ConsumerUuid, image: Option<ImageComing>) {
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        match image {
            Some(image) => images.insert(guest, image),
            None => images.remove(&guest),
        };
    }

    /// What a guest's agent last told of its image, while the guest waits for it.
    pub(crate) fn image_of(&self, guest: ConsumerUuid) -> Option<ImageComing> {
        let images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        images.get(&guest).cloned()
    }

    /// A guest as this conductor's.
    pub(crate) fn own(&self, guest: ConsumerUuid) -> OwnedGuest {
        OwnedGuest {
            instance: *guest.as_uuid(),
            owner: self.journal.owner(),
        }
    }

    /// A guest as its server group knows it.
    pub(crate) fn member(&self, group: Uuid, guest: ConsumerUuid) -> GroupMember {
        GroupMember {
            group,
            instance: *guest.as_uuid(),
            owner: self.journal.owner(),
        }
    }

    /// Accelerator requests of this profile may have been made that nobody knows.
    pub(crate) async fn stray(&self, profile: &DeviceProfileName) -> Result<(), JournalError> {
        let _noting = self.strays.noting().await;
        self.journal.stray(profile).await?;
        self.strays.noted(profile);
        Ok(())
    }

    /// A claim of this guest was asked for, or given back, and not answered; it may still be granted, or the next one taken.
    pub(crate) async fn late_claim(&self, guest: ConsumerUuid) -> Result<(), JournalError> {
        self.journal.late_claim(guest).await?;
        self.late_claims.noted(guest);
        Ok(())
    }

    /// Whether a claim of this guest may come that was asked for before.
    pub(crate) async fn may_come_late(&self, guest: ConsumerUuid) -> Result<bool, JournalError> {
        Ok(self.journal.late_claims().await?.contains(&guest))
    }

    pub(crate) async fn note(
        &self,
        (guest, attempt): (ConsumerUuid, u32),
        step: BootStep,
        state: StepState,
        detail: StepDetail,
    ) -> Result<(), JournalError> {
        let record = StepRecord { state, detail };
        self.journal.note(guest, attempt, step, &record).await
    }
}

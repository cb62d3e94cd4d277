//! [`BootContext`]: the journal, the service clients and the shared state that boots and undos use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_client::{
    AcceleratorClient, NetworkClient, NetworkClientError, NetworkExtensions, PlacementClient,
};
use berth_hosts::{GroupMember, OwnedGuest};
use berth_keyed_tasks::FairPermits;
use berth_model::{ConsumerUuid, DeviceProfileName};
use berth_wire::guest::ImageComing;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::BootRequest;
use crate::journal::LatePort;
use crate::journal::{
    BootJournal, BootStep, BootStepDetail, BootStepRecord, JournalError, StepState,
};
use crate::late_effects::LateEffects;
use crate::metrics::BootMetrics;
use crate::options::ConductorOptions;
use crate::orphaned_arqs::OrphanedArqs;
use crate::{Agents, FilterScheduler};

/// Everything that the steps of a boot need. One value per conductor.
pub(crate) struct BootContext {
    pub(crate) journal: Arc<dyn BootJournal>,
    pub(crate) placement: PlacementClient,
    pub(crate) accelerators: AcceleratorClient,
    /// The network service; `None` if there is none.
    pub(crate) networks: Option<NetworkClient>,
    pub(crate) network_extensions: OnceCell<NetworkExtensions>,
    pub(crate) agents: Arc<dyn Agents>,
    pub(crate) scheduler: Arc<FilterScheduler>,
    pub(crate) options: ConductorOptions,
    /// Image downloads that guests wait for, as last reported by their agents.
    pub(crate) images: Mutex<BTreeMap<ConsumerUuid, ImageComing>>,
    /// Permits of concurrent boots, up to the agent's acceptance of the guest; by project.
    pub(crate) boots: FairPermits<String>,
    /// Permits of concurrent host searches; by project.
    pub(crate) searches: FairPermits<String>,
    pub(crate) metrics: BootMetrics,
    pub(crate) orphaned_arqs: OrphanedArqs,
    pub(crate) late_claims: LateEffects,
    pub(crate) late_ports: LateEffects,
}

impl BootContext {
    /// The extensions of the network service, which are asked for once.
    pub(crate) async fn network_extensions(
        &self,
        networks: &NetworkClient,
    ) -> Result<&NetworkExtensions, NetworkClientError> {
        let extensions = self
            .network_extensions
            .get_or_try_init(|| networks.extensions());
        extensions.await
    }

    /// Stores the reported image download of a guest; `None` removes it.
    pub(crate) fn set_image_download(&self, guest: ConsumerUuid, image: Option<ImageComing>) {
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        match image {
            Some(image) => images.insert(guest, image),
            None => images.remove(&guest),
        };
    }

    /// The last reported image download of a guest.
    pub(crate) fn image_download(&self, guest: ConsumerUuid) -> Option<ImageComing> {
        let images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        images.get(&guest).cloned()
    }

    /// The guest with this conductor as its owner.
    pub(crate) fn owned(&self, guest: ConsumerUuid) -> OwnedGuest {
        OwnedGuest {
            instance: *guest.as_uuid(),
            owner: self.journal.owner(),
        }
    }

    /// The guest as a member of its server group, with this conductor as its owner.
    pub(crate) fn member(&self, group: Uuid, guest: ConsumerUuid) -> GroupMember {
        GroupMember {
            group,
            instance: *guest.as_uuid(),
            owner: self.journal.owner(),
        }
    }

    /// Records that ARQs of this profile with unknown UUIDs may exist.
    pub(crate) async fn record_lost_arqs(
        &self,
        profile: &DeviceProfileName,
    ) -> Result<(), JournalError> {
        let _lock = self.orphaned_arqs.lock_records().await;
        self.journal.record_lost_arqs(profile).await?;
        self.orphaned_arqs.reset(profile);
        Ok(())
    }

    /// Records that a claim or release of this guest was not answered, and may take effect later.
    pub(crate) async fn record_late_claim(&self, guest: ConsumerUuid) -> Result<(), JournalError> {
        self.journal.record_late_claim(guest).await?;
        self.late_claims.reset(guest);
        Ok(())
    }

    /// Whether an unanswered claim or release of this guest may still take effect.
    pub(crate) async fn has_late_claim(&self, guest: ConsumerUuid) -> Result<bool, JournalError> {
        Ok(self.journal.late_claims().await?.contains(&guest))
    }

    /// Records that the creation of a port for this guest was not answered, and may take effect later.
    pub(crate) async fn record_late_port(&self, request: &BootRequest) -> Result<(), JournalError> {
        let late = LatePort {
            guest: request.uuid(),
            project: request.project_id().to_owned(),
        };
        self.journal.record_late_port(&late).await?;
        self.late_ports.reset(late.guest);
        Ok(())
    }

    /// Whether an unanswered request for this guest may still take effect. Until then this conductor owns the guest's UUID.
    pub(crate) async fn has_late_effect(&self, guest: ConsumerUuid) -> Result<bool, JournalError> {
        let late = self.journal.late_ports().await?;
        Ok(self.has_late_claim(guest).await? || late.iter().any(|late| late.guest == guest))
    }

    /// Records the state of a step in the journal.
    pub(crate) async fn record_step(
        &self,
        (guest, attempt): (ConsumerUuid, u32),
        step: BootStep,
        state: StepState,
        detail: BootStepDetail,
    ) -> Result<(), JournalError> {
        let record = BootStepRecord { state, detail };
        self.journal
            .record_step(guest, attempt, step, &record)
            .await
    }
}

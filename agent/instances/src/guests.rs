//! All guests of this agent: what is asked of them, one journey per guest at a time, and going on after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_agent_images::ImageDownload;
use berth_agent_journal::{
    AcceptOutcome, Goal, GuestJournal, GuestRecord, GuestRequest, JournalError,
};
use berth_keyed_tasks::KeyedTasks;
use berth_model::ConsumerUuid;
use berth_virt::{CpuSet, GuestError, GuestState, VirtDriver};
use berth_workflow::JournalHealth;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::accelerators::Accelerators;
use crate::changes::GuestChanges;
use crate::create::{BuildOptions, Building, pinned_elsewhere};
use crate::external_events::ExternalEvents;
use crate::files::{FileRefused, GuestFiles};
use crate::image_downloads::ActiveDownloads;
use crate::outcome::HeldGuests;
use crate::resources::{GuestResources, ResourceError};
use crate::spawn_context::SpawnContext;

/// How long a hypervisor may take to say how its guests are, for one who only wants to see.
const STATES_PATIENCE: Duration = Duration::from_secs(2);

/// A guest that nothing can be asked of.
#[derive(Debug, thiserror::Error)]
pub enum GuestsError {
    /// It is not known here.
    #[error("there is no guest {uuid} on this host")]
    NotFound { uuid: ConsumerUuid },
    /// The hypervisor has a guest of that UUID that berth made, and the journal says nothing of it: not how it is ended.
    #[error(
        "guest {uuid} ({name}) is on this host and was made by berth, but the journal of guests (guests.db) does not know it; \
         restore guests.db from a backup, or end the guest by the hypervisor's own means, and delete it again"
    )]
    Orphan {
        uuid: ConsumerUuid,
        /// Its name on the hypervisor.
        name: String,
    },
    /// The journal does not know it, and the hypervisor does not say whether it has it.
    #[error(
        "the journal does not know guest {uuid}, and whether it is on this host cannot be said: {source}"
    )]
    Hypervisor {
        uuid: ConsumerUuid,
        source: GuestError,
    },
    /// Another request has its UUID.
    #[error("guest {uuid} was asked for before, and differently; delete that one first")]
    Other { uuid: ConsumerUuid },
    /// It is being deleted.
    #[error("guest {uuid} is being deleted; ask again when it is gone")]
    Ending { uuid: ConsumerUuid },
    /// Host CPUs that it is to be pinned to are another's.
    #[error("the host's CPUs {cpus} are guest {holder}'s; name others in spec.topology.pinning")]
    CpusTaken { cpus: CpuSet, holder: ConsumerUuid },
    /// It names a file of the host that it may not have.
    #[error("spec.{0}")]
    File(#[from] FileRefused),
    /// What the journal must not have in clear cannot be kept.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl GuestsError {
    /// What is wrong with the journal, where that is it.
    #[must_use]
    pub fn of_journal(&self) -> Option<&JournalError> {
        match self {
            Self::Journal(error) => Some(error),
            _ => None,
        }
    }
}

pub(super) struct Inner<D, R> {
    pub(super) context: SpawnContext<D, R>,
    /// Held from reading what guests hold of the host until one more is written down.
    pub(super) placing: tokio::sync::Mutex<()>,
    pub(super) journeys: KeyedTasks<ConsumerUuid>,
    /// Why guests stand still, as of their last journeys.
    pub(super) held: watch::Sender<HeldGuests>,
    /// How many journeys have ended.
    pub(super) ends: watch::Sender<u64>,
    pub(super) changes: watch::Sender<GuestChanges>,
    pub(super) journal_health: JournalHealth,
    /// Something of guests changed on the hypervisor.
    pub(super) stirred: Notify,
    pub(super) images: ActiveDownloads,
}

/// All guests of this agent. Clones are one.
pub struct Guests<D, R> {
    pub(super) inner: Arc<Inner<D, R>>,
    pub(super) building: Option<Building>,
}

impl<D, R> Clone for Guests<D, R> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            building: self.building.clone(),
        }
    }
}

/// What guests are made through.
pub struct GuestsParts<D, R> {
    /// What is under way.
    pub journal: Arc<dyn GuestJournal>,
    pub driver: Arc<D>,
    pub resources: Arc<R>,
    pub accelerators: Accelerators,
    /// Which boot of the host this is (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// The guests of the journal. Nothing happens before [`Guests::resume`] or a request.
    #[must_use]
    pub fn new(parts: GuestsParts<D, R>) -> Self {
        let inner = Inner {
            context: SpawnContext {
                journal: parts.journal,
                driver: parts.driver,
                resources: parts.resources,
                accelerators: parts.accelerators,
                boot_id: parts.boot_id,
            },
            placing: tokio::sync::Mutex::default(),
            journeys: KeyedTasks::default(),
            held: watch::Sender::default(),
            ends: watch::Sender::new(0),
            changes: watch::Sender::default(),
            journal_health: JournalHealth::new("guests.db"),
            stirred: Notify::new(),
            images: ActiveDownloads::default(),
        };
        Self {
            inner: Arc::new(inner),
            building: None,
        }
    }

    /// The same, which makes guests of builds too ([`Guests::build`]).
    #[must_use]
    pub fn with_building(self, building: Building) -> Self {
        let building = Some(building);
        Self { building, ..self }
    }

    /// The journal of the instances.
    #[must_use]
    pub fn journal(&self) -> &Arc<dyn GuestJournal> {
        &self.inner.context.journal
    }

    /// Which files of the host instances may have.
    #[must_use]
    pub fn files(&self) -> &GuestFiles {
        self.inner.context.resources.files()
    }

    /// What instances are created with; none where this agent creates none.
    #[must_use]
    pub fn build_options(&self) -> Option<&BuildOptions> {
        self.building.as_ref().map(|building| &building.options)
    }

    /// Records that the journal could not be written.
    pub fn journal_failed(&self, error: &JournalError) {
        self.inner.journal_health.record_write_error(error);
    }

    /// Where services' events go.
    #[must_use]
    pub fn events(&self) -> &ExternalEvents {
        &self.inner.context.accelerators.events
    }

    /// Changes whenever a guest's journey ended: devices may have been given back.
    #[must_use]
    pub fn ends(&self) -> watch::Receiver<u64> {
        self.inner.ends.subscribe()
    }

    /// Takes a request: once this is answered the guest will run, or say why it does not, whatever happens to the agent.
    pub async fn create(&self, request: &GuestRequest) -> Result<AcceptOutcome, GuestsError> {
        let _placing = self.inner.placing.lock().await;
        let pinned = !request.reserved_cpus().is_empty();
        if pinned {
            let records = self.list().await?;
            if let Some((cpus, holder)) = pinned_elsewhere(request, &records) {
                return Err(GuestsError::CpusTaken { cpus, holder });
            }
        }
        self.accept(request).await
    }

    /// Writes a request down and begins its journey; under the lock.
    pub(super) async fn accept(
        &self,
        request: &GuestRequest,
    ) -> Result<AcceptOutcome, GuestsError> {
        let uuid = request.uuid();
        // Before it is written down: what the journal has of it is shown, its console first of all.
        self.inner.context.allow(request.spec())?;
        self.inner.context.resources.present(request.spec())?;
        self.inner.context.resources.keep(request).await?;
        let accepted = self.inner.context.journal.accept(request).await;
        let accepted = self.inner.journal_health.record_write(accepted)?;
        match accepted {
            AcceptOutcome::New | AcceptOutcome::Same => {}
            AcceptOutcome::Conflict => return Err(GuestsError::Other { uuid }),
            AcceptOutcome::Deleting => return Err(GuestsError::Ending { uuid }),
        }
        self.note_change();
        self.set_out(uuid);
        Ok(accepted)
    }

    /// Takes the request to end a guest: once this is answered it will be gone, accelerator requests included.
    ///
    /// Errors: There is no such guest: neither the journal nor the hypervisor has it, and what was kept for it is gone;
    /// or that cannot be removed; or the journal cannot be written.
    pub async fn delete(&self, uuid: ConsumerUuid) -> Result<(), GuestsError> {
        let mut turned = self
            .inner
            .context
            .journal
            .set_goal(uuid, &Goal::Destroy)
            .await;
        if let Err(JournalError::Unknown { .. }) = turned {
            match self.unknown(uuid).await {
                GuestsError::NotFound { .. } => {}
                other => return Err(other),
            }
            // What is kept may be of a request that is just being written down: then it is known now.
            let _placing = self.inner.placing.lock().await;
            turned = self
                .inner
                .context
                .journal
                .set_goal(uuid, &Goal::Destroy)
                .await;
            if let Err(JournalError::Unknown { .. }) = turned {
                // Of one that was never written down: nobody else would remove it soon, and a tenant's secrets may be in it.
                self.inner.context.resources.discard(uuid).await?;
                return Err(GuestsError::NotFound { uuid });
            }
        }
        self.inner.journal_health.record_write(turned)?;
        // A spawn under way looks at its course again.
        self.inner.journeys.interrupt(&uuid);
        self.note_change();
        self.set_out(uuid);
        Ok(())
    }

    /// What a guest is that the journal does not know. Whoever hears that it is not there gives its devices to others, so a
    /// journal that was lost must not say that.
    async fn unknown(&self, uuid: ConsumerUuid) -> GuestsError {
        match self.inner.context.on_host(uuid).await {
            Ok(Some(found)) if found.owner.is_some() => GuestsError::Orphan {
                uuid,
                name: found.name,
            },
            // A driver without guests has none, and what berth did not make is not the guest that is meant.
            Ok(_) | Err(GuestError::NotSupported { .. }) => GuestsError::NotFound { uuid },
            Err(source) => GuestsError::Hypervisor { uuid, source },
        }
    }

    pub async fn list(&self) -> Result<Vec<Arc<GuestRecord>>, GuestsError> {
        let read = self.inner.context.journal.guests().await;
        let failure = read.as_ref().err().map(ToString::to_string);
        self.inner.journal_health.record_read_result(failure);
        Ok(read?)
    }

    /// What the hypervisor has of its guests now; nothing where it does not answer soon.
    pub async fn states(&self) -> BTreeMap<ConsumerUuid, GuestState> {
        let guests = timeout(STATES_PATIENCE, self.inner.context.driver.guests()).await;
        let guests = guests.ok().and_then(Result::ok).unwrap_or_default();
        let states = guests.into_iter().map(|(uuid, found)| (uuid, found.state));
        states.collect()
    }

    /// What the hypervisor has of one guest now; nothing where it does not answer soon.
    pub async fn state(&self, uuid: ConsumerUuid) -> Option<GuestState> {
        let guest = timeout(STATES_PATIENCE, self.inner.context.driver.guest(uuid)).await;
        let guest = guest.ok().and_then(Result::ok).flatten();
        guest.map(|found| found.state)
    }

    pub async fn show(&self, uuid: ConsumerUuid) -> Result<Arc<GuestRecord>, GuestsError> {
        let record = self.inner.context.journal.guest(uuid).await?;
        record.ok_or(GuestsError::NotFound { uuid })
    }

    /// How far the image is that a guest waits for; none where it waits for none.
    #[must_use]
    pub fn coming(&self, record: &GuestRecord) -> Option<ImageDownload> {
        let resources = &self.inner.context.resources;
        let changes = self.inner.images.of(record.request.uuid());
        if let Some(coming) = changes.and_then(|plan| resources.coming(&plan)) {
            return Some(coming);
        }
        record.open()?;
        let request = record.present().ok()?;
        resources.coming(request.disks())
    }

    /// Goes on with every guest that is not where it should be: at the start, and again after each pause for those that stand
    /// still. How many those are.
    pub async fn resume(&self) -> Result<usize, GuestsError> {
        let records = self.list().await?;
        let open = records.iter().filter(|record| record.open().is_some());
        let open: Vec<_> = open.map(|record| record.request.uuid()).collect();
        for uuid in &open {
            // Its journey may be under way.
            if !self.inner.journeys.is_active(uuid) {
                self.set_out(*uuid);
            }
        }
        Ok(open.len())
    }

    /// Waits until no journey is under way, and takes none any more.
    pub async fn stop(&self) {
        self.inner.journeys.stop().await;
    }

    /// Instances changed on the hypervisor: the reconcile loop compares them at once.
    pub fn stir(&self) {
        self.inner.stirred.notify_one();
    }

    /// Why the journal cannot be used, with a word whenever that changes: no guest is gone on with then, and none is taken.
    #[must_use]
    pub fn unusable(&self) -> watch::Receiver<Option<String>> {
        self.inner.journal_health.subscribe()
    }

    /// Looks whether the journal can be written: until somebody asks for something, nobody else would.
    pub(super) async fn try_write(&self) {
        let tried = self.inner.context.journal.try_write().await;
        // It is told when it is news.
        let _ = self.inner.journal_health.record_write(tried);
    }

    /// Why nothing could be written down when that was tried last; none where it could.
    pub(super) fn refuses_writes(&self) -> Option<String> {
        let health = &self.inner.journal_health;
        let reason = health.refuses_writes().then(|| health.subscribe());
        reason.and_then(|reason| reason.borrow().clone())
    }
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// What changed, with a word whenever something did.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<GuestChanges> {
        self.inner.changes.subscribe()
    }

    /// Something of what guests have of this host may be another now.
    pub(super) fn note_change(&self) {
        let changes = &self.inner.changes;
        changes.send_modify(|changes| changes.count += 1);
    }

    /// A guest runs that never did.
    pub(super) fn build_succeeded(&self) {
        let changes = &self.inner.changes;
        changes.send_modify(|changes| changes.failed_builds = 0);
    }

    /// A guest that never ran will not.
    pub(super) fn build_failed(&self) {
        let changes = &self.inner.changes;
        changes.send_modify(|changes| {
            changes.failed_builds = changes.failed_builds.saturating_add(1);
        });
    }
}

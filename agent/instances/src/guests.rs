//! The instances of this agent: [`Guests`] accepts requests to create and delete them, and starts one reconcile task
//! per instance.
//!
//! ```text
//! create/accept --> journal (goal: spawn) ----+
//! delete -------> journal (goal: destroy) ----+--> spawn_reconcile --> reconcile_instance
//! resume (start of the agent, every sync) ----+
//! ```
//!
//! A request is answered once it is in the journal. The reconcile task then drives the instance to the goal (`reconcile_instance`),
//! and continues after a restart of the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_agent_images::ImageDownload;
use berth_agent_journal::{
    AcceptOutcome, Goal, GuestJournal, GuestRecord, GuestRequest, JournalError,
};
use berth_keyed_tasks::{FairPermits, KeyedTasks};
use berth_model::ConsumerUuid;
use berth_virt::{
    CpuSet, GuestDiagnostics, GuestError, InterfaceAddresses, PowerState, VirtDriver,
};
use berth_workflow::JournalHealth;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::accelerators::Accelerators;
use crate::changes::GuestChanges;
use crate::create::{BuildContext, BuildOptions, conflicting_pins};
use crate::external_events::ExternalEvents;
use crate::files::{FileRefusal, GuestFiles};
use crate::image_downloads::ActiveDownloads;
use crate::live_console::OpenConsoles;
use crate::outcome::BlockedGuests;
use crate::resources::{GuestResources, ResourceError};
use crate::spawn_context::SpawnContext;

/// Limit for status queries to the hypervisor.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a request for an instance was refused.
#[derive(Debug, thiserror::Error)]
pub enum GuestsError {
    #[error("there is no guest {uuid} on this host")]
    NotFound { uuid: ConsumerUuid },
    /// Berth created this guest, but the journal lost its record, so the agent does not know how to remove it.
    #[error(
        "guest {uuid} ({name}) was created by Berth on this host, but has no record in the journal (guests.db); restore \
         guests.db from a backup, or remove the guest with the hypervisor's tools, and delete it again"
    )]
    Orphan {
        uuid: ConsumerUuid,
        /// The guest's name on the hypervisor.
        name: String,
    },
    /// The journal has no record of the guest, and the hypervisor did not answer whether it exists.
    #[error(
        "the journal has no record of guest {uuid}, and the hypervisor cannot tell whether the guest exists: {source}"
    )]
    Hypervisor {
        uuid: ConsumerUuid,
        source: GuestError,
    },
    /// Another request already uses this UUID.
    #[error("guest {uuid} already exists with a different request; delete it first")]
    DifferentRequest { uuid: ConsumerUuid },
    #[error("guest {uuid} is being deleted; retry after the deletion")]
    BeingDeleted { uuid: ConsumerUuid },
    /// The request pins the guest to host CPUs that are reserved for another guest.
    #[error(
        "the host's CPUs {cpus} are reserved for guest {holder}; choose other CPUs in spec.topology.pinning"
    )]
    CpusTaken { cpus: CpuSet, holder: ConsumerUuid },
    /// The spec names a host file that guests may not use.
    #[error("spec.{0}")]
    File(#[from] FileRefusal),
    /// The secrets of the request cannot be stored.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl GuestsError {
    /// The journal error, if that is the cause.
    #[must_use]
    pub fn of_journal(&self) -> Option<&JournalError> {
        match self {
            Self::Journal(error) => Some(error),
            _ => None,
        }
    }
}

pub(super) struct GuestsInner<D, R> {
    pub(super) context: SpawnContext<D, R>,
    /// Held from reading the usage of the host until the next guest is in the journal, so that no two guests get one
    /// CPU or device.
    pub(super) placement_lock: tokio::sync::Mutex<()>,
    pub(super) tasks: KeyedTasks<ConsumerUuid>,
    /// Blocked instances, as of their last reconciliation.
    pub(super) blocked: watch::Sender<BlockedGuests>,
    /// Number of completed reconciliations.
    pub(super) completed_reconciles: watch::Sender<u64>,
    pub(super) changes: watch::Sender<GuestChanges>,
    pub(super) journal_health: JournalHealth,
    /// Signals that guests changed on the hypervisor.
    pub(super) changed: Notify,
    pub(super) downloads: ActiveDownloads,
    /// Connections to consoles.
    pub(super) consoles: OpenConsoles,
}

/// All instances of this agent. Clones share the state.
pub struct Guests<D, R> {
    pub(super) inner: Arc<GuestsInner<D, R>>,
    pub(super) build_context: Option<BuildContext>,
}

impl<D, R> Clone for Guests<D, R> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            build_context: self.build_context.clone(),
        }
    }
}

/// The dependencies of [`Guests`].
pub struct GuestsParts<D, R> {
    pub journal: Arc<dyn GuestJournal>,
    pub driver: Arc<D>,
    pub resources: Arc<R>,
    pub accelerators: Accelerators,
    /// Boot ID of the host (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// The number of guests that are built concurrently.
    pub max_concurrent_builds: usize,
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// The instances of the journal. Nothing runs before [`Guests::resume`] or a request.
    #[must_use]
    pub fn new(parts: GuestsParts<D, R>) -> Self {
        let inner = GuestsInner {
            context: SpawnContext {
                journal: parts.journal,
                driver: parts.driver,
                resources: parts.resources,
                accelerators: parts.accelerators,
                boot_id: parts.boot_id,
                builds: FairPermits::new(parts.max_concurrent_builds),
            },
            placement_lock: tokio::sync::Mutex::default(),
            tasks: KeyedTasks::default(),
            blocked: watch::Sender::default(),
            completed_reconciles: watch::Sender::new(0),
            changes: watch::Sender::default(),
            journal_health: JournalHealth::new("guests.db"),
            changed: Notify::new(),
            downloads: ActiveDownloads::default(),
            consoles: OpenConsoles::default(),
        };
        Self {
            inner: Arc::new(inner),
            build_context: None,
        }
    }

    /// Adds what [`Guests::build`] needs. Without it, only complete specs are accepted.
    #[must_use]
    pub fn with_build_context(self, build_context: BuildContext) -> Self {
        let build_context = Some(build_context);
        Self {
            build_context,
            ..self
        }
    }

    #[must_use]
    pub fn journal(&self) -> &Arc<dyn GuestJournal> {
        &self.inner.context.journal
    }

    /// The host files that instances may use.
    #[must_use]
    pub fn files(&self) -> &GuestFiles {
        self.inner.context.resources.files()
    }

    /// The options for builds; `None` if this agent accepts only complete specs.
    #[must_use]
    pub fn build_options(&self) -> Option<&BuildOptions> {
        self.build_context
            .as_ref()
            .map(|build_context| &build_context.options)
    }

    pub fn record_journal_failure(&self, error: &JournalError) {
        self.inner.journal_health.record_write_error(error);
    }

    /// The dispatcher of events from services.
    #[must_use]
    pub fn events(&self) -> &ExternalEvents {
        &self.inner.context.accelerators.events
    }

    /// Changes with every completed reconciliation, because it may have released devices.
    #[must_use]
    pub fn completed_reconciles(&self) -> watch::Receiver<u64> {
        self.inner.completed_reconciles.subscribe()
    }

    /// Accepts a request under the placement lock. After `Ok` the request is in the journal, and the guest will run, or its record will show the
    /// reason, even if the agent is killed.
    pub async fn create(&self, request: &GuestRequest) -> Result<AcceptOutcome, GuestsError> {
        let _lock = self.inner.placement_lock.lock().await;
        let pinned = !request.reserved_cpus().is_empty();
        if pinned {
            let records = self.list().await?;
            if let Some((cpus, holder)) = conflicting_pins(request, &records) {
                return Err(GuestsError::CpusTaken { cpus, holder });
            }
        }
        self.accept(request).await
    }

    /// Writes a request to the journal and starts its reconciliation. The caller holds the placement lock.
    pub(super) async fn accept(
        &self,
        request: &GuestRequest,
    ) -> Result<AcceptOutcome, GuestsError> {
        let uuid = request.uuid();
        // Check before the journal write: the API shows journaled data, for example the console log.
        self.inner.context.allow(request.spec())?;
        self.inner.context.resources.check_present(request.spec())?;
        self.inner.context.resources.store_secrets(request).await?;
        let accepted = self.inner.context.journal.accept(request).await;
        let accepted = self.inner.journal_health.record_write(accepted)?;
        match accepted {
            AcceptOutcome::New | AcceptOutcome::Same => {}
            AcceptOutcome::Conflict => return Err(GuestsError::DifferentRequest { uuid }),
            AcceptOutcome::Deleting => return Err(GuestsError::BeingDeleted { uuid }),
        }
        self.count_change();
        self.spawn_reconcile(uuid);
        Ok(accepted)
    }

    /// Accepts the deletion of a guest. After `Ok` the guest and its accelerator requests will be removed, even if the
    /// agent is killed.
    ///
    /// Errors: neither the journal nor the hypervisor knows the guest (its stored secrets are removed then), the secrets cannot be
    /// removed, or the journal cannot be written.
    pub async fn delete(&self, uuid: ConsumerUuid) -> Result<(), GuestsError> {
        let mut written = self
            .inner
            .context
            .journal
            .set_goal(uuid, &Goal::Destroy)
            .await;
        if let Err(JournalError::Unknown { .. }) = written {
            match self.classify_unknown(uuid).await {
                GuestsError::NotFound { .. } => {}
                other => return Err(other),
            }
            // Another task may be writing the request to the journal: check again under the lock.
            let _lock = self.inner.placement_lock.lock().await;
            written = self
                .inner
                .context
                .journal
                .set_goal(uuid, &Goal::Destroy)
                .await;
            if let Err(JournalError::Unknown { .. }) = written {
                // The request never reached the journal. No later step would remove its secrets.
                self.inner.context.resources.discard_secrets(uuid).await?;
                return Err(GuestsError::NotFound { uuid });
            }
        }
        self.inner.journal_health.record_write(written)?;
        // Makes a running spawn read its goal again.
        self.inner.tasks.interrupt(&uuid);
        self.count_change();
        self.spawn_reconcile(uuid);
        Ok(())
    }

    /// Classifies a guest without a journal record. A caller that gets `NotFound` gives the guest's devices to others,
    /// so a lost journal must not lead to `NotFound`.
    async fn classify_unknown(&self, uuid: ConsumerUuid) -> GuestsError {
        match self.inner.context.on_host(uuid).await {
            Ok(Some(found)) if found.owner.is_some() => GuestsError::Orphan {
                uuid,
                name: found.name,
            },
            // A driver without guests has none. A guest that Berth did not create is not the requested one.
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

    /// The power state of each guest on the hypervisor; empty if the hypervisor does not answer in time.
    pub async fn states(&self) -> BTreeMap<ConsumerUuid, PowerState> {
        let guests = timeout(STATUS_TIMEOUT, self.inner.context.driver.guests()).await;
        let guests = guests.ok().and_then(Result::ok).unwrap_or_default();
        let states = guests.into_iter().map(|(uuid, found)| (uuid, found.state));
        states.collect()
    }

    /// The power state of one guest on the hypervisor; `None` if the hypervisor does not answer in time.
    pub async fn state(&self, uuid: ConsumerUuid) -> Option<PowerState> {
        let guest = timeout(STATUS_TIMEOUT, self.inner.context.driver.guest(uuid)).await;
        let guest = guest.ok().and_then(Result::ok).flatten();
        guest.map(|found| found.state)
    }

    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.inner.context.driver.name()
    }

    /// The statistics of a guest; `None` if the hypervisor does not have it.
    pub async fn diagnostics(
        &self,
        uuid: ConsumerUuid,
    ) -> Result<Option<GuestDiagnostics>, GuestError> {
        self.inner.context.driver.diagnostics(uuid).await
    }

    /// The addresses of these guests' interfaces; empty if the hypervisor does not answer in time.
    pub async fn addresses(&self, records: &[Arc<GuestRecord>]) -> InterfaceAddresses {
        let connected = records.iter();
        let connected = connected.filter(|record| !record.interfaces().as_slice().is_empty());
        let guests: BTreeSet<ConsumerUuid> =
            connected.map(|record| record.request.uuid()).collect();
        if guests.is_empty() {
            return InterfaceAddresses::default();
        }
        let driver = &self.inner.context.driver;
        let found = timeout(STATUS_TIMEOUT, driver.interface_addresses(guests)).await;
        found.ok().and_then(Result::ok).unwrap_or_default()
    }

    pub async fn show(&self, uuid: ConsumerUuid) -> Result<Arc<GuestRecord>, GuestsError> {
        let record = self.inner.context.journal.guest(uuid).await?;
        record.ok_or(GuestsError::NotFound { uuid })
    }

    /// The progress of the image download that the guest waits for; `None` if it waits for none.
    #[must_use]
    pub fn download_progress(&self, record: &GuestRecord) -> Option<ImageDownload> {
        let resources = &self.inner.context.resources;
        let pending = self.inner.downloads.of(record.request.uuid());
        if let Some(progress) = pending.and_then(|plan| resources.download_progress(&plan)) {
            return Some(progress);
        }
        record.open()?;
        let request = record.present().ok()?;
        resources.download_progress(request.disks())
    }

    /// Starts the reconciliation of every instance that has not reached its goal. Called at the start of the agent and
    /// by every sync, so blocked instances are retried. Returns their number.
    pub async fn resume(&self) -> Result<usize, GuestsError> {
        let records = self.list().await?;
        let open = records.iter().filter(|record| record.open().is_some());
        let open: Vec<_> = open.map(|record| record.request.uuid()).collect();
        for uuid in &open {
            // A reconciliation may be running already.
            if !self.inner.tasks.is_active(uuid) {
                self.spawn_reconcile(*uuid);
            }
        }
        Ok(open.len())
    }

    /// Waits until no task is running, and refuses new ones.
    pub async fn stop(&self) {
        self.inner.tasks.stop().await;
    }

    /// Tells the sync loop that guests changed on the hypervisor, so that it syncs them at once.
    pub fn notify_changed(&self) {
        self.inner.changed.notify_one();
    }

    /// Why the journal is unusable; `None` while it works. No instance is reconciled and no request is accepted
    /// meanwhile.
    #[must_use]
    pub fn subscribe_journal_error(&self) -> watch::Receiver<Option<String>> {
        self.inner.journal_health.subscribe()
    }

    /// Checks whether the journal is writable. Without requests, no other write would detect that.
    pub(super) async fn probe_journal(&self) {
        let result = self.inner.context.journal.try_write().await;
        // `journal_health` logs a change.
        let _ = self.inner.journal_health.record_write(result);
    }

    /// Why the last journal write failed; `None` if it succeeded.
    pub(super) fn journal_write_error(&self) -> Option<String> {
        let health = &self.inner.journal_health;
        let reason = health.refuses_writes().then(|| health.subscribe());
        reason.and_then(|reason| reason.borrow().clone())
    }
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// The change counters; the receiver is notified of every change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<GuestChanges> {
        self.inner.changes.subscribe()
    }

    /// Counts a change that may affect the usage of this host.
    pub(super) fn count_change(&self) {
        let changes = &self.inner.changes;
        changes.send_modify(|changes| changes.count += 1);
    }

    /// An instance runs for the first time.
    pub(super) fn record_build_success(&self) {
        let changes = &self.inner.changes;
        changes.send_modify(|changes| changes.failed_builds = 0);
    }

    /// An instance that has never run is undone.
    pub(super) fn record_build_failure(&self) {
        let changes = &self.inner.changes;
        changes.send_modify(|changes| {
            changes.failed_builds = changes.failed_builds.saturating_add(1);
        });
    }
}

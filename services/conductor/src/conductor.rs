//! [`Conductor`]: accepts guests, and runs one reconcile task per guest until its goal is reached.
//!
//! ```text
//! create, delete --> journal (goal) --> reconcile task of the guest --> active | failed | gone
//!                                           |     ^
//!                                         blocked-+ retried after a growing delay by `run`
//! ```
//!
//! All state is in the journal. After a restart, [`Conductor::resume`] starts the tasks of all unfinished guests.

mod blocked;
mod failure_decision;
mod metrics;
mod reconcile;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_client::{AcceleratorClient, GuestClient, NetworkClient, PlacementClient};
use berth_keyed_tasks::{FairPermits, KeyedTasks};
use berth_model::ConsumerUuid;
use berth_wire::conductor::{DecisionShown, RequestedNetwork};
use berth_wire::guest::{ActionId, ImageComing};
use berth_wire::network_info::VifBody;
use berth_workflow::JournalHealth;
use tokio::sync::{OnceCell, oneshot, watch};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use blocked::{BlockedGuest, JournalRows};
pub use reconcile::GuestRunOutcome;

use crate::boot::claimed_amounts;
use crate::boot_context::BootContext;
use crate::headroom::HeadroomCache;
use crate::interfaces::{ActiveGuest, InterfaceError};
use crate::journal::{
    AcceptOutcome, BootGoal, BootJournal, BootRecord, BootRecords, JournalError, UnreadableRecord,
};
use crate::late_effects::LateEffects;
use crate::metrics::BootMetrics;
use crate::orphaned_arqs::OrphanedArqs;
use crate::port_refresh::{self, PortRefreshError};
use crate::stale_members::StaleMembers;
use crate::{
    Agents, BootRequest, ConductorError, ConductorOptions, FilterScheduler, HostNode, late_claims,
    late_ports,
};

/// The journal and services that a conductor uses.
pub struct ConductorParts {
    /// Journal of the guests.
    pub journal: Arc<dyn BootJournal>,
    /// Placement, Berth's or OpenStack's.
    pub placement: PlacementClient,
    /// The accelerator service, Berth's or Cyborg; its account needs the role `service`.
    pub accelerators: AcceleratorClient,
    /// The network service, OpenStack's Neutron. Without one, requests with networks are refused.
    pub networks: Option<NetworkClient>,
    /// Finds the agents of hosts.
    pub agents: Arc<dyn Agents>,
    pub scheduler: FilterScheduler,
}

/// The metadata key of an aggregate that puts its hosts in a zone.
pub(crate) const ZONE: &str = "availability_zone";

struct ConductorInner {
    context: BootContext,
    tasks: KeyedTasks<ConsumerUuid>,
    blocked: Mutex<BTreeMap<ConsumerUuid, BlockedGuest>>,
    headroom: HeadroomCache,
    stale_members: StaleMembers,
    journal_health: JournalHealth,
}

/// The conductor. Clones share the same state.
#[derive(Clone)]
pub struct Conductor {
    inner: Arc<ConductorInner>,
}

impl Conductor {
    /// Creates the conductor of a journal. It does nothing before [`Conductor::run`],
    /// [`Conductor::resume`] or a request.
    #[must_use]
    pub fn open(parts: ConductorParts, options: ConductorOptions) -> Self {
        let inner = ConductorInner {
            context: BootContext {
                journal: parts.journal,
                placement: parts.placement,
                accelerators: parts.accelerators,
                networks: parts.networks,
                network_extensions: OnceCell::new(),
                agents: parts.agents,
                scheduler: Arc::new(parts.scheduler),
                options,
                images: Mutex::default(),
                boots: FairPermits::new(options.workers),
                searches: FairPermits::new(options.scheduler_workers),
                metrics: BootMetrics::default(),
                orphaned_arqs: OrphanedArqs::default(),
                late_claims: LateEffects::default(),
                late_ports: LateEffects::default(),
            },
            tasks: KeyedTasks::default(),
            blocked: Mutex::default(),
            headroom: HeadroomCache::default(),
            stale_members: StaleMembers::default(),
            journal_health: JournalHealth::new("conductor.db"),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The network service; `None` if there is none.
    #[must_use]
    pub fn networks(&self) -> Option<&NetworkClient> {
        self.inner.context.networks.as_ref()
    }

    /// Reads the interfaces of an active guest again.
    pub async fn refresh_ports(&self, guest: ConsumerUuid) -> Result<(), PortRefreshError> {
        let _turn = self.inner.tasks.lock(guest).await;
        port_refresh::refresh(&self.inner.context, guest).await
    }

    /// Attaches a port to an active guest, and waits until the guest has it. Repeating it with the same id is safe.
    ///
    /// Errors: The port cannot be had or bound, or the agent refuses. The port is then given back, unless a retry may help.
    pub async fn attach_interface(
        &self,
        guest: ConsumerUuid,
        wanted: &RequestedNetwork,
        id: &ActionId,
    ) -> Result<VifBody, InterfaceError> {
        let lock = self.inner.tasks.lock(guest).await;
        let interrupt = lock.interrupt_token();
        let active = ActiveGuest::read(&self.inner.context, guest, interrupt).await?;
        active.attach(wanted, id).await
    }

    /// Ends an attachment that was given up: the guest does not get the port.
    pub async fn cancel_attachment(
        &self,
        guest: ConsumerUuid,
        wanted: &RequestedNetwork,
        id: &ActionId,
    ) -> Result<(), InterfaceError> {
        let lock = self.inner.tasks.lock(guest).await;
        let interrupt = lock.interrupt_token();
        let active = ActiveGuest::read(&self.inner.context, guest, interrupt).await?;
        active.cancel_attachment(wanted, id).await
    }

    /// Detaches a port from an active guest, and gives it back. Repeating it with the same id is safe.
    ///
    /// Errors: The agent refuses, for example because the guest does not release the port. The guest then keeps it.
    pub async fn detach_interface(
        &self,
        guest: ConsumerUuid,
        port: Uuid,
        id: &ActionId,
    ) -> Result<(), InterfaceError> {
        let lock = self.inner.tasks.lock(guest).await;
        let interrupt = lock.interrupt_token();
        let active = ActiveGuest::read(&self.inner.context, guest, interrupt).await?;
        active.detach(port, id).await
    }

    /// Accepts a request for a guest. After success, the guest will be booted or fail with a reason, even
    /// if the conductor restarts.
    ///
    /// Errors: Another request has the UUID, the scheduler or a plugin refuses the flavor or a hint, or the
    /// journal cannot be written.
    pub async fn create(&self, request: &BootRequest) -> Result<AcceptOutcome, ConductorError> {
        let uuid = request.uuid();
        if let Err(error) = self.inner.context.scheduler.check(request) {
            // A repeated request for an accepted guest succeeds even if the plugins have changed.
            let known = self.inner.context.journal.guest(uuid).await?;
            if known.is_none() {
                return Err(error);
            }
        }
        let accepted = self.inner.context.journal.accept(request).await;
        match self.inner.journal_health.record_write(accepted)? {
            AcceptOutcome::New => {
                self.inner.headroom.record_request(request);
                self.spawn_run(uuid);
                Ok(AcceptOutcome::New)
            }
            // Its task continues with its own retry delay.
            AcceptOutcome::Same => Ok(AcceptOutcome::Same),
            AcceptOutcome::Conflict => Err(ConductorError::Conflict { uuid }),
            AcceptOutcome::Deleting => Err(ConductorError::Deleting { uuid }),
        }
    }

    /// Checks a request's flavor and hints without accepting the request.
    pub fn check(&self, request: &BootRequest) -> Result<(), ConductorError> {
        self.inner.context.scheduler.check(request)
    }

    /// What a guest will claim by resource class. `None` if it has a device profile and the accelerator service does not
    /// answer.
    pub async fn resources(&self, request: &BootRequest) -> Option<BTreeMap<String, u64>> {
        let context = &self.inner.context;
        let profile = match request.profile() {
            None => None,
            Some(name) => Some(
                context
                    .accelerators
                    .device_profile_groups(name)
                    .await
                    .ok()??,
            ),
        };
        let options = context.scheduler.scheduler.options();
        Some(claimed_amounts(request, profile.as_ref(), options))
    }

    /// Checks whether everything exists that the request names: its device profile and its availability zone. What cannot
    /// be asked now is left to the boot, which retries.
    pub async fn check_names(&self, request: &BootRequest) -> Result<(), ConductorError> {
        let context = &self.inner.context;
        if let Some(name) = request.profile()
            && let Ok(None) = context.accelerators.device_profile_groups(name).await
        {
            return Err(ConductorError::NoProfile {
                name: name.to_string(),
            });
        }
        let Some(zone) = &request.target().zone else {
            return Ok(());
        };
        let Ok(aggregates) = context.scheduler.hosts.placement_aggregates().await else {
            return Ok(());
        };
        let options = context.scheduler.scheduler.options();
        let named = aggregates
            .iter()
            .filter_map(|aggregate| aggregate.metadata.get(ZONE));
        let zones: BTreeSet<&String> = named
            .chain([&options.default.default_availability_zone])
            .collect();
        match zones.contains(zone) {
            true => Ok(()),
            false => Err(ConductorError::NoZone {
                zone: zone.clone(),
                zones: zones.into_iter().cloned().collect(),
            }),
        }
    }

    /// Checks the request for a guest of operators, whose commands find guests by name: the name must be new, and
    /// everything that the request names must exist.
    pub(crate) async fn check_new(&self, request: &BootRequest) -> Result<(), ConductorError> {
        self.check_unique_name(request).await?;
        self.check_names(request).await
    }

    async fn check_unique_name(&self, request: &BootRequest) -> Result<(), ConductorError> {
        let name = &request.body().name;
        let guests = self.list().await?.readable;
        let mut others = guests.iter().map(|record| &record.request);
        match others.find(|other| other.uuid() != request.uuid() && other.body().name == *name) {
            Some(other) => Err(ConductorError::NameTaken {
                name: name.clone(),
                uuid: other.uuid(),
            }),
            None => Ok(()),
        }
    }

    /// The client of Placement.
    #[must_use]
    pub fn placement(&self) -> &PlacementClient {
        &self.inner.context.placement
    }

    /// UUID of the journal, which identifies the conductor.
    #[must_use]
    pub fn owner(&self) -> Uuid {
        self.inner.context.journal.owner()
    }

    /// The agent of the host that reported a node, if one is known.
    #[must_use]
    pub fn agent(&self, node: &HostNode) -> Option<GuestClient> {
        self.inner.context.agents.agent(node)
    }

    /// Accepts the deletion of a guest. After success, the guest, its accelerator requests and its allocations
    /// will be deleted, even if the conductor restarts.
    pub async fn delete(&self, uuid: ConsumerUuid) -> Result<(), ConductorError> {
        // The task finishes even if the caller is dropped: the goal is written, and a running boot is
        // interrupted.
        let (sender, receiver) = oneshot::channel();
        let conductor = self.clone();
        self.inner.tasks.spawn_detached(async move {
            let _ = sender.send(conductor.set_delete_goal(uuid).await);
        });
        match receiver.await {
            Ok(result) => result,
            // The conductor is stopping, so there is no task to interrupt.
            Err(_) => self.set_delete_goal(uuid).await,
        }
    }

    async fn set_delete_goal(&self, uuid: ConsumerUuid) -> Result<(), ConductorError> {
        let written = self
            .inner
            .context
            .journal
            .set_goal(uuid, &BootGoal::Delete)
            .await;
        match self.inner.journal_health.record_write(written) {
            Err(JournalError::Unknown { .. }) => return Err(ConductorError::NotFound { uuid }),
            other => other?,
        }
        // Interrupt a running boot so that it reads the new goal.
        self.inner.tasks.interrupt(&uuid);
        self.spawn_run(uuid);
        Ok(())
    }

    pub async fn list(&self) -> Result<BootRecords, ConductorError> {
        Ok(self.inner.context.journal.guests().await?)
    }

    /// The guests that have, or once had, interfaces from the network service, sorted.
    pub async fn guests_with_interfaces(&self) -> Result<Vec<ConsumerUuid>, ConductorError> {
        Ok(self.inner.context.journal.guests_with_interfaces().await?)
    }

    /// The records of the given guests, without unknown ones.
    pub async fn guests_of(&self, uuids: &[ConsumerUuid]) -> Result<BootRecords, ConductorError> {
        Ok(self.inner.context.journal.guests_of(uuids).await?)
    }

    /// A record with an unreadable UUID, if there is one. It may be the record of a guest that was not found.
    pub async fn unidentified_guest(&self) -> Result<Option<UnreadableRecord>, ConductorError> {
        Ok(self.inner.context.journal.unidentified_guest().await?)
    }

    /// The recorded scheduling decisions of a guest, oldest first; empty if there are none.
    pub async fn scheduling(
        &self,
        uuid: ConsumerUuid,
    ) -> Result<Vec<DecisionShown>, ConductorError> {
        let hosts = &self.inner.context.scheduler.hosts;
        let records = hosts.records_for_request(&uuid.to_string()).await?;
        let shown = records.into_iter().filter_map(|one| {
            Some(DecisionShown {
                created_at: one.created_at.rfc3339(),
                explanation: berth_wire::decode(one.record.as_bytes()).ok()?,
            })
        });
        Ok(shown.collect())
    }

    pub async fn show(&self, uuid: ConsumerUuid) -> Result<BootRecord, ConductorError> {
        let record = self.inner.context.journal.guest(uuid).await?;
        record.ok_or(ConductorError::NotFound { uuid })
    }

    /// Why a guest is blocked; `None` if it is not. Blocked guests are retried.
    #[must_use]
    pub fn blocked_reason(&self, uuid: ConsumerUuid) -> Option<String> {
        self.blocked_guests()
            .get(&uuid)
            .map(|held| held.reason.clone())
    }

    /// Progress of the image download that a guest waits for.
    #[must_use]
    pub fn image(&self, uuid: ConsumerUuid) -> Option<ImageComing> {
        self.inner.context.image_download(uuid)
    }

    /// The reason of a guest that is blocked by unreadable rows, if there is one.
    fn unreadable(&self) -> Option<String> {
        let held = self.blocked_guests();
        let mut unreadable = held
            .values()
            .filter(|held| held.rows == JournalRows::Unreadable);
        unreadable.next().map(|held| held.reason.clone())
    }

    /// Starts the tasks of unfinished guests: all of them after a start, later the ones with an expired retry delay.
    /// Returns the number of unfinished guests.
    pub async fn resume(&self) -> Result<usize, ConductorError> {
        let read = self.inner.context.journal.open_guests().await;
        let failure = read.as_ref().err().map(ToString::to_string);
        self.inner
            .journal_health
            .record_read_result(failure.or_else(|| self.unreadable()));
        let open = read?;
        let now = Instant::now();
        for uuid in &open {
            let held = self.blocked_guests().get(uuid).map(|held| held.next);
            let due = held.is_none_or(|next| next <= now);
            // Not if its task is still running.
            if due && !self.inner.tasks.is_active(uuid) {
                self.spawn_run(*uuid);
            }
        }
        Ok(open.len())
    }

    /// Retries blocked guests and runs the garbage collectors until `stop`, then waits for all tasks.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            // `resume` reports an unreadable journal; nothing else runs meanwhile.
            if self.resume().await.is_ok() {
                self.try_write().await;
                if let Err(error) = self
                    .inner
                    .context
                    .orphaned_arqs
                    .collect(&self.inner.context)
                    .await
                {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to collect orphaned accelerator requests"
                    );
                }
                let (context, tasks) = (&self.inner.context, &self.inner.tasks);
                if let Err(error) = late_claims::collect(context, tasks).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to collect late claims"
                    );
                }
                if let Err(error) = late_ports::collect(context, tasks).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to collect late ports"
                    );
                }
                if let Err(error) = self.inner.stale_members.collect(&self.inner.context).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to collect stale server-group members"
                    );
                }
            }
            tokio::select! {
                () = &mut stop => break,
                () = sleep(self.inner.context.options.retry_delay) => {}
            }
        }
        self.stop().await;
    }

    /// Why the journal is unusable; notifies about each change. Meanwhile no boot continues and
    /// no request is accepted.
    #[must_use]
    pub fn unusable(&self) -> watch::Receiver<Option<String>> {
        self.inner.journal_health.subscribe()
    }

    /// After a failed write, tests whether the journal is writable again. Without requests,
    /// nothing else would notice.
    async fn try_write(&self) {
        if self.inner.journal_health.refuses_writes() {
            let tried = self.inner.context.journal.try_write().await;
            // `usable` reports changes.
            let _ = self.inner.journal_health.record_write(tried);
        }
    }

    /// Runs the collector of orphaned accelerator requests if it is due. Returns the number of deleted requests.
    pub async fn collect_orphaned_arqs(&self) -> Result<usize, String> {
        let collected = self
            .inner
            .context
            .orphaned_arqs
            .collect(&self.inner.context)
            .await;
        collected.map_err(|error| error.to_string())
    }

    /// Runs the collector of late claims if it is due. Returns the number of deleted and restored claims.
    pub async fn collect_late_claims(&self) -> Result<usize, String> {
        let collected = late_claims::collect(&self.inner.context, &self.inner.tasks).await;
        collected.map_err(|error| error.to_string())
    }

    /// Runs the collector of late ports if it is due. Returns the number of deleted ports.
    pub async fn collect_late_ports(&self) -> Result<usize, String> {
        let collected = late_ports::collect(&self.inner.context, &self.inner.tasks).await;
        collected.map_err(|error| error.to_string())
    }

    /// Runs the collector of stale server-group members if it is due. Returns the number of removed entries.
    pub async fn collect_stale_members(&self) -> Result<usize, String> {
        let collected = self.inner.stale_members.collect(&self.inner.context).await;
        collected.map_err(|error| error.to_string())
    }

    /// Starts no more tasks, and waits until the running ones have ended.
    pub async fn stop(&self) {
        self.inner.headroom.stop().await;
        self.inner.tasks.stop().await;
    }

    fn blocked_guests(&self) -> MutexGuard<'_, BTreeMap<ConsumerUuid, BlockedGuest>> {
        let held = self.inner.blocked.lock();
        held.unwrap_or_else(PoisonError::into_inner)
    }
}

//! All guests of a conductor: what is asked of them, one journey per guest at a time, and going on after a restart.

mod journeys;
mod metrics;
mod verdict;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::{AcceleratorClient, GuestClient, PlacementClient};
use berth_hosts::RecordError;
use berth_journeys::Journeys;
use berth_model::{ConsumerUuid, NodeName};
use berth_scheduler::request::PciAliasError;
use berth_store::Usable;
use berth_wire::conductor::DecisionShown;
use berth_wire::guest::ImageComing;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

pub use journeys::JourneyEnd;
use journeys::Progress;

use crate::absent::Absent;
use crate::headroom::Headrooms;
use crate::journal::{
    Accepted, BootJournal, BootRecord, Course, GuestRecords, JournalError, UnreadableGuest,
};
use crate::late_claims::LateClaims;
use crate::metrics::Metrics;
use crate::plugins::{ExtraSpecsError, HintError};
use crate::strays::Strays;
use crate::way::Way;
use crate::{Agents, BootRequest, FilterScheduler};

/// What a conductor works through.
pub struct ConductorParts {
    /// What is under way.
    pub journal: Arc<dyn BootJournal>,
    /// Placement, Berth's own or OpenStack's.
    pub placement: PlacementClient,
    /// The accelerator service, Berth's own or Cyborg; its account needs the role `service`.
    pub accelerators: AcceleratorClient,
    /// The way to the nodes' agents.
    pub agents: Arc<dyn Agents>,
    /// Who says which host comes first.
    pub scheduler: FilterScheduler,
}

/// How a conductor behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConductorOptions {
    /// How often a guest is tried, each time with other candidates (Nova's `[scheduler] max_attempts`), at least 1.
    pub max_attempts: u32,
    /// How many guests are searched a host at once (`[conductor_service] scheduler_workers`), at least 1. Those that search beside
    /// each other take the same devices, and all but one search again.
    pub scheduler_workers: usize,
    /// How often an agent is asked how far it is.
    pub poll: Duration,
    /// How long a boot stands still for a service that is away, or for a device that is being made ready, before it is taken
    /// back (`[conductor_service] retry_timeout`).
    pub patience: Duration,
    /// How long a delete waits for the agent before it is left for later.
    pub delete_wait: Duration,
    /// The pause before the second try of what stands still; it doubles.
    pub pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
    /// How long an accelerator request, or a member of a server group, that nobody knows is left alone.
    pub stray_grace: Duration,
    /// How old the headroom on the page of metrics may be before a read makes it anew (`[conductor_service] headroom_interval`);
    /// none: it is never made.
    pub headroom_interval: Option<Duration>,
}

impl Default for ConductorOptions {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            scheduler_workers: 4,
            poll: Duration::from_millis(500),
            patience: Duration::from_mins(2),
            delete_wait: Duration::from_secs(30),
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_mins(1),
            stray_grace: Duration::from_mins(10),
            headroom_interval: Some(Duration::from_mins(1)),
        }
    }
}

/// A guest that nothing can be asked of.
#[derive(Debug, thiserror::Error)]
pub enum ConductorError {
    /// It is not known here.
    #[error("there is no guest {uuid}")]
    NotFound {
        uuid: ConsumerUuid,
    },
    /// Another request has its UUID.
    #[error("guest {uuid} was asked for before, and differently; delete that one first")]
    Other {
        uuid: ConsumerUuid,
    },
    /// It is being deleted.
    #[error("guest {uuid} is being deleted; ask again when it is gone")]
    Ending {
        uuid: ConsumerUuid,
    },
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A flavor's extra spec is not as a plugin of the scheduler asks for.
    #[error(transparent)]
    ExtraSpecs(#[from] ExtraSpecsError),
    /// A hint that nobody reads.
    #[error(transparent)]
    Hint(#[from] HintError),
    /// A flavor asks by `pci_passthrough:alias` for what cannot be asked for.
    #[error(transparent)]
    Devices(#[from] PciAliasError),
    /// What is kept of the scheduler's decisions cannot be read.
    #[error("what is kept of the scheduler's decisions cannot be read: {0}")]
    Scheduling(#[from] RecordError),
}

/// A guest that stands still.
#[derive(Debug, Clone)]
struct StandingStill {
    reason: String,
    /// How far its boot is; none where it is no boot that stands still.
    at: Option<Progress>,
    rows: Rows,
    /// Since when it stands there.
    since: Instant,
    tries: u32,
    next: Instant,
}

/// The rows of a guest that stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    Readable,
    /// What they say is no record of a guest.
    Unreadable,
}

struct Inner {
    way: Way,
    journeys: Journeys<ConsumerUuid>,
    held: Mutex<BTreeMap<ConsumerUuid, StandingStill>>,
    headrooms: Headrooms,
    absent: Absent,
    usable: Usable,
}

/// All guests of one conductor. Clones are one.
#[derive(Clone)]
pub struct Conductor {
    inner: Arc<Inner>,
}

impl Conductor {
    /// The conductor of this journal. Nothing happens before [`Conductor::keep`], [`Conductor::resume`] or a request.
    #[must_use]
    pub fn open(parts: ConductorParts, options: ConductorOptions) -> Self {
        let inner = Inner {
            way: Way {
                journal: parts.journal,
                placement: parts.placement,
                accelerators: parts.accelerators,
                agents: parts.agents,
                scheduler: Arc::new(parts.scheduler),
                options,
                images: Mutex::default(),
                searches: Semaphore::new(options.scheduler_workers.max(1)),
                metrics: Metrics::default(),
                strays: Strays::default(),
                late_claims: LateClaims::default(),
            },
            journeys: Journeys::default(),
            held: Mutex::default(),
            headrooms: Headrooms::default(),
            absent: Absent::default(),
            usable: Usable::new("conductor.db"),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Takes a request: once this is answered the guest will run, or say why it does not, whatever happens to the conductor.
    ///
    /// # Errors
    /// Another request has its UUID, the scheduler or one of its plugins cannot read its flavor, a hint is misspelt, or the journal
    /// cannot be written.
    pub async fn create(&self, request: &BootRequest) -> Result<Accepted, ConductorError> {
        let uuid = request.uuid();
        if let Err(wrong) = self.inner.way.scheduler.check(request) {
            // What was taken by the plugins of its time stays taken: the same again is the same guest.
            let known = self.inner.way.journal.guest(uuid).await?;
            if known.is_none() {
                return Err(wrong);
            }
        }
        let accepted = self.inner.way.journal.accept(request).await;
        match self.inner.usable.wrote(accepted)? {
            Accepted::New => {
                self.inner.headrooms.asked(request);
                self.set_out(uuid);
                Ok(Accepted::New)
            }
            // Its journey goes its own way, as slowly as it must.
            Accepted::Same => Ok(Accepted::Same),
            Accepted::Other => Err(ConductorError::Other { uuid }),
            Accepted::Ending => Err(ConductorError::Ending { uuid }),
        }
    }

    /// Whether the scheduler and its plugins can read a request's flavor; nothing is taken.
    pub fn check(&self, request: &BootRequest) -> Result<(), ConductorError> {
        self.inner.way.scheduler.check(request)
    }

    /// Placement, as it is asked here.
    #[must_use]
    pub fn placement(&self) -> &PlacementClient {
        &self.inner.way.placement
    }

    /// The name of its journal, which lasts as long as that does.
    #[must_use]
    pub fn owner(&self) -> Uuid {
        self.inner.way.journal.owner()
    }

    /// The agent of a node; none where nobody knows one.
    #[must_use]
    pub fn agent(&self, node: &NodeName) -> Option<GuestClient> {
        self.inner.way.agents.agent(node)
    }

    /// Takes the request to end a guest: once this is answered it will be gone, accelerator requests and allocation included.
    pub async fn delete(&self, uuid: ConsumerUuid) -> Result<(), ConductorError> {
        // Who asks may go away before it is written: it is done, and told the boot, all the same.
        let (tell, told) = oneshot::channel();
        let conductor = self.clone();
        self.inner.journeys.beside(async move {
            let _ = tell.send(conductor.turn_to_delete(uuid).await);
        });
        match told.await {
            Ok(turned) => turned,
            // They stop: nothing is under way that would have to be told.
            Err(_) => self.turn_to_delete(uuid).await,
        }
    }

    async fn turn_to_delete(&self, uuid: ConsumerUuid) -> Result<(), ConductorError> {
        let turned = self.inner.way.journal.turn(uuid, &Course::Delete).await;
        match self.inner.usable.wrote(turned) {
            Err(JournalError::Unknown { .. }) => return Err(ConductorError::NotFound { uuid }),
            other => other?,
        }
        // A boot under way looks at its course again.
        self.inner.journeys.cut_short(&uuid);
        self.set_out(uuid);
        Ok(())
    }

    pub async fn list(&self) -> Result<GuestRecords, ConductorError> {
        Ok(self.inner.way.journal.guests().await?)
    }

    /// Those of these guests that are known.
    pub async fn guests_of(&self, uuids: &[ConsumerUuid]) -> Result<GuestRecords, ConductorError> {
        Ok(self.inner.way.journal.guests_of(uuids).await?)
    }

    /// A guest of which not even the UUID can be read, where there is one: a guest that is not found may be that.
    pub async fn nameless(&self) -> Result<Option<UnreadableGuest>, ConductorError> {
        Ok(self.inner.way.journal.nameless().await?)
    }

    /// Why a guest went where it went: the decisions that are still kept, the oldest first. None where
    /// nobody ever asked for this guest.
    pub async fn scheduling(
        &self,
        uuid: ConsumerUuid,
    ) -> Result<Vec<DecisionShown>, ConductorError> {
        let hosts = &self.inner.way.scheduler.hosts;
        let records = hosts.records_of(&uuid.to_string()).await?;
        let shown = records.into_iter().filter_map(|one| {
            Some(DecisionShown {
                created_at: one.created_at.to_string(),
                explanation: berth_wire::decode(one.record.as_bytes()).ok()?,
            })
        });
        Ok(shown.collect())
    }

    pub async fn show(&self, uuid: ConsumerUuid) -> Result<BootRecord, ConductorError> {
        let record = self.inner.way.journal.guest(uuid).await?;
        record.ok_or(ConductorError::NotFound { uuid })
    }

    /// Why a guest stands still; none where it does not. It is tried again.
    #[must_use]
    pub fn held(&self, uuid: ConsumerUuid) -> Option<String> {
        self.standing_still()
            .get(&uuid)
            .map(|held| held.reason.clone())
    }

    /// How far the image is that a guest waits for; none where it waits for none.
    #[must_use]
    pub fn image(&self, uuid: ConsumerUuid) -> Option<ImageComing> {
        self.inner.way.image_of(uuid)
    }

    /// What cannot be read of a guest that stands still for that; none where there is no such guest.
    fn unreadable(&self) -> Option<String> {
        let held = self.standing_still();
        let mut unreadable = held.values().filter(|held| held.rows == Rows::Unreadable);
        unreadable.next().map(|held| held.reason.clone())
    }

    /// Goes on with every guest whose turn it is: at the start with all that are not where they should be, later with those
    /// whose pause is over. How many are not where they should be.
    pub async fn resume(&self) -> Result<usize, ConductorError> {
        let read = self.inner.way.journal.open_guests().await;
        let failure = read.as_ref().err().map(ToString::to_string);
        self.inner
            .usable
            .read(failure.or_else(|| self.unreadable()));
        let open = read?;
        let now = Instant::now();
        for uuid in &open {
            let held = self.standing_still().get(uuid).map(|held| held.next);
            let due = held.is_none_or(|next| next <= now);
            // Its journey may be under way.
            if due && !self.inner.journeys.is_under_way(uuid) {
                self.set_out(*uuid);
            }
        }
        Ok(open.len())
    }

    /// Goes on with what stands still, and looks for lost accelerator requests, claims and members of server groups, until `stop`; then
    /// waits until no journey is under way.
    pub async fn keep(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            // Where it cannot be read, that is told when it is news; guests' boots do not go on meanwhile.
            if self.resume().await.is_ok() {
                self.try_write().await;
                if let Err(error) = self.inner.way.strays.look(&self.inner.way).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "lost accelerator requests are not looked for"
                    );
                }
                let (late_claims, way) = (&self.inner.way.late_claims, &self.inner.way);
                if let Err(error) = late_claims.look(way, &self.inner.journeys).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "claims that came late are not looked for"
                    );
                }
                if let Err(error) = self.inner.absent.look(&self.inner.way).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "members of server groups who are nowhere are not looked for"
                    );
                }
            }
            tokio::select! {
                () = &mut stop => break,
                () = sleep(self.inner.way.options.pause) => {}
            }
        }
        self.stop().await;
    }

    /// Why the journal cannot be used, with a word whenever that changes: no boot goes on then, and none is taken.
    #[must_use]
    pub fn unusable(&self) -> watch::Receiver<Option<String>> {
        self.inner.usable.subscribe()
    }

    /// Looks whether something can be written again, where the last write failed: until somebody asks for something, nobody
    /// else would.
    async fn try_write(&self) {
        if self.inner.usable.refuses_writes() {
            let tried = self.inner.way.journal.try_write().await;
            // It is told when it is news.
            let _ = self.inner.usable.wrote(tried);
        }
    }

    /// Looks for lost accelerator requests once, where it is time to; how many were deleted.
    pub async fn look_for_strays(&self) -> Result<usize, String> {
        let looked = self.inner.way.strays.look(&self.inner.way).await;
        looked.map_err(|error| error.to_string())
    }

    /// Looks once for claims, and releases of them, that came late, where it is time to; how many claims were deleted or made again.
    pub async fn look_for_late_claims(&self) -> Result<usize, String> {
        let (late_claims, way) = (&self.inner.way.late_claims, &self.inner.way);
        let looked = late_claims.look(way, &self.inner.journeys).await;
        looked.map_err(|error| error.to_string())
    }

    /// Looks once for members of server groups who are nowhere, where it is time to; how many were taken out.
    pub async fn look_for_absent_members(&self) -> Result<usize, String> {
        let looked = self.inner.absent.look(&self.inner.way).await;
        looked.map_err(|error| error.to_string())
    }

    /// Waits until no journey is under way, and takes none any more.
    pub async fn stop(&self) {
        self.inner.headrooms.stop().await;
        self.inner.journeys.stop().await;
    }

    fn standing_still(&self) -> MutexGuard<'_, BTreeMap<ConsumerUuid, StandingStill>> {
        let held = self.inner.held.lock();
        held.unwrap_or_else(PoisonError::into_inner)
    }
}

//! Models what systemd and the service's loop make of a node: processes that start, run pass after pass, exit with a
//! code, and are restarted or not. The passes are the agent's own; the pauses are its backoff's, in virtual time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use berth_agent::service::{PassError, ServiceError};
use berth_agent_tracker::backoff::LoopBackoff;
use berth_agent_tracker::complete::Service;
use berth_agent_tracker::node_identity::{self, NodeIdentityError, PlacementRecord, UuidSource};
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::propose::ResourceTracker;
use berth_agent_tracker::report_client::ReportClient;
use berth_agent_tracker::tick::{self, TickError};
use berth_agent_tracker::{rename, startup};
use berth_model::{Disposition, HeldUnits, NodeName, error_chain};
use berth_store::state_dir::StateFiles;
use berth_virt::{ObserveError, VirtDriver};
use tokio::time::{Instant, sleep};

use crate::cloud::Cloud;
use crate::node::COMPUTE_ID;

pub use berth_agent::service::ExitReason as Exit;

/// How long a process may be silent before its watchdog kills it.
const WATCHDOG: Duration = Duration::from_mins(15);
/// `RestartSec`.
const RESTART: Duration = Duration::from_secs(1);
/// `update_resources_interval`.
const INTERVAL: Duration = Duration::from_secs(60);
/// Ticks without a change after which a node is settled.
const QUIET: u32 = 2;

/// The number that the program gives an exit reason.
#[must_use]
pub const fn code(exit: Exit) -> u8 {
    match exit {
        Exit::DependencyGone => 69,
        Exit::Bug => 70,
        Exit::HeldByAnother => 73,
        Exit::Disk => 74,
        Exit::ReshapeNeeded => 75,
        Exit::ReshapeFailed => 76,
        Exit::Configuration => 78,
    }
}

/// Whether the unit starts it again by itself (`RestartPreventExitStatus=64 76 78`).
const fn restarts(exit: Exit) -> bool {
    !matches!(exit, Exit::ReshapeFailed | Exit::Configuration)
}

/// How a unit came to rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitEnd {
    /// It runs and has nothing to do.
    Settled {
        /// Units held without a home.
        held: Vec<HeldUnits>,
    },
    /// Its process ended, and systemd does not start it again.
    Stopped {
        exit: Exit,
        /// And for which reason.
        reason: String,
    },
}

/// What happened until a unit came to rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitHistory {
    /// Each end of a process, in order: its code and reason, or what killed it.
    pub ends: Vec<String>,
    /// The passes, in order.
    pub passes: Vec<UnitPass>,
}

/// One pass of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitPass {
    /// Of which process, counted from 1.
    pub life: usize,
    /// When it began, since the unit did.
    pub began: Duration,
    pub ended: Duration,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

impl UnitHistory {
    /// Why passes failed, in order.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.passes
            .iter()
            .filter_map(|pass| pass.failure.as_deref())
    }
}

pub struct Unit<D> {
    /// The driver, decorated or not.
    pub driver: Arc<D>,
    pub name: NodeName,
    pub options: TrackerOptions,
    /// Its state files, decorated or not.
    pub files: Arc<dyn StateFiles>,
    /// The way to Placement, decorated or not.
    pub cloud: Cloud,
}

struct UnitProcess<'a, D> {
    unit: &'a Unit<D>,
    backoff: LoopBackoff,
    known: Option<(ResourceTracker<D>, PlacementRecord)>,
    began: Instant,
    life: usize,
}

impl<D: VirtDriver> Unit<D> {
    /// Runs the unit until it is idle. `killed` returns when the process is killed; `ready` is called each time a
    /// process has first reported its node; `history` is written immediately, so that it can be read after this future
    /// is dropped.
    pub async fn run<K: Future<Output = ()>>(
        &self,
        killed: impl Fn() -> K,
        ready: &(dyn Fn() + Sync),
        history: &std::sync::Mutex<UnitHistory>,
    ) -> UnitEnd {
        let began = Instant::now();
        let note = |text: String| {
            let mut history = history
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            history.ends.push(text);
        };
        loop {
            let life = history
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .ends
                .len()
                + 1;
            let mut process = UnitProcess {
                unit: self,
                backoff: LoopBackoff::seeded(1),
                known: None,
                began,
                life,
            };
            let ended = tokio::select! {
                biased;
                () = killed() => None,
                ended = process.live(ready, history) => Some(ended),
            };
            match ended {
                None => note("killed".to_owned()),
                Some(Err(UnitProcessEnd::Watchdog)) => note("killed by its watchdog".to_owned()),
                Some(Ok(held)) => return UnitEnd::Settled { held },
                Some(Err(UnitProcessEnd::Exit(exit, reason))) => {
                    note(format!("{}: {reason}", code(exit)));
                    if !restarts(exit) {
                        return UnitEnd::Stopped { exit, reason };
                    }
                }
            }
            sleep(RESTART).await;
        }
    }
}

enum UnitProcessEnd {
    Exit(Exit, String),
    Watchdog,
}

/// A look or a pass that failed.
#[derive(Debug, thiserror::Error)]
enum FailedStep {
    #[error(transparent)]
    Observe(#[from] ObserveError),
    #[error(transparent)]
    Pass(#[from] PassError),
}

struct CompletedPass {
    held: Vec<HeldUnits>,
    changed: bool,
}

impl<D: VirtDriver> UnitProcess<'_, D> {
    async fn live(
        &mut self,
        ready: &(dyn Fn() + Sync),
        history: &std::sync::Mutex<UnitHistory>,
    ) -> Result<Vec<HeldUnits>, UnitProcessEnd> {
        let mut started = false;
        let (mut quiet, mut failed) = (0, false);
        loop {
            let began = self.began.elapsed();
            let pass = tokio::time::timeout(WATCHDOG, self.pass(started));
            let passed = pass.await.map_err(|_| UnitProcessEnd::Watchdog)?;
            self.note(history, began, passed.as_ref().err());
            let pause = match passed {
                Ok(passed) => {
                    self.backoff.reset();
                    // The pass after a failure reads everything again.
                    let busy = passed.changed || !started || std::mem::replace(&mut failed, false);
                    quiet = if busy { 0 } else { quiet + 1 };
                    if quiet >= QUIET {
                        return Ok(passed.held);
                    }
                    if !std::mem::replace(&mut started, true) {
                        ready();
                    }
                    INTERVAL
                }
                Err(error) => {
                    if let Some(end) = self.unit.end(error, started) {
                        return Err(UnitProcessEnd::Exit(end.reason(), error_chain(&end)));
                    }
                    failed = true;
                    self.backoff.next_delay()
                }
            };
            sleep(pause).await;
        }
    }

    fn note(
        &self,
        history: &std::sync::Mutex<UnitHistory>,
        began: Duration,
        error: Option<&FailedStep>,
    ) {
        let pass = UnitPass {
            life: self.life,
            began,
            ended: self.began.elapsed(),
            failure: error.map(|error| error_chain(error)),
        };
        let mut history = history
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        history.passes.push(pass);
    }

    async fn pass(&mut self, started: bool) -> Result<CompletedPass, FailedStep> {
        let unit = self.unit;
        let view = unit.driver.observe().await?;
        let (tracker, known) = match &mut self.known {
            Some(known) => known,
            none => none.insert(identify(unit).await.map_err(PassError::from)?),
        };
        if let PlacementRecord::Renamed { from } = known {
            let renamed = rename::reconcile(tracker, from, Instant::now()).await;
            renamed.map_err(PassError::Rename)?;
            *known = PlacementRecord::SameName;
        }
        let now = Instant::now();
        if started {
            let ticked = tick::reconcile(tracker, &view, Service::Enabled, now)
                .await
                .map_err(PassError::from)?;
            let changed = !ticked.changed.is_empty();
            return Ok(CompletedPass {
                held: ticked.held,
                changed,
            });
        }
        let started = startup::reconcile(tracker, &view, Service::Enabled, now, None, &|_, _| {})
            .await
            .map_err(PassError::from)?;
        Ok(CompletedPass {
            held: started.held,
            changed: true,
        })
    }
}

async fn identify<D: VirtDriver>(
    unit: &Unit<D>,
) -> Result<(ResourceTracker<D>, PlacementRecord), NodeIdentityError> {
    let placement = unit.cloud.placement();
    let source = UuidSource::File(COMPUTE_ID.to_owned());
    let (name, options, files) = (&unit.name, &unit.options, unit.files.as_ref());
    let identity =
        node_identity::identify(name, &source, files, &placement, options.rename).await?;
    let report = ReportClient::new(placement, name.clone(), identity.root, options);
    let driver = Arc::clone(&unit.driver);
    let tracker = ResourceTracker::new(driver, name.clone(), report, options.clone());
    Ok((tracker, identity.in_placement))
}

impl<D> Unit<D> {
    /// What ends the process, by the service's rule: at a start what waiting does not help, later a reshape alone.
    fn end(&self, failed: FailedStep, started: bool) -> Option<ServiceError> {
        let node = self.name.clone();
        match failed {
            FailedStep::Pass(PassError::Tick(TickError::ReshapeNeeded(pending))) => {
                Some(ServiceError::ReshapeNeeded { node, pending })
            }
            FailedStep::Pass(source) if !started && source.disposition() == Disposition::Fatal => {
                Some(ServiceError::Start { node, source })
            }
            FailedStep::Observe(error) if !started && error.disposition() == Disposition::Fatal => {
                Some(ServiceError::Observe(error))
            }
            _ => None,
        }
    }
}

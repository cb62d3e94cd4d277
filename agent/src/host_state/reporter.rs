//! The loop: the host's state is told whole when it is another one than the scheduler took last; else, every `report_interval`,
//! that the agent lives. What cannot be told is tried again, with pauses that grow, and nothing else waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_agent_api::{AgentRequest, AgentState, Phase, States};
use berth_agent_instances::GuestChanges;
use berth_agent_journal::JournalError;
use berth_agent_tracker::backoff::LoopBackoff;
use berth_client::HostsError;
use berth_client::hosts::HeartbeatOutcome;
use berth_model::{Disposition, NodeName, ProviderTree};
use berth_virt::{HostCpuStats, HostView, VirtDriver};
use berth_wire::host_state::{HostSeenBody, HostStateBody, HostWanted, ServiceBody};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::host_state::compose::node_state;
use crate::host_state::monitors::{Monitor, cpu_metrics};
use crate::host_state::node_facts::NodeFacts;
use crate::host_state::service::HostStateService;
use crate::metrics::{HostStateRequest, HostStateResult, Metrics};

/// What changes at once is told at once: a tick that ends, the guest that it saw.
const BREATH: Duration = Duration::from_millis(100);

/// How long a driver may take to say what the CPUs did.
const MEASURE: Duration = Duration::from_secs(10);

/// Why the service has no new guests where the hypervisor is away. Without the reason, which may be another one at each look.
const AWAY: &str = "AUTO: the hypervisor cannot be observed";

/// The scheduler does not know how the host is.
#[derive(Debug, thiserror::Error)]
pub enum TellError {
    /// It did not take the state, or the sign of life.
    #[error("the scheduler was not told the state of {host}: {source}")]
    Service {
        host: NodeName,
        source: Box<HostsError>,
    },
    /// The journal of guests cannot be read.
    #[error("the scheduler is not told the state of this host: {0}")]
    Journal(#[from] JournalError),
}

impl TellError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Service { source, .. } => source.disposition(),
            Self::Journal(_) => Disposition::Retry,
        }
    }
}

/// What the loop is given of the service beside it.
pub(crate) struct ReporterDeps<D> {
    /// Who measures the CPUs.
    pub(crate) driver: Arc<D>,
    /// What the agent knows of itself.
    pub(crate) states: States,
    /// Where the cloud's word on the host goes.
    pub(crate) asked: mpsc::Sender<AgentRequest>,
    pub(crate) metrics: Metrics,
    /// Why the scheduler is not told; none where it is.
    pub(crate) untold: watch::Sender<Option<String>>,
}

/// What the scheduler took last.
struct Told {
    host: NodeName,
    body: HostStateBody,
    /// What it calls it.
    state: String,
    at: Instant,
}

/// What a state is made of: where none of it changed, nothing is read.
struct Basis {
    view: Arc<HostView>,
    trees: BTreeMap<NodeName, Arc<ProviderTree>>,
    disabled: Option<String>,
    changes: GuestChanges,
    measured: Option<Instant>,
}

impl Basis {
    fn is_same(&self, other: &Self) -> bool {
        let trees = self.trees.iter().zip(&other.trees);
        Arc::ptr_eq(&self.view, &other.view)
            && self.trees.len() == other.trees.len()
            && trees
                .into_iter()
                .all(|((name, tree), (other, others))| name == other && Arc::ptr_eq(tree, others))
            && self.disabled == other.disabled
            && self.changes == other.changes
            && self.measured == other.measured
    }
}

/// What was measured last.
struct Measured {
    at: Instant,
    stats: Option<HostCpuStats>,
    metrics: BTreeMap<String, f64>,
}

pub(crate) struct HostStateReporter<D> {
    around: ReporterDeps<D>,
    service: HostStateService,
    backoff: LoopBackoff,
    told: Option<Told>,
    basis: Option<(Basis, NodeName, HostStateBody)>,
    measured: Option<Measured>,
    /// What the log was told last of what cannot be measured.
    unmeasured: Option<String>,
}

impl<D: VirtDriver> HostStateReporter<D> {
    pub(crate) fn new(around: ReporterDeps<D>, service: HostStateService) -> Self {
        Self {
            backoff: LoopBackoff::seeded(service.options.seed),
            around,
            service,
            told: None,
            basis: None,
            measured: None,
            unmeasured: None,
        }
    }

    /// Tells for ever: whoever ends it drops it. What is sent may be sent again.
    pub(crate) async fn run(mut self) {
        loop {
            let failed = match self.tell().await {
                Ok(()) => {
                    self.backoff.reset();
                    self.is_told();
                    None
                }
                Err(error) => Some(self.is_not_told(&error)),
            };
            match failed {
                Some(pause) => sleep(pause).await,
                None => self.until_due().await,
            }
        }
    }

    /// Until something changed that may have to be told, or a sign of life is due.
    async fn until_due(&mut self) {
        let now = Instant::now();
        let interval = self.service.options.report_interval;
        // Nothing is due before there is a state.
        let told = self.told.as_ref().map(|told| told.at + interval);
        let measured = self.measured.as_ref();
        let measured = measured.map(|it| it.at + self.service.options.measure_interval);
        let due = [told, measured].into_iter().flatten().min();
        let due = due.unwrap_or(now + interval);
        tokio::select! {
            () = sleep_until(due) => {}
            () = changed(&mut self.around.states) => sleep(BREATH).await,
            () = changed(&mut self.service.changes) => sleep(BREATH).await,
        }
    }

    /// Tells what is to be told now, if anything is.
    async fn tell(&mut self) -> Result<(), TellError> {
        self.measure().await;
        let Some(basis) = self.look() else {
            return Ok(());
        };
        self.compose(basis).await?;
        let Some((_, host, body)) = &self.basis else {
            return Ok(());
        };
        let known = self.told.as_ref();
        let known = known.filter(|told| told.host == *host && told.body == *body);
        if let Some(told) = known {
            if told.at.elapsed() < self.service.options.report_interval {
                return Ok(());
            }
            let seen = HostSeenBody {
                state: told.state.clone(),
            };
            let at = Instant::now();
            let answered = self
                .service
                .client
                .send_heartbeat(host.as_str(), &seen)
                .await;
            let (result, wanted) = match answered {
                Ok(HeartbeatOutcome::Known(wanted)) => (HostStateResult::Taken, Some(wanted)),
                Ok(HeartbeatOutcome::Unknown) => (HostStateResult::Unknown, None),
                Err(source) => {
                    let failed = HostStateResult::Failed;
                    self.around
                        .metrics
                        .told_host(HostStateRequest::Seen, failed);
                    return Err(not_taken(host, source));
                }
            };
            self.around
                .metrics
                .told_host(HostStateRequest::Seen, result);
            if let Some(wanted) = wanted {
                self.taken(at, wanted);
                return Ok(());
            }
            tracing::info!(%host, "the scheduler knows another state of this host; it is told again");
        }
        self.tell_whole().await
    }

    async fn tell_whole(&mut self) -> Result<(), TellError> {
        let Some((_, host, body)) = &self.basis else {
            return Ok(());
        };
        let at = Instant::now();
        let answered = self.service.client.report_state(host.as_str(), body).await;
        let result = match &answered {
            Ok(_) => HostStateResult::Taken,
            Err(_) => HostStateResult::Failed,
        };
        self.around
            .metrics
            .told_host(HostStateRequest::State, result);
        let wanted = answered.map_err(|source| not_taken(host, source))?;
        tracing::debug!(%host, state = %wanted.state, "the scheduler was told the state of this host");
        self.told = Some(Told {
            host: host.clone(),
            body: body.clone(),
            state: String::new(),
            at,
        });
        self.taken(at, wanted);
        Ok(())
    }

    /// The scheduler knows the host as it is.
    fn taken(&mut self, at: Instant, wanted: HostWanted) {
        if let Some(told) = &mut self.told {
            told.state = wanted.state;
            told.at = at;
        }
        let held = self.around.states.borrow().disabled_in_cloud.clone();
        let is_so = match (&held, &wanted.disabled_reason) {
            (None, None) => true,
            (Some(held), Some(reason)) => held.has_reason(reason),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !is_so {
            let reason = wanted.disabled_reason;
            // Where the loop has no room for it now, the next answer says it again.
            let _ = self
                .around
                .asked
                .try_send(AgentRequest::SetDisabledInCloud { reason });
        }
    }

    /// What a state would be made of now; none where nothing can be told yet.
    fn look(&mut self) -> Option<Basis> {
        let changes = *self.service.changes.borrow_and_update();
        let state = Arc::clone(&self.around.states.borrow_and_update());
        let view = state.view.clone()?;
        if state.phase == Phase::Starting {
            return None;
        }
        Some(Basis {
            trees: trees(&state, &view),
            view,
            disabled: disabled(&state),
            changes,
            measured: self.measured.as_ref().map(|it| it.at),
        })
    }

    /// The state of now, where it may be another than the one that is known.
    async fn compose(&mut self, basis: Basis) -> Result<(), TellError> {
        if let Some((known, _, _)) = &self.basis
            && known.is_same(&basis)
        {
            return Ok(());
        }
        let records = self.service.journal.guests().await?;
        let mut by_node: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for record in &records {
            let own = by_node.entry(record.request.node()).or_default();
            own.push(record.as_ref());
        }
        let options = &self.service.options;
        let metrics = self.measured.as_ref().map(|it| &it.metrics);
        let nodes = basis.trees.iter().filter_map(|(node, tree)| {
            let facts = NodeFacts {
                node,
                hypervisor: &basis.view.hypervisor,
                seen: basis.view.nodes.get(node)?,
                tree,
                records: by_node.get(node).map_or(&[], Vec::as_slice),
                host_ip: options.host_ip,
                failed_builds: basis.changes.failed_builds,
                metrics,
            };
            Some(node_state(&facts))
        });
        let body = HostStateBody {
            service: ServiceBody {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                disabled_reason: basis.disabled.clone(),
            },
            nodes: nodes.collect(),
        };
        let host = host(options.host.as_ref(), &basis.view);
        self.basis = host.map(|host| (basis, host, body));
        Ok(())
    }

    /// Measures what `compute_monitors` want, when that is due.
    async fn measure(&mut self) {
        let options = &self.service.options;
        let early = |it: &Measured| it.at.elapsed() < options.measure_interval;
        let wanted = options.monitors.contains(&Monitor::CpuVirtDriver);
        if !wanted || self.measured.as_ref().is_some_and(early) {
            return;
        }
        let measured = timeout(MEASURE, self.around.driver.host_cpu_stats()).await;
        let (stats, failure) = match measured {
            Ok(Ok(Some(stats))) => (Some(stats), None),
            Ok(Ok(None)) => (None, Some("the driver does not measure it".to_owned())),
            Ok(Err(error)) => (None, Some(error.to_string())),
            Err(_) => (None, Some(format!("no answer within {MEASURE:?}"))),
        };
        if failure != self.unmeasured {
            if let Some(error) = &failure {
                tracing::warn!(%error, monitor = Monitor::CpuVirtDriver.as_str(), "what the host's CPUs do cannot be told");
            }
            self.unmeasured = failure;
        }
        let before = self.measured.take().and_then(|it| it.stats);
        let metrics = stats.map(|now| cpu_metrics(&now, before.as_ref()));
        self.measured = Some(Measured {
            at: Instant::now(),
            stats,
            metrics: metrics.unwrap_or_default(),
        });
    }

    fn is_told(&self) {
        let was = self.around.untold.send_replace(None);
        if was.is_some() {
            tracing::info!("the scheduler is told of this host again");
        }
    }

    /// Says it where it is news; how long to wait.
    fn is_not_told(&mut self, error: &TellError) -> Duration {
        let text = berth_agent_tracker::error_chain::sentence(error);
        let is_news = self.around.untold.send_if_modified(|told| {
            let is_news = told.as_ref() != Some(&text);
            *told = Some(text.clone());
            is_news
        });
        if is_news {
            tracing::warn!(error = %text, "the scheduler could not be told of this host; trying again");
        }
        match error.disposition() {
            Disposition::Fatal => self.service.options.report_interval,
            Disposition::Retry | Disposition::Refresh => self.backoff.next_delay(),
        }
    }
}

fn not_taken(host: &NodeName, source: HostsError) -> TellError {
    TellError::Service {
        host: host.clone(),
        source: Box::new(source),
    }
}

/// The nodes that are seen and were reported.
fn trees(state: &AgentState, view: &HostView) -> BTreeMap<NodeName, Arc<ProviderTree>> {
    let nodes = view.nodes.keys();
    let trees = nodes.filter_map(|node| Some((node.clone(), state.nodes.get(node)?.tree.clone()?)));
    trees.collect()
}

/// Why this host wants no new guests, the cloud's own word apart.
fn disabled(state: &AgentState) -> Option<String> {
    let here = state.disabled.as_ref().map(|it| it.reason.clone());
    here.or_else(|| state.unobserved.as_ref().map(|_| AWAY.to_owned()))
}

/// By what name the host is known: `host`, else that of its only node, else the hypervisor's own.
fn host(configured: Option<&NodeName>, view: &HostView) -> Option<NodeName> {
    let mut nodes = view.nodes.keys();
    let only = nodes.next().filter(|_| nodes.next().is_none());
    let named = configured.or(only).cloned();
    named.or_else(|| NodeName::new(&view.hypervisor.hostname).ok())
}

/// Until another value is there; for ever where nobody says one any more.
async fn changed<T>(told: &mut watch::Receiver<T>) {
    if told.changed().await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests;

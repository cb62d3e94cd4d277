//! Reports the host's state to the scheduler: the complete state when it changed, otherwise a heartbeat every
//! `report_interval`. A failed report is retried with growing pauses and delays nothing else in the agent.

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

/// Collects changes that happen together, such as a tick and the guest that it observed.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// The time limit for reading CPU times from the driver.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(10);

/// Disables scheduling to a host without hypervisor. Without the cause, which may change with each observation.
const HYPERVISOR_AWAY: &str = "AUTO: the hypervisor cannot be observed";

/// A report that failed.
#[derive(Debug, thiserror::Error)]
pub enum HostReportError {
    /// The service did not accept the state or the heartbeat.
    #[error("reporting the state of {host} to the scheduler failed: {source}")]
    Service {
        host: NodeName,
        source: Box<HostsError>,
    },
    /// The journal of guests cannot be read.
    #[error("the state of this host cannot be reported to the scheduler: {0}")]
    Journal(#[from] JournalError),
}

impl HostReportError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Service { source, .. } => source.disposition(),
            Self::Journal(_) => Disposition::Retry,
        }
    }

    /// With what the user can do about a scheduler that does not answer.
    fn explain(&self) -> String {
        let hint = match self {
            Self::Service { source, .. } => match &**source {
                HostsError::Call(error) => error.hint("conductor"),
                _ => None,
            },
            Self::Journal(_) => None,
        };
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        berth_model::error_chain(self) + &hint
    }
}

/// Dependencies of the reporter within the agent.
pub(crate) struct ReporterDeps<D> {
    /// Measures the CPUs.
    pub(crate) driver: Arc<D>,
    pub(crate) states: States,
    /// Receives the cloud's decision to disable or enable the host.
    pub(crate) requests: mpsc::Sender<AgentRequest>,
    pub(crate) metrics: Metrics,
    /// Why reports fail; `None` after a successful one.
    pub(crate) failure: watch::Sender<Option<String>>,
}

/// The last accepted report.
struct LastReport {
    host: NodeName,
    body: HostStateBody,
    /// The identifier of the state in the service.
    state: String,
    at: Instant,
}

/// The inputs of a state; if none of them changed, the journal is not read.
struct ReportInputs {
    view: Arc<HostView>,
    trees: BTreeMap<NodeName, Arc<ProviderTree>>,
    disabled: Option<String>,
    changes: GuestChanges,
    measured: Option<Instant>,
}

impl ReportInputs {
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

/// The last measurement.
struct CpuMeasurement {
    at: Instant,
    stats: Option<HostCpuStats>,
    metrics: BTreeMap<String, f64>,
}

pub(crate) struct HostStateReporter<D> {
    deps: ReporterDeps<D>,
    service: HostStateService,
    backoff: LoopBackoff,
    reported: Option<LastReport>,
    composed: Option<(ReportInputs, NodeName, HostStateBody)>,
    measured: Option<CpuMeasurement>,
    /// The last logged measurement error.
    measurement_error: Option<String>,
}

impl<D: VirtDriver> HostStateReporter<D> {
    pub(crate) fn new(deps: ReporterDeps<D>, service: HostStateService) -> Self {
        Self {
            backoff: LoopBackoff::seeded(service.options.seed),
            deps,
            service,
            reported: None,
            composed: None,
            measured: None,
            measurement_error: None,
        }
    }

    /// Runs until it is dropped. A report may be sent twice.
    pub(crate) async fn run(mut self) {
        loop {
            let failed = match self.report_if_due().await {
                Ok(()) => {
                    self.backoff.reset();
                    self.record_success();
                    None
                }
                Err(error) => Some(self.record_failure(&error)),
            };
            match failed {
                Some(pause) => sleep(pause).await,
                None => self.until_due().await,
            }
        }
    }

    /// Waits for a change of the inputs, or until a heartbeat is due.
    async fn until_due(&mut self) {
        let now = Instant::now();
        let interval = self.service.options.report_interval;
        // Nothing is due before there is a state.
        let reported = self.reported.as_ref().map(|report| report.at + interval);
        let measured = self.measured.as_ref();
        let measured = measured.map(|it| it.at + self.service.options.measure_interval);
        let due = [reported, measured].into_iter().flatten().min();
        let due = due.unwrap_or(now + interval);
        tokio::select! {
            () = sleep_until(due) => {}
            () = changed(&mut self.deps.states) => sleep(SETTLE_TIME).await,
            () = changed(&mut self.service.changes) => sleep(SETTLE_TIME).await,
        }
    }

    /// Sends the state or a heartbeat, if one is due.
    async fn report_if_due(&mut self) -> Result<(), HostReportError> {
        self.measure().await;
        let Some(inputs) = self.observe_inputs() else {
            return Ok(());
        };
        self.compose(inputs).await?;
        let Some((_, host, body)) = &self.composed else {
            return Ok(());
        };
        let known = self.reported.as_ref();
        let known = known.filter(|report| report.host == *host && report.body == *body);
        if let Some(report) = known {
            if report.at.elapsed() < self.service.options.report_interval {
                return Ok(());
            }
            let seen = HostSeenBody {
                state: report.state.clone(),
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
                    self.deps
                        .metrics
                        .count_host_report(HostStateRequest::Seen, failed);
                    return Err(not_accepted(host, source));
                }
            };
            self.deps
                .metrics
                .count_host_report(HostStateRequest::Seen, result);
            if let Some(wanted) = wanted {
                self.record_answer(at, wanted);
                return Ok(());
            }
            tracing::info!(%host, "the scheduler has another state of this host; reporting it again");
        }
        self.report_state().await
    }

    async fn report_state(&mut self) -> Result<(), HostReportError> {
        let Some((_, host, body)) = &self.composed else {
            return Ok(());
        };
        let at = Instant::now();
        let answered = self.service.client.report_state(host.as_str(), body).await;
        let result = match &answered {
            Ok(_) => HostStateResult::Taken,
            Err(_) => HostStateResult::Failed,
        };
        self.deps
            .metrics
            .count_host_report(HostStateRequest::State, result);
        let wanted = answered.map_err(|source| not_accepted(host, source))?;
        tracing::debug!(%host, state = %wanted.state, "reported the state of this host to the scheduler");
        self.reported = Some(LastReport {
            host: host.clone(),
            body: body.clone(),
            state: String::new(),
            at,
        });
        self.record_answer(at, wanted);
        Ok(())
    }

    /// Records an accepted report, and forwards whether the cloud disabled the host.
    fn record_answer(&mut self, at: Instant, wanted: HostWanted) {
        if let Some(report) = &mut self.reported {
            report.state = wanted.state;
            report.at = at;
        }
        let held = self.deps.states.borrow().disabled_in_cloud.clone();
        let is_so = match (&held, &wanted.disabled_reason) {
            (None, None) => true,
            (Some(held), Some(reason)) => held.has_reason(reason),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !is_so {
            let reason = wanted.disabled_reason;
            // If the queue is full, the next answer repeats it.
            let _ = self
                .deps
                .requests
                .try_send(AgentRequest::SetDisabledInCloud { reason });
        }
    }

    /// The current inputs; `None` before the first observation.
    fn observe_inputs(&mut self) -> Option<ReportInputs> {
        let changes = *self.service.changes.borrow_and_update();
        let state = Arc::clone(&self.deps.states.borrow_and_update());
        let view = state.view.clone()?;
        if state.phase == Phase::Starting {
            return None;
        }
        Some(ReportInputs {
            trees: trees(&state, &view),
            view,
            disabled: disabled(&state),
            changes,
            measured: self.measured.as_ref().map(|it| it.at),
        })
    }

    /// Composes the state if its inputs changed.
    async fn compose(&mut self, inputs: ReportInputs) -> Result<(), HostReportError> {
        if let Some((known, _, _)) = &self.composed
            && known.is_same(&inputs)
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
        let nodes = inputs.trees.iter().filter_map(|(node, tree)| {
            let facts = NodeFacts {
                node,
                hypervisor: &inputs.view.hypervisor,
                seen: inputs.view.nodes.get(node)?,
                tree,
                records: by_node.get(node).map_or(&[], Vec::as_slice),
                host_ip: options.host_ip,
                failed_builds: inputs.changes.failed_builds,
                metrics,
            };
            Some(node_state(&facts))
        });
        let body = HostStateBody {
            service: ServiceBody {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                disabled_reason: inputs.disabled.clone(),
            },
            nodes: nodes.collect(),
        };
        let host = host(options.host.as_ref(), &inputs.view);
        if let Some(host) = &host {
            self.service.own_name.set(host.clone());
        }
        self.composed = host.map(|host| (inputs, host, body));
        Ok(())
    }

    /// Measures for `compute_monitors`, if a measurement is due.
    async fn measure(&mut self) {
        let options = &self.service.options;
        let early = |it: &CpuMeasurement| it.at.elapsed() < options.measure_interval;
        let wanted = options.monitors.contains(&Monitor::CpuVirtDriver);
        if !wanted || self.measured.as_ref().is_some_and(early) {
            return;
        }
        let measured = timeout(MEASURE_TIMEOUT, self.deps.driver.host_cpu_stats()).await;
        let (stats, failure) = match measured {
            Ok(Ok(Some(stats))) => (Some(stats), None),
            Ok(Ok(None)) => (None, Some("the driver does not measure it".to_owned())),
            Ok(Err(error)) => (None, Some(error.to_string())),
            Err(_) => (None, Some(format!("no answer within {MEASURE_TIMEOUT:?}"))),
        };
        if failure != self.measurement_error {
            if let Some(error) = &failure {
                tracing::warn!(%error, monitor = Monitor::CpuVirtDriver.as_str(), "measuring the host's CPUs failed");
            }
            self.measurement_error = failure;
        }
        let before = self.measured.take().and_then(|it| it.stats);
        let metrics = stats.map(|now| cpu_metrics(&now, before.as_ref()));
        self.measured = Some(CpuMeasurement {
            at: Instant::now(),
            stats,
            metrics: metrics.unwrap_or_default(),
        });
    }

    fn record_success(&self) {
        let was = self.deps.failure.send_replace(None);
        if was.is_some() {
            tracing::info!("reports to the scheduler work again");
        }
    }

    /// Logs a new failure. Returns the pause before the next attempt.
    fn record_failure(&mut self, error: &HostReportError) -> Duration {
        let text = error.explain();
        let is_news = self.deps.failure.send_if_modified(|failure| {
            let is_news = failure.as_ref() != Some(&text);
            *failure = Some(text.clone());
            is_news
        });
        if is_news {
            tracing::warn!(error = %text, "reporting to the scheduler failed; retrying");
        }
        match error.disposition() {
            Disposition::Fatal => self.service.options.report_interval,
            Disposition::Retry | Disposition::Refresh => self.backoff.next_delay(),
        }
    }
}

fn not_accepted(host: &NodeName, source: HostsError) -> HostReportError {
    HostReportError::Service {
        host: host.clone(),
        source: Box::new(source),
    }
}

/// The trees of nodes that are observed and reported to Placement.
fn trees(state: &AgentState, view: &HostView) -> BTreeMap<NodeName, Arc<ProviderTree>> {
    let nodes = view.nodes.keys();
    let trees = nodes.filter_map(|node| Some((node.clone(), state.nodes.get(node)?.tree.clone()?)));
    trees.collect()
}

/// Why the agent disables scheduling to this host, without the decision of the cloud.
fn disabled(state: &AgentState) -> Option<String> {
    let here = state.disabled.as_ref().map(|it| it.reason.clone());
    here.or_else(|| {
        state
            .unobserved
            .as_ref()
            .map(|_| HYPERVISOR_AWAY.to_owned())
    })
}

/// The host's name: `host`, otherwise the name of its only node, otherwise the hypervisor's.
fn host(configured: Option<&NodeName>, view: &HostView) -> Option<NodeName> {
    let mut nodes = view.nodes.keys();
    let only = nodes.next().filter(|_| nodes.next().is_none());
    let named = configured.or(only).cloned();
    named.or_else(|| NodeName::new(&view.hypervisor.hostname).ok())
}

/// Waits for another value; forever if the sender is gone.
async fn changed<T>(values: &mut watch::Receiver<T>) {
    if values.changed().await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests;

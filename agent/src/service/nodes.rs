//! The nodes of the hypervisor. For each: whether a pass is running, when it is retried after a failure, and the newest
//! view that waits. A view that arrives during a pass causes exactly one more pass, with the newest view.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_agent_api::{
    ChangedProviders, FailureCause, LastPass, NodeState, PassResult, Phase, PlanState,
};
use berth_agent_devices::MissingProviders;
use berth_agent_tracker::backoff::LoopBackoff;
use berth_agent_tracker::complete;
use berth_agent_tracker::node_identity::UuidSource;
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::startup::ReviewedPlans;
use berth_client::JitterRng;
use berth_model::{NodeName, ProviderUuid, error_chain};
use berth_virt::HostView;
use tokio::time::Instant;

use crate::service::error::PassError;
use crate::service::pass::{FinishedPass, PassChanges, PassKind, PassRequest, TrackerSlot};
use crate::service::progress_watchdog::ProgressWatchdog;

/// Largest stored plan text in bytes.
const LONGEST_TEXT: usize = 256 << 10;

/// Settings of passes that start now.
#[derive(Clone)]
pub(super) struct PassSettings {
    pub(super) service: complete::Service,
    pub(super) options: Arc<TrackerOptions>,
    pub(super) reviewed: Option<Arc<ReviewedPlans>>,
}

/// A view to act on.
#[derive(Clone)]
pub(super) struct ObservedView {
    pub(super) view: Arc<HostView>,
    pub(super) sequence: u64,
    /// Whether nodes in backoff are included.
    pub(super) breaks_backoff: bool,
}

pub(super) struct Nodes<D> {
    known: BTreeMap<NodeName, NodeSlot<D>>,
    rng: JitterRng,
}

struct NodeSlot<D> {
    tracker_slot: TrackerSlot<D>,
    /// Whether a pass is running.
    busy: bool,
    watchdog: Arc<ProgressWatchdog>,
    waiting: Option<ObservedView>,
    kind: PassKind,
    uuid: UuidSource,
    finished: u64,
    backoff: LoopBackoff,
    shown: bool,
    state: NodeState,
    /// Providers that Placement no longer has, for the next pass.
    missing: BTreeSet<ProviderUuid>,
}

/// Nodes that appeared or disappeared.
#[derive(Default)]
pub(super) struct NodeChanges {
    pub(super) appeared: Vec<NodeName>,
    pub(super) disappeared: Vec<NodeName>,
}

impl<D> Nodes<D> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            known: BTreeMap::new(),
            rng: JitterRng::seeded(seed),
        }
    }

    /// Updates the nodes to those of the view. `kind` is the kind of a new node's first pass.
    pub(super) fn update_nodes(&mut self, view: &HostView, kind: PassKind) -> NodeChanges {
        let mut changes = NodeChanges::default();
        for (name, node) in &mut self.known {
            if node.shown && !view.nodes.contains_key(name) {
                node.shown = false;
                node.waiting = None;
                changes.disappeared.push(name.clone());
            }
        }
        // A node with a running pass is removed when the pass has finished.
        self.known.retain(|_, node| node.shown || node.busy);
        for name in view.nodes.keys() {
            let uuid = UuidSource::of(view, name);
            if let Some(node) = self.known.get_mut(name) {
                if !node.shown {
                    node.shown = true;
                    changes.appeared.push(name.clone());
                }
                continue;
            }
            self.known
                .insert(name.clone(), NodeSlot::new(kind, uuid, self.rng.next()));
            changes.appeared.push(name.clone());
        }
        changes
    }

    /// Records providers that Placement no longer has: the next passes read them again.
    pub(super) fn add_missing_providers(&mut self, missing: MissingProviders) {
        for (name, missing) in missing {
            if let Some(node) = self.known.get_mut(&name) {
                node.missing.extend(missing);
            }
        }
    }

    /// The passes to start for a view: one for each node that has no running pass and is not in backoff.
    pub(super) fn start_passes(
        &mut self,
        observed: &ObservedView,
        settings: &PassSettings,
        now: Instant,
    ) -> Vec<(TrackerSlot<D>, PassRequest)> {
        let mut begun = Vec::new();
        for (name, node) in self.known.iter_mut().filter(|(_, node)| node.shown) {
            if node.busy {
                node.queue_view(observed);
            } else if observed.breaks_backoff || node.state.retry_at.is_none_or(|at| at <= now) {
                begun.push(node.begin(name, observed, settings, now));
            }
        }
        begun
    }

    /// Takes the result of a pass. Returns the next pass if a newer view waits, and the error if the pass failed.
    pub(super) fn finish_pass(
        &mut self,
        returned: FinishedPass<D>,
        settings: &PassSettings,
        now: Instant,
    ) -> (Option<(TrackerSlot<D>, PassRequest)>, Option<PassError>) {
        let Some(node) = self.known.get_mut(&returned.node) else {
            return (None, None);
        };
        node.busy = false;
        node.finished = returned.sequence;
        node.tracker_slot = returned.tracker_slot;
        node.state.root = returned.root.or(node.state.root);
        node.state.tree = returned.tree;
        let error = match returned.outcome {
            Ok(passed) => {
                node.record_success(&passed, returned.took);
                None
            }
            Err(error) => {
                node.record_failure(&error, returned.took, now);
                Some(error)
            }
        };
        if !node.shown {
            self.known.remove(&returned.node);
            return (None, error);
        }
        // After a failure, a newer view waits for the backoff, unless an operator requested the pass.
        let next = node
            .waiting
            .take()
            .filter(|observed| error.is_none() || observed.breaks_backoff);
        (
            next.map(|observed| node.begin(&returned.node, &observed, settings, now)),
            error,
        )
    }

    /// The reported nodes with their states.
    pub(super) fn states(&self) -> impl Iterator<Item = (&NodeName, &NodeState)> + Clone {
        self.known
            .iter()
            .filter(|(_, node)| node.shown)
            .map(|(name, node)| (name, &node.state))
    }

    pub(super) fn state(&self, node: &NodeName) -> Option<&NodeState> {
        self.known.get(node).map(|node| &node.state)
    }

    /// Drops waiting views, so that no new pass starts.
    pub(super) fn drop_waiting(&mut self) {
        for node in self.known.values_mut() {
            node.waiting = None;
        }
    }

    /// Whether there is a node and each has been reported once.
    pub(super) fn all_started(&self) -> bool {
        let mut shown = self.states().peekable();
        shown.peek().is_some() && shown.all(|(_, node)| node.phase == Phase::Running)
    }

    /// Whether each node has finished a pass for this observation or a later one.
    pub(super) fn all_finished(&self, sequence: u64) -> bool {
        self.known
            .values()
            .filter(|node| node.shown)
            .all(|node| node.finished >= sequence)
    }

    /// Whether a pass is running.
    pub(super) fn any_busy(&self) -> bool {
        self.known.values().any(|node| node.busy)
    }

    /// Time of the next retry of a node.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        let idle = self.known.values().filter(|node| node.shown && !node.busy);
        idle.filter_map(|node| node.state.retry_at).min()
    }

    /// Nodes with a running pass, and the time since its last progress.
    pub(super) fn silences(&self, now: Instant) -> impl Iterator<Item = (&NodeName, Duration)> {
        self.busy()
            .map(move |(name, node)| (name, node.watchdog.silence(now)))
    }

    /// Number of nodes that may wait for Placement at the same time.
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    fn busy(&self) -> impl Iterator<Item = (&NodeName, &NodeSlot<D>)> {
        self.known.iter().filter(|(_, node)| node.busy)
    }

    /// Progress of reading allocations over all nodes: consumers read, and their total number.
    pub(super) fn consumers(&self) -> Option<(usize, usize)> {
        let reading = self
            .busy()
            .filter_map(|(_, node)| node.watchdog.consumers());
        reading.reduce(|(read, all), (more_read, more)| (read + more_read, all + more))
    }
}

impl<D> NodeSlot<D> {
    fn new(kind: PassKind, uuid: UuidSource, seed: u64) -> Self {
        Self {
            tracker_slot: None,
            busy: false,
            watchdog: Arc::new(ProgressWatchdog::new(Instant::now())),
            waiting: None,
            kind,
            uuid,
            finished: 0,
            backoff: LoopBackoff::seeded(seed),
            shown: true,
            state: NodeState::new(),
            missing: BTreeSet::new(),
        }
    }

    fn queue_view(&mut self, observed: &ObservedView) {
        let asked = self
            .waiting
            .as_ref()
            .is_some_and(|before| before.breaks_backoff);
        self.waiting = Some(ObservedView {
            breaks_backoff: observed.breaks_backoff || asked,
            ..observed.clone()
        });
    }

    fn begin(
        &mut self,
        name: &NodeName,
        observed: &ObservedView,
        settings: &PassSettings,
        now: Instant,
    ) -> (TrackerSlot<D>, PassRequest) {
        self.busy = true;
        self.watchdog.begin(now);
        let request = PassRequest {
            node: name.clone(),
            uuid: self.uuid.clone(),
            view: Arc::clone(&observed.view),
            sequence: observed.sequence,
            kind: self.kind,
            service: settings.service,
            options: Arc::clone(&settings.options),
            reviewed: settings
                .reviewed
                .clone()
                .filter(|_| self.kind == PassKind::Startup),
            shown: self.state.tree.clone(),
            watchdog: Arc::clone(&self.watchdog),
            missing: std::mem::take(&mut self.missing),
        };
        (self.tracker_slot.take(), request)
    }

    fn record_success(&mut self, passed: &PassChanges, took: Duration) {
        self.kind = PassKind::Tick;
        self.backoff.reset();
        let result = match (passed.reshapes, passed.changed.is_empty()) {
            (0, true) => PassResult::InSync,
            (0, false) => PassResult::Updated,
            _ => PassResult::Reshaped,
        };
        let text = if passed.text.is_empty() {
            "in sync".into()
        } else {
            truncate(&passed.text)
        };
        let last = LastPass {
            at: SystemTime::now(),
            took,
            result,
            text,
            providers: ChangedProviders::from(&passed.changed),
        };
        let state = &mut self.state;
        if result != PassResult::InSync {
            state.last_change = Some(last.clone());
        }
        state.last = Some(last);
        state.phase = Phase::Running;
        state.plan = PlanState::InSync;
        (state.failures, state.retry_at, state.failure_cause) = (0, None, None);
        state.held.clone_from(&passed.held);
    }

    fn record_failure(&mut self, error: &PassError, took: Duration, now: Instant) {
        let failure_cause = error.failure_cause();
        let state = &mut self.state;
        state.retry_at = Some(now + self.backoff.next_delay());
        state.failures = self.backoff.failures();
        state.plan = match failure_cause {
            FailureCause::ReshapeNeeded | FailureCause::ReshapeFailed => PlanState::ReshapeNeeded,
            _ if error.was_planned() => PlanState::Update,
            _ => PlanState::Unknown,
        };
        state.failure_cause = Some(failure_cause);
        state.last = Some(LastPass {
            at: SystemTime::now(),
            took,
            result: PassResult::Failed,
            text: truncate(&with_hint(error)),
            providers: ChangedProviders::default(),
        });
    }
}

fn with_hint(error: &PassError) -> String {
    let text = error_chain(error);
    match error.hint() {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    }
}

fn truncate(text: &str) -> Arc<str> {
    if text.len() <= LONGEST_TEXT {
        return text.into();
    }
    let end = text.floor_char_boundary(LONGEST_TEXT);
    format!("{}\n… and {} bytes more\n", &text[..end], text.len() - end).into()
}

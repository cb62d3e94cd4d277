//! The nodes the hypervisor shows: which of them has a pass under way, which waits after a failure, which has a newer view
//! waiting. A view that comes while a pass runs gives exactly one more pass, with the newest view.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_agent_api::{LastPass, NodeState, PassResult, Phase, PlanState, Touched, Trouble};
use berth_agent_devices::MissingProviders;
use berth_agent_tracker::backoff::Backoff;
use berth_agent_tracker::complete;
use berth_agent_tracker::error_chain::sentence;
use berth_agent_tracker::node_identity::UuidSource;
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::startup::ReviewedPlans;
use berth_client::JitterRng;
use berth_model::{NodeName, ProviderUuid};
use berth_virt::HostView;
use tokio::time::Instant;

use crate::service::error::PassError;
use crate::service::pass::{Journey, Order, Passed, Returned, TrackerSlot};
use crate::service::progress_watchdog::ProgressWatchdog;

/// The longest plan that is kept for the admin API, in bytes.
const LONGEST_TEXT: usize = 256 << 10;

/// What holds for every pass that begins now.
#[derive(Clone)]
pub(super) struct Terms {
    pub(super) service: complete::Service,
    pub(super) options: Arc<TrackerOptions>,
    pub(super) reviewed: Option<Arc<ReviewedPlans>>,
}

/// An observation to act on.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) view: Arc<HostView>,
    pub(super) sequence: u64,
    /// Whether nodes that wait after a failure are looked at too.
    pub(super) breaks_backoff: bool,
}

pub(super) struct Nodes<D> {
    known: BTreeMap<NodeName, Node<D>>,
    dice: JitterRng,
}

struct Node<D> {
    progressed: TrackerSlot<D>,
    /// Whether a pass is under way.
    busy: bool,
    pulse: Arc<ProgressWatchdog>,
    waiting: Option<Seen>,
    journey: Journey,
    uuid: UuidSource,
    finished: u64,
    backoff: Backoff,
    shown: bool,
    state: NodeState,
    /// Providers that Placement was seen without, for the next pass.
    missing: BTreeSet<ProviderUuid>,
}

/// Which nodes came and went.
#[derive(Default)]
pub(super) struct ComingsAndGoings {
    pub(super) came: Vec<NodeName>,
    pub(super) went: Vec<NodeName>,
}

impl<D> Nodes<D> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            known: BTreeMap::new(),
            dice: JitterRng::seeded(seed),
        }
    }

    /// Takes note of the nodes a view shows. `journey` is what the first pass of a new one is.
    pub(super) fn see(&mut self, view: &HostView, journey: Journey) -> ComingsAndGoings {
        let mut changes = ComingsAndGoings::default();
        for (name, node) in &mut self.known {
            if node.shown && !view.nodes.contains_key(name) {
                node.shown = false;
                node.waiting = None;
                changes.went.push(name.clone());
            }
        }
        // A node whose pass is under way goes when that has come back.
        self.known.retain(|_, node| node.shown || node.busy);
        for name in view.nodes.keys() {
            let uuid = UuidSource::of(view, name);
            if let Some(node) = self.known.get_mut(name) {
                if !node.shown {
                    node.shown = true;
                    changes.came.push(name.clone());
                }
                continue;
            }
            self.known
                .insert(name.clone(), Node::new(journey, uuid, self.dice.next()));
            changes.came.push(name.clone());
        }
        changes
    }

    /// Takes note of providers that Placement was seen without: the next passes read anew what they have of them.
    pub(super) fn doubt(&mut self, missing: MissingProviders) {
        for (name, missing) in missing {
            if let Some(node) = self.known.get_mut(&name) {
                node.missing.extend(missing);
            }
        }
    }

    /// The passes that a view gives rise to: one for each node that has none under way and does not wait after a failure.
    pub(super) fn begin(
        &mut self,
        seen: &Seen,
        terms: &Terms,
        now: Instant,
    ) -> Vec<(TrackerSlot<D>, Order)> {
        let mut begun = Vec::new();
        for (name, node) in self.known.iter_mut().filter(|(_, node)| node.shown) {
            if node.busy {
                node.keep_waiting(seen);
            } else if seen.breaks_backoff || node.state.retry_at.is_none_or(|at| at <= now) {
                begun.push(node.begin(name, seen, terms, now));
            }
        }
        begun
    }

    /// Takes a pass back; gives the next one if a newer view waits, and the error if it failed.
    pub(super) fn returned(
        &mut self,
        returned: Returned<D>,
        terms: &Terms,
        now: Instant,
    ) -> (Option<(TrackerSlot<D>, Order)>, Option<PassError>) {
        let Some(node) = self.known.get_mut(&returned.node) else {
            return (None, None);
        };
        node.busy = false;
        node.finished = returned.sequence;
        node.progressed = returned.progressed;
        node.state.root = returned.root.or(node.state.root);
        node.state.tree = returned.tree;
        let error = match returned.outcome {
            Ok(passed) => {
                node.worked(&passed, returned.took);
                None
            }
            Err(error) => {
                node.failed(&error, returned.took, now);
                Some(error)
            }
        };
        if !node.shown {
            self.known.remove(&returned.node);
            return (None, error);
        }
        // After a failure a newer view waits for the pause to be over, unless somebody asked for it.
        let next = node
            .waiting
            .take()
            .filter(|seen| error.is_none() || seen.breaks_backoff);
        (
            next.map(|seen| node.begin(&returned.node, &seen, terms, now)),
            error,
        )
    }

    /// The nodes that are shown, with their states.
    pub(super) fn states(&self) -> impl Iterator<Item = (&NodeName, &NodeState)> + Clone {
        self.known
            .iter()
            .filter(|(_, node)| node.shown)
            .map(|(name, node)| (name, &node.state))
    }

    pub(super) fn state(&self, node: &NodeName) -> Option<&NodeState> {
        self.known.get(node).map(|node| &node.state)
    }

    /// Forgets views that wait: nothing new begins.
    pub(super) fn drop_waiting(&mut self) {
        for node in self.known.values_mut() {
            node.waiting = None;
        }
    }

    /// Whether there is a node and every one has been reported once.
    pub(super) fn all_started(&self) -> bool {
        let mut shown = self.states().peekable();
        shown.peek().is_some() && shown.all(|(_, node)| node.phase == Phase::Running)
    }

    /// Whether every node has had a pass on this observation or a later one.
    pub(super) fn all_finished(&self, sequence: u64) -> bool {
        self.known
            .values()
            .filter(|node| node.shown)
            .all(|node| node.finished >= sequence)
    }

    /// Whether a pass is under way.
    pub(super) fn any_busy(&self) -> bool {
        self.known.values().any(|node| node.busy)
    }

    /// When the next node that waits after a failure is due.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        let idle = self.known.values().filter(|node| node.shown && !node.busy);
        idle.filter_map(|node| node.state.retry_at).min()
    }

    /// Passes under way, with how long each has been silent.
    pub(super) fn silences(&self, now: Instant) -> impl Iterator<Item = (&NodeName, Duration)> {
        self.busy()
            .map(move |(name, node)| (name, node.pulse.silence(now)))
    }

    /// How many nodes may wait for Placement at once.
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    fn busy(&self) -> impl Iterator<Item = (&NodeName, &Node<D>)> {
        self.known.iter().filter(|(_, node)| node.busy)
    }

    /// Consumers read for a reshape, of how many, over all nodes.
    pub(super) fn consumers(&self) -> Option<(usize, usize)> {
        let reading = self.busy().filter_map(|(_, node)| node.pulse.consumers());
        reading.reduce(|(read, all), (more_read, more)| (read + more_read, all + more))
    }
}

impl<D> Node<D> {
    fn new(journey: Journey, uuid: UuidSource, seed: u64) -> Self {
        Self {
            progressed: None,
            busy: false,
            pulse: Arc::new(ProgressWatchdog::new(Instant::now())),
            waiting: None,
            journey,
            uuid,
            finished: 0,
            backoff: Backoff::seeded(seed),
            shown: true,
            state: NodeState::new(),
            missing: BTreeSet::new(),
        }
    }

    fn keep_waiting(&mut self, seen: &Seen) {
        let asked = self
            .waiting
            .as_ref()
            .is_some_and(|before| before.breaks_backoff);
        self.waiting = Some(Seen {
            breaks_backoff: seen.breaks_backoff || asked,
            ..seen.clone()
        });
    }

    fn begin(
        &mut self,
        name: &NodeName,
        seen: &Seen,
        terms: &Terms,
        now: Instant,
    ) -> (TrackerSlot<D>, Order) {
        self.busy = true;
        self.pulse.begin(now);
        let order = Order {
            node: name.clone(),
            uuid: self.uuid.clone(),
            view: Arc::clone(&seen.view),
            sequence: seen.sequence,
            journey: self.journey,
            service: terms.service,
            options: Arc::clone(&terms.options),
            reviewed: terms
                .reviewed
                .clone()
                .filter(|_| self.journey == Journey::Startup),
            shown: self.state.tree.clone(),
            pulse: Arc::clone(&self.pulse),
            missing: std::mem::take(&mut self.missing),
        };
        (self.progressed.take(), order)
    }

    fn worked(&mut self, passed: &Passed, took: Duration) {
        self.journey = Journey::Tick;
        self.backoff.worked();
        let result = match (passed.reshapes, passed.changed.is_empty()) {
            (0, true) => PassResult::InSync,
            (0, false) => PassResult::Updated,
            _ => PassResult::Reshaped,
        };
        let text = if passed.text.is_empty() {
            "in sync".into()
        } else {
            cut(&passed.text)
        };
        let last = LastPass {
            at: SystemTime::now(),
            took,
            result,
            text,
            touched: Touched::from(&passed.changed),
        };
        let state = &mut self.state;
        if result != PassResult::InSync {
            state.last_change = Some(last.clone());
        }
        state.last = Some(last);
        state.phase = Phase::Running;
        state.plan = PlanState::InSync;
        (state.failures, state.retry_at, state.trouble) = (0, None, None);
        state.held.clone_from(&passed.held);
    }

    fn failed(&mut self, error: &PassError, took: Duration, now: Instant) {
        let trouble = error.trouble();
        let state = &mut self.state;
        state.retry_at = Some(now + self.backoff.failed());
        state.failures = self.backoff.failures();
        state.plan = match trouble {
            Trouble::ReshapeNeeded | Trouble::ReshapeFailed => PlanState::ReshapeNeeded,
            _ if error.was_planned() => PlanState::Update,
            _ => PlanState::Unknown,
        };
        state.trouble = Some(trouble);
        state.last = Some(LastPass {
            at: SystemTime::now(),
            took,
            result: PassResult::Failed,
            text: cut(&sentence(error)),
            touched: Touched::default(),
        });
    }
}

fn cut(text: &str) -> Arc<str> {
    if text.len() <= LONGEST_TEXT {
        return text.into();
    }
    let end = text.floor_char_boundary(LONGEST_TEXT);
    format!("{}\n… and {} bytes more\n", &text[..end], text.len() - end).into()
}

//! State of the agent as one value: the service loop publishes it, the admin API and `STATUS=` read it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_agent_tracker::disabled::{DisabledByOperator, DisabledInCloud};
use berth_model::{HeldUnits, NodeName, ProviderTree, ProviderUuid, TreeDiff};
use berth_virt::HostView;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::health::{AgentHealth, Severity};

/// Phase of the agent or of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Some node has not been reported to Placement yet.
    Starting,
    /// Every node has been reported once.
    Running,
    /// The agent stops; running passes are finished.
    Stopping,
}

impl Phase {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Running => "running",
            Phase::Stopping => "stopping",
        }
    }
}

#[derive(Debug, Clone)]
pub struct AgentState {
    pub phase: Phase,
    pub driver: &'static str,
    /// Set if an operator of this host disabled it.
    pub disabled: Option<DisabledByOperator>,
    /// Set if an operator of the cloud disabled the host.
    pub disabled_in_cloud: Option<DisabledInCloud>,
    /// The last observed host, with the known states of its devices; `None` before the first observation.
    pub view: Option<Arc<HostView>>,
    pub nodes: BTreeMap<NodeName, NodeState>,
    /// Error of the last observation, if it failed.
    pub unobserved: Option<String>,
    /// Progress while allocations are read for a reshape: consumers read, and their total number.
    pub consumers: Option<(usize, usize)>,
    pub health: AgentHealth,
    /// The configuration in effect, with secrets masked.
    pub config: Arc<serde_json::Value>,
}

#[derive(Debug, Clone)]
pub struct NodeState {
    /// The root provider; `None` until the node is identified.
    pub root: Option<ProviderUuid>,
    pub phase: Phase,
    pub plan: PlanState,
    /// Failed passes since the last successful one.
    pub failures: u32,
    /// Time of the next attempt after a failure.
    pub retry_at: Option<Instant>,
    pub last: Option<LastPass>,
    /// The last pass that changed something in Placement.
    pub last_change: Option<LastPass>,
    /// Units that are held on their old provider.
    pub held: Vec<HeldUnits>,
    /// The provider tree in Placement, as last known.
    pub tree: Option<Arc<ProviderTree>>,
    /// Cause of the last failure, if the last pass failed.
    pub failure_cause: Option<FailureCause>,
}

/// Result of a finished pass.
#[derive(Debug, Clone)]
pub struct LastPass {
    pub at: SystemTime,
    pub took: Duration,
    pub result: PassResult,
    /// The executed plan, or the error.
    pub text: Arc<str>,
    /// Names of the providers that the pass changed.
    pub providers: ChangedProviders,
}

/// Result of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassResult {
    /// Placement already matched the host.
    InSync,
    Updated,
    /// Inventory and allocations were moved to other providers.
    Reshaped,
    Failed,
}

impl PassResult {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            PassResult::InSync => "in_sync",
            PassResult::Updated => "updated",
            PassResult::Reshaped => "reshaped",
            PassResult::Failed => "failed",
        }
    }
}

/// Names of the providers that a pass created, changed and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedProviders {
    pub created: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
}

impl From<&TreeDiff> for ChangedProviders {
    fn from(diff: &TreeDiff) -> Self {
        Self {
            created: diff
                .created
                .iter()
                .map(|provider| provider.name.to_string())
                .collect(),
            changed: diff
                .changed
                .iter()
                .map(|change| change.name.to_string())
                .collect(),
            removed: diff
                .removed
                .iter()
                .map(|(_, name)| name.to_string())
                .collect(),
        }
    }
}

impl NodeState {
    /// A node that was just discovered.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a new node is no default of anything"
    )]
    pub fn new() -> Self {
        Self {
            root: None,
            phase: Phase::Starting,
            plan: PlanState::Unknown,
            failures: 0,
            retry_at: None,
            last: None,
            last_change: None,
            held: Vec::new(),
            tree: None,
            failure_cause: None,
        }
    }

    /// Error of the last pass, if it failed.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.last
            .as_ref()
            .filter(|last| last.result == PassResult::Failed)
            .map(|last| &*last.text)
    }
}

impl AgentState {
    /// The state before the first observation.
    pub fn unknown(driver: &'static str) -> Self {
        Self {
            phase: Phase::Starting,
            driver,
            disabled: None,
            disabled_in_cloud: None,
            view: None,
            nodes: BTreeMap::new(),
            unobserved: None,
            consumers: None,
            health: AgentHealth::default(),
            config: Arc::new(serde_json::Value::Null),
        }
    }

    /// A summary in one sentence, for `STATUS=` and other one-line displays.
    #[must_use]
    pub fn summary(&self, now: Instant) -> String {
        let disabled = self
            .disabled
            .as_ref()
            .map_or_else(String::new, |d| format!("; disabled: {}", d.reason));
        let in_cloud = self.disabled_in_cloud.as_ref();
        let in_cloud = in_cloud.map_or_else(String::new, |it| {
            format!("; disabled in the cloud: {}", it.reason)
        });
        let what = match self.phase {
            Phase::Starting => format!("starting: {}", self.starting(now)),
            Phase::Running => self.running(now),
            Phase::Stopping => "stopping: finishing running passes".to_owned(),
        };
        format!("{what}{disabled}{in_cloud}")
    }

    fn starting(&self, now: Instant) -> String {
        if let Some((read, all)) = self.consumers {
            return format!(
                "a reshape is needed; read the allocations of {read} of {all} consumers"
            );
        }
        if let Some(problem) = self.worst_problem(now) {
            return format!("{problem}; retrying");
        }
        let waiting: Vec<&str> = self
            .nodes
            .iter()
            .filter(|(_, n)| n.phase == Phase::Starting)
            .map(|(name, _)| name.as_str())
            .collect();
        match waiting.as_slice() {
            [] => "observing the hypervisor".to_owned(),
            [node] => format!("reporting node {node} to Placement"),
            nodes => format!("reporting {} nodes to Placement", nodes.len()),
        }
    }

    fn running(&self, now: Instant) -> String {
        if let Some(problem) = self.worst_problem(now) {
            return problem;
        }
        let mut names = self.nodes.keys();
        let well = match (names.next(), self.nodes.len()) {
            (Some(node), 1) => format!("in sync: node {node}"),
            (_, count) => format!("in sync: {count} nodes"),
        };
        match self.health.visible(now).first() {
            Some(warning) => format!("{well}; warning: {}: {}", warning.title, warning.text),
            None => well,
        }
    }

    /// The most severe problem: the first visible finding, otherwise a failure that is too recent to be visible.
    fn worst_problem(&self, now: Instant) -> Option<String> {
        let mut errors = self.health.visible(now);
        errors.retain(|message| message.severity == Severity::Error);
        if let Some(worst) = errors.first() {
            let more = match errors.len() {
                1 => String::new(),
                count => format!(" (and {} more)", count - 1),
            };
            return Some(format!("{}: {}{more}", worst.title, worst.text));
        }
        if let Some(unobserved) = &self.unobserved {
            return Some(unobserved.clone());
        }
        self.nodes
            .iter()
            .find_map(|(name, node)| Some(format!("node {name}: {}", node.failure()?)))
    }
}

/// Cause of a failed pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// Placement, or Keystone when the agent requests a token, does not answer.
    PlacementUnreachable,
    /// Placement answers and rejects the agent.
    PlacementRefuses,
    Identity,
    ReshapeNeeded,
    ReshapeFailed,
    /// Any other cause, for example a conflict.
    Other,
}

/// Outcome of a node's last plan, as `berth_plan_state` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanState {
    /// Placement matches the host.
    InSync,
    /// A difference remains, because Placement did not accept the change.
    Update,
    ReshapeNeeded,
    /// No plan could be made.
    Unknown,
}

impl PlanState {
    pub const ALL: [PlanState; 4] = [
        PlanState::InSync,
        PlanState::Update,
        PlanState::ReshapeNeeded,
        PlanState::Unknown,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            PlanState::InSync => "in_sync",
            PlanState::Update => "update",
            PlanState::ReshapeNeeded => "reshape_needed",
            PlanState::Unknown => "unknown",
        }
    }
}

/// Receiver of the published states.
pub type States = watch::Receiver<Arc<AgentState>>;

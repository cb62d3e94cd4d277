//! What the agent knows of itself, as one value: the service's loop publishes it, the admin API and `STATUS=` read it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_agent_tracker::disabled::{Disabled, DisabledInCloud};
use berth_model::{Held, NodeName, ProviderTree, ProviderUuid, TreeDiff};
use berth_virt::HostView;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::health::{Health, Severity};

/// How far the service has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not every node has been reported yet.
    Starting,
    /// Every node has been reported once.
    Running,
    /// It ends; passes under way are finished.
    Stopping,
}

impl Phase {
    /// The word in bodies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Running => "running",
            Phase::Stopping => "stopping",
        }
    }
}

/// Everything the admin API shows.
#[derive(Debug, Clone)]
pub struct AgentState {
    /// How far the service has come.
    pub phase: Phase,
    /// The driver's name (`compute_driver`).
    pub driver: &'static str,
    /// Whether an operator disabled the host.
    pub disabled: Option<Disabled>,
    /// Whether the cloud's operators disabled the host.
    pub disabled_in_cloud: Option<DisabledInCloud>,
    /// The host as it was seen last, with what is known of its devices beside; none before the first look.
    pub view: Option<Arc<HostView>>,
    /// The nodes that the hypervisor shows.
    pub nodes: BTreeMap<NodeName, NodeState>,
    /// Why the last observation failed, if it did.
    pub unobserved: Option<String>,
    /// Consumers read for a reshape, of how many, while that goes on.
    pub consumers: Option<(usize, usize)>,
    pub health: Health,
    /// The configuration in force, secrets masked.
    pub config: Arc<serde_json::Value>,
}

#[derive(Debug, Clone)]
pub struct NodeState {
    /// Its root provider, once that is clear.
    pub root: Option<ProviderUuid>,
    /// Whether its first pass is done.
    pub phase: Phase,
    /// How its last pass ended.
    pub plan: PlanState,
    /// Failed passes in a row.
    pub failures: u32,
    /// When it is tried again, if it failed.
    pub retry_at: Option<Instant>,
    pub last: Option<LastPass>,
    /// The last pass that changed something.
    pub last_change: Option<LastPass>,
    /// Units held without a home.
    pub held: Vec<Held>,
    /// Placement's tree as last known.
    pub tree: Option<Arc<ProviderTree>>,
    /// On which side its last pass broke, if it did.
    pub trouble: Option<Trouble>,
}

/// A pass that is over.
#[derive(Debug, Clone)]
pub struct LastPass {
    pub at: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub result: PassResult,
    /// The plan that was carried out, or why it failed.
    pub text: Arc<str>,
    /// The providers it touched, by name.
    pub touched: Touched,
}

/// What came of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassResult {
    /// There was nothing to do.
    InSync,
    Updated,
    /// Inventory and allocations were moved.
    Reshaped,
    Failed,
}

impl PassResult {
    /// The word in bodies.
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

/// Providers by what a pass did to them, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    pub created: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
}

impl From<&TreeDiff> for Touched {
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
    /// A node that was just seen.
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
            trouble: None,
        }
    }

    /// Why its last pass failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.last
            .as_ref()
            .filter(|last| last.result == PassResult::Failed)
            .map(|last| &*last.text)
    }
}

impl AgentState {
    /// Before anything is known.
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
            health: Health::default(),
            config: Arc::new(serde_json::Value::Null),
        }
    }

    /// One truthful sentence: for `STATUS=` and whoever has room for one line only.
    #[must_use]
    pub fn sentence(&self, now: Instant) -> String {
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
            Phase::Stopping => "stopping: passes under way are finished".to_owned(),
        };
        format!("{what}{disabled}{in_cloud}")
    }

    fn starting(&self, now: Instant) -> String {
        if let Some((read, all)) = self.consumers {
            return format!(
                "a reshape is needed, the allocations of {read} of {all} consumers are read"
            );
        }
        if let Some(trouble) = self.trouble(now) {
            return format!("{trouble}; it is tried again");
        }
        let waiting: Vec<&str> = self
            .nodes
            .iter()
            .filter(|(_, n)| n.phase == Phase::Starting)
            .map(|(name, _)| name.as_str())
            .collect();
        match waiting.as_slice() {
            [] => "the hypervisor is looked at".to_owned(),
            [node] => format!("node {node} is reported to Placement"),
            nodes => format!("{} nodes are reported to Placement", nodes.len()),
        }
    }

    fn running(&self, now: Instant) -> String {
        if let Some(trouble) = self.trouble(now) {
            return trouble;
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

    /// The worst that is wrong: what health shows, else what failed too recently to be shown.
    fn trouble(&self, now: Instant) -> Option<String> {
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

/// On which side a failed pass broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Placement, or Keystone on the way to it, does not answer.
    PlacementAway,
    /// It answers, but will not have us.
    PlacementRefuses,
    /// The identity of the node is unknown.
    Identity,
    /// A reshape is needed.
    ReshapeNeeded,
    /// A reshape was refused.
    ReshapeFailed,
    /// Something else, a conflict for instance.
    Other,
}

/// How a node's last pass ended, as `berth_plan_state` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanState {
    /// Placement has what is seen.
    InSync,
    /// It differs, and Placement did not take the change.
    Update,
    /// A reshape is needed.
    ReshapeNeeded,
    /// No plan could be made yet, or at present.
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

/// The state, as it changes.
pub type States = watch::Receiver<Arc<AgentState>>;

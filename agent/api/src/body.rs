//! JSON bodies of the admin API, for the server and for [`crate::client`]. Every body names the API's version. Times
//! are UTC in RFC 3339, durations are seconds.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use berth_agent_tracker::disabled::{DisabledByOperator, DisabledInCloud};
use berth_model::{HeldUnits, Inventory, NodeName, Provider, ProviderTree};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::health::{HealthMessage, Severity};
use crate::requests::TickOutcome;
use crate::state::{AgentState, ChangedProviders, LastPass, NodeState, PassResult, Phase};

/// Version of the API, the value of the key `api` in each body.
pub const API: &str = "berth/1";

/// Error code for a state file that could not be written; nothing was changed.
pub const STATE_FILES: &str = "state_files";

fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

fn api() -> String {
    API.to_owned()
}

/// Response of GET /healthz: the agent's status and its current findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthBody {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// `ok`, `warning`, `starting` or `error`; the status code is 503 for the last two.
    pub status: String,
    /// Current findings, the most severe first.
    pub messages: Vec<HealthMessageBody>,
}

/// One health finding; the admin API reference lists all codes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthMessageBody {
    /// Stable code of the finding, for scripts and runbooks.
    pub code: String,
    /// Severity of the finding: `error` or `warning`.
    pub severity: String,
    /// Short title of the finding, the same for every occurrence.
    pub title: String,
    /// One sentence with the details of this occurrence.
    pub text: String,
    /// Node or file that the finding is about; empty if it is about the whole agent.
    pub subject: String,
    /// Seconds since the finding started, rounded down.
    pub for_seconds: u64,
}

impl HealthMessageBody {
    fn new(message: HealthMessage, now: Instant) -> Self {
        Self {
            code: message.code.to_owned(),
            severity: message.severity.as_str().to_owned(),
            title: message.title.to_owned(),
            text: message.text,
            subject: message.subject,
            for_seconds: now.duration_since(message.since).as_secs(),
        }
    }
}

impl HealthBody {
    /// Builds the body from the agent's current state.
    #[must_use]
    pub fn new(state: &AgentState, now: Instant) -> Self {
        let messages = state.health.visible(now);
        let has = |severity| messages.iter().any(|message| message.severity == severity);
        let status = match state.phase {
            _ if has(Severity::Error) => "error",
            Phase::Starting => "starting",
            _ if has(Severity::Warning) => "warning",
            Phase::Running | Phase::Stopping => "ok",
        };
        let messages = messages
            .into_iter()
            .map(|message| HealthMessageBody::new(message, now))
            .collect();
        Self {
            api: api(),
            status: status.to_owned(),
            messages,
        }
    }

    /// Whether the agent is healthy: no error, and past its start.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        matches!(self.status.as_str(), "ok" | "warning")
    }
}

/// Response of GET /v1/state: the state of the agent and of each node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateBody {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// Version of the agent, as `berth --version` prints it.
    pub version: String,
    /// Phase of the agent: `starting`, `running` or `stopping`.
    pub phase: String,
    /// Summary in one sentence, as `systemctl status` shows it.
    pub summary: String,
    /// Name of the compute driver (`compute_driver`).
    pub driver: String,
    /// Reason, time and user if an operator disabled the host for new guests on this host; null if the host is enabled.
    pub disabled: Option<DisabledByOperator>,
    /// Reason and time if an operator of the cloud disabled the host for new guests; null if the host is enabled.
    #[serde(default)]
    pub disabled_in_cloud: Option<DisabledInCloud>,
    /// Error of the last observation of the hypervisor; null if it succeeded.
    pub unobserved: Option<String>,
    /// State of each node that the hypervisor reports.
    pub nodes: Vec<NodeBody>,
}

/// State of one node and of its resource providers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeBody {
    /// Name of the node.
    pub name: String,
    /// UUID of the node's root provider; null until the node is identified.
    pub root: Option<String>,
    /// Phase of the node: `starting` until its first cycle succeeded, then `running`.
    pub phase: String,
    /// Outcome of the last plan: `in_sync`, `update`, `reshape_needed` or `unknown`.
    pub plan: String,
    /// Number of failed cycles since the last successful one.
    pub failures: u32,
    /// Seconds until the next attempt after a failure; null if the last cycle did not fail.
    pub retry_in_seconds: Option<u64>,
    /// Result of the last cycle; null before the first one.
    pub last_pass: Option<PassBody>,
    /// Used units that no longer have a provider of their own and are held on their old one.
    pub held: Vec<HeldBody>,
    /// The node's provider tree in Placement, as last known.
    pub tree: Option<ProviderTreeBody>,
    /// Sharing providers whose resources the node uses.
    pub sharing: Vec<ProviderTreeBody>,
}

/// Result of one cycle over a node: observe, plan, update Placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassBody {
    /// Time at which the cycle ended.
    pub at: String,
    /// Duration of the cycle in seconds.
    pub took_seconds: f64,
    /// Result of the cycle: `in_sync`, `updated`, `reshaped` or `failed`.
    pub result: String,
    /// The executed plan as text, or the error of a failed cycle.
    pub text: String,
}

impl PassBody {
    fn new(pass: &LastPass) -> Self {
        Self {
            at: time(pass.at),
            took_seconds: seconds(pass.took),
            result: pass.result.as_str().to_owned(),
            text: pass.text.to_string(),
        }
    }
}

fn seconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e6
}

/// Held units of one resource class: they stay on their old provider because no new provider was found for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldBody {
    /// Name of the provider that holds the units.
    pub provider: String,
    /// UUID of the provider that holds the units.
    pub uuid: String,
    /// Resource class of the units.
    pub resource_class: String,
    /// Number of units that are in use.
    pub used: u64,
}

impl HeldBody {
    fn new(held: &HeldUnits) -> Self {
        Self {
            provider: held.name.to_string(),
            uuid: held.provider.to_string(),
            resource_class: held.class.to_string(),
            used: held.used,
        }
    }
}

/// A resource provider with its descendants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderTreeBody {
    /// Name of the resource provider.
    pub name: String,
    /// UUID of the resource provider.
    pub uuid: String,
    /// Generation of the provider; null if Placement does not have the provider yet.
    pub generation: Option<i64>,
    /// Inventories of the provider by resource class.
    pub inventories: BTreeMap<String, ProviderInventoryBody>,
    /// Traits of the provider in Placement.
    pub traits: Vec<String>,
    /// UUIDs of the provider's aggregates.
    pub aggregates: Vec<String>,
    /// Child providers, sorted by name.
    pub children: Vec<ProviderTreeBody>,
}

/// An inventory with Placement's field names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderInventoryBody {
    pub total: u32,
    pub reserved: u32,
    pub min_unit: u32,
    pub max_unit: u32,
    pub step_size: u32,
    pub allocation_ratio: f64,
}

impl From<&Inventory> for ProviderInventoryBody {
    fn from(inventory: &Inventory) -> Self {
        Self {
            total: inventory.total,
            reserved: inventory.reserved,
            min_unit: inventory.min_unit,
            max_unit: inventory.max_unit,
            step_size: inventory.step_size,
            allocation_ratio: inventory.allocation_ratio.as_f64(),
        }
    }
}

impl ProviderTreeBody {
    /// Builds the body of a provider and of its descendants in the tree.
    #[must_use]
    pub fn new(tree: &ProviderTree, provider: &Provider) -> Self {
        let inventories = provider.inventories.iter();
        Self {
            name: provider.name.to_string(),
            uuid: provider.uuid().to_string(),
            generation: provider.generation.map(berth_model::Generation::as_i64),
            inventories: inventories
                .map(|(class, each)| (class.to_string(), each.into()))
                .collect(),
            traits: provider.traits.iter().map(ToString::to_string).collect(),
            aggregates: provider
                .aggregates
                .iter()
                .map(ToString::to_string)
                .collect(),
            children: tree
                .children(provider.uuid())
                .into_iter()
                .map(|child| Self::new(tree, child))
                .collect(),
        }
    }
}

impl NodeBody {
    fn new(name: &NodeName, node: &NodeState, now: Instant) -> Self {
        let tree = node.tree.as_deref();
        let sharing = tree.into_iter().flat_map(|tree| {
            let others = tree
                .all()
                .into_iter()
                .filter(|provider| !tree.is_own(provider.uuid()));
            others.map(|provider| ProviderTreeBody::new(tree, provider))
        });
        Self {
            name: name.to_string(),
            root: node.root.map(|root| root.to_string()),
            phase: node.phase.as_str().to_owned(),
            plan: node.plan.as_str().to_owned(),
            failures: node.failures,
            retry_in_seconds: node
                .retry_at
                .map(|at| at.saturating_duration_since(now).as_secs()),
            last_pass: node.last.as_ref().map(PassBody::new),
            held: node.held.iter().map(HeldBody::new).collect(),
            tree: tree.map(|tree| ProviderTreeBody::new(tree, tree.root())),
            sharing: sharing.collect(),
        }
    }
}

impl StateBody {
    /// Builds the body from the agent's current state.
    #[must_use]
    pub fn new(state: &AgentState, now: Instant) -> Self {
        Self {
            api: api(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            phase: state.phase.as_str().to_owned(),
            summary: state.summary(now),
            driver: state.driver.to_owned(),
            disabled: state.disabled.clone(),
            disabled_in_cloud: state.disabled_in_cloud.clone(),
            unobserved: state.unobserved.clone(),
            nodes: state
                .nodes
                .iter()
                .map(|(name, node)| NodeBody::new(name, node, now))
                .collect(),
        }
    }
}

/// Response of GET /v1/plan: the last plan of each node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanBody {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// Last plan of each node, sorted by name.
    pub nodes: Vec<NodePlanBody>,
}

/// The last plan of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodePlanBody {
    /// Name of the node.
    pub name: String,
    /// Outcome of the last plan: `in_sync`, `update`, `reshape_needed` or `unknown`.
    pub plan: String,
    /// Result of the last cycle; null before the first one.
    pub last_pass: Option<PassBody>,
    /// The last cycle that changed something in Placement.
    pub last_change: Option<ChangeBody>,
    /// Used units that no longer have a provider of their own and are held on their old one.
    pub held: Vec<HeldBody>,
}

/// A cycle that changed providers in Placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeBody {
    /// Result of that cycle.
    #[serde(flatten)]
    pub pass: PassBody,
    /// Names of the created providers.
    pub created: Vec<String>,
    /// Names of the changed providers.
    pub changed: Vec<String>,
    /// Names of the deleted providers.
    pub removed: Vec<String>,
}

impl ChangeBody {
    fn new(pass: &LastPass) -> Self {
        let ChangedProviders {
            created,
            changed,
            removed,
        } = pass.providers.clone();
        Self {
            pass: PassBody::new(pass),
            created,
            changed,
            removed,
        }
    }
}

impl PlanBody {
    /// Builds the body from the agent's current state.
    #[must_use]
    pub fn new(state: &AgentState) -> Self {
        let node = |(name, node): (&NodeName, &NodeState)| NodePlanBody {
            name: name.to_string(),
            plan: node.plan.as_str().to_owned(),
            last_pass: node.last.as_ref().map(PassBody::new),
            last_change: node.last_change.as_ref().map(ChangeBody::new),
            held: node.held.iter().map(HeldBody::new).collect(),
        };
        Self {
            api: api(),
            nodes: state.nodes.iter().map(node).collect(),
        }
    }
}

/// Response of GET /v1/config: the configuration of the running agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigBody {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// The configuration in effect; secrets are masked.
    pub config: serde_json::Value,
}

/// Response of POST /v1/tick: the results of one cycle over all nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TickBody {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// Time at which the last node's cycle ended.
    pub at: String,
    /// Error of the observation; null if the hypervisor was observed. If set, no node had a cycle.
    pub unobserved: Option<String>,
    /// Result of the cycle of each node.
    pub nodes: Vec<NodeTickBody>,
}

/// Result of the cycle of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeTickBody {
    /// Name of the node.
    pub name: String,
    /// Result of that node's cycle.
    #[serde(flatten)]
    pub pass: PassBody,
}

impl TickBody {
    /// Builds the body from the outcome of a cycle.
    #[must_use]
    pub fn new(outcome: &TickOutcome) -> Self {
        let node = |(name, pass): &(NodeName, LastPass)| NodeTickBody {
            name: name.to_string(),
            pass: PassBody::new(pass),
        };
        Self {
            api: api(),
            at: time(outcome.at),
            unobserved: outcome.unobserved.clone(),
            nodes: outcome.nodes.iter().map(node).collect(),
        }
    }

    /// Whether the host was observed and no node's cycle failed.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let failed = PassResult::Failed.as_str();
        self.unobserved.is_none() && self.nodes.iter().all(|node| node.pass.result != failed)
    }
}

/// Request body of PUT /v1/disabled: disables the host for new guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisableBody {
    /// Reason that is shown to users, 1 to 255 characters on one line.
    pub reason: String,
}

/// Response of PUT and DELETE /v1/disabled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DisabledBody {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// The stored reason, time and user; null if the host is enabled.
    pub disabled: Option<DisabledByOperator>,
    /// Result of the cycle that reports the change to Placement; null if the cycle is still running.
    pub tick: Option<TickBody>,
}

/// Body of every error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// Code and message of the error.
    pub error: ErrorDetail,
}

/// Code and message of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    /// Stable error code, for scripts.
    pub code: String,
    /// One sentence for people that says what failed.
    pub message: String,
}

//! The bodies of the admin API as they travel, both ways: the router writes them, [`crate::client`] reads them. Every one
//! names the API's version; times are UTC in RFC 3339, durations seconds.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use berth_agent_tracker::disabled::{Disabled, DisabledInCloud};
use berth_model::{Held, Inventory, NodeName, Provider, ProviderTree};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::health::{Message, Severity};
use crate::requests::TickOutcome;
use crate::state::{AgentState, LastPass, NodeState, PassResult, Phase, Touched};

/// The API's version.
pub const API: &str = "berth/1";

/// The code of a refusal because a state file could not be written; nothing was changed.
pub const STATE_FILES: &str = "state_files";

fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

fn api() -> String {
    API.to_owned()
}

/// GET /healthz.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthBody {
    /// The API's version, `berth/1`.
    pub api: String,
    /// `ok`, `warning`, `starting` or `error`; the last two answer 503.
    pub status: String,
    /// What is wrong, the worst first.
    pub messages: Vec<MessageBody>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageBody {
    /// Stable, for scripts and runbooks.
    pub code: String,
    /// `error` or `warning`.
    pub severity: String,
    /// A few words.
    pub title: String,
    /// A sentence.
    pub text: String,
    /// The node it is about; empty: the whole agent.
    pub subject: String,
    /// For how long, in whole seconds.
    pub for_seconds: u64,
}

impl MessageBody {
    fn new(message: Message, now: Instant) -> Self {
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
    /// What holds now.
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
            .map(|message| MessageBody::new(message, now))
            .collect();
        Self {
            api: api(),
            status: status.to_owned(),
            messages,
        }
    }

    /// Whether the agent does its duty.
    #[must_use]
    pub fn is_well(&self) -> bool {
        matches!(self.status.as_str(), "ok" | "warning")
    }
}

/// GET /v1/state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateBody {
    /// The API's version, `berth/1`.
    pub api: String,
    /// The agent's version.
    pub version: String,
    /// `starting`, `running` or `stopping`.
    pub phase: String,
    /// One sentence on how things stand, as `systemctl status` shows it.
    pub summary: String,
    /// The driver (`compute_driver`).
    pub driver: String,
    /// Why, since when and by whom the host takes no guests; null: it takes guests.
    pub disabled: Option<Disabled>,
    /// Why and since when the cloud's operators want no new guests here; null: they are welcome.
    #[serde(default)]
    pub disabled_in_cloud: Option<DisabledInCloud>,
    /// Why the hypervisor cannot be observed; null: it can.
    pub unobserved: Option<String>,
    /// The nodes.
    pub nodes: Vec<NodeBody>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeBody {
    /// Its name.
    pub name: String,
    /// Its root provider's UUID, once that is clear.
    pub root: Option<String>,
    /// `starting` or `running`.
    pub phase: String,
    /// `in_sync`, `update`, `reshape_needed` or `unknown`.
    pub plan: String,
    /// Failed passes in a row.
    pub failures: u32,
    /// In how many seconds it is tried again, after a failure.
    pub retry_in_seconds: Option<u64>,
    /// Its last pass.
    pub last_pass: Option<PassBody>,
    /// Units held without a home.
    pub held: Vec<HeldBody>,
    /// Placement's tree as last known.
    pub tree: Option<ProviderBody>,
    /// The sharing providers it takes from.
    pub sharing: Vec<ProviderBody>,
}

/// A pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassBody {
    /// When it ended.
    pub at: String,
    /// How long it took.
    pub took_seconds: f64,
    /// `in_sync`, `updated`, `reshaped` or `failed`.
    pub result: String,
    /// The plan that was carried out, or why it failed.
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

/// Units held without a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldBody {
    /// The provider they stay on.
    pub provider: String,
    /// Its UUID.
    pub uuid: String,
    /// Their class.
    pub resource_class: String,
    /// How many.
    pub used: u64,
}

impl HeldBody {
    fn new(held: &Held) -> Self {
        Self {
            provider: held.name.to_string(),
            uuid: held.provider.to_string(),
            resource_class: held.class.to_string(),
            used: held.used,
        }
    }
}

/// A provider with all below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderBody {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its generation; null where Placement does not have it yet.
    pub generation: Option<i64>,
    /// By class.
    pub inventories: BTreeMap<String, InventoryBody>,
    /// Its traits.
    pub traits: Vec<String>,
    /// Its aggregates.
    pub aggregates: Vec<String>,
    /// Those below it, by name.
    pub children: Vec<ProviderBody>,
}

/// An inventory, in Placement's words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InventoryBody {
    pub total: u32,
    pub reserved: u32,
    pub min_unit: u32,
    pub max_unit: u32,
    pub step_size: u32,
    pub allocation_ratio: f64,
}

impl From<&Inventory> for InventoryBody {
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

impl ProviderBody {
    /// A provider of the tree with all below it.
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
            others.map(|provider| ProviderBody::new(tree, provider))
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
            tree: tree.map(|tree| ProviderBody::new(tree, tree.root())),
            sharing: sharing.collect(),
        }
    }
}

impl StateBody {
    /// What holds now.
    #[must_use]
    pub fn new(state: &AgentState, now: Instant) -> Self {
        Self {
            api: api(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            phase: state.phase.as_str().to_owned(),
            summary: state.sentence(now),
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

/// GET /v1/plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanBody {
    /// The API's version, `berth/1`.
    pub api: String,
    /// By node.
    pub nodes: Vec<NodePlanBody>,
}

/// The last plan of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodePlanBody {
    /// The node.
    pub name: String,
    /// `in_sync`, `update`, `reshape_needed` or `unknown`.
    pub plan: String,
    /// The last pass.
    pub last_pass: Option<PassBody>,
    /// The last pass that changed something.
    pub last_change: Option<ChangeBody>,
    /// Units held without a home.
    pub held: Vec<HeldBody>,
}

/// A pass that changed something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeBody {
    /// The pass.
    #[serde(flatten)]
    pub pass: PassBody,
    /// Providers that were made.
    pub created: Vec<String>,
    /// Providers that were changed.
    pub changed: Vec<String>,
    /// Providers that were deleted.
    pub removed: Vec<String>,
}

impl ChangeBody {
    fn new(pass: &LastPass) -> Self {
        let Touched {
            created,
            changed,
            removed,
        } = pass.touched.clone();
        Self {
            pass: PassBody::new(pass),
            created,
            changed,
            removed,
        }
    }
}

impl PlanBody {
    /// What was planned last.
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

/// GET /v1/config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigBody {
    /// The API's version, `berth/1`.
    pub api: String,
    /// The configuration in force, secrets masked.
    pub config: serde_json::Value,
}

/// POST /v1/tick.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TickBody {
    /// The API's version, `berth/1`.
    pub api: String,
    /// When all of it was over.
    pub at: String,
    /// Why the hypervisor could not be observed, if so.
    pub unobserved: Option<String>,
    /// What came of each node's pass.
    pub nodes: Vec<NodeTickBody>,
}

/// One node's pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeTickBody {
    /// The node.
    pub name: String,
    /// Its pass.
    #[serde(flatten)]
    pub pass: PassBody,
}

impl TickBody {
    /// What came of a pass.
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

    /// Whether every node is in step with Placement now.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let failed = PassResult::Failed.as_str();
        self.unobserved.is_none() && self.nodes.iter().all(|node| node.pass.result != failed)
    }
}

/// PUT /v1/disabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisableBody {
    /// Why.
    pub reason: String,
}

/// The answer to PUT and DELETE /v1/disabled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DisabledBody {
    /// The API's version, `berth/1`.
    pub api: String,
    /// What holds now.
    pub disabled: Option<Disabled>,
    /// What came of the pass that reports it; null: it is not over yet.
    pub tick: Option<TickBody>,
}

/// Any refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The API's version, `berth/1`.
    pub api: String,
    /// What is wrong.
    pub error: ErrorDetail,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    /// A word for scripts.
    pub code: String,
    /// A sentence.
    pub message: String,
}

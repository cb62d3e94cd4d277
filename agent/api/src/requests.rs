//! Requests of the admin API to the service loop.

use std::time::SystemTime;

use berth_agent_tracker::disabled::{DisabledByOperator, DisabledError};
use berth_model::NodeName;
use tokio::sync::oneshot;

use crate::state::LastPass;

/// A request to the service loop. It is answered after a cycle that started later than the request; a dropped sender
/// means that the agent stops.
#[derive(Debug)]
pub enum AgentRequest {
    /// Runs a cycle over all nodes, including those that wait after a failure.
    Tick {
        /// Receives the outcome of the cycle.
        reply: oneshot::Sender<TickOutcome>,
    },
    SetDisabled {
        /// The new setting; `None` enables the host.
        disabled: Option<DisabledByOperator>,
        /// Receives the outcome of the cycle that reports the change. The error means that the setting could not be
        /// stored and nothing changed.
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    },
    /// An operator disabled or enabled this host for new instances. The caller does not wait; the agent's state shows the result.
    SetDisabledInCloud {
        /// Reason of the operator; `None` enables the host.
        reason: Option<String>,
    },
}

/// Outcome of a requested cycle.
#[derive(Debug, Clone)]
pub struct TickOutcome {
    /// Time at which the last node's cycle ended.
    pub at: SystemTime,
    /// Error of the observation; if set, no node had a cycle.
    pub unobserved: Option<String>,
    /// Result of each node's cycle.
    pub nodes: Vec<(NodeName, LastPass)>,
}

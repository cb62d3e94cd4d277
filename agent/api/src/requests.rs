//! Requests to the service loop, from the admin API and from the reporter of the host state.
//!
//! A *tick* is one run of the service loop: it observes the host, and then runs one pass for each node, which updates the
//! node in Placement.

use std::time::SystemTime;

use berth_agent_tracker::disabled::{DisabledByOperator, DisabledError};
use berth_model::NodeName;
use tokio::sync::oneshot;

use crate::state::LastPass;

/// A request to the service loop. The reply is sent after a tick that started later than the request. A dropped sender
/// means that the agent stops.
///
/// A host has two independent settings of whether it accepts new instances, and accepts them only if neither disables it.
/// [`SetDisabled`](Self::SetDisabled) is for the operator of this host, who uses `berth agent disable`.
/// [`SetDisabledInCloud`](Self::SetDisabledInCloud) is for the operator of the cloud, who uses the compute API.
#[derive(Debug)]
pub enum AgentRequest {
    /// Runs a tick with all nodes, including nodes that wait after a failure.
    Tick {
        /// Receives the outcome of the tick.
        reply: oneshot::Sender<TickOutcome>,
    },
    /// The operator of this host disables or enables it.
    SetDisabled {
        /// The new setting; `None` enables the host.
        disabled: Option<DisabledByOperator>,
        /// Receives the outcome of the tick that reports the change to Placement. The error means that the setting could
        /// not be stored and nothing changed.
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    },
    /// The scheduler reported that the operator of the cloud disabled or enabled this host. There is no reply; the
    /// agent's state shows the result.
    SetDisabledInCloud {
        /// The operator's reason; `None` enables the host.
        reason: Option<String>,
    },
}

/// Outcome of a requested tick.
#[derive(Debug, Clone)]
pub struct TickOutcome {
    /// Time at which the last node's pass ended.
    pub at: SystemTime,
    /// Error of the observation; if set, no node had a pass.
    pub unobserved: Option<String>,
    /// Result of each node's pass.
    pub nodes: Vec<(NodeName, LastPass)>,
}

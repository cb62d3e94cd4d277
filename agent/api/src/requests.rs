//! What the admin API asks of the service loop.

use std::time::SystemTime;

use berth_agent_tracker::disabled::{Disabled, DisabledError};
use berth_model::NodeName;
use tokio::sync::oneshot;

use crate::state::LastPass;

/// Something the admin API asks for. Its answer comes when a pass that began afterwards is over; a dropped sender means that
/// the agent stops.
#[derive(Debug)]
pub enum Request {
    /// A pass over all nodes, those that wait after a failure included.
    Tick {
        /// Gets what came of it.
        reply: oneshot::Sender<TickOutcome>,
    },
    /// Disables or enables the host.
    SetDisabled {
        /// What holds from now on.
        disabled: Option<Disabled>,
        /// Gets what came of the pass that reports it; an error: it could not be kept, and nothing changed.
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    },
    /// An operator disabled or enabled this host for new instances. The caller does not wait; the agent's state shows the result.
    SetDisabledInCloud {
        /// Why they want none; none: they are welcome.
        reason: Option<String>,
    },
}

/// What came of a pass that was asked for.
#[derive(Debug, Clone)]
pub struct TickOutcome {
    /// When all of it was over.
    pub at: SystemTime,
    /// Why the hypervisor could not be observed, if so; then no node had a pass.
    pub unobserved: Option<String>,
    /// What came of each node's pass.
    pub nodes: Vec<(NodeName, LastPass)>,
}

//! The reporter's configuration and dependencies from the composition root.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_agent_instances::GuestChanges;
use berth_agent_journal::GuestJournal;
use berth_client::HostsClient;
use berth_model::NodeName;
use tokio::sync::watch;

use crate::host_state::monitors::Monitor;

/// Options of the reporter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostStateOptions {
    /// `host`: the host's name for the scheduler. `None`: the name of its only node, otherwise the hypervisor's.
    pub host: Option<NodeName>,
    /// `report_interval`: the interval between heartbeats (10 s).
    pub report_interval: Duration,
    /// `compute_monitors`.
    pub monitors: BTreeSet<Monitor>,
    /// The interval between measurements (60 s, as in Nova's resource tracker).
    pub measure_interval: Duration,
    /// `my_ip`.
    pub host_ip: Option<IpAddr>,
    /// The seed of all jitter.
    pub seed: u64,
}

impl Default for HostStateOptions {
    fn default() -> Self {
        Self {
            host: None,
            report_interval: Duration::from_secs(10),
            monitors: BTreeSet::new(),
            measure_interval: Duration::from_mins(1),
            host_ip: None,
            seed: 0,
        }
    }
}

/// The name under which this host is reported, for other parts of this process. All clones share it; the reporter sets
/// it.
#[derive(Debug, Clone, Default)]
pub struct OwnHostName(Arc<Mutex<Option<NodeName>>>);

impl OwnHostName {
    /// Whether the host is this one. No host is before the first state is composed.
    #[must_use]
    pub fn is(&self, host: &str) -> bool {
        let name = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        name.as_ref().is_some_and(|name| name.as_str() == host)
    }

    pub(crate) fn set(&self, host: NodeName) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(host);
    }
}

/// The client of the scheduler's host service, and inputs of the reported state.
#[derive(Clone)]
pub struct HostStateService {
    /// The service that stores host states.
    pub client: HostsClient,
    pub journal: Arc<dyn GuestJournal>,
    /// Changes when guests change ([`berth_agent_instances::Guests::changes`]).
    pub changes: watch::Receiver<GuestChanges>,
    pub own_name: OwnHostName,
    pub options: HostStateOptions,
}

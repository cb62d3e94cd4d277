//! What the composition root says of the scheduler.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_agent_instances::GuestChanges;
use berth_agent_journal::GuestJournal;
use berth_client::HostsClient;
use berth_model::NodeName;
use tokio::sync::watch;

use crate::host_state::monitors::Monitor;

/// How the scheduler is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostStateOptions {
    /// `host`: by what name the scheduler knows this host. None: that of its only node, else the hypervisor's.
    pub host: Option<NodeName>,
    /// `report_interval`: how often it is told that the agent lives (10 s).
    pub report_interval: Duration,
    /// `compute_monitors`.
    pub monitors: BTreeSet<Monitor>,
    /// How often they measure (60 s: as often as Nova's resource tracker does).
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

/// The scheduler, and what it is told of beside what the service knows.
#[derive(Clone)]
pub struct HostStateService {
    /// Where hosts' states are kept.
    pub client: HostsClient,
    pub journal: Arc<dyn GuestJournal>,
    /// Changes whenever guests did ([`berth_agent_instances::Guests::changes`]).
    pub changes: watch::Receiver<GuestChanges>,
    pub options: HostStateOptions,
}

//! What the cloud knows of its hosts, as its users in this process have it.

use std::sync::Arc;
use std::time::Duration;

use berth_store::SqlStore;

use crate::scheduling_records::RecordBounds;
use crate::states::StateCache;
use crate::store::Tables;

/// How hosts are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsOptions {
    /// The cell of a host that is heard of for the first time.
    pub cell: String,
    /// The zone of hosts that no aggregate puts in one: `[DEFAULT] default_availability_zone`.
    pub default_availability_zone: String,
    /// A host that was not heard of for longer than this may lose a node to another that tells of it: `service_down_time`.
    pub service_down_time: Duration,
    /// Of so many nodes at most the states are kept in memory.
    pub cached_nodes: usize,
    /// What is kept of past decisions.
    pub records: RecordBounds,
}

impl Default for HostsOptions {
    fn default() -> Self {
        Self {
            cell: "cell1".to_owned(),
            default_availability_zone: "nova".to_owned(),
            service_down_time: Duration::from_secs(60),
            cached_nodes: 20_000,
            records: RecordBounds::default(),
        }
    }
}

/// The hosts, their services, aggregates, server groups, and the records of where guests were put. Clones are the same; what two
/// of one open database remember is one memory.
///
/// Each call that changes something is one transaction: answered, it is on the disk; not answered, it is there wholly or not at
/// all.
#[derive(Debug, Clone)]
pub struct Hosts {
    pub(crate) tables: Tables,
    pub(crate) options: Arc<HostsOptions>,
    pub(crate) cache: Arc<StateCache>,
}

impl Hosts {
    /// Those of a prepared database ([`crate::prepare`]).
    #[must_use]
    pub fn new(store: SqlStore, options: HostsOptions) -> Self {
        Self {
            cache: store.companion(),
            tables: Tables::of(store),
            options: Arc::new(options),
        }
    }

    /// How they are kept.
    #[must_use]
    pub fn options(&self) -> &HostsOptions {
        &self.options
    }
}

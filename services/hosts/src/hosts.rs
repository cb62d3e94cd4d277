//! [`Hosts`], the handle through which a process uses the compute-hosts database, and its options.
//!
//! The methods of [`Hosts`] are in the modules of their subjects, e.g. `aggregates` and `server_groups`.

use std::sync::Arc;
use std::time::Duration;

use berth_http::LookUpProviderRoot;
use berth_store::SqlStore;

use crate::scheduling_states::StateCache;
use crate::store::HostTables;

/// The options of [`Hosts`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsOptions {
    /// Cell assigned to a host at its first report.
    pub cell: String,
    /// Availability zone of hosts that are in no aggregate with a zone: `[DEFAULT] default_availability_zone`.
    pub default_availability_zone: String,
    /// `service_down_time`: after this long without a heartbeat, another host may take over the host's nodes, unless the
    /// account of a host reports it.
    pub service_down_time: Duration,
    /// Maximum number of node states in the cache.
    pub cached_nodes: usize,
    /// Retention of scheduling records.
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

/// Retention limits; the oldest records are deleted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordBounds {
    /// Maximum number of records. On a Galera cluster fewer are kept, because its IDs have gaps.
    pub count: u32,
    pub age: Duration,
}

impl Default for RecordBounds {
    fn default() -> Self {
        Self {
            count: 10_000,
            age: Duration::from_secs(7 * 24 * 3_600),
        }
    }
}

/// Hosts, their services, aggregates, server groups and scheduling records. Clones share the connection pool and the
/// cache; two handles of one open database share one cache.
///
/// Each method that writes is one transaction. A call that returned is committed; a call that was interrupted is
/// committed completely or not at all.
#[derive(Debug, Clone)]
pub struct Hosts {
    pub(crate) tables: HostTables,
    pub(crate) options: Arc<HostsOptions>,
    pub(crate) cache: Arc<StateCache>,
    pub(crate) providers: Option<Arc<dyn LookUpProviderRoot>>,
}

impl Hosts {
    /// Uses a prepared database ([`crate::prepare`]).
    #[must_use]
    pub fn new(store: SqlStore, options: HostsOptions) -> Self {
        Self {
            cache: store.extension(),
            tables: HostTables::of(store),
            options: Arc::new(options),
            providers: None,
        }
    }

    /// Checks in Placement whose resource provider a node is, when the account of a host reports it with this name for
    /// the first time.
    #[must_use]
    pub fn with_providers(self, providers: Arc<dyn LookUpProviderRoot>) -> Self {
        Self {
            providers: Some(providers),
            ..self
        }
    }

    #[must_use]
    pub fn options(&self) -> &HostsOptions {
        &self.options
    }
}

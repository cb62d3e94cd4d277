//! [`Compute`]: the state of the compute API in one process, and the services it depends on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use berth_conductor::Conductor;
use berth_hosts::Hosts;
use berth_keyed_tasks::KeyedTasks;
use berth_quota::{QuotaHook, QuotaLimits};
use berth_store::SqlStore;
use berth_wire::guest::NetworkBody;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::consoles::ConsoleOptions;
use crate::images::Images;
use crate::retry_schedule::RetrySchedule;
use crate::servers::PendingDriveUpdates;
use crate::store::ComputeTables;

/// The services that the compute API depends on.
pub struct ComputeParts {
    /// A prepared database ([`crate::prepare`]).
    pub store: SqlStore,
    pub conductor: Conductor,
    /// Hosts, aggregates and server groups.
    pub hosts: Hosts,
    pub images: Arc<dyn Images>,
    /// The quota hook, if there is one.
    pub quota: Option<QuotaHook>,
}

/// How the API behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputeOptions {
    /// The network for `networks: auto`; `None`: such guests have no interface.
    pub auto_network: Option<NetworkBody>,
    /// The maximum number of servers in one request.
    pub most_at_once: u32,
    /// The limits of projects that have none of their own.
    pub quotas: QuotaLimits,
    /// The consoles that are given out.
    pub consoles: ConsoleOptions,
    /// How long a request waits for agents. Without an answer, the last reported state is shown.
    pub agent_wait: Duration,
    /// The interval of the reconciler.
    pub reconcile_interval: Duration,
    /// The interval at which Placement's aggregates are checked.
    pub mirror_interval: Duration,
    /// The interval at which the interfaces of some servers are read again (`[compute_service]
    /// heal_instance_info_cache_interval`); `None` disables it.
    pub heal_interval: Option<Duration>,
}

impl Default for ComputeOptions {
    fn default() -> Self {
        Self {
            auto_network: None,
            most_at_once: 100,
            quotas: QuotaLimits::default(),
            consoles: ConsoleOptions::default(),
            agent_wait: Duration::from_secs(3),
            reconcile_interval: Duration::from_secs(1),
            mirror_interval: Duration::from_mins(1),
            heal_interval: Some(Duration::from_mins(1)),
        }
    }
}

/// Flavors, key pairs, and those properties of servers that no other part of Berth stores. Clones share one instance.
///
/// Each change is one transaction: once it is answered it is durable; else it is done completely or not at all.
#[derive(Clone)]
pub struct Compute {
    pub(crate) tables: ComputeTables,
    pub(crate) inner: Arc<ComputeInner>,
}

pub(crate) struct ComputeInner {
    pub(crate) conductor: Conductor,
    pub(crate) hosts: Hosts,
    pub(crate) images: Arc<dyn Images>,
    pub(crate) quota: Option<QuotaHook>,
    pub(crate) options: ComputeOptions,
    /// Tasks that hand a server over to the conductor, or delete it. One per server.
    pub(crate) server_tasks: KeyedTasks<Uuid>,
    /// Tasks that carry out server actions. One per server.
    pub(crate) action_tasks: KeyedTasks<Uuid>,
    /// When failed actions are retried.
    pub(crate) retries: RetrySchedule,
    /// Servers whose config drives are to be changed.
    pub(crate) drive_updates: PendingDriveUpdates,
    /// Held while Placement's aggregates are updated.
    pub(crate) mirror: Mutex<()>,
    /// Whether the log already mentions servers of another conductor's journal.
    pub(crate) logged_foreign_owner: AtomicBool,
    /// The highest server number in the names of the guests that the conductor had at start.
    pub(crate) highest_number: AtomicI64,
    /// Guests with unreadable records that are already in the log.
    pub(crate) logged_unreadable: std::sync::Mutex<BTreeSet<String>>,
}

impl Compute {
    /// Creates the service. Background work begins with [`Compute::run_reconciler`].
    #[must_use]
    pub fn new(parts: ComputeParts, options: ComputeOptions) -> Self {
        let inner = ComputeInner {
            conductor: parts.conductor,
            hosts: parts.hosts,
            images: parts.images,
            quota: parts.quota,
            options,
            server_tasks: KeyedTasks::default(),
            action_tasks: KeyedTasks::default(),
            retries: RetrySchedule::default(),
            drive_updates: PendingDriveUpdates::default(),
            mirror: Mutex::default(),
            logged_foreign_owner: AtomicBool::new(false),
            highest_number: AtomicI64::new(0),
            logged_unreadable: std::sync::Mutex::default(),
        };
        Self {
            tables: ComputeTables::of(parts.store),
            inner: Arc::new(inner),
        }
    }
}

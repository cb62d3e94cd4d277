//! What the API keeps, and whom it asks for all else, as its users in one process have it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use berth_conductor::Conductor;
use berth_hosts::Hosts;
use berth_journeys::Journeys;
use berth_store::SqlStore;
use berth_wire::guest::NetworkBody;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::images::Images;
use crate::pacing::Pacing;
use crate::quota::QuotaHook;
use crate::store::Tables;

/// What the API stands on.
pub struct ComputeParts {
    /// A prepared database ([`crate::prepare`]).
    pub store: SqlStore,
    /// Who boots guests, and ends them.
    pub conductor: Conductor,
    /// Hosts, aggregates and server groups.
    pub hosts: Hosts,
    /// Who knows what an image is.
    pub images: Arc<dyn Images>,
    /// Who says whether a project may have more servers; none: each may.
    pub quota: Option<QuotaHook>,
}

/// How the API behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputeOptions {
    /// What a guest that asks for networks `auto` is plugged into; none: it has no interface.
    pub auto_network: Option<NetworkBody>,
    /// The most servers that one request may ask for.
    pub most_at_once: u32,
    /// How long a look at servers waits for their agents; of those that do not answer the last word is shown.
    pub agent_wait: Duration,
    /// How often it is looked whether something is left to be done.
    pub pause: Duration,
    /// How often it is looked whether Placement has the host aggregates as they are.
    pub mirror_interval: Duration,
}

impl Default for ComputeOptions {
    fn default() -> Self {
        Self {
            auto_network: None,
            most_at_once: 100,
            agent_wait: Duration::from_secs(3),
            pause: Duration::from_secs(1),
            mirror_interval: Duration::from_mins(1),
        }
    }
}

/// Flavors, key pairs, and of servers whatever no other part of Berth keeps. Clones are the same.
///
/// Each call that changes something is one transaction: answered, it is on the disk; not answered, it is there wholly or not at
/// all.
#[derive(Clone)]
pub struct Compute {
    pub(crate) tables: Tables,
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) conductor: Conductor,
    pub(crate) hosts: Hosts,
    pub(crate) images: Arc<dyn Images>,
    pub(crate) quota: Option<QuotaHook>,
    pub(crate) options: ComputeOptions,
    /// Each hands a server over, or sees it off.
    pub(crate) journeys: Journeys<Uuid>,
    /// Each does with a server what was asked for.
    pub(crate) tasks: Journeys<Uuid>,
    /// What of it was asked for in vain.
    pub(crate) pacing: Pacing,
    /// Who brings Placement's aggregates into step does it alone.
    pub(crate) mirror: Mutex<()>,
    /// Whether it was said that there are servers of another conductor's journal.
    pub(crate) anothers_told: AtomicBool,
    /// The highest number of a server in the names of the guests that the conductor had at the start.
    pub(crate) numbered: AtomicI64,
    /// The guests of which was told that their rows cannot be read.
    pub(crate) unreadable_told: std::sync::Mutex<BTreeSet<String>>,
}

impl Compute {
    /// The API's own. Nothing happens by itself before [`Compute::keep`].
    #[must_use]
    pub fn new(parts: ComputeParts, options: ComputeOptions) -> Self {
        let inner = Inner {
            conductor: parts.conductor,
            hosts: parts.hosts,
            images: parts.images,
            quota: parts.quota,
            options,
            journeys: Journeys::default(),
            tasks: Journeys::default(),
            pacing: Pacing::default(),
            mirror: Mutex::default(),
            anothers_told: AtomicBool::new(false),
            numbered: AtomicI64::new(0),
            unreadable_told: std::sync::Mutex::default(),
        };
        Self {
            tables: Tables::of(parts.store),
            inner: Arc::new(inner),
        }
    }
}

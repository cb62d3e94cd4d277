//! Host states for a scheduling request: always current, but loaded from the database only if they have changed.
//!
//! One transaction reads the digest of each requested node's state and the service of its host. Only states whose
//! digests are not cached are loaded and parsed.
//!
//! ```text
//! rows (digest, service) --> StateCache: cached digest? --no--> load and parse body
//!                                           |                        |
//!                                           +--> add service, host, cell, aggregates --> HostState
//! ```
//!
//! A digest identifies the content, so a cache entry never becomes wrong and needs no expiry. Aggregates are cached
//! by a revision that is drawn at random for each change. Therefore a database restored from a backup has no revision
//! that stands for other aggregates.

mod cache;
mod rows;

use std::collections::HashMap;
use std::sync::Arc;

use berth_scheduler::HostState;
use berth_scheduler::host_state::Aggregate;
use berth_store::{Statement, Transaction};
use berth_wire::decode;
use uuid::Uuid;

pub(crate) use cache::StateCache;

use crate::aggregates::AggregateIndex;
use crate::hosts::Hosts;
use crate::node_state;
use crate::store::HostTableError;

impl Hosts {
    /// The current states of these nodes, in the given order. Nodes that no host reports are omitted.
    pub async fn states(&self, nodes: &[Uuid]) -> Result<Vec<Arc<HostState>>, HostTableError> {
        let (mut states, left) = self.states_of(nodes, CacheUse::Use).await?;
        if !left.is_empty() {
            // A concurrent request replaced a cache entry with another state in the meantime: load these
            // states again.
            states.extend(self.states_of(&left, CacheUse::Bypass).await?.0);
        }
        Ok(in_order(nodes, states))
    }

    /// The states by node, and the nodes that must be loaded again.
    async fn states_of(
        &self,
        nodes: &[Uuid],
        cache_use: CacheUse,
    ) -> Result<(HashMap<Uuid, Arc<HostState>>, Vec<Uuid>), HostTableError> {
        let mut tx = self.tables.read().await?;
        let rows = rows::list_nodes(&mut tx, nodes).await?;
        let missing = match cache_use {
            CacheUse::Use => self.cache.missing(&rows),
            CacheUse::Bypass => rows.iter().map(|row| row.uuid).collect(),
        };
        let bodies = rows::load_bodies(&mut tx, &missing).await?;
        let aggregates = self.aggregates_of(&mut tx).await?;
        drop(tx);
        let parsed = bodies.into_iter().map(parse_state).collect();
        let most = self.options.cached_nodes;
        Ok(self.cache.assemble(rows, parsed, &aggregates, most))
    }

    /// The UUIDs of all reported nodes, sorted.
    pub async fn nodes(&self) -> Result<Vec<Uuid>, HostTableError> {
        rows::list_uuids(&mut self.tables.read().await?).await
    }

    /// All host aggregates, for the allocation candidates query.
    pub async fn placement_aggregates(&self) -> Result<Vec<Arc<Aggregate>>, HostTableError> {
        let mut tx = self.tables.read().await?;
        let all = self.aggregates_of(&mut tx).await?;
        Ok(all.all().to_vec())
    }

    /// The aggregates of all hosts, loaded if their revision has changed.
    async fn aggregates_of(
        &self,
        tx: &mut Transaction,
    ) -> Result<Arc<AggregateIndex>, HostTableError> {
        let sql = "SELECT aggregates FROM compute_hosts_schema";
        let row = tx.row(Statement::new(sql)).await?;
        let revision = row.map_or(Ok(0), |row| row.int(0))?;
        if let Some(known) = self.cache.aggregates(revision) {
            return Ok(known);
        }
        let read = Arc::new(AggregateIndex::read(tx, revision).await?);
        self.cache.store_aggregates(&read);
        Ok(read)
    }
}

/// Whether a request uses cached states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CacheUse {
    Use,
    Bypass,
}

/// Parses a stored state. A state of another release may be unreadable: its node is then skipped until the agent
/// reports again, and all other nodes stay available.
fn parse_state(body: rows::StoredNodeBody) -> (Uuid, Option<HostState>) {
    let state = decode(body.text.as_bytes()).inspect_err(|error| {
        tracing::warn!(node = %body.uuid, %error, "failed to parse the stored state of a compute node; the node is skipped");
    });
    (body.uuid, state.ok().map(node_state::from_report))
}

fn in_order(uuids: &[Uuid], mut states: HashMap<Uuid, Arc<HostState>>) -> Vec<Arc<HostState>> {
    uuids
        .iter()
        .filter_map(|uuid| states.remove(uuid))
        .collect()
}

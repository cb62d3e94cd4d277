//! The states of nodes as a scheduling request needs them: fresh, and read from the database only where they have changed.
//!
//! One transaction tells, of each node that is asked for, what its state is called, and the service of its host; only states of
//! other names than those remembered are read and parsed. A name is a digest of what it names, so what is remembered under the
//! same name is the same, whoever wrote it, and nothing is ever to be forgotten in time. So are aggregates,
//! under a number that is drawn anew with each change: a database that is restored from a backup brings back its names with what
//! they named.

mod cache;
mod read;

use std::collections::HashMap;
use std::sync::Arc;

use berth_scheduler::HostState;
use berth_scheduler::host_state::Aggregate;
use berth_store::{Statement, Transaction};
use berth_wire::decode;
use uuid::Uuid;

pub(crate) use cache::StateCache;

use crate::aggregates::HostAggregates;
use crate::host_state;
use crate::hosts::Hosts;
use crate::store::TableError;

impl Hosts {
    /// The states of these nodes, in the order in which they are asked for, none older than this call. A node that no host tells of
    /// is left out.
    pub async fn states(&self, nodes: &[Uuid]) -> Result<Vec<Arc<HostState>>, TableError> {
        let (mut states, left) = self.states_of(nodes, Remembered::Used).await?;
        if !left.is_empty() {
            // Another request has put another state in the place of the one that was looked for.
            states.extend(self.states_of(&left, Remembered::Unused).await?.0);
        }
        Ok(in_order(nodes, states))
    }

    /// States by node, and the nodes that have to be asked for again.
    async fn states_of(
        &self,
        nodes: &[Uuid],
        remembered: Remembered,
    ) -> Result<(HashMap<Uuid, Arc<HostState>>, Vec<Uuid>), TableError> {
        let mut tx = self.tables.read().await?;
        let rows = read::nodes(&mut tx, nodes).await?;
        let missing = match remembered {
            Remembered::Used => self.cache.missing(&rows),
            Remembered::Unused => rows.iter().map(|row| row.uuid).collect(),
        };
        let bodies = read::bodies(&mut tx, &missing).await?;
        let aggregates = self.aggregates_of(&mut tx).await?;
        drop(tx);
        let parsed = bodies.into_iter().map(parsed).collect();
        let most = self.options.cached_nodes;
        Ok(self.cache.assemble(rows, parsed, &aggregates, most))
    }

    /// The UUIDs of all nodes that hosts tell of, in their order.
    pub async fn nodes(&self) -> Result<Vec<Uuid>, TableError> {
        read::uuids(&mut self.tables.read().await?).await
    }

    /// All host aggregates, as the question to Placement reads them.
    pub async fn placement_aggregates(&self) -> Result<Vec<Arc<Aggregate>>, TableError> {
        let mut tx = self.tables.read().await?;
        let all = self.aggregates_of(&mut tx).await?;
        Ok(all.all().to_vec())
    }

    /// The aggregates of all hosts, read where they are called otherwise.
    async fn aggregates_of(&self, tx: &mut Transaction) -> Result<Arc<HostAggregates>, TableError> {
        let sql = "SELECT aggregates FROM compute_hosts_schema";
        let row = tx.row(Statement::new(sql)).await?;
        let revision = row.map_or(Ok(0), |row| row.int(0))?;
        if let Some(known) = self.cache.aggregates(revision) {
            return Ok(known);
        }
        let read = Arc::new(HostAggregates::read(tx, revision).await?);
        self.cache.remember(&read);
        Ok(read)
    }
}

/// Whether what is remembered is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remembered {
    Used,
    Unused,
}

/// What an older or a later release wrote may not be readable here: that node is as one that nobody tells of, until its agent
/// tells it anew, and the others are scheduled on.
fn parsed(body: read::Body) -> (Uuid, Option<HostState>) {
    let told = decode(body.text.as_bytes()).inspect_err(|error| {
        tracing::warn!(node = %body.uuid, %error, "the state of a compute node cannot be read");
    });
    (body.uuid, told.ok().map(host_state::of_node))
}

fn in_order(asked: &[Uuid], mut states: HashMap<Uuid, Arc<HostState>>) -> Vec<Arc<HostState>> {
    asked
        .iter()
        .filter_map(|uuid| states.remove(uuid))
        .collect()
}

//! The cache of node states and aggregates of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_scheduler::HostState;
use berth_scheduler::host_state::ServiceState;
use uuid::Uuid;

use super::rows::NodeRow;
use crate::aggregates::AggregateIndex;

/// Seconds by which the ages of a shared state may differ from the current ages. Within this limit, a request gets
/// the state that another request still holds instead of a copy. Nova's timestamps have whole seconds.
const AGE_SLACK: f64 = 1.0;

/// States by node, and the aggregates.
#[derive(Debug, Default)]
pub(crate) struct StateCache(Mutex<CachedStates>);

#[derive(Debug, Default)]
struct CachedStates {
    nodes: HashMap<Uuid, CachedNode>,
    aggregates: Option<Arc<AggregateIndex>>,
    /// Number of requests so far; a logical clock for eviction.
    requests: u64,
}

#[derive(Debug)]
struct CachedNode {
    revision: String,
    state: Arc<HostState>,
    /// Revision of the aggregates in `state`; `None` before the first.
    aggregates: Option<i64>,
    /// Number of the last request that used the entry.
    last_used: u64,
}

impl StateCache {
    fn lock(&self) -> MutexGuard<'_, CachedStates> {
        // A panic cannot leave a partial entry: each value is inserted whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes with a cached digest that differs from their row's.
    pub(super) fn missing(&self, rows: &[NodeRow]) -> Vec<Uuid> {
        let cached = self.lock();
        let is_missing = |row: &&NodeRow| {
            let node = cached.nodes.get(&row.uuid);
            node.is_none_or(|node| node.revision != row.revision)
        };
        let missing = rows.iter().filter(is_missing);
        missing.map(|row| row.uuid).collect()
    }

    /// The cached aggregates, if they have this revision.
    pub(super) fn aggregates(&self, revision: i64) -> Option<Arc<AggregateIndex>> {
        let known = self.lock().aggregates.clone();
        known.filter(|known| known.revision() == revision)
    }

    /// Stores aggregates. A slow request may replace newer ones; the next request loads those again.
    pub(super) fn store_aggregates(&self, read: &Arc<AggregateIndex>) {
        self.lock().aggregates = Some(Arc::clone(read));
    }

    /// Combines rows, newly parsed states and cached states.
    ///
    /// Returns the states by node, and the nodes with a changed digest in their cache entry. A node that is `None` in
    /// `parsed` is unreadable and omitted. Afterwards evicts the least recently used entries beyond `most`.
    pub(super) fn assemble(
        &self,
        rows: Vec<NodeRow>,
        mut parsed: HashMap<Uuid, Option<HostState>>,
        aggregates: &AggregateIndex,
        most: usize,
    ) -> (HashMap<Uuid, Arc<HostState>>, Vec<Uuid>) {
        let mut cached = self.lock();
        cached.requests += 1;
        let last_used = cached.requests;
        let mut states = HashMap::with_capacity(rows.len());
        let mut left = Vec::new();
        for row in rows {
            match parsed.remove(&row.uuid) {
                Some(Some(state)) => {
                    let node = CachedNode {
                        revision: row.revision.clone(),
                        state: Arc::new(state),
                        aggregates: None,
                        last_used,
                    };
                    cached.nodes.insert(row.uuid, node);
                }
                // Unreadable; an outdated state is not used instead.
                Some(None) => continue,
                None => {}
            }
            let known = cached.nodes.get_mut(&row.uuid);
            match known.filter(|node| node.revision == row.revision) {
                Some(node) => {
                    node.last_used = last_used;
                    states.insert(row.uuid, node.with_row(row, aggregates));
                }
                None => left.push(row.uuid),
            }
        }
        cached.evict(most);
        (states, left)
    }
}

impl CachedNode {
    /// Updates service, host, cell and aggregates, and returns the state.
    fn with_row(&mut self, row: NodeRow, aggregates: &AggregateIndex) -> Arc<HostState> {
        let is_moved = self.state.host != row.host;
        let has_aggregates = self.aggregates == Some(aggregates.revision()) && !is_moved;
        let is_same = has_aggregates
            && self.state.cell == row.cell
            && is_nearly_equal(&self.state.service, &row.service);
        if is_same && Arc::strong_count(&self.state) > 1 {
            return Arc::clone(&self.state);
        }
        // Copies the state only if another request still holds it.
        let state = Arc::make_mut(&mut self.state);
        if !has_aggregates {
            state.aggregates = aggregates.of_host(&row.host);
            self.aggregates = Some(aggregates.revision());
        }
        state.service = row.service;
        state.host = row.host;
        state.cell = row.cell;
        Arc::clone(&self.state)
    }
}

/// Whether two services differ only in their ages, by less than [`AGE_SLACK`].
fn is_nearly_equal(one: &ServiceState, other: &ServiceState) -> bool {
    let near = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() < AGE_SLACK,
        (None, None) => true,
        _ => false,
    };
    one.disabled == other.disabled
        && one.disabled_reason == other.disabled_reason
        && one.forced_down == other.forced_down
        && near(one.last_seen_age_s, other.last_seen_age_s)
        && near(one.created_age_s, other.created_age_s)
}

impl CachedStates {
    /// Evicts the least recently used entries beyond `most`.
    fn evict(&mut self, most: usize) {
        let excess = self.nodes.len().saturating_sub(most);
        if excess == 0 {
            return;
        }
        let mut by_use: Vec<(u64, Uuid)> = self
            .nodes
            .iter()
            .map(|(uuid, node)| (node.last_used, *uuid))
            .collect();
        by_use.sort_unstable();
        for (_, uuid) in by_use.into_iter().take(excess) {
            self.nodes.remove(&uuid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_state;

    fn row(n: u128) -> NodeRow {
        NodeRow {
            uuid: Uuid::from_u128(n),
            revision: "r".to_owned(),
            host: "h".to_owned(),
            cell: "c".to_owned(),
            service: ServiceState::default(),
        }
    }

    fn read(n: u128) -> (Uuid, Option<HostState>) {
        let node = node_state::from_report(node_state::sample());
        (Uuid::from_u128(n), Some(node))
    }

    #[test]
    fn the_least_recently_used_entries_are_evicted() {
        let cache = StateCache::default();
        let ask = |nodes: &[u128], parsed: &[u128]| {
            let rows = nodes.iter().copied().map(row).collect();
            let parsed = parsed.iter().copied().map(read).collect();
            cache
                .assemble(rows, parsed, &AggregateIndex::default(), 3)
                .0
                .len()
        };
        assert_eq!(ask(&[1, 2, 3], &[1, 2, 3]), 3);
        assert_eq!(ask(&[1, 3], &[]), 2);
        assert_eq!(ask(&[4], &[4]), 1);
        let all: Vec<NodeRow> = (1..=4).map(row).collect();
        assert_eq!(cache.missing(&all), [Uuid::from_u128(2)]);
        assert_eq!(
            ask(&[5, 6, 7, 8, 9], &[5, 6, 7, 8, 9]),
            5,
            "all are answered"
        );
        assert_eq!(cache.lock().nodes.len(), 3);
    }

    #[test]
    fn another_state_in_the_place_of_the_wanted_one_is_requested_again() {
        let cache = StateCache::default();
        let aggregates = AggregateIndex::default();
        let parsed = [read(1)].into();
        cache.assemble(vec![row(1)], parsed, &aggregates, 9);
        let newer = NodeRow {
            revision: "s".to_owned(),
            ..row(1)
        };
        let (states, left) = cache.assemble(vec![newer], HashMap::new(), &aggregates, 9);
        assert_eq!((states.len(), left), (0, vec![Uuid::from_u128(1)]));
    }

    #[test]
    fn a_state_that_a_request_has_is_not_changed_under_it() {
        let cache = StateCache::default();
        let aggregates = AggregateIndex::default();
        let at = |age: f64, parsed: &[u128]| {
            let mut row = row(1);
            row.service.last_seen_age_s = Some(age);
            let parsed = parsed.iter().copied().map(read).collect();
            let states = cache.assemble(vec![row], parsed, &aggregates, 9).0;
            states.into_values().next().expect("it is known")
        };
        let first = at(1.0, &[1]);
        let near = at(1.5, &[]);
        assert!(Arc::ptr_eq(&first, &near), "as good as the same");
        let later = at(2.5, &[]);
        assert_eq!(
            (first.service.last_seen_age_s, later.service.last_seen_age_s),
            (Some(1.0), Some(2.5))
        );
        drop((near, later));
        assert_eq!(
            at(2.7, &[]).service.last_seen_age_s,
            Some(2.7),
            "no other reference exists"
        );
    }
}

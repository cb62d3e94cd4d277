//! What this process remembers of nodes and aggregates.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_scheduler::HostState;
use berth_scheduler::host_state::Service;
use uuid::Uuid;

use super::read::NodeRow;
use crate::aggregates::HostAggregates;

/// A state that another request still has is given to the next one too, rather than copied, where nothing but its ages changed, and
/// those by less than this, in seconds: a moment of Nova's has whole seconds.
const AGE_SLACK: f64 = 1.0;

/// States by node, and the aggregates.
#[derive(Debug, Default)]
pub(crate) struct StateCache(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    nodes: HashMap<Uuid, Kept>,
    aggregates: Option<Arc<HostAggregates>>,
    /// How often states were asked for.
    requests: u64,
}

#[derive(Debug)]
struct Kept {
    revision: String,
    state: Arc<HostState>,
    /// What its aggregates are called; none before any are laid over it.
    aggregates: Option<i64>,
    /// The last request for it.
    asked: u64,
}

impl StateCache {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        // Nothing in it is half done where somebody panics: each value is put in whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes whose states of these names are not remembered.
    pub(super) fn missing(&self, rows: &[NodeRow]) -> Vec<Uuid> {
        let remembered = self.lock();
        let is_missing = |row: &&NodeRow| {
            let kept = remembered.nodes.get(&row.uuid);
            kept.is_none_or(|kept| kept.revision != row.revision)
        };
        let missing = rows.iter().filter(is_missing);
        missing.map(|row| row.uuid).collect()
    }

    /// The aggregates, where they are remembered under this name.
    pub(super) fn aggregates(&self, revision: i64) -> Option<Arc<HostAggregates>> {
        let known = self.lock().aggregates.clone();
        known.filter(|known| known.revision() == revision)
    }

    /// Remembers aggregates. Those of a request that was slow may take the place of later ones: these are read again then.
    pub(super) fn remember(&self, read: &Arc<HostAggregates>) {
        self.lock().aggregates = Some(Arc::clone(read));
    }

    /// The states of the rows, by node: of those `parsed` now (none where one could not be) and those remembered; and the nodes of
    /// which another state is remembered by now. `most` are remembered at most, those that were asked for last.
    pub(super) fn assemble(
        &self,
        rows: Vec<NodeRow>,
        mut parsed: HashMap<Uuid, Option<HostState>>,
        aggregates: &HostAggregates,
        most: usize,
    ) -> (HashMap<Uuid, Arc<HostState>>, Vec<Uuid>) {
        let mut remembered = self.lock();
        remembered.requests += 1;
        let asked = remembered.requests;
        let mut states = HashMap::with_capacity(rows.len());
        let mut left = Vec::new();
        for row in rows {
            match parsed.remove(&row.uuid) {
                Some(Some(state)) => {
                    let kept = Kept {
                        revision: row.revision.clone(),
                        state: Arc::new(state),
                        aggregates: None,
                        asked,
                    };
                    remembered.nodes.insert(row.uuid, kept);
                }
                // It cannot be read, and no older one is given in its place.
                Some(None) => continue,
                None => {}
            }
            let known = remembered.nodes.get_mut(&row.uuid);
            match known.filter(|kept| kept.revision == row.revision) {
                Some(kept) => {
                    kept.asked = asked;
                    states.insert(row.uuid, kept.under(row, aggregates));
                }
                None => left.push(row.uuid),
            }
        }
        remembered.forget(most);
        (states, left)
    }
}

impl Kept {
    /// The state, with what changes without the agent laid over it.
    fn under(&mut self, row: NodeRow, aggregates: &HostAggregates) -> Arc<HostState> {
        let is_moved = self.state.host != row.host;
        let has_aggregates = self.aggregates == Some(aggregates.revision()) && !is_moved;
        let is_same = has_aggregates
            && self.state.cell == row.cell
            && is_near(&self.state.service, &row.service);
        if is_same && Arc::strong_count(&self.state) > 1 {
            return Arc::clone(&self.state);
        }
        // A copy only where another request has it still.
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

/// Whether nothing but the ages differ, and those by next to nothing.
fn is_near(one: &Service, other: &Service) -> bool {
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

impl Remembered {
    /// Forgets those that were not asked for for the longest time.
    fn forget(&mut self, most: usize) {
        let excess = self.nodes.len().saturating_sub(most);
        if excess == 0 {
            return;
        }
        let mut by_use: Vec<(u64, Uuid)> = self
            .nodes
            .iter()
            .map(|(uuid, kept)| (kept.asked, *uuid))
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
    use crate::host_state;

    fn row(n: u128) -> NodeRow {
        NodeRow {
            uuid: Uuid::from_u128(n),
            revision: "r".to_owned(),
            host: "h".to_owned(),
            cell: "c".to_owned(),
            service: Service::default(),
        }
    }

    fn read(n: u128) -> (Uuid, Option<HostState>) {
        let node = host_state::of_node(host_state::sample());
        (Uuid::from_u128(n), Some(node))
    }

    #[test]
    fn those_that_were_not_asked_for_for_the_longest_time_are_forgotten() {
        let cache = StateCache::default();
        let ask = |nodes: &[u128], parsed: &[u128]| {
            let rows = nodes.iter().copied().map(row).collect();
            let parsed = parsed.iter().copied().map(read).collect();
            cache
                .assemble(rows, parsed, &HostAggregates::default(), 3)
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
    fn another_state_in_the_place_of_the_one_looked_for_is_asked_for_again() {
        let cache = StateCache::default();
        let aggregates = HostAggregates::default();
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
        let aggregates = HostAggregates::default();
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
            "nobody else has it"
        );
    }
}

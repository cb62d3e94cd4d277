//! Searches trees one after another: all trees of a snapshot, or the loaded ones.

use std::collections::{HashSet, VecDeque};

use berth_model::SeededRng;

use super::assignment::{Assignments, shared_classes};
use super::options::SearchRequest;
use super::snapshot::{MemberRef, RootId, SHARES, Snapshot, SnapshotTree, TraitId};

/// The order of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CandidateOrder {
    Fixed,
    /// Shuffled with this seed.
    Random(u64),
}

/// The candidates that were found.
#[derive(Debug)]
pub(crate) struct SearchResult<'s> {
    /// The provider of each part, candidate after candidate.
    places: Vec<MemberRef<'s>>,
    /// How many parts a candidate has.
    parts: usize,
    one_of_each: bool,
}

impl Default for SearchResult<'_> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            parts: 1,
            one_of_each: false,
        }
    }
}

impl<'s> SearchResult<'s> {
    /// Each candidate: the provider of each part.
    pub(crate) fn candidates(&self) -> impl ExactSizeIterator<Item = &[MemberRef<'s>]> {
        self.places.chunks_exact(self.parts)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() / self.parts
    }

    /// Whether the limit was reached with one candidate of each tree. Then more trees behind these would change nothing.
    pub(crate) fn is_one_of_each(&self) -> bool {
        self.one_of_each
    }
}

/// Finds at most `limit` candidates in all trees.
pub(crate) fn search<'s>(
    snapshot: &'s Snapshot,
    wanted: &SearchRequest,
    limit: usize,
    order: CandidateOrder,
) -> SearchResult<'s> {
    let mut shuffle_order = CandidateShuffle::new(order);
    let mut trees: Vec<&SnapshotTree> = snapshot.trees().collect();
    shuffle_order.shuffle(&mut trees);
    search_in(snapshot, wanted, limit, trees, shuffle_order)
}

/// Finds at most `limit` candidates in these trees. Every tree contributes one candidate before any contributes its
/// second, and so on.
pub(crate) fn search_in<'s>(
    snapshot: &'s Snapshot,
    wanted: &SearchRequest,
    limit: usize,
    trees: impl IntoIterator<Item = &'s SnapshotTree>,
    mut shuffle_order: CandidateShuffle,
) -> SearchResult<'s> {
    let mut results = Results {
        found: SearchResult {
            places: Vec::new(),
            parts: wanted.parts.len(),
            one_of_each: false,
        },
        limit,
        seen: HashSet::new(),
        shares: snapshot.names().trait_id(SHARES),
    };
    let shared = shared_classes(wanted);
    let mut turns: VecDeque<(RootId, Assignments<'s, '_>)> = VecDeque::new();
    for tree in trees {
        if results.are_enough() {
            break;
        }
        let Some(mut options) = wanted.options(snapshot, tree) else {
            continue;
        };
        for of_part in &mut options {
            shuffle_order.shuffle(of_part);
        }
        let mut assignments = Assignments::new(wanted, &shared, options);
        if results.take_next(tree.id, &mut assignments) {
            turns.push_back((tree.id, assignments));
        }
    }
    results.found.one_of_each = results.are_enough();
    while !results.are_enough()
        && let Some((root, mut assignments)) = turns.pop_front()
    {
        if results.take_next(root, &mut assignments) {
            turns.push_back((root, assignments));
        }
    }
    results.found.shuffle(&mut shuffle_order);
    results.found
}

struct Results<'s> {
    found: SearchResult<'s>,
    limit: usize,
    /// Candidates of sharing providers alone, which several trees produce.
    seen: HashSet<Vec<i64>>,
    shares: Option<TraitId>,
}

impl<'s> Results<'s> {
    fn are_enough(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// Takes the tree's next new candidate; false if there is none.
    fn take_next(&mut self, tree: RootId, assignments: &mut Assignments<'s, '_>) -> bool {
        while assignments.advance() {
            let before = self.found.places.len();
            self.found.places.extend(assignments.current());
            let added = &self.found.places[before..];
            if !self
                .shares
                .is_some_and(|shares| may_be_of_others(added, tree, shares))
            {
                return true;
            }
            let key = added.iter().map(|place| place.member().id).collect();
            if self.seen.insert(key) {
                return true;
            }
            self.found.places.truncate(before);
        }
        false
    }
}

/// Whether another tree may produce the same candidate: all its providers are sharing providers.
fn may_be_of_others(places: &[MemberRef<'_>], tree: RootId, shares: TraitId) -> bool {
    let mut places = places.iter();
    places.all(|place| place.tree.id != tree || place.member().has_trait(shares))
}

impl SearchResult<'_> {
    fn shuffle(&mut self, shuffle_order: &mut CandidateShuffle) {
        if matches!(shuffle_order, CandidateShuffle::Fixed) {
            return;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        shuffle_order.shuffle(&mut order);
        let places = order
            .into_iter()
            .flat_map(|at| &self.places[at * self.parts..(at + 1) * self.parts]);
        self.places = places.copied().collect();
    }
}

/// The order of equal candidates: fixed, or random to spread the load.
#[derive(Debug, Clone)]
pub(crate) enum CandidateShuffle {
    Fixed,
    Random(SeededRng),
}

impl CandidateShuffle {
    pub(crate) fn new(order: CandidateOrder) -> Self {
        match order {
            CandidateOrder::Fixed => Self::Fixed,
            CandidateOrder::Random(seed) => Self::Random(SeededRng::new(seed)),
        }
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        let Self::Random(rng) = self else {
            return;
        };
        for last in (1..items.len()).rev() {
            items.swap(last, rng.below(last + 1));
        }
    }
}

//! Trees in turn: all of a snapshot, or those that a reading names.

use std::collections::{HashSet, VecDeque};

use super::assignment::{Assignments, shared_classes};
use super::options::Wanted;
use super::snapshot::{Place, RootId, SHARES, Snapshot, TraitId, Tree};

/// The order of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The same for the same providers.
    Fixed,
    /// Another each time, told by this number.
    Random(u64),
}

/// The candidates that were found.
#[derive(Debug)]
pub(crate) struct Found<'s> {
    /// The provider of each part, candidate after candidate.
    places: Vec<Place<'s>>,
    /// How many parts a candidate has.
    parts: usize,
    one_of_each: bool,
}

impl Default for Found<'_> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            parts: 1,
            one_of_each: false,
        }
    }
}

impl<'s> Found<'s> {
    /// Each candidate: the provider of each part.
    pub(crate) fn candidates(&self) -> impl ExactSizeIterator<Item = &[Place<'s>]> {
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
    wanted: &Wanted,
    limit: usize,
    order: Order,
) -> Found<'s> {
    let mut dice = Dice::new(order);
    let mut trees: Vec<&Tree> = snapshot.trees().collect();
    dice.shuffle(&mut trees);
    search_in(snapshot, wanted, limit, trees, dice)
}

/// Finds at most `limit` candidates of these trees, in which the dice fell last. Every tree gives one before any gives its
/// second, and so on.
pub(crate) fn search_in<'s>(
    snapshot: &'s Snapshot,
    wanted: &Wanted,
    limit: usize,
    trees: impl IntoIterator<Item = &'s Tree>,
    mut dice: Dice,
) -> Found<'s> {
    let mut results = Results {
        found: Found {
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
            dice.shuffle(of_part);
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
    results.found.shuffle(&mut dice);
    results.found
}

struct Results<'s> {
    found: Found<'s>,
    limit: usize,
    /// Candidates of sharing providers alone, which several trees have.
    seen: HashSet<Vec<i64>>,
    shares: Option<TraitId>,
}

impl<'s> Results<'s> {
    fn are_enough(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// Takes the tree's next candidate that is new; false when it has none.
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

/// Whether another tree may have the same candidate: all its providers share.
fn may_be_of_others(places: &[Place<'_>], tree: RootId, shares: TraitId) -> bool {
    let mut places = places.iter();
    places.all(|place| place.tree.id != tree || place.member().has_trait(shares))
}

impl Found<'_> {
    fn shuffle(&mut self, dice: &mut Dice) {
        if matches!(dice, Dice::Fixed) {
            return;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        dice.shuffle(&mut order);
        let places = order
            .into_iter()
            .flat_map(|at| &self.places[at * self.parts..(at + 1) * self.parts]);
        self.places = places.copied().collect();
    }
}

/// Enough chance to spread load; nothing secret depends on it (splitmix64).
#[derive(Debug, Clone)]
pub(crate) enum Dice {
    Fixed,
    Random(u64),
}

impl Dice {
    pub(crate) fn new(order: Order) -> Self {
        match order {
            Order::Fixed => Self::Fixed,
            Order::Random(seed) => Self::Random(seed),
        }
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        let Self::Random(state) = self else {
            return;
        };
        for last in (1..items.len()).rev() {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = *state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            let bound = u64::try_from(last).unwrap_or(u64::MAX).saturating_add(1);
            let other = usize::try_from(z % bound).unwrap_or_default();
            items.swap(last, other);
        }
    }
}

//! Enumerates, for one tree, the assignments of providers to all parts of a request.
//!
//! It is a depth-first search over the parts, those with the fewest providers first. Each step checks the constraints that span
//! parts: shared capacity, one provider per group with `group_policy=isolate`, subtrees, and traits that the unsuffixed group
//! must have together. A step that leaves a later part without a provider is not taken ([`Assignments::is_assignable`]).
//! Otherwise seventeen groups on sixteen devices would be tried in every order before the search fails.

use std::collections::BTreeMap;

use super::options::{SearchGroupPolicy, SearchRequest};
use super::snapshot::MemberRef;
use crate::ledger::ClassId;

/// The maximum number of steps between two assignments before a tree is given up. Packing different amounts into nearly
/// full providers is a hard problem that pruning cannot always shorten.
const PATIENCE: u32 = 1 << 20;

/// A resource class that several parts request.
#[derive(Debug)]
pub(crate) struct SharedClass {
    class: ClassId,
    /// The amount per part; 0 if the part does not request the class.
    need: Vec<i64>,
}

/// A provider that is an option of some part.
#[derive(Debug)]
struct Local<'s> {
    place: MemberRef<'s>,
    /// The remaining amount of each shared class.
    left: Vec<i64>,
    /// The number of suffixed groups that it serves now.
    serves: u32,
}

/// All ways to serve a request in one tree.
#[derive(Debug)]
pub(crate) struct Assignments<'s, 'w> {
    wanted: &'w SearchRequest,
    locals: Vec<Local<'s>>,
    shared: &'w [SharedClass],
    /// Parts in the order they are tried.
    order: Vec<usize>,
    /// Of each part, indices of `locals`.
    options: Vec<Vec<usize>>,
    /// Whether some part has so few options that others could use all of them.
    tight: bool,
    /// For each step, the next option to try.
    next: Vec<usize>,
    /// For each completed step, the chosen provider.
    taken: Vec<usize>,
    /// The chosen provider per part.
    serving: Vec<Option<usize>>,
}

impl<'s, 'w> Assignments<'s, 'w> {
    /// `options` lists the providers that could serve each part on its own; `shared` is
    /// the result of [`shared_classes`].
    pub(crate) fn new(
        wanted: &'w SearchRequest,
        shared: &'w [SharedClass],
        options: Vec<Vec<MemberRef<'s>>>,
    ) -> Self {
        let mut known = KnownProviders::of(&options);
        let mut locals: Vec<Local<'s>> = Vec::new();
        let options: Vec<Vec<usize>> = options
            .into_iter()
            .map(|places| {
                let index = |place: MemberRef<'s>| known.index(place, shared, &mut locals);
                places.into_iter().map(index).collect()
            })
            .collect();
        let mut order: Vec<usize> = (0..options.len()).collect();
        order.sort_by_key(|part| options[*part].len());
        let tight = options.iter().any(|few| few.len() < options.len());
        Self {
            wanted,
            locals,
            shared,
            order,
            tight,
            next: vec![0],
            taken: Vec::new(),
            serving: vec![None; options.len()],
            options,
        }
    }

    /// Advances to the next assignment; false if there is none.
    pub(crate) fn advance(&mut self) -> bool {
        let mut patience = PATIENCE;
        if self.taken.len() == self.order.len() {
            self.undo();
        }
        loop {
            match self.step() {
                SearchStep::Taken if self.taken.len() == self.order.len() => return true,
                SearchStep::Taken => self.next.push(0),
                SearchStep::Refused => {}
                SearchStep::Exhausted => {
                    self.next.pop();
                    if self.taken.is_empty() {
                        self.next = vec![usize::MAX];
                        return false;
                    }
                    self.undo();
                }
            }
            patience -= 1;
            if patience == 0 {
                tracing::warn!(
                    tree = self.locals[0].place.tree.root().uuid,
                    "gave up a provider tree: too many combinations lead to no allocation candidate"
                );
                self.next = vec![usize::MAX];
                self.taken.clear();
                return false;
            }
        }
    }

    /// The provider of each part. Call it only after [`Assignments::advance`] returned true.
    pub(crate) fn current(&self) -> impl Iterator<Item = MemberRef<'s>> {
        let serving = self.serving.iter().flatten();
        serving.map(|local| self.locals[*local].place)
    }

    /// Tries the next option of the current part.
    fn step(&mut self) -> SearchStep {
        let part = self.order[self.taken.len()];
        let depth = self.next.len() - 1;
        let Some(local) = self.options[part].get(self.next[depth]).copied() else {
            return SearchStep::Exhausted;
        };
        self.next[depth] += 1;
        if !self.may_take(part, local) {
            return SearchStep::Refused;
        }
        self.take(part, local);
        if self.may_go_on() {
            return SearchStep::Taken;
        }
        self.undo();
        SearchStep::Refused
    }

    fn may_take(&self, part: usize, index: usize) -> bool {
        let local = &self.locals[index];
        let has_room = self.has_room(part, index);
        let alone = self.wanted.policy == SearchGroupPolicy::None
            || self.wanted.group_of(part).is_spread()
            || local.serves == 0;
        has_room && alone && (!self.wanted.blind || self.is_only_of_its_tree(index))
    }

    fn is_only_of_its_tree(&self, index: usize) -> bool {
        let place = &self.locals[index].place;
        let mut taken = self.taken.iter().map(|other| &self.locals[*other].place);
        taken.all(|other| other.tree.id != place.tree.id || other.same_as(place))
    }

    fn take(&mut self, part: usize, index: usize) {
        let spread = self.wanted.group_of(part).is_spread();
        let local = &mut self.locals[index];
        for (shared, left) in self.shared.iter().zip(&mut local.left) {
            *left -= shared.need[part];
        }
        local.serves += u32::from(!spread);
        self.serving[part] = Some(index);
        self.taken.push(index);
    }

    fn undo(&mut self) {
        let Some(index) = self.taken.pop() else {
            return;
        };
        let part = self.order[self.taken.len()];
        let spread = self.wanted.group_of(part).is_spread();
        let local = &mut self.locals[index];
        for (shared, left) in self.shared.iter().zip(&mut local.left) {
            *left += shared.need[part];
        }
        local.serves -= u32::from(!spread);
        self.serving[part] = None;
    }

    /// Whether the current choice can still become an assignment. Quick checks only, but exact once
    /// all parts are served.
    fn may_go_on(&self) -> bool {
        self.wanted
            .same_subtrees
            .iter()
            .all(|parts| self.have_a_top(parts))
            && self.have_the_traits()
            && (!self.tight || self.is_assignable())
    }

    /// Whether one of the providers of these parts is an ancestor of all others, or can still be.
    fn have_a_top(&self, parts: &[usize]) -> bool {
        let mut served = parts.iter().filter_map(|part| self.serving[*part]);
        let Some(first) = served.next() else {
            return true;
        };
        let first = self.locals[first].place;
        let mut above: Vec<usize> = first.tree.lineage(first.index).collect();
        for other in served {
            let other = self.locals[other].place;
            // Subtrees end at the root: providers of two trees have nothing above both.
            if other.tree.id != first.tree.id {
                return false;
            }
            let lineage: Vec<usize> = other.tree.lineage(other.index).collect();
            above.retain(|place| lineage.contains(place));
        }
        let is_top = |local: &usize| {
            let place = self.locals[*local].place;
            place.tree.id == first.tree.id && above.contains(&place.index)
        };
        parts.iter().any(|part| match &self.serving[*part] {
            Some(local) => is_top(local),
            None => self.options[*part].iter().any(is_top),
        })
    }

    /// Whether the parts of the group without suffix have its required traits together, or can have them.
    fn have_the_traits(&self) -> bool {
        let Some((index, group)) = self
            .wanted
            .groups
            .iter()
            .enumerate()
            .find(|(_, group)| group.is_spread())
        else {
            return true;
        };
        let parts = || {
            let parts = self.wanted.parts.iter().enumerate();
            parts
                .filter(|(_, part)| part.group == index)
                .map(|(part, _)| part)
        };
        group.required.iter().all(|any_of| {
            let has = |local: &usize| {
                let member = self.locals[*local].place.member();
                any_of.iter().any(|id| member.has_trait(*id))
            };
            parts().any(|part| match &self.serving[part] {
                Some(local) => has(local),
                None => self.options[part].iter().any(has),
            })
        })
    }

    /// Whether every part that is still to be served finds a provider, each class and the isolation of groups by itself.
    fn is_assignable(&self) -> bool {
        let waiting = &self.order[self.taken.len()..];
        if self.wanted.policy == SearchGroupPolicy::Isolate {
            let groups: Vec<usize> = waiting
                .iter()
                .copied()
                .filter(|part| !self.wanted.group_of(*part).is_spread())
                .collect();
            if !self.seated(&groups, |local| usize::from(local.serves == 0)) {
                return false;
            }
        }
        self.shared.iter().enumerate().all(|(index, shared)| {
            let needy: Vec<usize> = waiting
                .iter()
                .copied()
                .filter(|part| shared.need[*part] > 0)
                .collect();
            let Some(least) = needy.iter().map(|part| shared.need[*part]).min() else {
                return true;
            };
            self.seated(&needy, |local| {
                usize::try_from(local.left[index] / least).unwrap_or_default()
            })
        })
    }

    /// Whether the parts can be matched to providers with this capacity of parts each; bipartite
    /// matching by augmenting paths.
    fn seated(&self, parts: &[usize], seats: impl Fn(&Local<'_>) -> usize) -> bool {
        let seats: Vec<usize> = self.locals.iter().map(seats).collect();
        let mut held: Vec<Vec<usize>> = vec![Vec::new(); self.locals.len()];
        parts.iter().all(|part| {
            let mut asked = vec![false; self.locals.len()];
            self.seat(*part, &seats, &mut held, &mut asked)
        })
    }

    fn seat(
        &self,
        part: usize,
        seats: &[usize],
        held: &mut [Vec<usize>],
        asked: &mut [bool],
    ) -> bool {
        for &local in &self.options[part] {
            // A provider without room for this part may have room for a part that is moved.
            if asked[local] || !self.has_room(part, local) {
                continue;
            }
            asked[local] = true;
            if held[local].len() < seats[local] {
                held[local].push(part);
                return true;
            }
            for at in 0..held[local].len() {
                let other = held[local][at];
                if self.seat(other, seats, held, asked) {
                    held[local][at] = part;
                    return true;
                }
            }
        }
        false
    }

    /// Whether the remaining amounts of shared classes suffice. A class that is over capacity has less than nothing
    /// left, which is enough for a part that does not request it.
    fn has_room(&self, part: usize, local: usize) -> bool {
        let mut each = self.shared.iter().zip(&self.locals[local].left);
        each.all(|(shared, left)| shared.need[part] == 0 || shared.need[part] <= *left)
    }
}

/// The set of known providers: a list while small, else a hash set.
enum KnownProviders {
    Few,
    Many(BTreeMap<i64, usize>),
}

/// The maximum number of options of which each is compared with all others.
const FEW: usize = 32;

impl KnownProviders {
    fn of(options: &[Vec<MemberRef<'_>>]) -> Self {
        match options.iter().map(Vec::len).sum::<usize>() {
            ..=FEW => Self::Few,
            _ => Self::Many(BTreeMap::new()),
        }
    }

    fn index<'s>(
        &mut self,
        place: MemberRef<'s>,
        shared: &[SharedClass],
        locals: &mut Vec<Local<'s>>,
    ) -> usize {
        let next = locals.len();
        let index = match self {
            Self::Few => {
                let mut known = locals.iter();
                known
                    .position(|local| local.place.same_as(&place))
                    .unwrap_or(next)
            }
            Self::Many(known) => *known.entry(place.member().id).or_insert(next),
        };
        if index == next {
            locals.push(Local::new(place, shared));
        }
        index
    }
}

enum SearchStep {
    Taken,
    Refused,
    Exhausted,
}

impl<'s> Local<'s> {
    fn new(place: MemberRef<'s>, shared: &[SharedClass]) -> Self {
        let left = |shared: &SharedClass| {
            let room = place.member().room(shared.class);
            room.map_or(0, super::Room::free)
        };
        Self {
            place,
            left: shared.iter().map(left).collect(),
            serves: 0,
        }
    }
}

/// The resource classes that several parts request.
pub(crate) fn shared_classes(wanted: &SearchRequest) -> Vec<SharedClass> {
    let mut by_class: BTreeMap<ClassId, Vec<i64>> = BTreeMap::new();
    for (index, part) in wanted.parts.iter().enumerate() {
        for (class, amount) in &part.resources {
            let need = by_class
                .entry(*class)
                .or_insert_with(|| vec![0; wanted.parts.len()]);
            need[index] = *amount;
        }
    }
    by_class
        .into_iter()
        .filter(|(_, need)| need.iter().filter(|amount| **amount > 0).count() > 1)
        .map(|(class, need)| SharedClass { class, need })
        .collect()
}

//! All providers at one point in time, tree by tree.
//!
//! Trees are immutable and are only replaced. A search in an older snapshot is therefore not disturbed, and a newer
//! snapshot shares all trees that did not change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use crate::inventory::InventoryRecord;
use crate::ledger::{ClassId, ProviderId};

/// A trait's row id.
pub(crate) type TraitId = i64;
pub(crate) type AggregateKey = u128;
/// The row id of a tree's root.
pub(crate) type RootId = ProviderId;

/// The trait of sharing providers, which serve the trees with which they have an aggregate in common.
pub(crate) const SHARES: &str = "MISC_SHARES_VIA_AGGREGATE";

/// Resource classes and traits by name and by row id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SnapshotNames {
    classes: HashMap<String, ClassId>,
    class_names: HashMap<ClassId, String>,
    traits: HashMap<String, TraitId>,
    trait_names: HashMap<TraitId, String>,
}

impl SnapshotNames {
    pub(crate) fn new(classes: Vec<(ClassId, String)>, traits: Vec<(TraitId, String)>) -> Self {
        let swapped = |pairs: &[(i64, String)]| {
            let swap = |(id, name): &(i64, String)| (name.clone(), *id);
            pairs.iter().map(swap).collect()
        };
        Self {
            classes: swapped(&classes),
            traits: swapped(&traits),
            class_names: classes.into_iter().collect(),
            trait_names: traits.into_iter().collect(),
        }
    }

    /// Adds names; false if a name has a different meaning here.
    fn extend(&self, other: &Self) -> bool {
        let same = |mine: &HashMap<i64, String>, others: &HashMap<i64, String>| {
            others.iter().all(|(id, name)| mine.get(id) == Some(name))
        };
        same(&self.class_names, &other.class_names) && same(&self.trait_names, &other.trait_names)
    }

    pub(crate) fn class(&self, name: &str) -> Option<ClassId> {
        self.classes.get(name).copied()
    }

    pub(crate) fn class_name(&self, id: ClassId) -> &str {
        self.class_names.get(&id).map_or("", String::as_str)
    }

    pub(crate) fn trait_id(&self, name: &str) -> Option<TraitId> {
        self.traits.get(name).copied()
    }

    pub(crate) fn trait_name(&self, id: TraitId) -> &str {
        self.trait_names.get(&id).map_or("", String::as_str)
    }
}

/// The inventory and usage of one resource class of a provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Room {
    pub(crate) class: ClassId,
    pub(crate) inventory: InventoryRecord,
    pub(crate) used: i64,
}

impl Room {
    /// The capacity: (total - reserved) × ratio, rounded down.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the cast rounds towards zero, and a ratio beyond all measure saturates"
    )]
    pub(crate) fn capacity(&self) -> i64 {
        self.inventory.capacity() as i64
    }

    /// Units that one consumer could take.
    pub(crate) fn free(&self) -> i64 {
        self.capacity()
            .saturating_sub(self.used)
            .min(self.inventory.max_unit)
    }

    /// Whether one consumer could take this amount.
    pub(crate) fn admits(&self, amount: i64) -> bool {
        self.inventory.admits(amount) && amount <= self.free()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) id: ProviderId,
    pub(crate) uuid: String,
    /// The parent's place in the tree; `None` for the root.
    pub(crate) parent: Option<usize>,
    pub(crate) rooms: Vec<Room>,
    pub(crate) traits: Vec<TraitId>,
    pub(crate) aggregates: Vec<AggregateKey>,
}

impl Member {
    pub(crate) fn room(&self, class: ClassId) -> Option<&Room> {
        self.rooms.iter().find(|room| room.class == class)
    }

    pub(crate) fn has_trait(&self, id: TraitId) -> bool {
        self.traits.binary_search(&id).is_ok()
    }

    pub(crate) fn is_in(&self, aggregate: AggregateKey) -> bool {
        self.aggregates.binary_search(&aggregate).is_ok()
    }
}

/// A root provider with all its descendants, ordered by row id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SnapshotTree {
    pub(crate) id: RootId,
    /// The root's place among the members.
    root: usize,
    pub(crate) members: Vec<Member>,
    /// Of all members, in order, each once.
    aggregates: Vec<AggregateKey>,
    written: CachedText,
}

/// The cached text of a tree in responses. It is not part of the tree's value and never cloned.
#[derive(Debug, Default)]
struct CachedText(OnceLock<String>);

impl Clone for CachedText {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for CachedText {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl SnapshotTree {
    /// `None` when the root is not among the members.
    pub(crate) fn new(id: RootId, members: Vec<Member>) -> Option<Self> {
        let root = members.iter().position(|member| member.id == id)?;
        let aggregates: BTreeSet<AggregateKey> = members
            .iter()
            .flat_map(|member| member.aggregates.iter().copied())
            .collect();
        Some(Self {
            id,
            root,
            members,
            aggregates: aggregates.into_iter().collect(),
            written: CachedText::default(),
        })
    }

    /// The cached text of the tree; `write` produces it on first use.
    pub(crate) fn written<E>(
        &self,
        write: impl FnOnce(&Self) -> Result<String, E>,
    ) -> Result<&str, E> {
        if let Some(text) = self.written.0.get() {
            return Ok(text);
        }
        let text = write(self)?;
        Ok(self.written.0.get_or_init(|| text))
    }

    pub(crate) fn root(&self) -> &Member {
        &self.members[self.root]
    }

    /// A member and its ancestors, from the bottom up.
    pub(crate) fn lineage(&self, place: usize) -> impl Iterator<Item = usize> {
        // The API cannot create cycles; a cycle made by hand must not block the search.
        std::iter::successors(Some(place), |at| self.members[*at].parent).take(self.members.len())
    }
}

/// A provider by its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberRef<'s> {
    pub(crate) tree: &'s SnapshotTree,
    pub(crate) index: usize,
}

impl<'s> MemberRef<'s> {
    pub(crate) fn member(&self) -> &'s Member {
        &self.tree.members[self.index]
    }

    pub(crate) fn same_as(&self, other: &MemberRef<'_>) -> bool {
        self.member().id == other.member().id
    }
}

/// All providers at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Snapshot {
    names: Arc<SnapshotNames>,
    trees: BTreeMap<RootId, Arc<SnapshotTree>>,
    root_of: HashMap<ProviderId, RootId>,
    root_of_uuid: HashMap<String, RootId>,
    /// The sharing providers of each aggregate.
    sharing: BTreeSet<(AggregateKey, RootId, usize)>,
}

impl Snapshot {
    pub(crate) fn new(names: SnapshotNames, trees: impl IntoIterator<Item = SnapshotTree>) -> Self {
        let mut snapshot = Self {
            names: Arc::new(names),
            ..Self::default()
        };
        for tree in trees {
            snapshot.insert(tree);
        }
        snapshot
    }

    pub(crate) fn names(&self) -> &SnapshotNames {
        &self.names
    }

    /// Replaces the names. The trees stay as they are: they know row ids alone.
    pub(crate) fn rename(&mut self, names: SnapshotNames) {
        if !names.extend(&self.names) {
            for tree in self.trees.values_mut() {
                Arc::make_mut(tree).written = CachedText::default();
            }
        }
        self.names = Arc::new(names);
    }

    pub(crate) fn trees(&self) -> impl Iterator<Item = &SnapshotTree> {
        self.trees.values().map(Arc::as_ref)
    }

    pub(crate) fn tree(&self, root: RootId) -> Option<&SnapshotTree> {
        self.trees.get(&root).map(Arc::as_ref)
    }

    pub(crate) fn root_of(&self, provider: ProviderId) -> Option<RootId> {
        self.root_of.get(&provider).copied()
    }

    pub(crate) fn root_of_uuid(&self, uuid: &str) -> Option<RootId> {
        self.root_of_uuid.get(uuid).copied()
    }

    /// Removes a tree, if present.
    pub(crate) fn remove(&mut self, root: RootId) {
        let Some(tree) = self.trees.remove(&root) else {
            return;
        };
        for member in &tree.members {
            // It may already belong to another tree.
            if self.root_of.get(&member.id) == Some(&root) {
                self.root_of.remove(&member.id);
                self.root_of_uuid.remove(&member.uuid);
            }
        }
        for key in self.shared_by(&tree) {
            self.sharing.remove(&key);
        }
    }

    /// Inserts a tree, replacing the one with the same root.
    pub(crate) fn insert(&mut self, tree: SnapshotTree) {
        self.remove(tree.id);
        for member in &tree.members {
            self.root_of.insert(member.id, tree.id);
            self.root_of_uuid.insert(member.uuid.clone(), tree.id);
        }
        let shared = self.shared_by(&tree);
        self.sharing.extend(shared);
        self.trees.insert(tree.id, Arc::new(tree));
    }

    fn shared_by(&self, tree: &SnapshotTree) -> Vec<(AggregateKey, RootId, usize)> {
        let Some(shares) = self.names.trait_id(SHARES) else {
            return Vec::new();
        };
        let sharing = tree.members.iter().enumerate();
        sharing
            .filter(|(_, member)| member.has_trait(shares))
            .flat_map(|(index, member)| {
                let keys = member.aggregates.iter();
                keys.map(move |aggregate| (*aggregate, tree.id, index))
            })
            .collect()
    }

    /// Whether any provider is a sharing provider.
    pub(crate) fn has_sharing(&self) -> bool {
        !self.sharing.is_empty()
    }

    /// The sharing providers of other trees that serve this one, without duplicates.
    pub(crate) fn serving<'s>(&'s self, tree: &SnapshotTree) -> Vec<MemberRef<'s>> {
        if self.sharing.is_empty() {
            return Vec::new();
        }
        let mut keys = BTreeSet::new();
        for aggregate in &tree.aggregates {
            let first = Bound::Included((*aggregate, RootId::MIN, 0));
            let last = Bound::Included((*aggregate, RootId::MAX, usize::MAX));
            let others = self.sharing.range((first, last));
            keys.extend(
                others
                    .filter(|(_, root, _)| *root != tree.id)
                    .map(|(_, root, index)| (*root, *index)),
            );
        }
        keys.into_iter()
            .filter_map(|(root, index)| {
                let tree = self.trees.get(&root)?;
                Some(MemberRef { tree, index })
            })
            .collect()
    }
}

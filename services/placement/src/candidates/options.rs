//! For one tree: the providers that could serve each part of a request, each part considered on its own.

use super::snapshot::{AggregateKey, Member, MemberRef, RootId, Snapshot, SnapshotTree, TraitId};
use crate::ledger::ClassId;

/// Whether one provider may serve several suffixed groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum SearchGroupPolicy {
    #[default]
    None,
    /// Each group needs a provider of its own.
    Isolate,
}

/// Whether the caller knows that providers have parents (from 1.29).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NestedProviders {
    /// A candidate may use several providers of one tree.
    Known,
    /// Of each tree, one provider at most.
    Unknown,
}

/// A group, by row ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchGroup {
    pub(crate) suffix: String,
    pub(crate) required: Vec<Vec<TraitId>>,
    pub(crate) forbidden: Vec<TraitId>,
    pub(crate) member_of: Vec<Vec<AggregateKey>>,
    pub(crate) forbidden_aggregates: Vec<AggregateKey>,
    pub(crate) in_tree: Option<RootId>,
}

impl SearchGroup {
    /// Whether its parts may come from different providers, which must have the required traits together.
    pub(crate) fn is_spread(&self) -> bool {
        self.suffix.is_empty()
    }
}

/// The unit that one provider serves: a suffixed group, or one class of the unsuffixed group.
#[derive(Debug, Clone)]
pub(crate) struct RequestPart {
    pub(crate) group: usize,
    pub(crate) resources: Vec<(ClassId, i64)>,
}

/// A request, by row ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchRequest {
    pub(crate) groups: Vec<SearchGroup>,
    pub(crate) parts: Vec<RequestPart>,
    pub(crate) policy: SearchGroupPolicy,
    /// For each list of parts, one of their providers must be an ancestor of the others.
    pub(crate) same_subtrees: Vec<Vec<usize>>,
    pub(crate) root_required: Vec<TraitId>,
    pub(crate) root_forbidden: Vec<TraitId>,
    /// Of each tree, one provider at most.
    pub(crate) blind: bool,
}

impl SearchRequest {
    pub(crate) fn group_of(&self, part: usize) -> &SearchGroup {
        &self.groups[self.parts[part].group]
    }

    /// For each part, the providers that could serve it in candidates of this tree. `None` if some part has none.
    pub(crate) fn options<'s>(
        &self,
        snapshot: &'s Snapshot,
        tree: &'s SnapshotTree,
    ) -> Option<Vec<Vec<MemberRef<'s>>>> {
        let root = tree.root();
        if self.root_required.iter().any(|id| !root.has_trait(*id))
            || self.root_forbidden.iter().any(|id| root.has_trait(*id))
        {
            return None;
        }
        let mut serving: Option<Vec<MemberRef<'s>>> = None;
        let mut all = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let group = &self.groups[part.group];
            let own = (0..tree.members.len())
                .map(|index| MemberRef { tree, index })
                .filter(|place| part.fits(place.member()) && group.allows(place, root));
            let mut options: Vec<MemberRef<'s>> = own.collect();
            if snapshot.has_sharing() {
                let serving = serving.get_or_insert_with(|| snapshot.serving(tree));
                let others = serving.iter().filter(|place| {
                    part.fits(place.member()) && group.allows_of_other(place, root)
                });
                options.extend(others);
            }
            if options.is_empty() {
                return None;
            }
            all.push(options);
        }
        Some(all)
    }
}

impl RequestPart {
    fn fits(&self, member: &Member) -> bool {
        let mut each = self.resources.iter();
        each.all(|(class, amount)| member.room(*class).is_some_and(|room| room.admits(*amount)))
    }
}

impl SearchGroup {
    /// Whether a member of the tree with this root may serve the group.
    fn allows(&self, place: &MemberRef<'_>, root: &Member) -> bool {
        if self.in_tree.is_some_and(|tree| tree != place.tree.id) {
            return false;
        }
        let member = place.member();
        if !self.is_spread() {
            return self.has_traits(member)
                && self.is_member(member)
                && !self.is_forbidden_member(member);
        }
        // An aggregate of the root applies to the whole tree.
        !self.has_forbidden_trait(member)
            && (self.is_member(member) || self.is_member(root))
            && !self.is_forbidden_member(member)
            && !self.is_forbidden_member(root)
    }

    /// Whether a sharing provider of another tree may serve the group in candidates of the tree with this root.
    fn allows_of_other(&self, place: &MemberRef<'_>, root: &Member) -> bool {
        let member = place.member();
        if self.is_spread() {
            return self.in_tree.is_none()
                && !self.has_forbidden_trait(member)
                && self.is_member(member)
                && !self.is_forbidden_member(member)
                && !self.is_forbidden_member(root);
        }
        self.allows(place, root)
    }

    fn has_traits(&self, member: &Member) -> bool {
        let mut required = self.required.iter();
        required.all(|any_of| any_of.iter().any(|id| member.has_trait(*id)))
            && !self.has_forbidden_trait(member)
    }

    fn has_forbidden_trait(&self, member: &Member) -> bool {
        self.forbidden.iter().any(|id| member.has_trait(*id))
    }

    fn is_member(&self, member: &Member) -> bool {
        let mut sets = self.member_of.iter();
        sets.all(|any_of| any_of.iter().any(|aggregate| member.is_in(*aggregate)))
    }

    fn is_forbidden_member(&self, member: &Member) -> bool {
        let mut forbidden = self.forbidden_aggregates.iter();
        forbidden.any(|aggregate| member.is_in(*aggregate))
    }
}

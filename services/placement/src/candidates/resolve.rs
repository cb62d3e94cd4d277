//! Replaces the names in a request by row ids.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::options::{NestedProviders, RequestPart, SearchGroup, SearchRequest};
use super::request::{ParsedCandidatesQuery, QueryGroup};
use super::snapshot::{AggregateKey, RootId, Snapshot, SnapshotNames, TraitId};

pub(crate) trait Meanings {
    fn names(&self) -> &SnapshotNames;

    /// The root of the tree that a provider is in.
    fn root_of_uuid(&self, uuid: &str) -> Option<RootId>;

    /// The aggregates that any provider is a member of.
    fn aggregates(&self, uuids: &BTreeSet<String>) -> Vec<AggregateKey>;
}

impl Meanings for Snapshot {
    fn names(&self) -> &SnapshotNames {
        self.names()
    }

    fn root_of_uuid(&self, uuid: &str) -> Option<RootId> {
        self.root_of_uuid(uuid)
    }

    fn aggregates(&self, uuids: &BTreeSet<String>) -> Vec<AggregateKey> {
        let ids = uuids.iter().filter_map(|uuid| Uuid::parse_str(uuid).ok());
        ids.map(|uuid| uuid.as_u128()).collect()
    }
}

/// A name in a request that nothing has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("Invalid resource class in resources parameter: No such resource class {0}.")]
    Class(String),
    /// One or more traits.
    #[error("No such trait(s): {0}.")]
    Traits(String),
}

impl ParsedCandidatesQuery {
    /// Resolves all names. `None` if a required tree does not exist, so that nothing can be served.
    pub(crate) fn resolve(
        &self,
        meanings: &impl Meanings,
    ) -> Result<Option<SearchRequest>, NameError> {
        let names = meanings.names();
        let mut wanted = SearchRequest {
            root_required: traits(names, &self.root_required)?,
            root_forbidden: traits(names, &self.root_forbidden)?,
            policy: self.policy,
            blind: self.nesting == NestedProviders::Unknown,
            ..SearchRequest::default()
        };
        let mut lost = false;
        for (suffix, group) in &self.groups {
            let in_tree = group
                .in_tree
                .as_ref()
                .map(|uuid| meanings.root_of_uuid(uuid));
            lost |= in_tree == Some(None);
            let index = wanted.groups.len();
            let resources = resources(names, group)?;
            if suffix.is_empty() {
                // Each class may come from another provider.
                let parts = resources.iter().map(|one| RequestPart {
                    group: index,
                    resources: vec![*one],
                });
                wanted.parts.extend(parts);
            } else {
                wanted.parts.push(RequestPart {
                    group: index,
                    resources,
                });
            }
            wanted.groups.push(SearchGroup {
                suffix: suffix.clone(),
                required: group
                    .required
                    .iter()
                    .map(|any_of| traits(names, any_of))
                    .collect::<Result<_, _>>()?,
                forbidden: traits(names, &group.forbidden)?,
                member_of: sets(meanings, &group.member_of),
                forbidden_aggregates: meanings.aggregates(&group.forbidden_aggregates),
                in_tree: in_tree.flatten(),
            });
        }
        wanted.same_subtrees = self
            .same_subtrees
            .iter()
            .map(|suffixes| {
                let parts = wanted.parts.iter().enumerate();
                parts
                    .filter(|(_, part)| suffixes.contains(&wanted.groups[part.group].suffix))
                    .map(|(index, _)| index)
                    .collect()
            })
            .collect();
        Ok((!lost).then_some(wanted))
    }
}

fn resources(names: &SnapshotNames, group: &QueryGroup) -> Result<Vec<(i64, i64)>, NameError> {
    let each = group.resources.iter();
    each.map(|(class, amount)| {
        let id = names
            .class(class)
            .ok_or_else(|| NameError::Class(class.clone()))?;
        Ok((id, *amount))
    })
    .collect()
}

fn traits(names: &SnapshotNames, wanted: &BTreeSet<String>) -> Result<Vec<TraitId>, NameError> {
    let mut missing = Vec::new();
    let mut ids = Vec::with_capacity(wanted.len());
    for name in wanted {
        match names.trait_id(name) {
            Some(id) => ids.push(id),
            None => missing.push(name.as_str()),
        }
    }
    if missing.is_empty() {
        Ok(ids)
    } else {
        Err(NameError::Traits(missing.join(", ")))
    }
}

fn sets(meanings: &impl Meanings, sets: &[BTreeSet<String>]) -> Vec<Vec<AggregateKey>> {
    sets.iter().map(|set| meanings.aggregates(set)).collect()
}

//! Writes the response document directly from the search result, because it can be megabytes.

use std::collections::{BTreeMap, BTreeSet};

use berth_http::Microversion;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::options::SearchRequest;
use super::snapshot::MemberRef;
use super::{Member, SearchResult, SnapshotNames, SnapshotTree};
use crate::ledger::ClassId;
use crate::microversions as since;

pub(crate) struct CandidatesDocument<'a> {
    allocation_requests: CandidateRequests<'a>,
    provider_summaries: Summaries<'a>,
}

/// The version-dependent format of the document.
#[derive(Clone, Copy)]
struct Style<'a> {
    names: &'a SnapshotNames,
    wanted: &'a SearchRequest,
    version: Microversion,
}

impl<'a> CandidatesDocument<'a> {
    pub(crate) fn new(
        names: &'a SnapshotNames,
        wanted: &'a SearchRequest,
        found: &'a SearchResult<'a>,
        version: Microversion,
    ) -> Self {
        let style = Style {
            names,
            wanted,
            version,
        };
        Self {
            allocation_requests: CandidateRequests { style, found },
            provider_summaries: Summaries { style, found },
        }
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut out = br#"{"allocation_requests":"#.to_vec();
        serde_json::to_writer(&mut out, &self.allocation_requests)?;
        out.extend_from_slice(br#","provider_summaries":"#);
        self.provider_summaries.write(&mut out)?;
        out.push(b'}');
        Ok(out)
    }
}

struct CandidateRequests<'a> {
    style: Style<'a>,
    found: &'a SearchResult<'a>,
}

impl Serialize for CandidateRequests<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let candidates = self.found.candidates();
        let mut list = serializer.serialize_seq(Some(candidates.len()))?;
        let mut taken = Vec::new();
        for places in candidates {
            self.style.collect(places, &mut taken);
            list.serialize_element(&CandidateRequest {
                style: self.style,
                places,
                taken: &taken,
            })?;
        }
        list.end()
    }
}

/// The amounts allocated from one provider.
type ProviderAmounts<'a> = (&'a Member, Vec<(ClassId, i64)>);

impl<'a> Style<'a> {
    /// The sums by provider and class, in the order of the parts.
    fn collect(&self, places: &[MemberRef<'a>], taken: &mut Vec<ProviderAmounts<'a>>) {
        taken.clear();
        for (place, part) in places.iter().zip(&self.wanted.parts) {
            if part.resources.is_empty() {
                continue;
            }
            let member = place.member();
            let at = match taken.iter().position(|(known, _)| known.id == member.id) {
                Some(at) => at,
                None => {
                    taken.push((member, Vec::with_capacity(part.resources.len())));
                    taken.len() - 1
                }
            };
            for (class, amount) in &part.resources {
                let sums = &mut taken[at].1;
                match sums.iter_mut().find(|(known, _)| known == class) {
                    Some((_, sum)) => *sum += amount,
                    None => sums.push((*class, *amount)),
                }
            }
        }
    }
}

struct CandidateRequest<'a> {
    style: Style<'a>,
    places: &'a [MemberRef<'a>],
    taken: &'a [ProviderAmounts<'a>],
}

impl Serialize for CandidateRequest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let version = self.style.version;
        let mut map = serializer.serialize_map(None)?;
        if version.has(since::ALLOCATIONS_BY_PROVIDER) {
            map.serialize_entry("allocations", &ByProvider(self))?;
        } else {
            map.serialize_entry("allocations", &AsList(self))?;
        }
        if version.has(since::MAPPINGS) {
            map.serialize_entry("mappings", &GroupMappings(self))?;
        }
        map.end()
    }
}

struct ByProvider<'a>(&'a CandidateRequest<'a>);

impl Serialize for ByProvider<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.taken.iter().map(|(member, amounts)| {
            let resources = ClassAmounts {
                names: self.0.style.names,
                amounts,
            };
            (&member.uuid, CandidateResources { resources })
        }))
    }
}

#[derive(Serialize)]
struct CandidateResources<'a> {
    resources: ClassAmounts<'a>,
}

struct ClassAmounts<'a> {
    names: &'a SnapshotNames,
    amounts: &'a [(ClassId, i64)],
}

impl Serialize for ClassAmounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let amounts = self.amounts.iter();
        serializer.collect_map(amounts.map(|(class, sum)| (self.names.class_name(*class), sum)))
    }
}

struct AsList<'a>(&'a CandidateRequest<'a>);

#[derive(Serialize)]
struct ListedRequest<'a> {
    resource_provider: Uuid<'a>,
    resources: ClassAmounts<'a>,
}

#[derive(Serialize)]
struct Uuid<'a> {
    uuid: &'a str,
}

impl Serialize for AsList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.taken.iter().map(|(member, amounts)| ListedRequest {
            resource_provider: Uuid { uuid: &member.uuid },
            resources: ClassAmounts {
                names: self.0.style.names,
                amounts,
            },
        }))
    }
}

/// From 1.34: which provider serves which group.
struct GroupMappings<'a>(&'a CandidateRequest<'a>);

impl Serialize for GroupMappings<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SearchRequest { groups, parts, .. } = self.0.style.wanted;
        serializer.collect_map(groups.iter().enumerate().map(|(index, group)| {
            let mut uuids: Vec<&str> = Vec::with_capacity(1);
            let places = self.0.places.iter().zip(parts);
            for (place, _) in places.filter(|(_, part)| part.group == index) {
                let uuid = place.member().uuid.as_str();
                if !uuids.contains(&uuid) {
                    uuids.push(uuid);
                }
            }
            (&group.suffix, uuids)
        }))
    }
}

/// All providers of all trees that candidates take from.
struct Summaries<'a> {
    style: Style<'a>,
    found: &'a SearchResult<'a>,
}

impl<'a> Summaries<'a> {
    /// The providers with allocations.
    fn places(&self) -> impl Iterator<Item = MemberRef<'a>> {
        let SearchRequest { parts, .. } = self.style.wanted;
        self.found.candidates().flat_map(move |places| {
            let parts = places.iter().zip(parts);
            parts
                .filter(|(_, part)| !part.resources.is_empty())
                .map(|(place, _)| *place)
        })
    }

    fn trees(&self) -> impl Iterator<Item = &'a SnapshotTree> {
        let mut trees: BTreeMap<i64, &SnapshotTree> = BTreeMap::new();
        let mut last = None;
        for place in self.places() {
            // Entries of one tree are mostly adjacent.
            if last.replace(place.tree.id) != Some(place.tree.id) {
                trees.insert(place.tree.id, place.tree);
            }
        }
        trees.into_values()
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        if !self.style.version.has(since::NESTED_CANDIDATES) {
            return serde_json::to_writer(out, &Older(self));
        }
        // From 1.29 a tree is always shown completely and in the same form, so it is cached.
        out.push(b'{');
        for (number, tree) in self.trees().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            let whole = FullTree {
                style: self.style,
                tree,
            };
            let text = tree.written(|_| serde_json::to_string(&whole))?;
            // Without the surrounding braces.
            out.extend_from_slice(text.as_bytes().get(1..text.len() - 1).unwrap_or_default());
        }
        out.push(b'}');
        Ok(())
    }
}

/// A tree in the format of 1.29 and later.
struct FullTree<'a> {
    style: Style<'a>,
    tree: &'a SnapshotTree,
}

impl Serialize for FullTree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none = BTreeSet::new();
        serializer.collect_map(self.tree.members.iter().map(|member| {
            let summary = Summary {
                style: self.style,
                tree: self.tree,
                member,
                asked: &none,
            };
            (&member.uuid, summary)
        }))
    }
}

/// A tree in the format before 1.29: only providers with allocations, because clients do not know nested providers.
struct Older<'a>(&'a Summaries<'a>);

impl Serialize for Older<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let style = self.0.style;
        let used: BTreeMap<i64, MemberRef<'_>> = self
            .0
            .places()
            .map(|place| (place.member().id, place))
            .collect();
        let asked: BTreeSet<ClassId> = style
            .wanted
            .parts
            .iter()
            .flat_map(|part| part.resources.iter().map(|(class, _)| *class))
            .collect();
        serializer.collect_map(used.values().map(|place| {
            let summary = Summary {
                style,
                tree: place.tree,
                member: place.member(),
                asked: &asked,
            };
            (&place.member().uuid, summary)
        }))
    }
}

struct Summary<'a> {
    style: Style<'a>,
    tree: &'a SnapshotTree,
    member: &'a Member,
    asked: &'a BTreeSet<ClassId>,
}

#[derive(Serialize)]
struct RoomSummary {
    capacity: i64,
    used: i64,
}

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let version = self.style.version;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("resources", &Rooms(self))?;
        if version.has(since::CANDIDATES_REQUIRED) {
            map.serialize_entry("traits", &TraitNames(self))?;
        }
        if version.has(since::NESTED_CANDIDATES) {
            let parent = self.member.parent.map(|at| &self.tree.members[at].uuid);
            map.serialize_entry("parent_provider_uuid", &parent)?;
            map.serialize_entry("root_provider_uuid", &self.tree.root().uuid)?;
        }
        map.end()
    }
}

struct Rooms<'a>(&'a Summary<'a>);

impl Serialize for Rooms<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Summary { style, asked, .. } = self.0;
        let whole = style.version.has(since::WHOLE_SUMMARIES);
        let rooms = self.0.member.rooms.iter();
        let shown = rooms.filter(|room| whole || asked.contains(&room.class));
        serializer.collect_map(shown.map(|room| {
            let summary = RoomSummary {
                capacity: room.capacity(),
                used: room.used,
            };
            (style.names.class_name(room.class), summary)
        }))
    }
}

struct TraitNames<'a>(&'a Summary<'a>);

impl Serialize for TraitNames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let traits = self.0.member.traits.iter();
        serializer.collect_seq(traits.map(|id| self.0.style.names.trait_name(*id)))
    }
}

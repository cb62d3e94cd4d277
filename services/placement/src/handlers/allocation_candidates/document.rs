//! The answer, written from the search's result as it is: it can be megabytes.

use std::collections::{BTreeMap, BTreeSet};

use berth_http::Microversion;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::candidates::options::Wanted;
use crate::candidates::snapshot::Place;
use crate::candidates::{Found, Member, Names, Tree};
use crate::ledger::ClassId;
use crate::microversions as since;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    allocation_requests: Requests<'a>,
    provider_summaries: Summaries<'a>,
}

/// What all parts of the document are written with.
#[derive(Clone, Copy)]
struct Style<'a> {
    names: &'a Names,
    wanted: &'a Wanted,
    version: Microversion,
}

impl<'a> Document<'a> {
    pub(super) fn new(
        names: &'a Names,
        wanted: &'a Wanted,
        found: &'a Found<'a>,
        version: Microversion,
    ) -> Self {
        let style = Style {
            names,
            wanted,
            version,
        };
        Self {
            allocation_requests: Requests { style, found },
            provider_summaries: Summaries { style, found },
        }
    }
}

struct Requests<'a> {
    style: Style<'a>,
    found: &'a Found<'a>,
}

impl Serialize for Requests<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let candidates = self.found.candidates();
        let mut list = serializer.serialize_seq(Some(candidates.len()))?;
        let mut taken = Vec::new();
        for places in candidates {
            self.style.collect(places, &mut taken);
            list.serialize_element(&Request {
                style: self.style,
                places,
                taken: &taken,
            })?;
        }
        list.end()
    }
}

/// What is taken of a provider.
type Taken<'a> = (&'a Member, Vec<(ClassId, i64)>);

impl<'a> Style<'a> {
    /// The sums by provider and class, in the order of the parts.
    fn collect(&self, places: &[Place<'a>], taken: &mut Vec<Taken<'a>>) {
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

struct Request<'a> {
    style: Style<'a>,
    places: &'a [Place<'a>],
    taken: &'a [Taken<'a>],
}

impl Serialize for Request<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let version = self.style.version;
        let mut map = serializer.serialize_map(None)?;
        if version.has(since::ALLOCATIONS_BY_PROVIDER) {
            map.serialize_entry("allocations", &ByProvider(self))?;
        } else {
            map.serialize_entry("allocations", &AsList(self))?;
        }
        if version.has(since::MAPPINGS) {
            map.serialize_entry("mappings", &Mappings(self))?;
        }
        map.end()
    }
}

struct ByProvider<'a>(&'a Request<'a>);

impl Serialize for ByProvider<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.taken.iter().map(|(member, amounts)| {
            let resources = Amounts {
                names: self.0.style.names,
                amounts,
            };
            (&member.uuid, Resources { resources })
        }))
    }
}

#[derive(Serialize)]
struct Resources<'a> {
    resources: Amounts<'a>,
}

struct Amounts<'a> {
    names: &'a Names,
    amounts: &'a [(ClassId, i64)],
}

impl Serialize for Amounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let amounts = self.amounts.iter();
        serializer.collect_map(amounts.map(|(class, sum)| (self.names.class_name(*class), sum)))
    }
}

/// Before 1.12.
struct AsList<'a>(&'a Request<'a>);

#[derive(Serialize)]
struct Listed<'a> {
    resource_provider: Uuid<'a>,
    resources: Amounts<'a>,
}

#[derive(Serialize)]
struct Uuid<'a> {
    uuid: &'a str,
}

impl Serialize for AsList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.taken.iter().map(|(member, amounts)| Listed {
            resource_provider: Uuid { uuid: &member.uuid },
            resources: Amounts {
                names: self.0.style.names,
                amounts,
            },
        }))
    }
}

/// From 1.34: who serves which group.
struct Mappings<'a>(&'a Request<'a>);

impl Serialize for Mappings<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Wanted { groups, parts, .. } = self.0.style.wanted;
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
    found: &'a Found<'a>,
}

impl Serialize for Summaries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Wanted { parts, .. } = self.style.wanted;
        let mut trees: BTreeMap<i64, &Tree> = BTreeMap::new();
        let mut used: BTreeSet<i64> = BTreeSet::new();
        for places in self.found.candidates() {
            for (place, part) in places.iter().zip(parts) {
                if !part.resources.is_empty() {
                    trees.insert(place.tree.id, place.tree);
                    if self.style.wanted.blind {
                        used.insert(place.member().id);
                    }
                }
            }
        }
        let asked: BTreeSet<ClassId> = parts
            .iter()
            .flat_map(|part| part.resources.iter().map(|(class, _)| *class))
            .collect();
        let members = trees
            .values()
            .flat_map(|tree| tree.members.iter().map(move |member| (*tree, member)))
            // Who does not know of nesting sees only what is taken from.
            .filter(|(_, member)| !self.style.wanted.blind || used.contains(&member.id));
        serializer.collect_map(members.map(|(tree, member)| {
            let summary = Summary {
                style: self.style,
                tree,
                member,
                asked: &asked,
            };
            (&member.uuid, summary)
        }))
    }
}

struct Summary<'a> {
    style: Style<'a>,
    tree: &'a Tree,
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
            map.serialize_entry("traits", &Traits(self))?;
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

struct Traits<'a>(&'a Summary<'a>);

impl Serialize for Traits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let traits = self.0.member.traits.iter();
        serializer.collect_seq(traits.map(|id| self.0.style.names.trait_name(*id)))
    }
}

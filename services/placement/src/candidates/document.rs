//! The answer, written from the search's result as it is: it can be megabytes.

use std::collections::{BTreeMap, BTreeSet};

use berth_http::Microversion;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::options::Wanted;
use super::snapshot::Place;
use super::{Found, Member, Names, Tree};
use crate::ledger::ClassId;
use crate::microversions as since;

pub(crate) struct Document<'a> {
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
    pub(crate) fn new(
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

    pub(crate) fn write(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut out = br#"{"allocation_requests":"#.to_vec();
        serde_json::to_writer(&mut out, &self.allocation_requests)?;
        out.extend_from_slice(br#","provider_summaries":"#);
        self.provider_summaries.write(&mut out)?;
        out.push(b'}');
        Ok(out)
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

impl<'a> Summaries<'a> {
    /// The places that something is taken from.
    fn places(&self) -> impl Iterator<Item = Place<'a>> {
        let Wanted { parts, .. } = self.style.wanted;
        self.found.candidates().flat_map(move |places| {
            let parts = places.iter().zip(parts);
            parts
                .filter(|(_, part)| !part.resources.is_empty())
                .map(|(place, _)| *place)
        })
    }

    fn trees(&self) -> impl Iterator<Item = &'a Tree> {
        let mut trees: BTreeMap<i64, &Tree> = BTreeMap::new();
        let mut last = None;
        for place in self.places() {
            // One tree's places mostly stand together.
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
        // From 1.29 on a tree is always shown alike, and always whole.
        out.push(b'{');
        for (number, tree) in self.trees().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            let whole = Whole {
                style: self.style,
                tree,
            };
            let text = tree.written(|_| serde_json::to_string(&whole))?;
            // Without the braces around it.
            out.extend_from_slice(text.as_bytes().get(1..text.len() - 1).unwrap_or_default());
        }
        out.push(b'}');
        Ok(())
    }
}

/// A tree as answers from 1.29 on show it.
struct Whole<'a> {
    style: Style<'a>,
    tree: &'a Tree,
}

impl Serialize for Whole<'_> {
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

/// As answers before 1.29 show it: who does not know of nesting sees only what is taken from.
struct Older<'a>(&'a Summaries<'a>);

impl Serialize for Older<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let style = self.0.style;
        let used: BTreeMap<i64, Place<'_>> = self
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

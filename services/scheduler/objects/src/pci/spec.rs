//! Compares a pool with the device specs of a request.

use std::collections::BTreeMap;

use crate::host_state::{PciDevType, PciId, PciPools};

/// A device spec, all of whose conditions must hold. Texts are compared case-insensitively, since operators and ports
/// write them by hand. Ids and types that the pool's summary has are compared as numbers.
#[derive(Debug, Clone)]
pub(super) struct DeviceSpecMatcher<'a> {
    ids: [Option<(PciId, &'a str)>; 2],
    dev_type: Option<(PciDevType, &'a str)>,
    tags: Vec<(&'a str, &'a str)>,
    /// A numeric field has a value that is not a number, so no pool matches.
    is_false: bool,
}

/// Spec keys that are not tags, or that Placement has already checked.
const NO_TAGS: [&str; 6] = [
    "resource_class",
    "traits",
    "rp_uuids",
    "vendor_id",
    "product_id",
    "dev_type",
];

impl<'a> DeviceSpecMatcher<'a> {
    pub(super) fn new(spec: &'a BTreeMap<String, String>) -> Self {
        let get = |key| spec.get(key).map(String::as_str);
        let id = |key| get(key).map(|text| (PciId::new(text), text));
        let tags = spec
            .iter()
            .filter(|(key, _)| !NO_TAGS.contains(&key.as_str()));
        Self {
            ids: [id("vendor_id"), id("product_id")],
            dev_type: get("dev_type").map(|word| (dev_type(word), word)),
            tags: tags
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
            is_false: get("numa_node").or_else(|| get("count")).is_some(),
        }
    }

    /// Whether the pool with this index matches.
    pub(super) fn describes(&self, pools: &PciPools, place: usize) -> bool {
        let (summary, pool) = (&pools.summaries()[place], || pools.at(place));
        let is_id = |at: usize, text_of: fn(&PciPools, usize) -> &str| {
            self.ids[at].is_none_or(|(id, text)| {
                let is = id.is(summary.ids[at]);
                is.unwrap_or_else(|| is_same(text, text_of(pools, place)))
            })
        };
        let is_dev_type = || {
            self.dev_type.is_none_or(|(word, text)| match word {
                _ if summary.dev_type == PciDevType::Other => is_tag(pool().tag("dev_type"), text),
                PciDevType::Other => false,
                word => word == summary.dev_type,
            })
        };
        !self.is_false
            && is_id(1, |pools, place| &pools.at(place).product_id)
            && is_id(0, |pools, place| &pools.at(place).vendor_id)
            && is_dev_type()
            && self
                .tags
                .iter()
                .all(|(key, value)| is_tag(pool().tag(key), value))
    }
}

/// Parses a device type in any case.
fn dev_type(word: &str) -> PciDevType {
    let words = ["type-PCI", "type-PF", "type-VF", "vdpa"];
    let known = words.iter().find(|it| it.eq_ignore_ascii_case(word));
    known.map_or(PciDevType::Other, |it| PciDevType::new(it))
}

fn is_tag(tag: Option<&str>, value: &str) -> bool {
    tag.is_some_and(|tag| is_same(tag, value))
}

/// Case-insensitive equality without allocation.
fn is_same(one: &str, two: &str) -> bool {
    let lower = |text: &str| -> Vec<char> { text.chars().flat_map(char::to_lowercase).collect() };
    one.eq_ignore_ascii_case(two) || !(one.is_ascii() && two.is_ascii()) && lower(one) == lower(two)
}

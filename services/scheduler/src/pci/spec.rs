//! Whether a pool is what a spec describes.

use std::collections::BTreeMap;

use crate::host_state::PciPool;

/// What is said of a device: all of it must hold. Texts are compared without their case, since operators and ports write them
/// by hand.
#[derive(Debug, Clone)]
pub(super) struct Spec<'a> {
    vendor_id: Option<&'a str>,
    product_id: Option<&'a str>,
    tags: Vec<(&'a str, &'a str)>,
    /// It says of a number that it is a text.
    is_false: bool,
}

/// What Placement has looked at already.
const OF_PLACEMENT: [&str; 3] = ["resource_class", "traits", "rp_uuids"];

impl<'a> Spec<'a> {
    pub(super) fn new(spec: &'a BTreeMap<String, String>) -> Self {
        let get = |key| spec.get(key).map(String::as_str);
        let tags = spec.iter().filter(|(key, _)| {
            !OF_PLACEMENT.contains(&key.as_str()) && *key != "vendor_id" && *key != "product_id"
        });
        Self {
            vendor_id: get("vendor_id"),
            product_id: get("product_id"),
            tags: tags
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
            is_false: get("numa_node").or_else(|| get("count")).is_some(),
        }
    }

    pub(super) fn describes(&self, pool: &PciPool) -> bool {
        let is = |said: Option<&str>, it: &str| said.is_none_or(|said| is_same(said, it));
        !self.is_false
            && is(self.product_id, &pool.product_id)
            && is(self.vendor_id, &pool.vendor_id)
            && self
                .tags
                .iter()
                .all(|(key, value)| pool.tag(key).is_some_and(|it| is_same(value, it)))
    }
}

/// Without case, and without new texts.
fn is_same(one: &str, two: &str) -> bool {
    let lower = |text: &str| -> Vec<char> { text.chars().flat_map(char::to_lowercase).collect() };
    one.eq_ignore_ascii_case(two) || !(one.is_ascii() && two.is_ascii()) && lower(one) == lower(two)
}

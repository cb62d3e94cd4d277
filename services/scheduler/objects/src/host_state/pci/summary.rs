//! A pool's summary for fast comparisons without texts, which rule out most pools.

use super::PciPool;
use crate::numbers;

/// A pool in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciSummary {
    pub ids: [PciId; 2],
    /// Their NUMA cell, if known.
    pub numa_node: Option<i64>,
    /// How many are free.
    pub count: i64,
    pub dev_type: PciDevType,
    /// Whether the tag `remote_managed` is true.
    pub is_remote_managed: bool,
    /// The tag `live_migratable`, if it is true or false.
    pub live_migratable: Option<bool>,
}

impl PciSummary {
    pub(super) fn new(pool: &PciPool) -> Self {
        Self {
            ids: [PciId::new(&pool.vendor_id), PciId::new(&pool.product_id)],
            numa_node: pool.numa_node,
            count: pool.count,
            dev_type: pool
                .tag("dev_type")
                .map_or(PciDevType::Other, PciDevType::new),
            is_remote_managed: pool.tag("remote_managed").is_some_and(numbers::is_true),
            live_migratable: match pool.tag("live_migratable") {
                Some("true") => Some(true),
                Some("false") => Some(false),
                _ => None,
            },
        }
    }
}

/// A vendor or a product: four hexadecimal digits, in any case. None for a text that is something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciId(Option<u16>);

impl PciId {
    pub fn new(text: &str) -> Self {
        let is_hex = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        Self(match is_hex {
            true => u16::from_str_radix(text, 16).ok(),
            false => None,
        })
    }

    /// Whether two texts are equal, if the ids can tell.
    pub fn is(self, other: Self) -> Option<bool> {
        match (self.0, other.0) {
            (Some(one), Some(two)) => Some(one == two),
            // A number never equals other text.
            (Some(_), None) | (None, Some(_)) => Some(false),
            (None, None) => None,
        }
    }
}

/// The device type, by Nova's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PciDevType {
    /// `type-PCI`: a device without virtual functions.
    Standard,
    PhysicalFunction,
    VirtualFunction,
    Vdpa,
    /// Another type, or none.
    Other,
}

impl PciDevType {
    pub fn new(word: &str) -> Self {
        match word {
            "type-PCI" => Self::Standard,
            "type-PF" => Self::PhysicalFunction,
            "type-VF" => Self::VirtualFunction,
            "vdpa" => Self::Vdpa,
            _ => Self::Other,
        }
    }
}

//! One entry of `device_spec`: which devices it matches, and their tags. The syntax is Nova's PciDeviceSpec (2025.2).
//!
//! Parsed from a table or from Nova's JSON text. Nova treats unknown keys as tags; here, a key unknown to Nova is an
//! error, because a misspelt `address` would match every device.

mod address;
mod tags;
mod unique_keys;

use std::fmt;

use berth_model::PciAddress;
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::pci::{PciFunction, Sriov};
use address::AddressPattern;
pub use tags::DeviceTags;
use unique_keys::UniqueKeys;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("device_spec entry {entry}: {key}{}{reason}", if key.is_empty() { "" } else { ": " })]
pub struct DeviceSpecError {
    /// The number of the entry, counted from 1.
    pub entry: usize,
    /// The key; empty for the entry as a whole.
    pub key: String,
    /// What is wrong and what is expected.
    pub reason: String,
}

/// An error in one key.
pub(crate) struct Flaw {
    key: String,
    reason: String,
}

impl Flaw {
    pub(crate) fn new(key: &str, reason: impl fmt::Display) -> Self {
        Self {
            key: key.to_owned(),
            reason: reason.to_string(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct DeviceSpec {
    entry: usize,
    vendor: Option<u16>,
    product: Option<u16>,
    place: SpecAddress,
    tags: DeviceTags,
}

#[derive(Debug, Clone)]
enum SpecAddress {
    Anywhere,
    Address(AddressPattern),
    /// The network interface of this name.
    Named(String),
}

impl DeviceSpec {
    /// Parses the `entry`th entry, which may be a JSON text with several entries.
    pub(crate) fn read(entry: usize, value: &Value) -> Result<Vec<Self>, DeviceSpecError> {
        let refuse = |flaw: Flaw| DeviceSpecError {
            entry,
            key: flaw.key,
            reason: flaw.reason,
        };
        let parsed;
        let value = match value {
            Value::String(text) => {
                UniqueKeys(parsed) = serde_json::from_str(text).map_err(|error| {
                    let what = match error.classify() {
                        Category::Data => error.to_string(),
                        _ => format!("it is not JSON: {error}"),
                    };
                    refuse(Flaw::new("", what))
                })?;
                &parsed
            }
            other => other,
        };
        let tables = match value {
            Value::Array(list) => list.iter().collect(),
            one => vec![one],
        };
        let specs = tables.into_iter().map(|table| match table {
            Value::Object(table) => Self::of_table(entry, table).map_err(refuse),
            _ => Err(refuse(Flaw::new(
                "",
                "a table of keys such as address and vendor_id is expected",
            ))),
        });
        specs.collect()
    }

    fn of_table(entry: usize, table: &Map<String, Value>) -> Result<Self, Flaw> {
        let text = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(_) => Err(Flaw::new(key, "a text in quotes is expected")),
        };
        let place = match (table.get("address"), text("devname")?) {
            (Some(_), Some(_)) => {
                return Err(Flaw::new(
                    "devname",
                    "an entry names a device by address or by devname, not by both",
                ));
            }
            (Some(address), None) => SpecAddress::Address(AddressPattern::read(address)?),
            (None, Some(name)) if name.is_empty() => {
                return Err(Flaw::new("devname", "it is empty"));
            }
            (None, Some(name)) => SpecAddress::Named(name),
            (None, None) => SpecAddress::Anywhere,
        };
        let spec = Self {
            entry,
            vendor: identifier("vendor_id", text("vendor_id")?)?,
            product: identifier("product_id", text("product_id")?)?,
            place,
            tags: DeviceTags::read(table, &["address", "devname", "vendor_id", "product_id"])?,
        };
        if spec.means_everything() {
            return Err(Flaw::new(
                "",
                "it means every device of the host, the host's own disk and network card among them; name an \
                 address, a devname, a vendor_id or a product_id",
            ));
        }
        Ok(spec)
    }

    fn means_everything(&self) -> bool {
        let anywhere = match &self.place {
            SpecAddress::Anywhere => true,
            SpecAddress::Address(pattern) => pattern.is_anything(),
            SpecAddress::Named(_) => false,
        };
        anywhere && self.vendor.is_none() && self.product.is_none()
    }

    /// Whether the entry matches this function, with these network interfaces. Like in Nova, the address of a physical
    /// function also matches its virtual functions.
    pub(crate) fn means(&self, function: &PciFunction, names: &[String]) -> bool {
        let ids = self.vendor.is_none_or(|id| id == function.vendor)
            && self.product.is_none_or(|id| id == function.device);
        ids && match &self.place {
            SpecAddress::Anywhere => true,
            SpecAddress::Named(name) => names.contains(name),
            SpecAddress::Address(pattern) => {
                let of_physical = match function.sriov {
                    Sriov::Virtual { physical } => pattern.single() == Some(physical),
                    _ => false,
                };
                of_physical || pattern.matches(function.address)
            }
        }
    }

    /// Whether the entry certainly matches every device of the other on any host.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let ids = (self.vendor.is_none() || self.vendor == other.vendor)
            && (self.product.is_none() || self.product == other.product);
        ids && match (&self.place, &other.place) {
            (SpecAddress::Anywhere, _) => true,
            (SpecAddress::Address(own), SpecAddress::Address(others)) => own.covers(others),
            (SpecAddress::Named(own), SpecAddress::Named(others)) => own == others,
            (SpecAddress::Address(_) | SpecAddress::Named(_), _) => false,
        }
    }

    /// The number of the entry, counted from 1.
    pub(crate) fn entry(&self) -> usize {
        self.entry
    }

    /// Whether it names its device by network interface.
    pub(crate) fn is_by_name(&self) -> bool {
        matches!(self.place, SpecAddress::Named(_))
    }

    /// Its address, if it names a single one.
    pub(crate) fn single(&self) -> Option<PciAddress> {
        match &self.place {
            SpecAddress::Address(pattern) => pattern.single(),
            SpecAddress::Anywhere | SpecAddress::Named(_) => None,
        }
    }

    /// The tags of its devices.
    pub(crate) fn tags(&self) -> &DeviceTags {
        &self.tags
    }
}

/// `8086`, `0x8086`, or `*` for any.
fn identifier(key: &str, text: Option<String>) -> Result<Option<u16>, Flaw> {
    let Some(text) = text.filter(|text| text != "*") else {
        return Ok(None);
    };
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain
        .then(|| u16::from_str_radix(digits, 16).ok())
        .flatten()
        .map(Some)
        .ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            Flaw::new(
                key,
                format!("{shown:?} is not an id; expected up to four hexadecimal digits, or *"),
            )
        })
}

#[cfg(test)]
mod tests;

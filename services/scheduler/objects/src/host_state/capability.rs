//! Values that a host's driver reports as JSON: `cpu_info` and `stats`.
//!
//! Extra specs and JSON queries compare them by Python's rules, as Nova does: the text of a list is `['aes', 'mmx']`,
//! true equals 1, numbers are not texts. A list or a dict caches its text after the first use.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::mem;
use std::sync::OnceLock;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::numbers::{as_float, float, float_text};

/// A value of JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Capability {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(List),
    Dict(Dict),
}

#[derive(Debug, Clone)]
pub struct List {
    items: Vec<Capability>,
    /// Cached on first use.
    text: OnceLock<String>,
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

/// An object with its keys in their original order.
#[derive(Debug, Clone)]
pub struct Dict {
    entries: Vec<(String, Capability)>,
    /// Indices of `entries` sorted by key, each with a prefix of its key, which usually suffices for a comparison.
    by_key: Vec<(u64, usize)>,
    /// Cached on first use.
    text: OnceLock<String>,
}

impl PartialEq for Dict {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CapabilityRef<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    List(&'a List),
    Dict(&'a Dict),
}

impl List {
    #[must_use]
    pub fn new(items: Vec<Capability>) -> Self {
        let text = OnceLock::new();
        Self { items, text }
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let mut text = String::new();
            CapabilityRef::List(self).write(&mut text);
            text
        })
    }

    #[must_use]
    pub fn items(&self) -> &[Capability] {
        &self.items
    }
}

impl Dict {
    /// With these entries; of two of one key the last counts.
    #[must_use]
    pub fn new(all: impl IntoIterator<Item = (String, Capability)>) -> Self {
        let mut entries: Vec<(String, Capability)> = all.into_iter().collect();
        let mut by_key: Vec<usize> = (0..entries.len()).collect();
        by_key.sort_by(|a, b| entries[*a].0.cmp(&entries[*b].0));
        let mut is_first = vec![true; entries.len()];
        let mut first = by_key.first().copied().unwrap_or_default();
        for place in by_key.iter().copied().skip(1) {
            if entries[place].0 != entries[first].0 {
                first = place;
                continue;
            }
            is_first[place] = false;
            entries[first].1 = mem::replace(&mut entries[place].1, Capability::Null);
        }
        if is_first.contains(&false) {
            let mut is_kept = is_first.into_iter();
            entries.retain(|_| is_kept.next().unwrap_or(false));
            return Self::new(entries);
        }
        let with_beginning = |place: usize| (beginning(&entries[place].0), place);
        Self {
            by_key: by_key.into_iter().map(with_beginning).collect(),
            entries,
            text: OnceLock::new(),
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Capability> {
        let begins = beginning(key);
        let found = self.by_key.binary_search_by(|(its, place)| {
            let by_text = || self.entries[*place].0.as_str().cmp(key);
            its.cmp(&begins).then_with(by_text)
        });
        let (_, place) = self.by_key[found.ok()?];
        Some(&self.entries[place].1)
    }

    fn sorted(&self) -> impl Iterator<Item = &(String, Capability)> {
        self.by_key.iter().map(|(_, place)| &self.entries[*place])
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let mut text = String::new();
            CapabilityRef::Dict(self).write(&mut text);
            text
        })
    }
}

/// The first eight bytes of a text as a number with the same order.
fn beginning(text: &str) -> u64 {
    let bytes = text.bytes().chain(std::iter::repeat(0));
    bytes
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(byte))
}

impl Capability {
    #[must_use]
    pub fn view(&self) -> CapabilityRef<'_> {
        match self {
            Self::Null => CapabilityRef::Null,
            Self::Bool(it) => CapabilityRef::Bool(*it),
            Self::Int(it) => CapabilityRef::Int(*it),
            Self::Float(it) => CapabilityRef::Float(*it),
            Self::Text(it) => CapabilityRef::Text(it),
            Self::List(it) => CapabilityRef::List(it),
            Self::Dict(it) => CapabilityRef::Dict(it),
        }
    }
}

/// The values have no order, such as a number and a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incomparable;

impl<'a> CapabilityRef<'a> {
    /// The text of the value, as Python's `str` returns it.
    #[must_use]
    pub fn text(self) -> Cow<'a, str> {
        match self {
            Self::Null => Cow::Borrowed("None"),
            Self::Bool(true) => Cow::Borrowed("True"),
            Self::Bool(false) => Cow::Borrowed("False"),
            Self::Int(it) => Cow::Owned(it.to_string()),
            Self::Float(it) => Cow::Owned(float_text(it)),
            Self::Text(it) => Cow::Borrowed(it),
            Self::List(it) => Cow::Borrowed(it.text()),
            Self::Dict(it) => Cow::Borrowed(it.text()),
        }
    }

    /// Appends its text as an element of a list, without caching.
    fn write(self, out: &mut String) {
        match self {
            Self::Text(it) => out.push_str(&quoted(it)),
            Self::List(it) => {
                out.push('[');
                for (at, item) in it.items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    item.view().write(out);
                }
                out.push(']');
            }
            Self::Dict(it) => {
                out.push('{');
                for (at, (key, value)) in it.entries.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    out.push_str(&quoted(key));
                    out.push_str(": ");
                    value.view().write(out);
                }
                out.push('}');
            }
            other => out.push_str(&other.text()),
        }
    }

    /// The number of values it contains, including itself.
    #[must_use]
    pub fn parts(self) -> usize {
        let parts = |it: &Capability| it.view().parts();
        1 + match self {
            Self::List(it) => it.items.iter().map(parts).sum(),
            Self::Dict(it) => it.entries.iter().map(|(_, it)| parts(it)).sum(),
            _ => 0,
        }
    }

    /// `float(str(value))`; `None` if the text is not a number.
    #[must_use]
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Int(it) => Some(as_float(it)),
            Self::Float(it) => Some(it),
            Self::Text(it) => float(it),
            Self::Null | Self::Bool(_) | Self::List(_) | Self::Dict(_) => None,
        }
    }

    /// Whether the value is true, as in Python's `bool`.
    #[must_use]
    pub fn is_truthy(self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(it) => it,
            Self::Int(it) => it != 0,
            Self::Float(it) => it != 0.0,
            Self::Text(it) => !it.is_empty(),
            Self::List(it) => !it.items.is_empty(),
            Self::Dict(it) => !it.entries.is_empty(),
        }
    }

    /// Whether two values are equal, as in Python.
    #[must_use]
    pub fn equals(self, other: CapabilityRef<'_>) -> bool {
        match (self, other) {
            (Self::Null, CapabilityRef::Null) => true,
            (Self::Text(a), CapabilityRef::Text(b)) => a == b,
            (Self::List(a), CapabilityRef::List(b)) => {
                let pairs = || a.items.iter().zip(&b.items);
                a.items.len() == b.items.len() && pairs().all(|(a, b)| a.view().equals(b.view()))
            }
            (Self::Dict(a), CapabilityRef::Dict(b)) => {
                let mut pairs = a.sorted().zip(b.sorted());
                let is_one = |((key, value), (other_key, other)): (
                    &(String, Capability),
                    &(String, Capability),
                )| {
                    key == other_key && value.view().equals(other.view())
                };
                a.entries.len() == b.entries.len() && pairs.all(is_one)
            }
            (Self::Int(a), CapabilityRef::Int(b)) => a == b,
            (a, b) => matches!((a.quantity(), b.quantity()), (Some(a), Some(b)) if a == b),
        }
    }

    /// The order; `None` if one is NaN.
    pub fn order(self, other: CapabilityRef<'_>) -> Result<Option<Ordering>, Incomparable> {
        match (self, other) {
            (Self::Text(a), CapabilityRef::Text(b)) => Ok(Some(a.cmp(b))),
            (Self::Int(a), CapabilityRef::Int(b)) => Ok(Some(a.cmp(&b))),
            (Self::List(a), CapabilityRef::List(b)) => {
                let differ = |(a, b): &(&Capability, &Capability)| !a.view().equals(b.view());
                match a.items.iter().zip(&b.items).find(differ) {
                    Some((a, b)) => a.view().order(b.view()),
                    None => Ok(Some(a.items.len().cmp(&b.items.len()))),
                }
            }
            (a, b) => match (a.quantity(), b.quantity()) {
                (Some(a), Some(b)) => Ok(a.partial_cmp(&b)),
                _ => Err(Incomparable),
            },
        }
    }

    /// The numeric value; true and false count as numbers.
    fn quantity(self) -> Option<f64> {
        match self {
            Self::Bool(it) => Some(f64::from(u8::from(it))),
            Self::Int(it) => Some(as_float(it)),
            Self::Float(it) => Some(it),
            Self::Null | Self::Text(_) | Self::List(_) | Self::Dict(_) => None,
        }
    }
}

/// The text in quotes, as Python's `repr` returns it.
fn quoted(text: &str) -> String {
    let mark = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(mark);
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' ' => out.push(' '),
            _ if letter == mark => out.extend(['\\', letter]),
            _ if letter.is_control() || letter.is_whitespace() => {
                out.push_str(&match u32::from(letter) {
                    code @ 0..=0xff => format!("\\x{code:02x}"),
                    code => format!("\\u{code:04x}"),
                });
            }
            _ => out.push(letter),
        }
    }
    out.push(mark);
    out
}

impl<'de> Deserialize<'de> for Capability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Json)
    }
}

struct Json;

impl<'de> Visitor<'de> for Json {
    type Value = Capability;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Capability, E> {
        Ok(Capability::Null)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Capability, E> {
        Ok(Capability::Bool(it))
    }

    fn visit_i64<E>(self, it: i64) -> Result<Capability, E> {
        Ok(Capability::Int(it))
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "beyond 63 bits a number is only compared roughly"
    )]
    fn visit_u64<E>(self, it: u64) -> Result<Capability, E> {
        Ok(i64::try_from(it).map_or(Capability::Float(it as f64), Capability::Int))
    }

    fn visit_f64<E>(self, it: f64) -> Result<Capability, E> {
        Ok(Capability::Float(it))
    }

    fn visit_str<E>(self, it: &str) -> Result<Capability, E> {
        Ok(Capability::Text(it.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Capability, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = all.next_element()? {
            items.push(item);
        }
        Ok(Capability::List(List::new(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Capability, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = all.next_entry()? {
            entries.push(entry);
        }
        Ok(Capability::Dict(Dict::new(entries)))
    }
}

#[cfg(test)]
mod tests;

//! What a host's driver tells of it, as JSON: `cpu_info` and `stats`.
//!
//! Extra specs and JSON queries compare it as Nova does, that is by Python's rules: the text of a list is `['aes', 'mmx']`, true
//! is 1, and numbers are no texts. A list or a dict has its text ready, because it is asked for on each request.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::numbers::{as_float, float, float_text};

/// A value of JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Capability {
    /// Nothing.
    Null,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(List),
    /// An object.
    Dict(Dict),
}

/// A list with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    items: Vec<Capability>,
    text: String,
}

/// An object with its text; keys are in the order in which they came.
#[derive(Debug, Clone, PartialEq)]
pub struct Dict {
    entries: Vec<(String, Capability)>,
    text: String,
}

/// One that is looked at where it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CapabilityRef<'a> {
    /// Nothing.
    Null,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// A list.
    List(&'a List),
    /// An object.
    Dict(&'a Dict),
}

impl List {
    /// With these items.
    #[must_use]
    pub fn new(items: Vec<Capability>) -> Self {
        let texts: Vec<Cow<'_, str>> = items.iter().map(|item| item.view().quoted()).collect();
        let text = format!("[{}]", texts.join(", "));
        Self { items, text }
    }

    /// In their order.
    #[must_use]
    pub fn items(&self) -> &[Capability] {
        &self.items
    }
}

impl Dict {
    /// With these entries; of two of one key the last counts.
    #[must_use]
    pub fn new(all: impl IntoIterator<Item = (String, Capability)>) -> Self {
        let mut entries: Vec<(String, Capability)> = Vec::new();
        for (key, value) in all {
            match entries.iter_mut().find(|(other, _)| *other == key) {
                Some((_, old)) => *old = value,
                None => entries.push((key, value)),
            }
        }
        let texts: Vec<String> = entries
            .iter()
            .map(|(key, value)| format!("{}: {}", quoted(key), value.view().quoted()))
            .collect();
        let text = format!("{{{}}}", texts.join(", "));
        Self { entries, text }
    }

    /// What a key has.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Capability> {
        let found = self.entries.iter().find(|(it, _)| it == key);
        found.map(|(_, value)| value)
    }
}

impl Capability {
    /// To look at.
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

/// Two values have no order: a number and a text, say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incomparable;

impl<'a> CapabilityRef<'a> {
    /// `str(value)`
    #[must_use]
    pub fn text(self) -> Cow<'a, str> {
        match self {
            Self::Null => Cow::Borrowed("None"),
            Self::Bool(true) => Cow::Borrowed("True"),
            Self::Bool(false) => Cow::Borrowed("False"),
            Self::Int(it) => Cow::Owned(it.to_string()),
            Self::Float(it) => Cow::Owned(float_text(it)),
            Self::Text(it) => Cow::Borrowed(it),
            Self::List(it) => Cow::Borrowed(&it.text),
            Self::Dict(it) => Cow::Borrowed(&it.text),
        }
    }

    /// The text as it stands in that of a list.
    fn quoted(self) -> Cow<'a, str> {
        match self {
            Self::Text(it) => Cow::Owned(quoted(it)),
            other => other.text(),
        }
    }

    /// `float(str(value))`; none where its text is no number.
    #[must_use]
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Int(it) => Some(as_float(it)),
            Self::Float(it) => Some(it),
            Self::Text(it) => float(it),
            Self::Null | Self::Bool(_) | Self::List(_) | Self::Dict(_) => None,
        }
    }

    /// `bool(value)`
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

    /// `value == other`
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
                let is_in_b = |(key, value): &(String, Capability)| {
                    let other = b.get(key);
                    other.is_some_and(|other| value.view().equals(other.view()))
                };
                a.entries.len() == b.entries.len() && a.entries.iter().all(is_in_b)
            }
            (Self::Int(a), CapabilityRef::Int(b)) => a == b,
            (a, b) => matches!((a.quantity(), b.quantity()), (Some(a), Some(b)) if a == b),
        }
    }

    /// Which is less; none with a number that is none.
    ///
    /// # Errors
    /// They are not of one kind, or of a kind without order.
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

    /// What a number is, of which true and false are two.
    fn quantity(self) -> Option<f64> {
        match self {
            Self::Bool(it) => Some(f64::from(u8::from(it))),
            Self::Int(it) => Some(as_float(it)),
            Self::Float(it) => Some(it),
            Self::Null | Self::Text(_) | Self::List(_) | Self::Dict(_) => None,
        }
    }
}

/// `repr(text)`
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
mod tests {
    use super::*;

    fn read(text: &str) -> Capability {
        serde_json::from_str(text).expect(text)
    }

    #[test]
    fn texts_are_as_python_writes_them() {
        for (json, text) in [
            ("null", "None"),
            ("true", "True"),
            ("5", "5"),
            ("1.50", "1.5"),
            ("\"it's\"", "it's"),
            ("[\"aes\", \"mmx\", 1, null]", "['aes', 'mmx', 1, None]"),
            (
                "{\"z\": {\"a\": false}, \"b\": []}",
                "{'z': {'a': False}, 'b': []}",
            ),
            (
                r#"["it's", "\"'", "a\nb\\", "\u00a0"]"#,
                r#"["it's", '"\'', 'a\nb\\', '\xa0']"#,
            ),
            ("{\"a\": 1, \"b\": 2, \"a\": 3}", "{'a': 3, 'b': 2}"),
        ] {
            assert_eq!(read(json).view().text(), text, "{json}");
        }
    }

    #[test]
    fn values_are_equal_as_in_python() {
        for (a, b, expected) in [
            ("true", "1", true),
            ("1.0", "1", true),
            ("\"1\"", "1", false),
            ("null", "null", true),
            ("null", "0", false),
            ("[1, true]", "[1.0, 1]", true),
            ("[1]", "[1, 2]", false),
            ("{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": true}", true),
            ("{\"a\": 1}", "{\"a\": 2}", false),
        ] {
            assert_eq!(read(a).view().equals(read(b).view()), expected, "{a} {b}");
        }
    }

    #[test]
    fn values_of_two_kinds_have_no_order() {
        for (a, b, expected) in [
            ("1", "1.5", Ok(Some(Ordering::Less))),
            ("true", "0", Ok(Some(Ordering::Greater))),
            ("\"a\"", "\"B\"", Ok(Some(Ordering::Greater))),
            ("[1, 2]", "[1]", Ok(Some(Ordering::Greater))),
            ("[1, 2]", "[1, \"a\"]", Err(Incomparable)),
            ("1", "\"1\"", Err(Incomparable)),
            ("{}", "{}", Err(Incomparable)),
            ("null", "null", Err(Incomparable)),
        ] {
            assert_eq!(read(a).view().order(read(b).view()), expected, "{a} {b}");
        }
    }
}

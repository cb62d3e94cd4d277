//! Bounded texts and lists, and errors with the path of the invalid value.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A text of at most `MOST` bytes without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Text<const MOST: usize>(String);

impl<const MOST: usize> Text<MOST> {
    /// Creates a text from Berth's own: truncated if too long, with blanks for control characters.
    #[must_use]
    pub fn cut(text: &str) -> Self {
        let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
        let mut end = text.len().min(MOST);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // A blank is never longer than the control character it replaces.
        Self(text[..end].chars().map(plain).collect())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MOST: usize> From<Text<MOST>> for String {
    fn from(text: Text<MOST>) -> Self {
        text.0
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for Text<MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.len() > MOST {
            let seen = text.len();
            return Err(D::Error::custom(format_args!(
                "{seen} bytes; at most {MOST} are allowed"
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(D::Error::custom(
                "expected a text without control characters",
            ));
        }
        Ok(Self(text))
    }
}

/// A value that is serialised as its text: a PCI address, UUID, name or CPU set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AsText<T>(pub T);

impl<T: Display> Serialize for AsText<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for AsText<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Text::<4096>::deserialize(from)?;
        text.as_str().parse().map(Self).map_err(D::Error::custom)
    }
}

/// Deserialises a list of at most `MOST` items.
pub(super) fn list<'de, D, T, const MOST: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct BoundedListVisitor<T, const MOST: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for BoundedListVisitor<T, MOST> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MOST}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(one) = from.next_element()? {
                if all.len() == MOST {
                    return Err(A::Error::custom(format_args!("at most {MOST} are allowed")));
                }
                all.push(one);
            }
            Ok(all)
        }
    }

    from.deserialize_seq(BoundedListVisitor::<T, MOST>(PhantomData))
}

/// An invalid value, with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidValue {
    path: String,
    reason: String,
}

impl Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" | "." => f.write_str(&self.reason),
            path => write!(f, "{path}: {}", self.reason),
        }
    }
}

/// Reads a value of the child's.
pub(crate) fn decode<T: DeserializeOwned>(value: Value) -> Result<T, InvalidValue> {
    serde_path_to_error::deserialize(value).map_err(|error| InvalidValue {
        path: error.path().to_string(),
        reason: crate::lines::shown(&error.inner().to_string(), 300),
    })
}

/// A value of ours.
pub(crate) fn params(value: &impl Serialize) -> Value {
    // All our messages are structs with text keys, so serialisation cannot fail.
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// The first that is there twice, by its place.
pub(super) fn twice<K: Ord>(keys: impl IntoIterator<Item = K>) -> Option<(usize, K)> {
    let mut seen = std::collections::BTreeSet::new();
    for (place, key) in keys.into_iter().enumerate() {
        if let Some(key) = seen.replace(key) {
            return Some((place, key));
        }
    }
    None
}

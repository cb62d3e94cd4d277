//! Serde helpers for values that are serialised as text.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// The same for optional values.
pub(crate) mod maybe {
    use super::{Deserialize, Deserializer, Display, FromStr, Serializer};

    #[expect(clippy::ref_option, reason = "what serde gives")]
    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(from)?;
        let read = text.map(|text| text.parse().map_err(serde::de::Error::custom));
        read.transpose()
    }
}

/// Defines a validated text type, which is parsed, displayed and serialised as its content.
macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $field:literal, $expected:literal, $fits:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Validates the text. Fails if the text is invalid; the error states what is valid.
            pub fn new(text: &str) -> Result<Self, $crate::guest_spec::GuestSpecError> {
                let fits: fn(&str) -> bool = $fits;
                if fits(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err($crate::guest_spec::GuestSpecError::text($field, text, $expected))
                }
            }

            /// The validated text as a string slice.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::guest_spec::GuestSpecError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

pub(super) use checked_text;

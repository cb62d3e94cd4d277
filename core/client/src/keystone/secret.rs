//! [`Secret`]: text that is never shown.

use std::fmt;

use berth_options::{Json, OptionKind, OptionType, text::SECRET};
use http::HeaderValue;

/// A password, token or secret. `Debug` prints `***`; it has no `Display` and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// The text itself, for the one place that sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// As a sensitive header value; `None` if it contains characters that headers do not allow.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Its value is never shown, not even a default.
impl OptionType for Secret {
    const KIND: OptionKind = SECRET;

    fn read(value: &Json) -> Option<Self> {
        value.as_str().map(Self::from)
    }

    fn write(&self) -> Json {
        Json::Null
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into_boxed_str())
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::from("hunter2");
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret)),
            "*** Some(\n    ***,\n)"
        );
        assert_eq!(format!("{:?}", secret.header().unwrap()), "Sensitive");
        assert_eq!(Secret::from("two\nlines").header(), None);
    }
}

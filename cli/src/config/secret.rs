//! A text that must not be seen: passwords, tokens, database URLs.

use std::fmt;

use serde::Deserialize;

/// What is printed in place of a secret.
pub const MASK: &str = "***";

/// A secret text. It can be read in, and taken out by [`Secret::reveal`]; it cannot be printed or serialised.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself, for the one place that sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_in_its_debug_form() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "***");
    }
}

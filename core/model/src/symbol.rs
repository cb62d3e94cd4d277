//! The common form of the names of resource classes and traits (Placement's schemas: `^[A-Z0-9_]+$`, 1 to 255 characters).

use std::borrow::Cow;
use std::fmt;

/// The prefix of custom names, which must be created in Placement before their first use.
const CUSTOM: &str = "CUSTOM_";

/// A name of 1 to 255 upper-case letters, digits and underscores. Constants are built from the field directly, because a reference to the
/// result of a function is not `'static`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Symbol(pub(crate) Cow<'static, str>);

impl Symbol {
    /// Checks the form. The error is what is allowed.
    pub(crate) fn new(name: &str) -> Result<Self, &'static str> {
        if name.is_empty() || name.len() > 255 {
            return Err("1 to 255 characters are allowed");
        }
        if !name.bytes().all(is_allowed) {
            return Err("only A-Z, 0-9 and _ are allowed");
        }
        Ok(Self(Cow::Owned(name.to_owned())))
    }

    /// A name known when the program is built. Panics, at build time when used in a constant, if its form is wrong.
    pub(crate) const fn known(name: &'static str) -> Self {
        let bytes = name.as_bytes();
        assert!(
            !bytes.is_empty() && bytes.len() <= 255,
            "a name has 1 to 255 characters"
        );
        let mut i = 0;
        while i < bytes.len() {
            assert!(is_allowed(bytes[i]), "a name has only A-Z, 0-9 and _");
            i += 1;
        }
        Self(Cow::Borrowed(name))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.0.starts_with(CUSTOM)
    }
}

const fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The beginning of an invalid name, for the error.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_same_at_build_time_and_later() {
        for good in ["A", "HW_CPU_X86_AVX512F", "CUSTOM_"] {
            assert_eq!(Symbol::new(good).unwrap(), Symbol::known(good));
        }
        let (longest, longer) = ("A".repeat(255), "A".repeat(256));
        assert!(Symbol::new(&longest).is_ok());
        for bad in ["", "hw_cpu", "HW-CPU", "É", "CUSTOM GPU", &longer] {
            assert!(Symbol::new(bad).is_err(), "{bad}");
        }
    }
}

//! The names of states: digests, so that equal states have equal names in every process, and nobody counts.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The digest of these texts, in 64 hexadecimal digits. Where one ends and the next begins counts.
pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.len().to_le_bytes());
        digest.update(text);
    }
    let mut name = String::with_capacity(64);
    for byte in digest.finalize() {
        // A text takes all that is written to it.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_differs_has_another_name() {
        let one = super::of(["ab", "c"]);
        assert_eq!(one.len(), 64);
        assert_eq!(one, super::of(["ab", "c"]));
        assert_ne!(one, super::of(["a", "bc"]));
        assert_ne!(one, super::of(["abc"]));
    }
}

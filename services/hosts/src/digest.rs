//! Content digests that identify host states: equal states have equal digests in every process.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// SHA-256 over `texts` in 64 hexadecimal digits. The length of each text is part of the input, so `["ab", "c"]`
/// and `["a", "bc"]` differ.
pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.len().to_le_bytes());
        digest.update(text);
    }
    let mut name = String::with_capacity(64);
    for byte in digest.finalize() {
        // Writing to a `String` cannot fail.
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

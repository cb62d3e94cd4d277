//! Texts that users write at any length, made short for sentences.

use std::borrow::Cow;

/// So many letters of a text stand in a sentence.
pub(crate) const LETTERS: usize = 512;

/// The beginning of a long text, and how long it is in all; a text of at most [`LETTERS`] as it is.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LETTERS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}... ({} bytes in all)", &text[..end], text.len())),
    }
}

/// Whether it is one of the words by which OpenStack tells yes and no.
pub(crate) fn is_flag(text: &str) -> bool {
    let flags = [
        "true", "false", "yes", "no", "on", "off", "1", "0", "t", "f", "y", "n",
    ];
    flags.contains(&text.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_told_by_its_beginning() {
        let is = |many: usize| "é".repeat(many);
        assert_eq!(shortened(&is(LETTERS)), is(LETTERS));
        let expected = format!("{}... (1026 bytes in all)", is(LETTERS));
        assert_eq!(shortened(&is(LETTERS + 1)), expected);
    }
}

//! Texts that users write at any length and of any characters, made fit for sentences.

use std::borrow::Cow;

pub use berth_model::printable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// So many letters of a text stand in a sentence.
pub(crate) const LETTERS: usize = 512;

/// A value whose every text is [`printable`].
pub(crate) fn all_printable<T: Serialize + DeserializeOwned>(value: &T) -> Option<T> {
    let mut document = serde_json::to_value(value).ok()?;
    let is_plain = !make_printable(&mut document);
    // Nearly none has such a text.
    if is_plain {
        return None;
    }
    serde_json::from_value(document).ok()
}

/// Whether there was anything to do.
fn make_printable(value: &mut Value) -> bool {
    match value {
        Value::String(text) => match printable(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(plain) => {
                *text = plain;
                true
            }
        },
        Value::Array(list) => list
            .iter_mut()
            .fold(false, |any, it| make_printable(it) | any),
        Value::Object(object) => {
            let values = object.values_mut();
            values.fold(false, |any, it| make_printable(it) | any)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The beginning of a long text, and how long it is in all, [`printable`].
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match beginning(text) {
        Cow::Borrowed(text) => printable(text),
        Cow::Owned(text) => Cow::Owned(printable(&text).into_owned()),
    }
}

/// The beginning of a long text, and how long it is in all; a text of at most [`LETTERS`] as it is.
pub(crate) fn beginning(text: &str) -> Cow<'_, str> {
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

    #[test]
    fn control_characters_are_written_as_json_writes_them() {
        for (text, expected) in [
            ("a plain text, \"é\" \\n", "a plain text, \"é\" \\n"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[2J\0\u{7f}", "\\u001b[2J\\u0000\\u007f"),
            ("\u{9b}1m\u{2028}", "\\u009b1m\\u2028"),
        ] {
            assert_eq!(printable(text), expected);
            assert_eq!(shortened(text), expected);
        }
        assert_eq!(beginning("a\nb"), "a\nb");
    }
}

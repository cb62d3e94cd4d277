//! Texts that users write at any length and of any characters, made fit for sentences.

use std::borrow::Cow;

use berth_model::printable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The maximum number of characters of a text within a sentence.
pub const LETTERS: usize = 512;

/// A value whose every text is [`printable`].
pub fn all_printable<T: Serialize + DeserializeOwned>(value: &T) -> Option<T> {
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

/// The start of a long text with its total length, [`printable`].
pub fn shortened(text: &str) -> Cow<'_, str> {
    match beginning(text) {
        Cow::Borrowed(text) => printable(text),
        Cow::Owned(text) => Cow::Owned(printable(&text).into_owned()),
    }
}

/// The start of a long text with its total length; a text of at most [`LETTERS`] is unchanged.
pub fn beginning(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LETTERS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}... ({} bytes in all)", &text[..end], text.len())),
    }
}

/// Whether the text is one of OpenStack's boolean words.
pub fn is_flag(text: &str) -> bool {
    let flags = [
        "true", "false", "yes", "no", "on", "off", "1", "0", "t", "f", "y", "n",
    ];
    flags.contains(&text.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_reported_by_its_beginning() {
        let is = |many: usize| "é".repeat(many);
        assert_eq!(shortened(&is(LETTERS)), is(LETTERS));
        let expected = format!("{}... (1026 bytes in all)", is(LETTERS));
        assert_eq!(shortened(&is(LETTERS + 1)), expected);
    }

    #[test]
    fn a_shortened_text_is_printable() {
        assert_eq!(shortened("a\nb"), "a\\nb");
        assert_eq!(beginning("a\nb"), "a\nb");
    }
}

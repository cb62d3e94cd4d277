//! Texts that users write, made fit for one line of a terminal or a log.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text with its control characters as JSON writes them (`\\n`, `\\u001b`): on one line, and harmless to a terminal.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_bad = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            bad if is_bad(bad) => {
                // Nothing that is written to a text fails.
                let _ = write!(out, "\\u{:04x}", u32::from(bad));
            }
            letter => out.push(letter),
        }
    }
    Cow::Owned(out)
}

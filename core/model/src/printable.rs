//! Makes text that others wrote safe for a log line or a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with its control characters escaped as JSON does it (`\\n`, `\\u001b`): it stays on one line and cannot control a terminal.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_control =
        |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if is_control(control) => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            letter => out.push(letter),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_as_in_json() {
        for (text, expected) in [
            ("a plain text, \"é\" \\n", "a plain text, \"é\" \\n"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[2J\0\u{7f}", "\\u001b[2J\\u0000\\u007f"),
            ("\u{9b}1m\u{2028}", "\\u009b1m\\u2028"),
        ] {
            assert_eq!(printable(text), expected);
        }
    }
}

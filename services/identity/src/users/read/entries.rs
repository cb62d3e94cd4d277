//! Keys that several kinds of entries share.

use berth_options::document::{DocumentField, DocumentParser, DocumentTable};

/// The longest id and the longest text, in characters.
const LONGEST_ID: usize = 64;
const LONGEST_TEXT: usize = 1024;

/// Reports a second table with the same unique value. `what` is the kind of the value.
pub(super) fn check_unique(
    what: &'static str,
    value: String,
    table: &DocumentTable<'_>,
    parser: &mut DocumentParser<'_>,
) {
    if let Some(first) = parser.earlier(what, value, &table.key) {
        let text = format!(
            "there is one of this {what} already at {first}; take another, or leave one out"
        );
        parser.wrong(&table.span, &table.key, text);
    }
}

/// A name of 1 to `longest` characters without control characters and without blanks at its ends.
pub(super) fn checked_name<'a>(
    field: &DocumentField<'a>,
    longest: usize,
    parser: &mut DocumentParser<'_>,
) -> Option<&'a str> {
    let text = field.text(parser)?;
    let fits = (1..=longest).contains(&text.chars().count());
    if fits && !text.contains(char::is_control) && text.trim() == text {
        return Some(text);
    }
    let right = format!(
        "a name has 1 to {longest} characters, no control character, and no blank at an end"
    );
    field.wrong(right, parser);
    None
}

/// The explicit id; `None` if it is derived from the name. Reports an invalid id.
pub(super) fn id(
    table: &DocumentTable<'_>,
    what: &'static str,
    parser: &mut DocumentParser<'_>,
) -> Option<String> {
    let field = table.field("id")?;
    let text = field.text(parser)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > LONGEST_ID || !text.chars().all(plain) {
        let right =
            "an id has 1 to 64 letters, digits, -, _ or .; without one it follows from the name";
        field.wrong(right, parser);
        return None;
    }
    check_unique(what, text.to_owned(), table, parser);
    Some(text.to_owned())
}

pub(super) fn optional_text(
    table: &DocumentTable<'_>,
    key: &str,
    parser: &mut DocumentParser<'_>,
) -> Option<String> {
    let field = table.field(key)?;
    let text = field.text(parser)?;
    if text.chars().count() > LONGEST_TEXT || text.contains('\0') {
        field.wrong("a text of at most 1024 characters would be right", parser);
        return None;
    }
    Some(text.to_owned())
}

/// `enabled`; true if missing.
pub(super) fn enabled(table: &DocumentTable<'_>, parser: &mut DocumentParser<'_>) -> bool {
    let field = table.field("enabled");
    field.and_then(|field| field.flag(parser)).unwrap_or(true)
}

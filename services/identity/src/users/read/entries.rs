//! Keys that several kinds of entries share.

use super::UsersParser;
use super::field::UsersTable;

/// The longest id and the longest text, in characters.
const LONGEST_ID: usize = 64;
const LONGEST_TEXT: usize = 1024;

/// The explicit id; `None` if it is derived from the name. Reports an invalid id.
pub(super) fn id(
    table: &UsersTable<'_>,
    what: &'static str,
    parser: &mut UsersParser<'_>,
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
    parser.check_unique(what, text.to_owned(), table);
    Some(text.to_owned())
}

pub(super) fn optional_text(
    table: &UsersTable<'_>,
    key: &str,
    parser: &mut UsersParser<'_>,
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
pub(super) fn enabled(table: &UsersTable<'_>, parser: &mut UsersParser<'_>) -> bool {
    let field = table.field("enabled");
    field.and_then(|field| field.flag(parser)).unwrap_or(true)
}

//! Converts a statement's text for PostgreSQL: `$1` for each `?`, with the type of its value.
//!
//! The type is part of the text because a server that prepares a statement fixes the parameter types once. Without it,
//! a NULL in the first call and a number in the second would be decoded wrongly. Texts known at compile time are
//! converted once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::statement::Value;

/// The type of a bound value, as far as the text of the statement depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ParameterType {
    /// Written into the text: a NULL of any type is then of the column's.
    Null,
    Int,
    Double,
    Text,
    Timestamp,
    Ints,
    Doubles,
    Texts,
}

impl ParameterType {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Int(_) => Self::Int,
            Value::Double(_) => Self::Double,
            Value::Text(_) => Self::Text,
            Value::Timestamp(_) => Self::Timestamp,
        }
    }

    fn cast(self) -> &'static str {
        match self {
            Self::Null => "",
            Self::Int => "::int8",
            Self::Double => "::float8",
            Self::Text => "::text",
            Self::Timestamp => "::text::timestamp",
            Self::Ints => "::int8[]",
            Self::Doubles => "::float8[]",
            Self::Texts => "::text[]",
        }
    }
}

/// The number of `?` in a text differs from the number of bound values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the statement has {placeholders} placeholders and {values} values")]
pub(super) struct Mismatch {
    pub(super) placeholders: usize,
    pub(super) values: usize,
}

/// Like [`numbered`], cached for a recurring text.
pub(super) fn numbered_once(sql: &str, kinds: &[ParameterType]) -> Result<Arc<str>, Mismatch> {
    type NumberedStatements = HashMap<String, HashMap<Vec<ParameterType>, Arc<str>>>;
    static KNOWN: LazyLock<Mutex<NumberedStatements>> = LazyLock::new(Mutex::default);
    {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = known.get(sql).and_then(|texts| texts.get(kinds)) {
            return Ok(Arc::clone(text));
        }
    }
    let text: Arc<str> = numbered(sql, kinds)?.into();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // Statements are few by contract; the limit bounds the memory if a caller breaks it.
    if known.len() < 4_096 {
        let texts = known.entry(sql.to_owned()).or_default();
        if texts.len() < 64 {
            texts.insert(kinds.to_vec(), Arc::clone(&text));
        }
    }
    Ok(text)
}

/// The text with `$n` for each `?` outside of literals, quoted names and comments.
pub(super) fn numbered(sql: &str, kinds: &[ParameterType]) -> Result<String, Mismatch> {
    let mut text = String::with_capacity(sql.len() + kinds.len() * 9);
    let mut placeholders = 0;
    let mut bound = 0;
    for piece in pieces(sql) {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Placeholder => {
                match kinds.get(placeholders) {
                    Some(ParameterType::Null) => text.push_str("NULL"),
                    Some(kind) => {
                        bound += 1;
                        text.push('$');
                        text.push_str(&bound.to_string());
                        text.push_str(kind.cast());
                    }
                    None => {}
                }
                placeholders += 1;
            }
        }
    }
    match placeholders == kinds.len() {
        true => Ok(text),
        false => Err(Mismatch {
            placeholders,
            values: kinds.len(),
        }),
    }
}

/// The text with each `?` replaced by a literal of its value.
pub(super) fn spelled(
    sql: &str,
    values: &[Value],
    mut literal: impl FnMut(&Value, &mut String),
) -> Result<String, Mismatch> {
    let mut text = String::with_capacity(sql.len() + values.len() * 40);
    let mut placeholders = 0;
    for piece in pieces(sql) {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Placeholder => {
                if let Some(value) = values.get(placeholders) {
                    literal(value, &mut text);
                }
                placeholders += 1;
            }
        }
    }
    match placeholders == values.len() {
        true => Ok(text),
        false => Err(Mismatch {
            placeholders,
            values: values.len(),
        }),
    }
}

/// How many `?` the text has outside literals, quoted names and comments.
pub(super) fn count(sql: &str) -> usize {
    pieces(sql)
        .filter(|piece| matches!(piece, Piece::Placeholder))
        .count()
}

enum Piece<'a> {
    /// Copied to the output unchanged.
    Text(&'a str),
    Placeholder,
}

fn pieces(sql: &str) -> Pieces<'_> {
    Pieces { rest: sql }
}

struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let rest = self.rest;
        let (piece, behind) = match rest.as_bytes().first()? {
            b'?' => (Piece::Placeholder, &rest[1..]),
            b'\'' => cut(rest, end_of(rest, 1, "'")),
            b'"' => cut(rest, end_of(rest, 1, "\"")),
            b'-' if rest.starts_with("--") => cut(rest, end_of(rest, 2, "\n")),
            b'/' if rest.starts_with("/*") => cut(rest, end_of(rest, 2, "*/")),
            // A lone - or / is copied together with the text after it.
            _ => {
                let first = rest.chars().next()?.len_utf8();
                let next = rest[first..].find(['?', '\'', '"', '-', '/']);
                cut(rest, next.map_or(rest.len(), |at| at + first))
            }
        };
        self.rest = behind;
        Some(piece)
    }
}

fn cut(text: &str, at: usize) -> (Piece<'_>, &str) {
    let (piece, behind) = text.split_at(at);
    (Piece::Text(piece), behind)
}

/// The end of the literal or comment that begins here. A doubled quote counts as the end of one literal and the
/// beginning of the next, which gives the same result.
fn end_of(text: &str, from: usize, end: &str) -> usize {
    text[from..]
        .find(end)
        .map_or(text.len(), |at| from + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_outside_literals_are_numbered_and_typed() {
        use ParameterType::{Double, Int, Null, Text, Texts, Timestamp};
        for (sql, kinds, expected) in [
            ("SELECT 1", &[] as &[ParameterType], "SELECT 1"),
            (
                "a = ? AND b = ?",
                &[Int, Text],
                "a = $1::int8 AND b = $2::text",
            ),
            (
                "VALUES (?,?,?)",
                &[Double, Null, Timestamp],
                "VALUES ($1::float8,NULL,$2::text::timestamp)",
            ),
            ("a = '?' AND b = ?", &[Int], "a = '?' AND b = $1::int8"),
            ("a = 'it''s ?' || ?", &[Text], "a = 'it''s ?' || $1::text"),
            (
                "\"a?\" = ? -- why?\n + ?",
                &[Int, Int],
                "\"a?\" = $1::int8 -- why?\n + $2::int8",
            ),
            (
                "/* ? */ ? - ? / ?",
                &[Int, Int, Int],
                "/* ? */ $1::int8 - $2::int8 / $3::int8",
            ),
            (
                "ä = 'ö?' AND ? = ü",
                &[Texts],
                "ä = 'ö?' AND $1::text[] = ü",
            ),
            ("'open ?", &[], "'open ?"),
            ("?", &[Int], "$1::int8"),
        ] {
            assert_eq!(numbered(sql, kinds).as_deref(), Ok(expected), "{sql}");
            assert_eq!(numbered_once(sql, kinds).as_deref(), Ok(expected), "{sql}");
            assert_eq!(numbered_once(sql, kinds).as_deref(), Ok(expected), "{sql}");
            assert_eq!(count(sql), kinds.len(), "{sql}");
        }
    }

    #[test]
    fn any_text_goes_over_whole_but_for_its_placeholders() {
        let signs = ["?", "'", "\"", "-", "/", "*", "\n", "ä", "a "];
        let mut texts = vec![String::new()];
        for _ in 0..5 {
            texts = texts
                .iter()
                .flat_map(|text| signs.map(|sign| format!("{text}{sign}")))
                .collect();
            for text in &texts {
                let pieces = pieces(text).map(|piece| match piece {
                    Piece::Text(piece) => piece,
                    Piece::Placeholder => "?",
                });
                assert_eq!(pieces.collect::<String>(), *text);
                let kinds = vec![ParameterType::Null; count(text)];
                let length = text.len() + 3 * kinds.len();
                assert_eq!(numbered(text, &kinds).unwrap().len(), length, "{text}");
            }
        }
    }

    #[test]
    fn a_value_too_few_or_too_many_is_reported() {
        for (kinds, values) in [(&[] as &[ParameterType], 0), (&[ParameterType::Int; 2], 2)] {
            let error = numbered("SELECT ?", kinds).unwrap_err();
            assert_eq!(
                error,
                Mismatch {
                    placeholders: 1,
                    values
                }
            );
        }
    }
}

//! What numbers, texts and lists of a report may be.

use berth_wire::BodyError;

/// The longest text that has a column of its own, in characters.
const SHORT: usize = 255;
/// The longest text that says something to people, in characters.
pub(super) const FREE: usize = 4_096;
/// No amount of MiB, GiB or pages is larger: 1 EiB in MiB. What is computed of two such fits in 63 bits.
pub(super) const LARGE: i64 = 1 << 40;
/// No number of things that a host has is larger.
pub(super) const MANY: i64 = 1 << 31;

type Checked = Result<(), BodyError>;

/// Not empty, and short enough for a column.
pub(super) fn name(field: &str, it: &str) -> Checked {
    if it.is_empty() {
        return Err(BodyError::field(field, "it is empty, and a name is needed"));
    }
    short(field, it)
}

/// Short enough for a column.
pub(super) fn short(field: &str, it: &str) -> Checked {
    text(field, it, SHORT)
}

/// So many characters at most, none of them a control character.
pub(super) fn text(field: &str, it: &str, longest: usize) -> Checked {
    let length = it.chars().count();
    if length > longest {
        let reason = format!("it has {length} characters, and {longest} are the most");
        return Err(BodyError::field(field, reason));
    }
    match it.chars().any(char::is_control) {
        true => Err(BodyError::field(
            field,
            "it has control characters in it, which no name has",
        )),
        false => Ok(()),
    }
}

/// So many at most.
pub(super) fn few(field: &str, count: usize, most: usize) -> Checked {
    match count <= most {
        true => Ok(()),
        false => {
            let reason = format!("there are {count}, and {most} are the most");
            Err(BodyError::field(field, reason))
        }
    }
}

/// A number between these, both included.
pub(super) fn between(field: &str, it: i64, least: i64, most: i64) -> Checked {
    match (least..=most).contains(&it) {
        true => Ok(()),
        false => {
            let reason = format!("it is {it}, and should be between {least} and {most}");
            Err(BodyError::field(field, reason))
        }
    }
}

/// An amount, from nothing on.
pub(super) fn amount(field: &str, it: i64) -> Checked {
    between(field, it, 0, LARGE)
}

/// A number of things, from none on.
pub(super) fn count(field: &str, it: i64) -> Checked {
    between(field, it, 0, MANY)
}

pub(super) fn ratio(field: &str, it: f64) -> Checked {
    match it.is_finite() && it > 0.0 && it <= 1e9 {
        true => Ok(()),
        false => {
            let reason = format!("it is {it}, and a ratio is more than 0, and 1e9 at most");
            Err(BodyError::field(field, reason))
        }
    }
}

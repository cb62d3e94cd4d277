//! Checks of single fields of a report: lengths of texts, ranges of numbers, sizes of lists.

use berth_wire::BodyError;

/// Maximum length of a text with a column of its own, in characters.
const SHORT: usize = 255;
/// Maximum length of free text, in characters.
pub(super) const FREE: usize = 4_096;
/// Maximum amount in MiB, GiB or pages: 1 EiB in MiB. A value computed from two amounts fits in 63 bits.
pub(super) const LARGE: i64 = 1 << 40;
/// Maximum count of any kind of object on a host.
pub(super) const MANY: i64 = 1 << 31;

pub(super) type FieldCheck = Result<(), BodyError>;

/// Checks that a name is not empty and fits its column.
pub(super) fn name(field: &str, it: &str) -> FieldCheck {
    if it.is_empty() {
        return Err(BodyError::field(field, "it is empty; a name is required"));
    }
    short(field, it)
}

/// Checks that a text fits its column.
pub(super) fn short(field: &str, it: &str) -> FieldCheck {
    text(field, it, SHORT)
}

/// Checks the length of a text, and that it has no control characters.
pub(super) fn text(field: &str, it: &str, longest: usize) -> FieldCheck {
    let length = it.chars().count();
    if length > longest {
        let reason = format!("it has {length} characters; at most {longest} are allowed");
        return Err(BodyError::field(field, reason));
    }
    match it.chars().any(char::is_control) {
        true => Err(BodyError::field(
            field,
            "it has control characters, which are not allowed",
        )),
        false => Ok(()),
    }
}

/// Checks the size of a list.
pub(super) fn few(field: &str, count: usize, most: usize) -> FieldCheck {
    match count <= most {
        true => Ok(()),
        false => {
            let reason = format!("it has {count} entries; at most {most} are allowed");
            Err(BodyError::field(field, reason))
        }
    }
}

/// Checks that a number is in `least..=most`.
pub(super) fn between(field: &str, it: i64, least: i64, most: i64) -> FieldCheck {
    match (least..=most).contains(&it) {
        true => Ok(()),
        false => {
            let reason = format!("it is {it}; it must be between {least} and {most}");
            Err(BodyError::field(field, reason))
        }
    }
}

/// Checks an amount, from 0.
pub(super) fn amount(field: &str, it: i64) -> FieldCheck {
    between(field, it, 0, LARGE)
}

/// Checks a count, from 0.
pub(super) fn count(field: &str, it: i64) -> FieldCheck {
    between(field, it, 0, MANY)
}

pub(super) fn ratio(field: &str, it: f64) -> FieldCheck {
    match it.is_finite() && it > 0.0 && it <= 1e9 {
        true => Ok(()),
        false => {
            let reason = format!("it is {it}; a ratio must be greater than 0 and at most 1e9");
            Err(BodyError::field(field, reason))
        }
    }
}

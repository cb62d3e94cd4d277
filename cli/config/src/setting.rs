//! Checks one value of a file or of the environment against the row of its option.

use berth_model::nearest_name as nearest;
use berth_options::{Json, OptionRow, ValueError, ValueFault};
use berth_output::ErrorCode;

use super::nova;
use super::pattern;
use super::problem::ConfigProblem;
use super::table::{self, NOT_YET, OPTIONS, RENAMED, SECTIONS};

/// A value as it is written.
#[derive(Debug, Clone)]
pub(super) struct WrittenValue {
    pub value: Json,
    /// Its place: file, line and column.
    pub at: String,
    /// The places of the elements of a list, if each has its own.
    pub elements_at: Vec<String>,
}

/// A value that passed its check.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// Empty at the top level; `mdev_nvidia-35` as written.
    pub section: String,
    pub row: &'static OptionRow,
    pub value: Json,
    /// Its place: file, line and column.
    pub at: String,
}

/// Looks up the key and checks the value.
pub(super) fn admit(
    section: &str,
    key: &str,
    key_at: &str,
    written: &WrittenValue,
) -> Result<Setting, ConfigProblem> {
    let row = table::find(section, key).ok_or_else(|| unknown_key(section, key, key_at))?;
    match row.kind.check(&written.value) {
        Ok(value) => Ok(Setting {
            section: section.to_owned(),
            row,
            value,
            at: written.at.clone(),
        }),
        Err(error) => Err(wrong_value(section, key, written, error)),
    }
}

/// The problem of an invalid value, at the value's place or at the place of the wrong element.
pub(super) fn wrong_value(
    section: &str,
    key: &str,
    written: &WrittenValue,
    error: ValueError,
) -> ConfigProblem {
    let element = error.element.and_then(|it| written.elements_at.get(it));
    ConfigProblem {
        at: element.unwrap_or(&written.at).clone(),
        key: name(section, key),
        wrong: error.wrong,
        right: error.right,
        code: match error.fault {
            ValueFault::Type => ErrorCode::WrongType,
            ValueFault::Value => ErrorCode::BadValue,
        },
    }
}

/// `section.key`, or the bare key at the top level.
pub(super) fn name(section: &str, key: &str) -> String {
    if section.is_empty() {
        key.to_owned()
    } else {
        format!("{section}.{key}")
    }
}

/// The problem of an unknown key.
pub(super) fn unknown_key(section: &str, key: &str, at: &str) -> ConfigProblem {
    let problem = |wrong: String, right: String, code| ConfigProblem {
        at: at.to_owned(),
        key: name(section, key),
        wrong,
        right,
        code,
    };
    let pattern = table::pattern_of(section);
    if let Some((_, _, right)) = RENAMED.iter().find(|(s, k, _)| *s == section && *k == key) {
        return problem(
            "berth does not have this option".into(),
            (*right).into(),
            ErrorCode::UnknownKey,
        );
    }
    if NOT_YET.contains(&(section, key)) {
        return problem(
            "this version of berth does not read this option".into(),
            "remove it".into(),
            ErrorCode::NotYet,
        );
    }
    if nova::has_option(section, key) {
        return problem(
            "Nova's option without an equivalent in berth".into(),
            "remove it".into(),
            ErrorCode::NotYet,
        );
    }
    let here = OPTIONS
        .iter()
        .filter(|row| row.section == pattern)
        .map(|row| row.key);
    let right = if let Some(guess) = nearest(key, here) {
        format!("did you mean {guess}?")
    } else if let Some(row) = OPTIONS.iter().find(|row| row.key.eq_ignore_ascii_case(key)) {
        format!("it belongs {}", place_of(row.section))
    } else if let Some(row) = nearest(key, OPTIONS.iter().map(|row| row.key))
        .and_then(|guess| OPTIONS.iter().find(|row| row.key == guess))
    {
        format!("did you mean {} {}?", row.key, place_of(row.section))
    } else {
        format!("see the options {} in the reference", place_of(pattern))
    };
    problem("unknown option".into(), right, ErrorCode::UnknownKey)
}

fn place_of(section: &str) -> String {
    if section.is_empty() {
        "at the top level".to_owned()
    } else {
        format!("in [{section}]")
    }
}

/// The problem of an unknown section.
pub(super) fn unknown_section(section: &str, at: &str) -> ConfigProblem {
    let problem = |wrong: &str, right: String, code| ConfigProblem {
        at: at.to_owned(),
        key: section.to_owned(),
        wrong: wrong.to_owned(),
        right,
        code,
    };
    if let Some((_, _, right)) = RENAMED
        .iter()
        .find(|(s, k, _)| s.eq_ignore_ascii_case(section) && k.is_empty())
    {
        return problem(
            "berth does not have this section",
            (*right).into(),
            ErrorCode::UnknownKey,
        );
    }
    if NOT_YET.contains(&(section, "")) {
        return problem(
            "this version of berth does not read this section",
            "remove it".into(),
            ErrorCode::NotYet,
        );
    }
    if nova::has_section(section) {
        return problem(
            "Nova's section without an equivalent in berth",
            "remove it".into(),
            ErrorCode::NotYet,
        );
    }
    if let Some(kind) = section.strip_prefix("vgpu_") {
        return problem(
            "berth does not have this section",
            format!("write [mdev_{kind}]"),
            ErrorCode::UnknownKey,
        );
    }
    if let Some(pattern) = pattern::begun(section) {
        let (wrong, right) = pattern.none;
        return problem(wrong, right.to_owned(), ErrorCode::UnknownKey);
    }
    let sections = SECTIONS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !name.is_empty());
    let right = match nearest(section, sections.clone()) {
        Some(guess) => format!("did you mean [{guess}]?"),
        None => "berth config show lists all options with their sections".to_owned(),
    };
    problem("unknown section", right, ErrorCode::UnknownKey)
}

//! Validation of names and metadata of aggregates, by Nova's rules.

use berth_wire::BodyError;

use super::HostAggregateError;
use super::aggregate::{AVAILABILITY_ZONE, HostAggregate};
use crate::report::check_name_text;

/// Checks a name: 1 to 255 characters without leading or trailing blanks.
pub(super) fn check_name(name: &str) -> Result<(), BodyError> {
    check_trimmed("name", name)
}

pub(super) fn check_name_free(all: &[HostAggregate], name: &str) -> Result<(), HostAggregateError> {
    match all.iter().any(|aggregate| aggregate.name == name) {
        true => Err(HostAggregateError::NameTaken {
            name: name.to_owned(),
        }),
        false => Ok(()),
    }
}

/// Checks a metadata entry. An availability zone's name follows the rules of aggregate names, and has no colon,
/// because a request may specify `ZONE:HOST:NODE`.
pub(super) fn check_entry(key: &str, value: &str) -> Result<(), BodyError> {
    check_key(key)?;
    let field = format!("metadata.{key}");
    if key == AVAILABILITY_ZONE {
        check_trimmed(&field, value)?;
        if value.contains(':') {
            let reason = "it has a colon, which is not allowed in the name of a zone";
            return Err(BodyError::field(field, reason));
        }
    }
    match value.chars().count() <= 255 {
        true => Ok(()),
        false => Err(BodyError::field(field, "it is longer than 255 characters")),
    }
}

/// Checks a metadata key: letters, digits, blanks, and `-_:.`.
pub(super) fn check_key(key: &str) -> Result<(), BodyError> {
    let is_known = |letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | ':' | '.' | ' ')
    };
    match (1..=255).contains(&key.len()) && key.chars().all(is_known) {
        true => Ok(()),
        false => {
            let key: String = key.chars().take(80).collect();
            let reason = format!(
                "{key:?} is not a valid key: 1 to 255 letters, digits, blanks and -_:. are allowed"
            );
            Err(BodyError::field("metadata", reason))
        }
    }
}

fn check_trimmed(field: &str, text: &str) -> Result<(), BodyError> {
    check_name_text(field, text)?;
    match text.trim() == text {
        true => Ok(()),
        false => Err(BodyError::field(field, "it has leading or trailing blanks")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_metadata_may_not_have_is_named() {
        let long = "x".repeat(256);
        for (key, value, field) in [
            ("ssd", "true", None),
            ("filter_tenant_id 1:a-b.c", "", None),
            (AVAILABILITY_ZONE, "az 1", None),
            (
                AVAILABILITY_ZONE,
                "",
                Some("metadata.availability_zone: it is empty"),
            ),
            (
                AVAILABILITY_ZONE,
                "a:b",
                Some("metadata.availability_zone: it has a colon"),
            ),
            (
                AVAILABILITY_ZONE,
                " a",
                Some("metadata.availability_zone: it has leading"),
            ),
            (
                AVAILABILITY_ZONE,
                "a\tb",
                Some("metadata.availability_zone: it has control"),
            ),
            ("", "x", Some("metadata: \"\" is not a valid key")),
            ("a/b", "x", Some("metadata: \"a/b\" is not a valid key")),
            ("ä", "x", Some("metadata: ")),
            (long.as_str(), "x", Some("metadata: ")),
            ("k", long.as_str(), Some("metadata.k: it is longer")),
        ] {
            let refused = check_entry(key, value).err().map(|error| error.to_string());
            match field {
                None => assert_eq!(refused, None),
                Some(field) => assert!(refused.is_some_and(|it| it.starts_with(field)), "{field}"),
            }
        }
    }
}

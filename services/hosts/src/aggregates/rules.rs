//! What an aggregate's name, keys and values may be: Nova's rules.

use berth_wire::BodyError;

use super::{AVAILABILITY_ZONE, AggregateError, HostAggregate};
use crate::report::own_name;

/// 1 to 255 characters without blanks around.
pub(super) fn name(name: &str) -> Result<(), BodyError> {
    trimmed("name", name)
}

pub(super) fn is_free(all: &[HostAggregate], name: &str) -> Result<(), AggregateError> {
    match all.iter().any(|aggregate| aggregate.name == name) {
        true => Err(AggregateError::NameTaken {
            name: name.to_owned(),
        }),
        false => Ok(()),
    }
}

/// A key with its value. A zone's name is as an aggregate's, and has no colon: a request may name a zone, a host and a node with
/// colons in between.
pub(super) fn entry(key: &str, value: &str) -> Result<(), BodyError> {
    self::key(key)?;
    let field = format!("metadata.{key}");
    if key == AVAILABILITY_ZONE {
        trimmed(&field, value)?;
        if value.contains(':') {
            let reason = "it has a colon in it, which no zone's name has";
            return Err(BodyError::field(field, reason));
        }
    }
    match value.chars().count() <= 255 {
        true => Ok(()),
        false => Err(BodyError::field(field, "it is longer than 255 characters")),
    }
}

/// A key: letters, digits, blanks, and `-_:.`.
pub(super) fn key(key: &str) -> Result<(), BodyError> {
    let is_known = |letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | ':' | '.' | ' ')
    };
    match (1..=255).contains(&key.len()) && key.chars().all(is_known) {
        true => Ok(()),
        false => {
            let key: String = key.chars().take(80).collect();
            let reason = format!(
                "{key:?} is no key: 1 to 255 letters, digits, blanks and -_:. are expected"
            );
            Err(BodyError::field("metadata", reason))
        }
    }
}

fn trimmed(field: &str, it: &str) -> Result<(), BodyError> {
    own_name(field, it)?;
    match it.trim() == it {
        true => Ok(()),
        false => Err(BodyError::field(field, "it has blanks around it")),
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
                Some("metadata.availability_zone: it has blanks"),
            ),
            (
                AVAILABILITY_ZONE,
                "a\tb",
                Some("metadata.availability_zone: it has control"),
            ),
            ("", "x", Some("metadata: \"\" is no key")),
            ("a/b", "x", Some("metadata: \"a/b\" is no key")),
            ("ä", "x", Some("metadata: ")),
            (long.as_str(), "x", Some("metadata: ")),
            ("k", long.as_str(), Some("metadata.k: it is longer")),
        ] {
            let refused = entry(key, value).err().map(|error| error.to_string());
            match field {
                None => assert_eq!(refused, None),
                Some(field) => assert!(refused.is_some_and(|it| it.starts_with(field)), "{field}"),
            }
        }
    }
}

//! Ids that follow from names, so that they are the same after each start and on each machine.

use uuid::Uuid;

/// The space of these ids: the UUID (version 5) of this name in the space of DNS names.
const SPACE: &[u8] = b"identity.berth.invalid";

/// The id of a thing by its kind and name, 32 hexadecimal digits as Keystone writes ids. `parts` may hold any text: each is
/// told apart from the next.
pub(crate) fn derived(kind: &str, parts: &[&str]) -> String {
    let space = Uuid::new_v5(&Uuid::NAMESPACE_DNS, SPACE);
    let mut name = kind.to_owned();
    for part in parts {
        name.push('\0');
        name.push_str(part);
    }
    Uuid::new_v5(&space, name.as_bytes()).simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens, quotas and allocations name users and projects by these ids: a release that made others would lose them all.
    #[test]
    fn ids_are_the_same_in_every_release() {
        assert_eq!(derived("user", &["default", "admin"]).len(), 32);
        assert_eq!(
            derived("user", &["default", "admin"]),
            "8964d609a759541f9f080f0a28c48ad5"
        );
    }

    #[test]
    fn what_differs_in_kind_domain_or_name_has_another_id() {
        let ids = [
            derived("user", &["default", "a"]),
            derived("project", &["default", "a"]),
            derived("user", &["other", "a"]),
            derived("user", &["default", "b"]),
            derived("user", &["defaulta", ""]),
        ];
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }
}

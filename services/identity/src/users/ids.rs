//! Ids derived from names, so that they are the same after each start and on each machine.

use uuid::Uuid;

/// The space of these ids: the UUID (version 5) of this name in the space of DNS names.
const SPACE: &[u8] = b"identity.berth.invalid";

/// Derives an id from a kind and names: 32 hexadecimal digits, as in Keystone. Parts are length-prefixed, so they
/// may hold any text.
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

    /// Tokens, quotas and allocations refer to users and projects by these ids, so a release must not change them.
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

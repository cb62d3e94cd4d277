//! Policies of server groups, and validation of new groups.

use std::str::FromStr;

use berth_wire::BodyError;

use crate::report::check_name_text;

/// Policy of a server group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerGroupPolicy {
    /// All members on one host.
    Affinity,
    /// At most `max_server_per_host` members per host, by default 1.
    AntiAffinity,
    /// On one host if possible.
    SoftAffinity,
    /// On different hosts if possible.
    SoftAntiAffinity,
}

impl ServerGroupPolicy {
    const ALL: [Self; 4] = [
        Self::Affinity,
        Self::AntiAffinity,
        Self::SoftAffinity,
        Self::SoftAntiAffinity,
    ];

    /// The name of the policy in Nova's API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::AntiAffinity => "anti-affinity",
            Self::SoftAffinity => "soft-affinity",
            Self::SoftAntiAffinity => "soft-anti-affinity",
        }
    }
}

/// Error of parsing a [`ServerGroupPolicy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the policy must be one of affinity, anti-affinity, soft-affinity, soft-anti-affinity")]
pub struct ParseGroupPolicyError;

impl FromStr for ServerGroupPolicy {
    type Err = ParseGroupPolicyError;

    fn from_str(text: &str) -> Result<Self, ParseGroupPolicyError> {
        let mut all = Self::ALL.into_iter();
        all.find(|policy| policy.as_str() == text)
            .ok_or(ParseGroupPolicyError)
    }
}

/// A group to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewServerGroup {
    pub project_id: String,
    pub user_id: String,
    /// 1 to 255 characters without leading or trailing blanks.
    pub name: String,
    pub policy: ServerGroupPolicy,
    /// Maximum number of members on one host, at least 1; for [`ServerGroupPolicy::AntiAffinity`] only.
    pub max_server_per_host: Option<u32>,
}

impl NewServerGroup {
    pub(super) fn check(&self) -> Result<(), BodyError> {
        check_name_text("project_id", &self.project_id)?;
        check_name_text("user_id", &self.user_id)?;
        check_name_text("name", &self.name)?;
        if self.name.trim() != self.name {
            let reason = "it has leading or trailing blanks";
            return Err(BodyError::field("name", reason));
        }
        match (self.max_server_per_host, self.policy) {
            (None, _) | (Some(1..), ServerGroupPolicy::AntiAffinity) => Ok(()),
            (Some(0), _) => Err(BodyError::field(
                "rules.max_server_per_host",
                "it is 0; it must be at least 1",
            )),
            (Some(_), policy) => Err(BodyError::field(
                "rules.max_server_per_host",
                format!(
                    "it is allowed only with the policy anti-affinity, not with {}",
                    policy.as_str()
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_known_by_its_word() {
        for policy in ServerGroupPolicy::ALL {
            assert_eq!(policy.as_str().parse(), Ok(policy));
        }
        assert_eq!(
            "Affinity".parse::<ServerGroupPolicy>(),
            Err(ParseGroupPolicyError)
        );
    }

    #[test]
    fn what_a_group_may_not_have_is_named() {
        use ServerGroupPolicy::{Affinity, AntiAffinity, SoftAntiAffinity};
        for (name, policy, most, field) in [
            ("g", AntiAffinity, None, None),
            ("g", AntiAffinity, Some(3), None),
            (
                "g",
                AntiAffinity,
                Some(0),
                Some("rules.max_server_per_host: it is 0"),
            ),
            (
                "g",
                Affinity,
                Some(1),
                Some("rules.max_server_per_host: it is allowed only"),
            ),
            (
                "g",
                SoftAntiAffinity,
                Some(1),
                Some("rules.max_server_per_host: it is allowed only"),
            ),
            ("", Affinity, None, Some("name: it is empty")),
            (" g", Affinity, None, Some("name: it has leading")),
        ] {
            let group = NewServerGroup {
                project_id: "p".to_owned(),
                user_id: "u".to_owned(),
                name: name.to_owned(),
                policy,
                max_server_per_host: most,
            };
            let refused = group.check().err().map(|error| error.to_string());
            match field {
                None => assert_eq!(refused, None),
                Some(field) => assert!(refused.is_some_and(|it| it.starts_with(field)), "{field}"),
            }
        }
    }
}

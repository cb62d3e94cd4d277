//! What a server group may be.

use std::str::FromStr;

use berth_wire::BodyError;

use crate::report::own_name;

/// What is wanted of a group's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupPolicy {
    /// All on one host.
    Affinity,
    /// Each on a host of its own, or so many on one as the rule says.
    AntiAffinity,
    /// Together where that is possible.
    SoftAffinity,
    /// Apart where that is possible.
    SoftAntiAffinity,
}

impl GroupPolicy {
    const ALL: [Self; 4] = [
        Self::Affinity,
        Self::AntiAffinity,
        Self::SoftAffinity,
        Self::SoftAntiAffinity,
    ];

    /// Nova's word for it.
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

/// A word that is no policy of a server group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a policy is one of affinity, anti-affinity, soft-affinity, soft-anti-affinity")]
pub struct NoGroupPolicy;

impl FromStr for GroupPolicy {
    type Err = NoGroupPolicy;

    fn from_str(text: &str) -> Result<Self, NoGroupPolicy> {
        let mut all = Self::ALL.into_iter();
        all.find(|policy| policy.as_str() == text)
            .ok_or(NoGroupPolicy)
    }
}

/// A group that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewServerGroup {
    pub project_id: String,
    pub user_id: String,
    /// What its owner calls it, 1 to 255 characters without blanks around.
    pub name: String,
    /// What is wanted of its members.
    pub policy: GroupPolicy,
    /// Of [`GroupPolicy::AntiAffinity`] alone: so many members may be on one host, 1 at least.
    pub max_server_per_host: Option<u32>,
}

impl NewServerGroup {
    pub(super) fn check(&self) -> Result<(), BodyError> {
        own_name("project_id", &self.project_id)?;
        own_name("user_id", &self.user_id)?;
        own_name("name", &self.name)?;
        if self.name.trim() != self.name {
            let reason = "it has blanks around it, which no group's name has";
            return Err(BodyError::field("name", reason));
        }
        match (self.max_server_per_host, self.policy) {
            (None, _) | (Some(1..), GroupPolicy::AntiAffinity) => Ok(()),
            (Some(0), _) => Err(BodyError::field(
                "rules.max_server_per_host",
                "it is 0, and should be 1 at least",
            )),
            (Some(_), policy) => Err(BodyError::field(
                "rules.max_server_per_host",
                format!(
                    "it is a rule of anti-affinity, and the policy is {}",
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
        for policy in GroupPolicy::ALL {
            assert_eq!(policy.as_str().parse(), Ok(policy));
        }
        assert_eq!("Affinity".parse::<GroupPolicy>(), Err(NoGroupPolicy));
    }

    #[test]
    fn what_a_group_may_not_have_is_named() {
        use GroupPolicy::{Affinity, AntiAffinity, SoftAntiAffinity};
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
                Some("rules.max_server_per_host: it is a rule"),
            ),
            (
                "g",
                SoftAntiAffinity,
                Some(1),
                Some("rules.max_server_per_host: it is a rule"),
            ),
            ("", Affinity, None, Some("name: it is empty")),
            (" g", Affinity, None, Some("name: it has blanks")),
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

//! The default access policy, with Nova's rule names. An operator's file can replace rules.
//!
//! Operations declare their rules with the functions of this file, which differ in the default.

use berth_http::policy::{Policy, PolicyRule, RuleDefault};

/// An operator of the cloud.
pub(crate) const ADMIN: &str = "context_is_admin";
const READER: &str = "project_reader_or_admin";
const MEMBER: &str = "project_member_or_admin";

pub(crate) const fn admin(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named(ADMIN);
    RuleDefault { name, default }
}

pub(crate) const fn reader(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named(READER);
    RuleDefault { name, default }
}

pub(crate) const fn member(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named(MEMBER);
    RuleDefault { name, default }
}

pub(crate) const fn user_or_admin(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::own_user().or(PolicyRule::named(ADMIN));
    RuleDefault { name, default }
}

pub(crate) const fn service_or_admin(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::role("service").or(PolicyRule::named(ADMIN));
    RuleDefault { name, default }
}

pub(crate) const fn everybody(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::Everybody;
    RuleDefault { name, default }
}

/// Nova's default rules for the operations of this service.
#[must_use]
pub fn default_policy() -> Policy {
    let of_project = |role| {
        let own = PolicyRule::role(role).and(PolicyRule::own_project());
        own.or(PolicyRule::named(ADMIN))
    };
    let own = |role| PolicyRule::role(role).and(PolicyRule::own_project());
    // All base rules of Nova, because policy files refer to them.
    let base = [
        (ADMIN, PolicyRule::role("admin")),
        ("admin_api", PolicyRule::named(ADMIN)),
        (
            "admin_or_owner",
            PolicyRule::named(ADMIN).or(PolicyRule::own_project()),
        ),
        ("project_manager_api", own("manager")),
        ("project_member_api", own("member")),
        ("project_reader_api", own("reader")),
        ("project_manager_or_admin", of_project("manager")),
        (MEMBER, of_project("member")),
        (READER, of_project("reader")),
        ("service_api", PolicyRule::role("service")),
        (
            "service_or_admin",
            PolicyRule::role("service").or(PolicyRule::named(ADMIN)),
        ),
    ];
    Policy::of_operations(&crate::handlers::operations(), base)
}

#[cfg(test)]
mod tests {
    use berth_http::PolicyFile;

    use super::*;

    #[test]
    fn the_base_rules_of_nova_may_be_referred_to() {
        let base = [
            "context_is_admin",
            "admin_api",
            "admin_or_owner",
            "project_manager_api",
            "project_member_api",
            "project_reader_api",
            "project_manager_or_admin",
            "project_member_or_admin",
            "project_reader_or_admin",
            "service_api",
            "service_or_admin",
        ];
        let any: Vec<String> = base.iter().map(|rule| format!("rule:{rule}")).collect();
        let text = format!("os_compute_api:servers:show: {}\n", any.join(" or "));
        let file = PolicyFile::read(&text).unwrap();
        default_policy().with_file(file).unwrap();
    }
}

//! Access rules, with Glance's names. Operations declare their rules with the functions of this file.

use berth_http::policy::{Policy, PolicyRule, RuleDefault};

const ADMIN: &str = "context_is_admin";

/// List the members of an image, or show one.
pub(crate) const GET_MEMBERS: RuleDefault = reader("get_members");

pub(crate) const fn reader(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::role("reader").or(PolicyRule::named(ADMIN));
    RuleDefault { name, default }
}

pub(crate) const fn member(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::role("member").or(PolicyRule::named(ADMIN));
    RuleDefault { name, default }
}

/// Glance's default rules for the read-only API.
#[must_use]
pub fn default_policy() -> Policy {
    let base = [(ADMIN, PolicyRule::role("admin"))];
    Policy::of_operations(&crate::handlers::operations(), base)
}

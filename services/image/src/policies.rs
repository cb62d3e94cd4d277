//! Access rules, with Glance's names. Operations declare their rules with the functions of this file.

use berth_http::policy::{Policy, PolicyRule, RuleDefault};

const ADMIN: &str = "context_is_admin";

/// List the members of an image, or show one.
pub(crate) const GET_MEMBERS: RuleDefault = reader("get_members");

pub(crate) const fn reader(name: &'static str) -> RuleDefault {
    let default = || with_services("reader");
    RuleDefault { name, default }
}

/// For the download of image data.
pub(crate) const fn member(name: &'static str) -> RuleDefault {
    let default = || with_services("member");
    RuleDefault { name, default }
}

/// An agent has only the role `service`, and reads images.
fn with_services(role: &'static str) -> PolicyRule {
    let service = PolicyRule::role("service");
    PolicyRule::role(role)
        .or(service)
        .or(PolicyRule::named(ADMIN))
}

/// Glance's default rules for the read-only API, which admit services, too.
#[must_use]
pub fn default_policy() -> Policy {
    let base = [(ADMIN, PolicyRule::role("admin"))];
    Policy::of_operations(&crate::handlers::operations(), base)
}

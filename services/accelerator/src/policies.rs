//! The default access policy, with Cyborg's rule names and its new defaults: tenants do not see hardware topology.
//!
//! Operations declare their rules with the functions of this file. In addition, callers see only their own project's
//! requests unless they have the role `admin` or `service`, and the account of a host only those on its host. The policy also contains the rules that Cyborg's defaults
//! refer to, so that an operator's file can replace or reference them.

use berth_http::policy::{Policy, PolicyRule, RuleDefault};

/// Agents report their own host's devices and what they did with them.
pub(crate) const HOST_DEVICES: RuleDefault = RuleDefault {
    name: "berth:host_devices:update",
    default: || PolicyRule::named("host_api"),
};

/// Adopt requests that another accelerator service has bound.
pub(crate) const ADOPT: RuleDefault = RuleDefault {
    name: "berth:accelerator_requests:adopt",
    default: || PolicyRule::named("service_api"),
};

pub(crate) const fn admin(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named("admin_api");
    RuleDefault { name, default }
}

pub(crate) const fn manager(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named("project_manager_or_admin");
    RuleDefault { name, default }
}

pub(crate) const fn member(name: &'static str) -> RuleDefault {
    let default =
        || PolicyRule::named("project_member_or_service").or(PolicyRule::named("admin_api"));
    RuleDefault { name, default }
}

/// Readers, and services: a service account need not have the roles that Keystone implies.
pub(crate) const fn reader(name: &'static str) -> RuleDefault {
    let default = || {
        let service = PolicyRule::named("project_member_or_service");
        PolicyRule::named("project_reader_or_admin").or(service)
    };
    RuleDefault { name, default }
}

/// Rules that exist only as references, by Cyborg's names.
fn base() -> [(&'static str, PolicyRule); 18] {
    let of_project = |role| PolicyRule::role(role).and(PolicyRule::own_project());
    let either = |one, other| PolicyRule::named(one).or(PolicyRule::named(other));
    [
        ("admin_api", PolicyRule::role("admin")),
        ("service_api", PolicyRule::role("service")),
        (
            "host_api",
            PolicyRule::role("service").and(PolicyRule::own_host()),
        ),
        ("project_admin_api", of_project("admin")),
        ("project_manager_api", of_project("manager")),
        ("project_member_api", of_project("member")),
        ("project_reader_api", of_project("reader")),
        (
            "project_member_or_admin",
            either("project_member_api", "admin_api"),
        ),
        (
            "project_reader_or_admin",
            either("project_reader_api", "admin_api"),
        ),
        (
            "project_manager_or_admin",
            either("project_manager_api", "admin_api"),
        ),
        (
            "project_member_or_service",
            either("project_member_api", "service_api"),
        ),
        // Deprecated rules of Cyborg; no default here refers to them.
        ("allow", PolicyRule::Everybody),
        ("deny", PolicyRule::Nobody),
        ("public_api", PolicyRule::Nobody),
        ("is_admin", PolicyRule::named("admin_api")),
        (
            "admin_or_owner",
            PolicyRule::is_admin().or(PolicyRule::own_project()),
        ),
        (
            "admin_or_user",
            PolicyRule::is_admin().or(PolicyRule::own_user()),
        ),
        ("default", PolicyRule::named("admin_or_owner")),
    ]
}

/// The default rules. There is no fallback to deprecated defaults, because those showed the hardware to every tenant
/// (CVE-2026-40213).
#[must_use]
pub fn default_policy() -> Policy {
    Policy::of_operations(&crate::handlers::operations(), base())
}

//! The default access policy, with Cyborg's rule names and its new defaults: tenants do not see hardware topology.
//!
//! Besides the rules that handlers check, it contains the rules that Cyborg's defaults refer to, so that an operator's
//! file can replace or reference them.

use berth_http::policy::{Policy, PolicyRule};

pub(crate) const PROFILE_GET_ALL: &str = "cyborg:device_profile:get_all";
pub(crate) const PROFILE_GET_ONE: &str = "cyborg:device_profile:get_one";
pub(crate) const PROFILE_CREATE: &str = "cyborg:device_profile:create";
pub(crate) const PROFILE_DELETE: &str = "cyborg:device_profile:delete";
pub(crate) const ARQ_GET_ALL: &str = "cyborg:arq:get_all";
pub(crate) const ARQ_GET_ONE: &str = "cyborg:arq:get_one";
pub(crate) const ARQ_CREATE: &str = "cyborg:arq:create";
pub(crate) const ARQ_UPDATE: &str = "cyborg:arq:update";
pub(crate) const ARQ_DELETE: &str = "cyborg:arq:delete";
pub(crate) const DEVICE_GET_ALL: &str = "cyborg:device:get_all";
pub(crate) const DEVICE_GET_ONE: &str = "cyborg:device:get_one";
pub(crate) const DEVICE_DISABLE: &str = "cyborg:device:disable";
pub(crate) const DEVICE_ENABLE: &str = "cyborg:device:enable";
pub(crate) const DEPLOYABLE_GET_ALL: &str = "cyborg:deployable:get_all";
pub(crate) const DEPLOYABLE_GET_ONE: &str = "cyborg:deployable:get_one";
pub(crate) const DEPLOYABLE_PROGRAM: &str = "cyborg:deployable:program";
pub(crate) const ATTRIBUTE_GET_ALL: &str = "cyborg:attribute:get_all";
pub(crate) const ATTRIBUTE_GET_ONE: &str = "cyborg:attribute:get_one";
pub(crate) const ATTRIBUTE_CREATE: &str = "cyborg:attribute:create";
pub(crate) const ATTRIBUTE_DELETE: &str = "cyborg:attribute:delete";
pub(crate) const HOST_DEVICES: &str = "berth:host_devices:update";

/// Rules that exist only as references, by Cyborg's names.
fn base() -> [(&'static str, PolicyRule); 17] {
    let of_project = |role| PolicyRule::role(role).and(PolicyRule::own_project());
    let either = |one, other| PolicyRule::named(one).or(PolicyRule::named(other));
    [
        ("admin_api", PolicyRule::role("admin")),
        ("service_api", PolicyRule::role("service")),
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

/// The rules that handlers check. In addition, callers see only their own project's requests unless they have the
/// role `admin` or `service`.
fn asked() -> [(&'static str, PolicyRule); 21] {
    let admin = || PolicyRule::named("admin_api");
    let manager = || PolicyRule::named("project_manager_or_admin");
    // A service account need not have the roles that Keystone implies.
    let reader = || {
        let service = PolicyRule::named("project_member_or_service");
        PolicyRule::named("project_reader_or_admin").or(service)
    };
    let member = || PolicyRule::named("project_member_or_service").or(admin());
    [
        (PROFILE_GET_ALL, reader()),
        (PROFILE_GET_ONE, reader()),
        (PROFILE_CREATE, admin()),
        (PROFILE_DELETE, admin()),
        (ARQ_GET_ALL, reader()),
        (ARQ_GET_ONE, reader()),
        (ARQ_CREATE, member()),
        (ARQ_UPDATE, member()),
        (ARQ_DELETE, member()),
        (DEVICE_GET_ALL, manager()),
        (DEVICE_GET_ONE, manager()),
        (DEVICE_DISABLE, admin()),
        (DEVICE_ENABLE, admin()),
        (DEPLOYABLE_GET_ALL, manager()),
        (DEPLOYABLE_GET_ONE, manager()),
        (DEPLOYABLE_PROGRAM, admin()),
        (ATTRIBUTE_GET_ALL, manager()),
        (ATTRIBUTE_GET_ONE, manager()),
        (ATTRIBUTE_CREATE, admin()),
        (ATTRIBUTE_DELETE, admin()),
        (HOST_DEVICES, PolicyRule::named("service_api")),
    ]
}

/// The default rules. There is no fallback to deprecated defaults, because those showed the hardware
/// to every tenant (CVE-2026-40213).
#[must_use]
pub fn default_policy() -> Policy {
    let rules = base().into_iter().chain(asked());
    Policy::new(rules)
}

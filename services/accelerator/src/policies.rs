//! The rules by Cyborg's names, with its new defaults: hardware topology is not for tenants.
//!
//! Beside the rules that are asked for stand those that Cyborg's defaults are made of, for an operator's file to replace or to
//! refer to.

use berth_http::policy::{Policy, Rule};

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

/// The rules that others are made of, by Cyborg's names.
fn base() -> [(&'static str, Rule); 17] {
    let of_project = |role| Rule::role(role).and(Rule::own_project());
    let either = |one, other| Rule::named(one).or(Rule::named(other));
    [
        ("admin_api", Rule::role("admin")),
        ("service_api", Rule::role("service")),
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
        // Cyborg's old ones: no default of this service is made of them.
        ("allow", Rule::Everybody),
        ("deny", Rule::Nobody),
        ("public_api", Rule::Nobody),
        ("is_admin", Rule::named("admin_api")),
        ("admin_or_owner", Rule::is_admin().or(Rule::own_project())),
        ("admin_or_user", Rule::is_admin().or(Rule::own_user())),
        ("default", Rule::named("admin_or_owner")),
    ]
}

/// The rules that are asked for. Whose requests a caller sees is decided beside these: his project's, or all for `admin` and
/// `service`.
fn asked() -> [(&'static str, Rule); 21] {
    let admin = || Rule::named("admin_api");
    let manager = || Rule::named("project_manager_or_admin");
    // An account of a service need not have the roles that Keystone lets others imply.
    let reader = || {
        let service = Rule::named("project_member_or_service");
        Rule::named("project_reader_or_admin").or(service)
    };
    let member = || Rule::named("project_member_or_service").or(admin());
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
        (HOST_DEVICES, Rule::named("service_api")),
    ]
}

/// The default rules. There is no deprecated default to fall back to: the old ones showed every tenant the hardware
/// (CVE-2026-40213).
#[must_use]
pub fn default_policy() -> Policy {
    let rules = base().into_iter().chain(asked());
    Policy::new(rules)
}

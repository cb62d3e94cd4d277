//! The rules by Cyborg's names, with its new defaults: hardware topology is not for tenants.

use std::borrow::Cow;

use berth_http::policy::{Check, DeprecatedDefaults, Policy, Requirement};

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
/// The agents' reports.
pub(crate) const HOST_DEVICES: &str = "berth:host_devices:update";

const ADMIN: Check = Check::Role(Cow::Borrowed("admin"));
const SERVICE: Check = Check::Role(Cow::Borrowed("service"));
const MANAGER: Check = Check::Role(Cow::Borrowed("manager"));
const MEMBER: Check = Check::Role(Cow::Borrowed("member"));
const READER: Check = Check::Role(Cow::Borrowed("reader"));

const ADMINS: &[Check] = &[ADMIN];
const SERVICES: &[Check] = &[SERVICE];
const MANAGERS: &[Check] = &[MANAGER, ADMIN];
const READERS: &[Check] = &[READER, MEMBER, SERVICE, ADMIN];
const MEMBERS: &[Check] = &[MEMBER, SERVICE, ADMIN];

/// Every rule and who passes it. Whose requests a caller sees is decided beside these: his project's, or all for `admin`
/// and `service`.
const DEFAULTS: [(&str, &[Check]); 21] = [
    (PROFILE_GET_ALL, READERS),
    (PROFILE_GET_ONE, READERS),
    (PROFILE_CREATE, ADMINS),
    (PROFILE_DELETE, ADMINS),
    (ARQ_GET_ALL, READERS),
    (ARQ_GET_ONE, READERS),
    (ARQ_CREATE, MEMBERS),
    (ARQ_UPDATE, MEMBERS),
    (ARQ_DELETE, MEMBERS),
    (DEVICE_GET_ALL, MANAGERS),
    (DEVICE_GET_ONE, MANAGERS),
    (DEVICE_DISABLE, ADMINS),
    (DEVICE_ENABLE, ADMINS),
    (DEPLOYABLE_GET_ALL, MANAGERS),
    (DEPLOYABLE_GET_ONE, MANAGERS),
    (DEPLOYABLE_PROGRAM, ADMINS),
    (ATTRIBUTE_GET_ALL, MANAGERS),
    (ATTRIBUTE_GET_ONE, MANAGERS),
    (ATTRIBUTE_CREATE, ADMINS),
    (ATTRIBUTE_DELETE, ADMINS),
    (HOST_DEVICES, SERVICES),
];

/// The default rules. There is no deprecated default to fall back to: the old ones showed every tenant the hardware
/// (CVE-2026-40213).
#[must_use]
pub fn default_policy() -> Policy {
    let rules = DEFAULTS
        .into_iter()
        .map(|(rule, checks)| (rule, Requirement::AnyOf(Cow::Borrowed(checks))));
    Policy::new(rules, DeprecatedDefaults::Ignored)
}

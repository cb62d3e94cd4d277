//! Policy names and default rules of the internal routes. An operator's policy file can replace the rules.

use berth_http::policy::{Policy, PolicyRule};

/// Report a host's state (agents).
pub(crate) const STATE_UPDATE: &str = "berth:host_state:update";
/// Show a host's reported state.
pub(crate) const STATE_GET: &str = "berth:host_state:get";
pub(crate) const HOST_GET_ALL: &str = "berth:host:get_all";
pub(crate) const HOST_DELETE: &str = "berth:host:delete";
/// Disable or enable a host, or force it down.
pub(crate) const SERVICE_UPDATE: &str = "berth:host_service:update";

/// The default rules: agents have the role `service`, operators the role `admin`.
#[must_use]
pub fn default_policy() -> Policy {
    let either = || PolicyRule::named("service_api").or(PolicyRule::named("admin_api"));
    Policy::new([
        ("admin_api", PolicyRule::role("admin")),
        ("service_api", PolicyRule::role("service")),
        (STATE_UPDATE, PolicyRule::named("service_api")),
        (STATE_GET, either()),
        (HOST_GET_ALL, either()),
        (HOST_DELETE, PolicyRule::named("admin_api")),
        (SERVICE_UPDATE, PolicyRule::named("admin_api")),
    ])
}

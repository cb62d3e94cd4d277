//! Who may do what, by names that an operator's file can replace.

use berth_http::policy::{Policy, Rule};

/// An agent tells its host's state.
pub(crate) const STATE_UPDATE: &str = "berth:host_state:update";
/// A host's state is looked at.
pub(crate) const STATE_GET: &str = "berth:host_state:get";
/// All hosts are looked at.
pub(crate) const HOST_GET_ALL: &str = "berth:host:get_all";
/// A host that is gone is removed.
pub(crate) const HOST_DELETE: &str = "berth:host:delete";
/// A host is disabled, enabled, or said to be dead.
pub(crate) const SERVICE_UPDATE: &str = "berth:host_service:update";

/// The default rules: agents have the role `service`, operators have `admin`.
#[must_use]
pub fn default_policy() -> Policy {
    let either = || Rule::named("service_api").or(Rule::named("admin_api"));
    Policy::new([
        ("admin_api", Rule::role("admin")),
        ("service_api", Rule::role("service")),
        (STATE_UPDATE, Rule::named("service_api")),
        (STATE_GET, either()),
        (HOST_GET_ALL, either()),
        (HOST_DELETE, Rule::named("admin_api")),
        (SERVICE_UPDATE, Rule::named("admin_api")),
    ])
}

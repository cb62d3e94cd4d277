//! Default rules of the internal routes, as functions with which operations declare their rules. An operator's policy
//! file can replace the rules. Agents have the role `service`, and speak for their own host alone. Operators have the
//! role `admin`.

use berth_http::policy::{Policy, PolicyRule, RuleDefault};

/// Report a host's state (its agent).
pub(crate) const STATE_UPDATE: RuleDefault = RuleDefault {
    name: "berth:host_state:update",
    default: || PolicyRule::named("host_api"),
};

pub(crate) const fn admin(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named("admin_api");
    RuleDefault { name, default }
}

pub(crate) const fn service_or_admin(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named("service_api").or(PolicyRule::named("admin_api"));
    RuleDefault { name, default }
}

/// The default rules of all operations.
#[must_use]
pub fn default_policy() -> Policy {
    let base = [
        ("admin_api", PolicyRule::role("admin")),
        ("service_api", PolicyRule::role("service")),
        (
            "host_api",
            PolicyRule::role("service").and(PolicyRule::own_host()),
        ),
    ];
    Policy::of_operations(&crate::handlers::operations(), base)
}

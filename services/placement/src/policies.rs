//! The default access policy, with OpenStack's rule names.
//!
//! Operations declare their rules with the functions of this file. The policy also contains the rules that the defaults
//! refer to, so that an operator's file can replace or reference them. Only these had another default in the past (role
//! `admin`), which "deprecated" refers to.

use std::collections::BTreeSet;

use berth_http::policy::{Policy, PolicyRule, RuleDefault};

use crate::handlers::operations;

pub(crate) const fn admin_or_service(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named("admin_or_service_api");
    RuleDefault { name, default }
}

/// Readers of the project may see its usages, too.
pub(crate) const fn admin_or_project_reader_or_service(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named("admin_or_project_reader_or_service_api");
    RuleDefault { name, default }
}

pub(crate) const fn service(name: &'static str) -> RuleDefault {
    let default = || PolicyRule::named("service_api");
    RuleDefault { name, default }
}

/// The names of the rules that operations check, each once.
#[must_use]
pub fn rules() -> BTreeSet<&'static str> {
    operations().rules().map(|rule| rule.name).collect()
}

/// Whether the defaults of OpenStack's older releases still count: the role `admin` passed every rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeprecatedDefaults {
    /// They do not: `enforce_new_defaults = true`, the default.
    #[default]
    Ignored,
    /// They do: `enforce_new_defaults = false`.
    Honoured,
}

/// The rules that exist only as references. With [`DeprecatedDefaults::Honoured`] the role `admin` passes each,
/// including the one for services.
fn base(deprecated: DeprecatedDefaults) -> [(&'static str, PolicyRule); 5] {
    let [admin, service] = ["admin", "service"].map(PolicyRule::role);
    let project_reader = PolicyRule::role("reader").and(PolicyRule::own_project());
    let once = |rule: PolicyRule| match deprecated {
        DeprecatedDefaults::Honoured => rule.or(admin.clone()),
        DeprecatedDefaults::Ignored => rule,
    };
    [
        ("admin_api", admin.clone()),
        ("service_api", once(service.clone())),
        (
            "admin_or_service_api",
            once(admin.clone().or(service.clone())),
        ),
        ("project_reader_api", once(project_reader)),
        (
            "admin_or_project_reader_or_service_api",
            once(
                admin
                    .clone()
                    .or(PolicyRule::named("project_reader_api"))
                    .or(service),
            ),
        ),
    ]
}

/// Placement's default rules. With [`DeprecatedDefaults::Honoured`] the role `admin` alone passes every rule, including
/// the reshape, unless an operator's file replaces the referenced rules.
#[must_use]
pub fn default_policy(deprecated: DeprecatedDefaults) -> Policy {
    Policy::of_operations(&operations(), base(deprecated))
}

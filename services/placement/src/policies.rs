//! The rules by OpenStack's names, with its defaults.
//!
//! Beside the rules that are asked for stand those that the defaults are made of, for an operator's file to replace or to refer
//! to. Those alone had another default once (role `admin`), and only it is what "deprecated" is about.

use berth_http::policy::{Policy, Rule};

macro_rules! rules {
    ($($constant:ident = $name:literal),* $(,)?) => {
        $(pub(crate) const $constant: &str = $name;)*

        /// Every rule that an administrator or a service passes.
        const ADMIN_OR_SERVICE_RULES: &[&str] = &[$($constant),*];
    };
}

rules! {
    PROVIDERS_LIST = "placement:resource_providers:list",
    PROVIDERS_CREATE = "placement:resource_providers:create",
    PROVIDERS_SHOW = "placement:resource_providers:show",
    PROVIDERS_UPDATE = "placement:resource_providers:update",
    PROVIDERS_DELETE = "placement:resource_providers:delete",
    INVENTORIES_LIST = "placement:resource_providers:inventories:list",
    INVENTORIES_CREATE = "placement:resource_providers:inventories:create",
    INVENTORIES_SHOW = "placement:resource_providers:inventories:show",
    INVENTORIES_UPDATE = "placement:resource_providers:inventories:update",
    INVENTORIES_DELETE = "placement:resource_providers:inventories:delete",
    AGGREGATES_LIST = "placement:resource_providers:aggregates:list",
    AGGREGATES_UPDATE = "placement:resource_providers:aggregates:update",
    PROVIDER_USAGES = "placement:resource_providers:usages",
    PROVIDER_ALLOCATIONS_LIST = "placement:resource_providers:allocations:list",
    PROVIDER_TRAITS_LIST = "placement:resource_providers:traits:list",
    PROVIDER_TRAITS_UPDATE = "placement:resource_providers:traits:update",
    PROVIDER_TRAITS_DELETE = "placement:resource_providers:traits:delete",
    CLASSES_LIST = "placement:resource_classes:list",
    CLASSES_CREATE = "placement:resource_classes:create",
    CLASSES_SHOW = "placement:resource_classes:show",
    CLASSES_UPDATE = "placement:resource_classes:update",
    CLASSES_DELETE = "placement:resource_classes:delete",
    TRAITS_LIST = "placement:traits:list",
    TRAITS_SHOW = "placement:traits:show",
    TRAITS_UPDATE = "placement:traits:update",
    TRAITS_DELETE = "placement:traits:delete",
    ALLOCATIONS_MANAGE = "placement:allocations:manage",
    ALLOCATIONS_LIST = "placement:allocations:list",
    ALLOCATIONS_UPDATE = "placement:allocations:update",
    ALLOCATIONS_DELETE = "placement:allocations:delete",
    CANDIDATES_LIST = "placement:allocation_candidates:list",
}

/// The usages of a project: also its readers may ask.
pub(crate) const TOTAL_USAGES: &str = "placement:usages";
/// The reshape: services only.
pub(crate) const RESHAPE: &str = "placement:reshaper:reshape";

/// The names of the rules that are asked for.
pub fn rules() -> impl Iterator<Item = &'static str> {
    let most = ADMIN_OR_SERVICE_RULES.iter().copied();
    most.chain([TOTAL_USAGES, RESHAPE])
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

/// The rules that others are made of. With [`DeprecatedDefaults::Honoured`] the role `admin` passes each, the one for services
/// included.
fn base(deprecated: DeprecatedDefaults) -> [(&'static str, Rule); 5] {
    let [admin, service] = ["admin", "service"].map(Rule::role);
    let project_reader = Rule::role("reader").and(Rule::own_project());
    let once = |rule: Rule| match deprecated {
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
                    .or(Rule::named("project_reader_api"))
                    .or(service),
            ),
        ),
    ]
}

/// Placement's default rules. With [`DeprecatedDefaults::Honoured`] the role `admin` alone
/// passes every rule, the reshape included, unless an operator's file replaces what it is made of.
#[must_use]
pub fn default_policy(deprecated: DeprecatedDefaults) -> Policy {
    let others = [
        (
            TOTAL_USAGES,
            Rule::named("admin_or_project_reader_or_service_api"),
        ),
        (RESHAPE, Rule::named("service_api")),
    ];
    let most = ADMIN_OR_SERVICE_RULES.iter().copied();
    let most = most.map(|rule| (rule, Rule::named("admin_or_service_api")));
    let all = base(deprecated).into_iter().chain(most).chain(others);
    Policy::new(all)
}

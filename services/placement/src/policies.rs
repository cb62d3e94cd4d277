//! The default access policy, with OpenStack's rule names.
//!
//! Besides the rules that handlers check, it contains the rules that the defaults refer to, so that an operator's file
//! can replace or reference them. Only these once had another default (role `admin`), which "deprecated" refers to.

use berth_http::policy::{Policy, PolicyRule};

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

/// The usages of a project; readers of the project may see them, too.
pub(crate) const TOTAL_USAGES: &str = "placement:usages";
/// The reshape: services only.
pub(crate) const RESHAPE: &str = "placement:reshaper:reshape";

/// The names of the rules that handlers check.
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
    let others = [
        (
            TOTAL_USAGES,
            PolicyRule::named("admin_or_project_reader_or_service_api"),
        ),
        (RESHAPE, PolicyRule::named("service_api")),
    ];
    let most = ADMIN_OR_SERVICE_RULES.iter().copied();
    let most = most.map(|rule| (rule, PolicyRule::named("admin_or_service_api")));
    let all = base(deprecated).into_iter().chain(most).chain(others);
    Policy::new(all)
}

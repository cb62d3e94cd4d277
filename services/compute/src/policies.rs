//! Who may do what, by Nova's names, which an operator's file can replace.

use berth_http::policy::{Policy, Rule};

/// An operator of the cloud.
pub(crate) const ADMIN: &str = "context_is_admin";
/// A flavor is made.
pub(crate) const FLAVOR_CREATE: &str = "os_compute_api:os-flavor-manage:create";
/// A flavor's description is changed.
pub(crate) const FLAVOR_UPDATE: &str = "os_compute_api:os-flavor-manage:update";
/// A flavor is removed.
pub(crate) const FLAVOR_DELETE: &str = "os_compute_api:os-flavor-manage:delete";
/// Who may use a flavor is looked at.
pub(crate) const FLAVOR_ACCESS: &str = "os_compute_api:os-flavor-access";
/// A project may use a flavor.
pub(crate) const FLAVOR_ACCESS_ADD: &str = "os_compute_api:os-flavor-access:add_tenant_access";
/// A project may not use a flavor any more.
pub(crate) const FLAVOR_ACCESS_REMOVE: &str =
    "os_compute_api:os-flavor-access:remove_tenant_access";
/// All of a flavor's extra specs are looked at.
pub(crate) const EXTRA_SPECS_INDEX: &str = "os_compute_api:os-flavor-extra-specs:index";
/// One of a flavor's extra specs is looked at.
pub(crate) const EXTRA_SPECS_SHOW: &str = "os_compute_api:os-flavor-extra-specs:show";
/// A flavor gets extra specs.
pub(crate) const EXTRA_SPECS_CREATE: &str = "os_compute_api:os-flavor-extra-specs:create";
/// A flavor's extra spec is changed.
pub(crate) const EXTRA_SPECS_UPDATE: &str = "os_compute_api:os-flavor-extra-specs:update";
/// A flavor's extra spec is removed.
pub(crate) const EXTRA_SPECS_DELETE: &str = "os_compute_api:os-flavor-extra-specs:delete";
/// A public key is brought.
pub(crate) const KEY_PAIR_CREATE: &str = "os_compute_api:os-keypairs:create";
/// A key pair is removed.
pub(crate) const KEY_PAIR_DELETE: &str = "os_compute_api:os-keypairs:delete";
/// All key pairs of a user are looked at.
pub(crate) const KEY_PAIR_INDEX: &str = "os_compute_api:os-keypairs:index";
/// A key pair is looked at.
pub(crate) const KEY_PAIR_SHOW: &str = "os_compute_api:os-keypairs:show";

/// Nova's own default rules, for the routes that are here.
#[must_use]
pub fn default_policy() -> Policy {
    let admin = || Rule::named(ADMIN);
    let reader = || Rule::named("project_reader_or_admin");
    let user = || Rule::own_user().or(Rule::named(ADMIN));
    Policy::new([
        (ADMIN, Rule::role("admin")),
        (
            "project_reader_or_admin",
            Rule::role("reader")
                .and(Rule::own_project())
                .or(Rule::named(ADMIN)),
        ),
        (FLAVOR_CREATE, admin()),
        (FLAVOR_UPDATE, admin()),
        (FLAVOR_DELETE, admin()),
        (FLAVOR_ACCESS, admin()),
        (FLAVOR_ACCESS_ADD, admin()),
        (FLAVOR_ACCESS_REMOVE, admin()),
        (EXTRA_SPECS_INDEX, reader()),
        (EXTRA_SPECS_SHOW, reader()),
        (EXTRA_SPECS_CREATE, admin()),
        (EXTRA_SPECS_UPDATE, admin()),
        (EXTRA_SPECS_DELETE, admin()),
        (KEY_PAIR_CREATE, user()),
        (KEY_PAIR_DELETE, user()),
        (KEY_PAIR_INDEX, user()),
        (KEY_PAIR_SHOW, user()),
    ])
}

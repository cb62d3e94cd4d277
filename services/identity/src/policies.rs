//! Who may read what: Keystone's default rules, as far as there is something here to read.

use berth_http::{Caller, Fault, Scope};

/// Looks at anybody's token.
pub(crate) const VALIDATE_TOKEN: &str = "identity:validate_token";
pub(crate) const REVOKE_TOKEN: &str = "identity:revoke_token";

/// An operator, or somebody who may look at all of the cloud.
pub(crate) fn may_read_all(caller: &Caller) -> bool {
    caller.has_role("admin") || (caller.scope == Scope::System && caller.has_role("reader"))
}

/// A service that is shown its callers' tokens, or who may read everything.
pub(crate) fn may_validate(caller: &Caller) -> bool {
    caller.has_role("service") || may_read_all(caller)
}

/// Refuses unless the caller may.
pub(crate) fn allow(may: bool, rule: &str) -> Result<(), Fault> {
    if may {
        return Ok(());
    }
    Err(Fault::forbidden(format!(
        "You are not authorized to perform the requested action: {rule}."
    )))
}

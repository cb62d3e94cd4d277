//! Keystone's default access rules.

use berth_http::{Caller, Fault, TokenScope};

/// Validating another user's token.
pub(crate) const VALIDATE_TOKEN: &str = "identity:validate_token";
pub(crate) const REVOKE_TOKEN: &str = "identity:revoke_token";

/// Operators and readers of the whole cloud.
pub(crate) fn may_read_all(caller: &Caller) -> bool {
    caller.has_role("admin") || (caller.scope == TokenScope::System && caller.has_role("reader"))
}

/// Services that validate their callers' tokens, those who may read everything, and the token's own user.
pub(crate) fn may_validate(caller: &Caller, token_user: Option<&str>) -> bool {
    caller.has_role("service") || may_read_all(caller) || is_user(caller, token_user)
}

/// Administrators, and the token's own user. Services only validate tokens.
pub(crate) fn may_revoke(caller: &Caller, token_user: Option<&str>) -> bool {
    caller.has_role("admin") || is_user(caller, token_user)
}

fn is_user(caller: &Caller, user_id: Option<&str>) -> bool {
    user_id == Some(caller.user_id.as_str())
}

/// Returns 403 unless `may` is true.
pub(crate) fn allow(may: bool, rule: &str) -> Result<(), Fault> {
    if may {
        return Ok(());
    }
    let text = format!("You are not authorized to perform the requested action: {rule}.");
    Err(Fault::forbidden(text).by_rule(rule))
}

//! Tokens: random text of which only a digest is stored, and the conditions that make one void.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_store::SqlTimestamp;
use sha2::{Digest, Sha256};

use crate::passwords::hex;
use crate::store::TokenRow;
use crate::users::{AssignmentTarget, RoleEntry, User, Users};

/// A clock that tests can replace.
#[derive(Clone)]
pub struct TokenClock(Arc<dyn Fn() -> SqlTimestamp + Send + Sync>);

impl TokenClock {
    pub fn new(now: impl Fn() -> SqlTimestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> SqlTimestamp {
        (self.0)()
    }
}

impl Default for TokenClock {
    fn default() -> Self {
        Self::new(SqlTimestamp::now)
    }
}

impl fmt::Debug for TokenClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The system gives no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub(crate) struct NoRandomness;

/// A new token: 256 random bits as text that a header takes.
pub(crate) fn fresh() -> Result<String, NoRandomness> {
    random::<32>()
}

/// A new audit id, which identifies a token in logs.
pub(crate) fn fresh_audit_id() -> Result<String, NoRandomness> {
    random::<16>()
}

/// Random bytes as text that a header takes.
pub(crate) fn random<const N: usize>() -> Result<String, NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The key under which a token is stored. The table does not reveal the token.
pub(crate) fn digest(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

/// `2026-11-20T17:00:00.000000Z`.
pub(crate) fn written(moment: SqlTimestamp) -> String {
    format!("{}Z", moment.to_string().replace(' ', "T"))
}

/// Truncates to whole seconds, as in Keystone's tokens.
pub(crate) fn whole_second(moment: SqlTimestamp) -> SqlTimestamp {
    let micros = moment.as_micros();
    SqlTimestamp::from_micros(micros - micros.rem_euclid(1_000_000)).unwrap_or(moment)
}

/// A valid token with its users.
#[derive(Debug, Clone)]
pub struct ValidToken {
    pub(crate) row: TokenRow,
    pub(crate) users: Arc<Users>,
}

impl ValidToken {
    /// Validates a stored token. It is void if it has expired; if its user was removed, disabled or has a new password;
    /// or if the scope or the user's roles in it changed.
    pub(crate) fn of(row: TokenRow, users: Arc<Users>, now: SqlTimestamp) -> Option<Self> {
        let user = users.user(&row.user_id)?;
        let is_good = now < row.expires_at
            && users.may_log_in(user)
            && user.password_hash.fingerprint() == row.fingerprint
            && names(&roles(&users, &row.user_id, row.target.as_ref())?) == row.roles;
        is_good.then_some(Self { row, users })
    }

    /// The user of the token.
    pub(crate) fn user(&self) -> Option<&User> {
        self.users.user(&self.row.user_id)
    }

    #[must_use]
    pub fn user_id(&self) -> &str {
        &self.row.user_id
    }

    /// The scope of the token; `None` if it is unscoped.
    #[must_use]
    pub fn target(&self) -> Option<&AssignmentTarget> {
        self.row.target.as_ref()
    }

    /// Its roles, implied ones included, by name.
    #[must_use]
    pub fn roles(&self) -> Vec<&RoleEntry> {
        let users = self.users.roles();
        users
            .filter(|role| self.row.roles.contains(&role.name))
            .collect()
    }

    /// The token's audit id, and that of the first token of its chain if it was issued from another token.
    pub(crate) fn audit_ids(&self) -> Vec<&str> {
        let mut ids = vec![self.row.audit_id.as_str()];
        if self.row.chain_id != self.row.audit_id {
            ids.push(&self.row.chain_id);
        }
        ids
    }
}

/// The roles of a user in a scope; `None` if no token may be issued for it.
pub(crate) fn roles<'a>(
    users: &'a Users,
    user_id: &str,
    target: Option<&AssignmentTarget>,
) -> Option<Vec<&'a RoleEntry>> {
    let Some(target) = target else {
        return Some(Vec::new());
    };
    let roles = users.roles_of(user_id, target);
    (users.is_usable(target) && !roles.is_empty()).then_some(roles)
}

pub(crate) fn names(roles: &[&RoleEntry]) -> Vec<String> {
    roles.iter().map(|role| role.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_moment_is_written_as_keystone_does() {
        let moment: SqlTimestamp = "2026-11-20 17:00:01.234567".parse().unwrap();
        assert_eq!(written(moment), "2026-11-20T17:00:01.234567Z");
        assert_eq!(written(whole_second(moment)), "2026-11-20T17:00:01.000000Z");
    }

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let (one, other) = (fresh().unwrap(), fresh().unwrap());
        assert_eq!(one.len(), 43);
        assert_ne!(one, other);
        assert_eq!(digest(&one).len(), 64);
        assert_eq!(fresh_audit_id().unwrap().len(), 22);
    }
}

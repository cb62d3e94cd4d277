//! Tokens: random texts, of which only a digest is kept, and the facts that make one void.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_store::Moment;
use sha2::{Digest, Sha256};

use crate::passwords::hex;
use crate::store::TokenRow;
use crate::users::{Role, Target, User, Users};

/// What time it is.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    /// One that answers so.
    pub fn new(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Moment {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(Moment::now)
    }
}

impl fmt::Debug for Clock {
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

/// A new audit id, by which logs name a token.
pub(crate) fn fresh_audit_id() -> Result<String, NoRandomness> {
    random::<16>()
}

/// Random bytes as text that a header takes.
pub(crate) fn random<const N: usize>() -> Result<String, NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// By what a token is found: who reads the table learns no token.
pub(crate) fn digest(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

/// `2026-11-20T17:00:00.000000Z`.
pub(crate) fn written(moment: Moment) -> String {
    format!("{}Z", moment.to_string().replace(' ', "T"))
}

/// The moment's whole second: Keystone's tokens begin and end with one.
pub(crate) fn whole_second(moment: Moment) -> Moment {
    let micros = moment.as_micros();
    Moment::from_micros(micros - micros.rem_euclid(1_000_000)).unwrap_or(moment)
}

/// A token that holds, with all that it says.
#[derive(Debug, Clone)]
pub struct KnownToken {
    pub(crate) row: TokenRow,
    pub(crate) users: Arc<Users>,
}

impl KnownToken {
    /// The token of a row, unless it is void: its time is over; its user is gone, disabled or has another password; or the user
    /// has other roles in its scope now, or the scope is gone.
    pub(crate) fn of(row: TokenRow, users: Arc<Users>, now: Moment) -> Option<Self> {
        let user = users.user(&row.user_id)?;
        let is_good = now < row.expires_at
            && users.may_log_in(user)
            && user.password_hash.fingerprint() == row.fingerprint
            && names(&roles(&users, &row.user_id, row.target.as_ref())?) == row.roles;
        is_good.then_some(Self { row, users })
    }

    /// Whose it is; there as long as the value is.
    pub(crate) fn user(&self) -> Option<&User> {
        self.users.user(&self.row.user_id)
    }

    #[must_use]
    pub fn user_id(&self) -> &str {
        &self.row.user_id
    }

    /// What it is good for; none where that is nothing in particular.
    #[must_use]
    pub fn target(&self) -> Option<&Target> {
        self.row.target.as_ref()
    }

    /// Its roles, implied ones included, by name.
    #[must_use]
    pub fn roles(&self) -> Vec<&Role> {
        let users = self.users.roles();
        users
            .filter(|role| self.row.roles.contains(&role.name))
            .collect()
    }

    /// Its audit id, and that of the first token it was made from, where it was.
    pub(crate) fn audit_ids(&self) -> Vec<&str> {
        let mut ids = vec![self.row.audit_id.as_str()];
        if self.row.chain_id != self.row.audit_id {
            ids.push(&self.row.chain_id);
        }
        ids
    }
}

/// The roles of a user in a scope; none where there may be no token of it.
pub(crate) fn roles<'a>(
    users: &'a Users,
    user_id: &str,
    target: Option<&Target>,
) -> Option<Vec<&'a Role>> {
    let Some(target) = target else {
        return Some(Vec::new());
    };
    let roles = users.roles_of(user_id, target);
    (users.is_usable(target) && !roles.is_empty()).then_some(roles)
}

pub(crate) fn names(roles: &[&Role]) -> Vec<String> {
    roles.iter().map(|role| role.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_moment_is_written_as_keystone_does() {
        let moment: Moment = "2026-11-20 17:00:01.234567".parse().unwrap();
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

//! [`Identity`]: authenticates users, and issues, validates and revokes tokens.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use berth_http::ClientAddress;
use berth_store::{SqlStore, SqlTimestamp};
use berth_wire::identity::{AuthAsked, AuthBody, DomainAsked, ScopeAsked, UserAsked};

use crate::catalog::Catalog;
use crate::login_throttle::LoginSubject;
use crate::password_verifier::{LoginError, PasswordVerifier};
use crate::store::{RevocationScope, TokenRow, TokenTable, TokenTableError};
use crate::tokens::{self, NoRandomness, TokenClock, ValidToken};
use crate::users::{AssignmentTarget, Domain, User, Users, UsersFile};

/// How often tokens that are over are forgotten.
const SWEEP: Duration = Duration::from_secs(60);

/// How the service behaves.
#[derive(Debug, Clone)]
pub struct IdentityOptions {
    /// How long a token is good: Keystone's `[token] expiration`.
    pub token_expiration: Duration,
    /// The largest number of valid tokens of a user. A further one ends an earlier one.
    pub max_tokens_per_user: u64,
    pub catalog: Catalog,
    pub clock: TokenClock,
}

impl Default for IdentityOptions {
    fn default() -> Self {
        Self {
            token_expiration: Duration::from_secs(3600),
            max_tokens_per_user: 5000,
            catalog: Catalog::default(),
            clock: TokenClock::default(),
        }
    }
}

/// The identity service of one process: users and their tokens. Clones share one instance.
///
/// A token is returned only after it is stored durably. A token is void once it has expired or was revoked, and also
/// when its user was removed or disabled, or the user's password or roles changed.
#[derive(Debug, Clone)]
pub struct Identity {
    inner: Arc<IdentityInner>,
}

#[derive(Debug)]
struct IdentityInner {
    users: UsersFile,
    tokens: TokenTable,
    logins: PasswordVerifier,
    options: IdentityOptions,
    swept: AtomicI64,
}

/// An authenticated user, before a token is issued.
struct AuthenticatedUser {
    users: Arc<Users>,
    user_id: String,
    methods: Vec<String>,
    /// The token that was used to authenticate, if any.
    parent: Option<ParentToken>,
    fingerprint: String,
}

/// Properties that a new token inherits from the token used to authenticate.
struct ParentToken {
    digest: String,
    /// The first of the chain.
    chain_id: String,
    /// When the chain ends.
    expires_at: SqlTimestamp,
}

impl Identity {
    /// Over a prepared database ([`crate::prepare`]).
    #[must_use]
    pub fn new(store: SqlStore, users: UsersFile, options: IdentityOptions) -> Self {
        let inner = IdentityInner {
            users,
            tokens: TokenTable::of(store),
            logins: PasswordVerifier::default(),
            options,
            swept: AtomicI64::new(0),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    #[must_use]
    pub fn users(&self) -> Arc<Users> {
        self.inner.users.current()
    }

    /// The file of users.
    #[must_use]
    pub fn users_file(&self) -> &UsersFile {
        &self.inner.users
    }

    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.inner.options.catalog
    }

    /// Authenticates a user and issues a token. `from` is the caller's address, if known: failed attempts from one
    /// address do not delay logins from others.
    pub async fn log_in(
        &self,
        body: AuthBody,
        from: Option<IpAddr>,
    ) -> Result<(String, ValidToken), LoginError> {
        let (asked, scope) = body.into_parts();
        let proven = match asked {
            AuthAsked::Password(user) => self.authenticate_by_password(user, from.into()).await?,
            AuthAsked::Token(token) => self.authenticate_by_token(&token).await?,
            AuthAsked::Unsupported(_) => return Err(LoginError::UnsupportedMethod),
            AuthAsked::Missing(part) => {
                return Err(LoginError::Malformed(format!("{part}: missing")));
            }
        };
        let target = target(&proven, scope)?;
        self.issue(proven, target).await
    }

    async fn authenticate_by_password(
        &self,
        asked: UserAsked,
        source: ClientAddress,
    ) -> Result<AuthenticatedUser, LoginError> {
        let users = self.users();
        let password = asked.password.clone().ok_or_else(|| {
            LoginError::Malformed("auth.identity.password.user.password: missing".to_owned())
        })?;
        PasswordVerifier::check_length(&password)?;
        let user = find_user(&users, &asked)?;
        let who = match user {
            Some(user) => LoginSubject::User(user.id.clone()),
            None => LoginSubject::UnknownUser(unknown_user_key(&asked)),
        };
        let hash = user.map(|user| user.password_hash.clone());
        let costliest = users.costliest.clone();
        let logins = &self.inner.logins;
        let asked_by = (&who, source);
        let checked = logins.check(asked_by, hash, costliest, password).await;
        if let (Err(LoginError::Refused { reason }), LoginSubject::User(id)) = (&checked, &who) {
            tracing::info!(user_id = id, reason, "login refused");
        }
        checked?;
        let user = user.filter(|user| users.may_log_in(user));
        let user = user.ok_or(LoginError::Refused {
            reason: "the user or its domain is disabled",
        })?;
        Ok(AuthenticatedUser {
            user_id: user.id.clone(),
            methods: vec!["password".to_owned()],
            parent: None,
            fingerprint: user.password_hash.fingerprint(),
            users,
        })
    }

    async fn authenticate_by_token(&self, token: &str) -> Result<AuthenticatedUser, LoginError> {
        let known = self.token(token).await?;
        let ValidToken { row, users } = known.ok_or(LoginError::Refused {
            reason: "the token is not valid",
        })?;
        let mut methods = row.methods;
        if !methods.iter().any(|method| method == "token") {
            methods.push("token".to_owned());
        }
        Ok(AuthenticatedUser {
            user_id: row.user_id,
            methods,
            // The new token expires with its parent, so that a user cannot renew a token forever.
            parent: Some(ParentToken {
                digest: row.digest,
                chain_id: row.chain_id,
                expires_at: row.expires_at,
            }),
            fingerprint: row.fingerprint,
            users,
        })
    }

    async fn issue(
        &self,
        proven: AuthenticatedUser,
        target: Option<AssignmentTarget>,
    ) -> Result<(String, ValidToken), LoginError> {
        let no_randomness = |_: NoRandomness| LoginError::System;
        let roles = tokens::roles(&proven.users, &proven.user_id, target.as_ref());
        let roles = roles.ok_or(LoginError::Refused {
            reason: "the user has no role in the scope, or the scope is disabled",
        })?;
        let now = self.inner.options.clock.now();
        let issued_at = tokens::whole_second(now);
        let audit_id = tokens::fresh_audit_id().map_err(no_randomness)?;
        let (parent, chain_id, expires_at) = match proven.parent {
            Some(parent) => (Some(parent.digest), parent.chain_id, parent.expires_at),
            None => {
                let end = issued_at.after(self.inner.options.token_expiration);
                (None, audit_id.clone(), end)
            }
        };
        let token = tokens::fresh().map_err(no_randomness)?;
        let row = TokenRow {
            digest: tokens::digest(&token),
            roles: tokens::names(&roles),
            user_id: proven.user_id,
            target,
            methods: proven.methods,
            audit_id,
            chain_id,
            fingerprint: proven.fingerprint,
            issued_at,
            expires_at,
        };
        let most = self.inner.options.max_tokens_per_user;
        let tokens = &self.inner.tokens;
        if !tokens.insert(&row, parent.as_deref(), most).await? {
            return Err(LoginError::Refused {
                reason: "the parent token was revoked in the meantime",
            });
        }
        self.sweep_when_due(now).await;
        let users = proven.users;
        Ok((token, ValidToken { row, users }))
    }

    /// The token, if it is valid.
    pub async fn token(&self, token: &str) -> Result<Option<ValidToken>, TokenTableError> {
        let row = self.inner.tokens.get(&tokens::digest(token)).await?;
        let now = self.inner.options.clock.now();
        Ok(row.and_then(|row| ValidToken::of(row, self.users(), now)))
    }

    /// Revokes a token, and with [`RevocationScope::Chain`] all tokens that were issued from it.
    pub(crate) async fn revoke(
        &self,
        token: &ValidToken,
        which: RevocationScope,
    ) -> Result<(), TokenTableError> {
        self.inner.tokens.revoke(&token.row, which).await
    }

    /// Deletes expired tokens, at most once a minute. After a failure the next call tries again.
    async fn sweep_when_due(&self, now: SqlTimestamp) {
        let due = i64::try_from(SWEEP.as_micros()).unwrap_or(i64::MAX);
        let last = self.inner.swept.load(Ordering::Relaxed);
        if now.as_micros().saturating_sub(last) < due {
            return;
        }
        self.inner.swept.store(now.as_micros(), Ordering::Relaxed);
        if let Err(error) = self.inner.tokens.sweep(now).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "tokens that are over were not forgotten");
        }
    }
}

/// The user that the request names; `None` if there is no such user.
fn find_user<'a>(users: &'a Users, asked: &UserAsked) -> Result<Option<&'a User>, LoginError> {
    if let Some(id) = &asked.id {
        return Ok(users.user(id));
    }
    let place = "auth.identity.password.user";
    let Some(name) = &asked.name else {
        return Err(LoginError::Malformed(format!(
            "{place}: id or name must be there"
        )));
    };
    let Some(domain) = &asked.domain else {
        return Err(LoginError::Malformed(format!(
            "{place}.domain: required together with a name"
        )));
    };
    let domain = find_domain(users, domain, place)?;
    Ok(domain.and_then(|domain| users.user_named(&domain.id, name)))
}

fn find_domain<'a>(
    users: &'a Users,
    asked: &DomainAsked,
    place: &str,
) -> Result<Option<&'a Domain>, LoginError> {
    match (&asked.id, &asked.name) {
        (Some(id), _) => Ok(users.domain(id)),
        (None, Some(name)) => Ok(users.domain_named(name)),
        (None, None) => Err(LoginError::Malformed(format!(
            "{place}.domain: id or name must be there"
        ))),
    }
}

/// A key for the throttle of an unknown user, made from the names in the request.
fn unknown_user_key(asked: &UserAsked) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let domain = asked.domain.as_ref();
    let domain = domain.map(|it| format!("{}\0{}", text(&it.id), text(&it.name)));
    format!(
        "{}\0{}\0{}",
        text(&asked.id),
        text(&asked.name),
        domain.unwrap_or_default()
    )
}

/// The target of the requested scope; `None` for an unscoped token.
fn target(
    proven: &AuthenticatedUser,
    scope: Option<ScopeAsked>,
) -> Result<Option<AssignmentTarget>, LoginError> {
    const NO_SCOPE: LoginError = LoginError::Refused {
        reason: "there is no such project or domain",
    };
    let users = &proven.users;
    match scope {
        None => Ok(default_target(proven)),
        Some(ScopeAsked::Unscoped) => Ok(None),
        Some(ScopeAsked::System) => Ok(Some(AssignmentTarget::System)),
        Some(ScopeAsked::Domain(domain)) => {
            let domain = find_domain(users, &domain, "auth.scope")?.ok_or(NO_SCOPE)?;
            Ok(Some(AssignmentTarget::Domain(domain.id.clone())))
        }
        Some(ScopeAsked::Project(asked)) => {
            let place = "auth.scope.project";
            let project = match (&asked.id, &asked.name, &asked.domain) {
                (Some(id), _, _) => users.project(id),
                (None, Some(name), Some(domain)) => find_domain(users, domain, place)?
                    .and_then(|domain| users.project_named(&domain.id, name)),
                (None, Some(_), None) => {
                    let text = format!("{place}.domain: required together with a name");
                    return Err(LoginError::Malformed(text));
                }
                (None, None, _) => {
                    let text = format!("{place}: id or name must be there");
                    return Err(LoginError::Malformed(text));
                }
            };
            let project = project.ok_or(NO_SCOPE)?;
            Ok(Some(AssignmentTarget::Project(project.id.clone())))
        }
    }
}

/// The user's default project, if the user has a role in it.
fn default_target(proven: &AuthenticatedUser) -> Option<AssignmentTarget> {
    let user = proven.users.user(&proven.user_id)?;
    let target = AssignmentTarget::Project(user.default_project_id.clone()?);
    tokens::roles(&proven.users, &user.id, Some(&target)).map(|_| target)
}

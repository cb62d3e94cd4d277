//! Who calls: a token becomes a [`Caller`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::HeaderMap;

/// The header with the caller's token.
pub const TOKEN_HEADER: &str = "x-auth-token";

/// What a token is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One project, by its id.
    Project(String),
    /// One domain, by its id. Only an identity service has rules about domains: none of the others admits it.
    Domain(String),
    /// The cloud itself. The services' rules are about projects: none admits it.
    System,
    /// Nothing in particular: no role counts.
    Unscoped,
}

/// Who sent a request, once the token was believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub user_id: String,
    /// What the token is good for.
    pub scope: Scope,
    /// The roles, implied ones included.
    pub roles: Vec<String>,
}

impl Caller {
    /// The project the token is good for, if it is one.
    #[must_use]
    pub fn project_id(&self) -> Option<&str> {
        match &self.scope {
            Scope::Project(id) => Some(id),
            Scope::Domain(_) | Scope::System | Scope::Unscoped => None,
        }
    }

    /// Whether the caller has the role, in any case of letters.
    #[must_use]
    pub fn has_role(&self, role: &str) -> bool {
        self.counting_roles()
            .any(|held| held.eq_ignore_ascii_case(role))
    }

    /// The roles that count: a role is had somewhere, and a token that is good for nothing in particular has none.
    pub(crate) fn counting_roles(&self) -> impl Iterator<Item = &str> {
        let count = self.scope != Scope::Unscoped;
        self.roles.iter().filter(move |_| count).map(String::as_str)
    }
}

/// What a validator is given.
pub struct TokenRequest<'a> {
    /// The token. Never logged: this type shows nothing of it.
    pub token: &'a str,
    /// All headers of the request.
    pub headers: &'a HeaderMap,
}

impl fmt::Debug for TokenRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenRequest { .. }")
    }
}

/// Why a token did not make a caller.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token is unknown, expired or revoked: the caller gets 401.
    #[error("the token is not valid")]
    Refused,
    /// The identity service did not answer: the caller gets 503.
    #[error("the identity service cannot be asked")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The future of [`ValidateToken::validate`].
pub type Validation<'a> = Pin<Box<dyn Future<Output = Result<Caller, TokenError>> + Send + 'a>>;

/// Turns a token into a caller. One per service, chosen where the service is put together.
pub trait ValidateToken: Send + Sync {
    /// Believes the token or says why not.
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a>;

    /// The Keystone that is asked, by its URL: a 401 is in the words of Keystone's middleware then, and says where tokens are
    /// from.
    fn keystone(&self) -> Option<&str> {
        None
    }
}

/// No identity service: the token itself says who calls, as in OpenStack's `noauth2`.
///
/// Token `admin` is the administrator; any other is `user` or `user:project`. The header
/// `x-roles` sets the roles of any token, `x-project-id` the project, `openstack-system-scope`
/// makes it a token for the cloud. For one
/// machine, tests and tools; never for a port others can reach.
#[derive(Debug, Clone)]
pub struct NoAuth2 {
    admin_roles: Vec<String>,
}

impl NoAuth2 {
    /// Token `admin` has these roles.
    #[must_use]
    pub fn with_admin_roles<R: Into<String>>(roles: impl IntoIterator<Item = R>) -> Self {
        Self {
            admin_roles: roles.into_iter().map(Into::into).collect(),
        }
    }
}

/// The embedded services' default: token `admin` may do everything, the reshape included.
impl Default for NoAuth2 {
    fn default() -> Self {
        Self::with_admin_roles(["admin", "service"])
    }
}

impl ValidateToken for NoAuth2 {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a> {
        let (user, project) = request.token.split_once(':').unwrap_or((request.token, ""));
        let text = |name| {
            request
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let project = if project.is_empty() { user } else { project };
        let scope = if request.headers.contains_key("openstack-system-scope") {
            Scope::System
        } else {
            Scope::Project(text("x-project-id").unwrap_or(project).to_owned())
        };
        let roles = match text("x-roles") {
            Some(roles) => roles
                .split(',')
                .map(|role| role.trim().to_owned())
                .collect(),
            None if user == "admin" => self.admin_roles.clone(),
            None => Vec::new(),
        };
        let caller = Caller {
            user_id: user.to_owned(),
            scope,
            roles,
        };
        Box::pin(async move {
            if caller.user_id.is_empty() {
                return Err(TokenError::Refused);
            }
            Ok(caller)
        })
    }
}

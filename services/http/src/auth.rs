//! Authentication: a [`ValidateToken`] turns the token of a request into a [`Caller`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::HeaderMap;

/// The header with the caller's token.
pub const TOKEN_HEADER: &str = "x-auth-token";

/// The scope of a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TokenScope {
    /// One project, by its id.
    Project(String),
    /// One domain, by its id. Only the identity service has rules about domains; all others refuse this scope.
    Domain(String),
    /// The cloud itself. The services' rules are about projects, so all but the identity service refuse this scope.
    System,
    /// Nothing in particular: no role counts, and only the identity service accepts it.
    #[default]
    Unscoped,
}

/// The hosts for which a caller speaks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostAccount {
    /// No host: a user, or a service of the cloud.
    #[default]
    NoHost,
    /// This host alone: the account is named `host/` and the name of the host. The name is empty, and so the account
    /// speaks for no host, if it is not one of the domain with the accounts of hosts.
    Host(String),
    /// Any host: without an identity service nothing is known of callers.
    AnyHost,
}

/// The start of the user name of a host's account.
pub const HOST_ACCOUNT_PREFIX: &str = "host/";

/// The id of the domain with the accounts of hosts, where the configuration names no other one.
pub const SERVICE_DOMAIN: &str = "default";

impl HostAccount {
    /// The host that a user of the domain with the accounts of hosts speaks for, by the name of the user.
    #[must_use]
    pub fn of_user_name(name: &str) -> Self {
        match name.strip_prefix(HOST_ACCOUNT_PREFIX) {
            Some(host) => Self::Host(host.to_owned()),
            None => Self::of_other_domain(name),
        }
    }

    /// The hosts that a user of another domain speaks for: none. An account that looks like that of a host, also in another
    /// case of letters, does not count as a service of the cloud.
    #[must_use]
    pub fn of_other_domain(name: &str) -> Self {
        let start = name.get(..HOST_ACCOUNT_PREFIX.len());
        match start.is_some_and(|start| start.eq_ignore_ascii_case(HOST_ACCOUNT_PREFIX)) {
            true => Self::Host(String::new()),
            false => Self::NoHost,
        }
    }

    /// Whether the caller may speak for the host.
    #[must_use]
    pub fn speaks_for(&self, host: &str) -> bool {
        match self {
            Self::NoHost => false,
            Self::Host(own) => own == host && !own.is_empty(),
            Self::AnyHost => true,
        }
    }
}

/// The authenticated sender of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    pub user_id: String,
    /// The name of the user, if the validator knows it.
    pub user_name: Option<String>,
    /// The domain of the user, if the validator knows it.
    pub user_domain_id: Option<String>,
    pub scope: TokenScope,
    /// The roles, implied ones included.
    pub roles: Vec<String>,
    /// The audit id of the token, and that of the first token of its chain.
    pub audit_ids: Vec<String>,
    /// The hosts for which the caller speaks.
    pub host: HostAccount,
}

impl Caller {
    /// The project of the token; `None` for any other scope.
    #[must_use]
    pub fn project_id(&self) -> Option<&str> {
        match &self.scope {
            TokenScope::Project(id) => Some(id),
            TokenScope::Domain(_) | TokenScope::System | TokenScope::Unscoped => None,
        }
    }

    /// Whether the caller has the role, in any case of letters.
    #[must_use]
    pub fn has_role(&self, role: &str) -> bool {
        self.counting_roles()
            .any(|held| held.eq_ignore_ascii_case(role))
    }

    /// The roles that rules may use. An unscoped token has none.
    pub(crate) fn counting_roles(&self) -> impl Iterator<Item = &str> {
        let count = self.scope != TokenScope::Unscoped;
        self.roles.iter().filter(move |_| count).map(String::as_str)
    }

    /// The only host whose objects the caller may change, if its account is that of a host.
    #[must_use]
    pub fn only_host(&self) -> Option<&str> {
        match &self.host {
            HostAccount::Host(host) => Some(host),
            HostAccount::NoHost | HostAccount::AnyHost => None,
        }
    }
}

/// The input of [`ValidateToken::validate`].
pub struct TokenRequest<'a> {
    /// The token. `Debug` does not print it, so it cannot reach a log.
    pub token: &'a str,
    /// All headers of the request.
    pub headers: &'a HeaderMap,
}

impl fmt::Debug for TokenRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenRequest { .. }")
    }
}

/// Why a token was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token is unknown, expired or revoked: the caller gets 401.
    #[error("the token is not valid")]
    Refused,
    /// The identity service did not respond: the caller gets 503.
    #[error("the identity service is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The future of [`ValidateToken::validate`].
pub type Validation<'a> = Pin<Box<dyn Future<Output = Result<Caller, TokenError>> + Send + 'a>>;

/// The future of [`ValidateToken::project_exists`].
pub type ProjectLookup<'a> =
    Pin<Box<dyn Future<Output = Result<Option<bool>, TokenError>> + Send + 'a>>;

/// Validates tokens. Each service has one implementation, chosen where the service is composed.
pub trait ValidateToken: Send + Sync {
    /// Returns the caller that the token stands for.
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a>;

    /// Whether the project exists. `None` if that is not known: without an identity service, every text may be a
    /// project.
    fn project_exists<'a>(&'a self, _project_id: &'a str) -> ProjectLookup<'a> {
        Box::pin(async { Ok(None) })
    }

    /// The URL of the Keystone that validates tokens, if there is one. A 401 then has the wording of keystonemiddleware
    /// and names this URL.
    fn keystone(&self) -> Option<&str> {
        None
    }
}

/// Authentication without an identity service: the token itself names the caller, as in OpenStack's `noauth2`.
///
/// The token `admin` is the administrator; any other token is `user` or `user:project`. The header `x-roles` sets the
/// roles, `x-project-id` the project, and `openstack-system-scope` makes the scope the cloud. Use it on one machine, in
/// tests and for tools, never on a port that others can reach.
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

/// The default of embedded services: the token `admin` has the roles `admin` and `service`.
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
            TokenScope::System
        } else {
            TokenScope::Project(text("x-project-id").unwrap_or(project).to_owned())
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
            user_name: Some(user.to_owned()),
            scope,
            roles,
            host: HostAccount::AnyHost,
            ..Caller::default()
        };
        Box::pin(async move {
            if caller.user_id.is_empty() {
                return Err(TokenError::Refused);
            }
            Ok(caller)
        })
    }
}

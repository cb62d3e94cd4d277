//! [`Auth`]: provides a token and an endpoint for each request.

use std::sync::Arc;

use http::HeaderValue;

use super::session::{KeystoneSession, SessionToken};
use super::target::{BaseUrl, EndpointTarget};
use super::{AuthError, AuthOptions, AuthType, OptionProblem, OptionsError, Secret, WallClock};
use crate::call::ServiceLink;
use crate::{AdapterOptions, HttpService};

/// An account and the location of a service. Clones share the Keystone session.
#[derive(Clone)]
pub struct Auth(AuthKind);

#[derive(Clone)]
enum AuthKind {
    Fixed {
        endpoint: BaseUrl,
        token: Option<HeaderValue>,
    },
    Keystone {
        session: Arc<KeystoneSession>,
        target: EndpointTarget,
        account: Account,
    },
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            AuthKind::Fixed { endpoint, .. } => {
                write!(f, "Auth(fixed endpoint {})", endpoint.as_str())
            }
            AuthKind::Keystone { account, .. } => write!(f, "Auth(Keystone, {account:?})"),
        }
    }
}

/// The account as named by the options, for hints about its roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The user's name or id.
    pub user: Option<String>,
    /// The project's name or id.
    pub project: Option<String>,
    pub auth_type: Option<AuthType>,
}

/// A token and an endpoint.
pub(crate) struct ServiceAccess {
    pub(crate) token: Option<HeaderValue>,
    pub(crate) endpoint: BaseUrl,
    session: Option<Arc<SessionToken>>,
}

impl Auth {
    /// No token; the service is at `endpoint`.
    pub fn none(endpoint: &str) -> Result<Self, OptionsError> {
        Self::fixed(endpoint, None)
    }

    /// A fixed token for the service at `endpoint`.
    pub fn admin_token(endpoint: &str, token: &Secret) -> Result<Self, OptionsError> {
        Self::fixed(endpoint, Some(token))
    }

    fn fixed(endpoint: &str, token: Option<&Secret>) -> Result<Self, OptionsError> {
        let auth_type = if token.is_some() {
            AuthType::AdminToken
        } else {
            AuthType::None
        };
        let mut options = AuthOptions::for_service("");
        options.auth_type = Some(auth_type);
        options.endpoint_override = Some(endpoint.to_owned());
        options.token = token.cloned();
        options.check()?;
        Self::unkeyed(&options)
    }

    fn unkeyed(options: &AuthOptions) -> Result<Self, OptionsError> {
        let endpoint = options
            .fixed_endpoint()
            .and_then(BaseUrl::new)
            .ok_or_else(|| missing("endpoint_override"))?;
        let token = match (options.auth_type, &options.token) {
            (Some(AuthType::AdminToken), Some(token)) => {
                Some(token.header().ok_or_else(|| missing("token"))?)
            }
            _ => None,
        };
        Ok(Self(AuthKind::Fixed { endpoint, token }))
    }

    /// Uses the options. Keystone is contacted through `http` when the first call needs a token.
    pub fn from_options(
        options: &AuthOptions,
        http: &HttpService,
        clock: WallClock,
        adapter: &AdapterOptions,
    ) -> Result<Self, OptionsError> {
        options.check()?;
        if matches!(
            options.auth_type,
            Some(AuthType::AdminToken | AuthType::None)
        ) {
            return Self::unkeyed(options);
        }
        let url = options
            .auth_url
            .as_deref()
            .and_then(BaseUrl::new)
            .ok_or_else(|| missing("auth_url"))?;
        let link = ServiceLink::new("identity", http.clone(), adapter);
        Ok(Self(AuthKind::Keystone {
            session: Arc::new(KeystoneSession::new(link, &url, options.clone(), clock)),
            target: EndpointTarget::of(options),
            account: Account {
                user: options.username.clone().or_else(|| options.user_id.clone()),
                project: options
                    .project_name
                    .clone()
                    .or_else(|| options.project_id.clone()),
                auth_type: options.auth_type,
            },
        }))
    }

    /// The same session for another service: type, name, region, interfaces and `endpoint_override` come from
    /// `options`. Without Keystone there is only one endpoint, which stays.
    #[must_use]
    pub fn for_service(&self, options: &AuthOptions) -> Self {
        match &self.0 {
            AuthKind::Keystone {
                session, account, ..
            } => Self(AuthKind::Keystone {
                session: Arc::clone(session),
                target: EndpointTarget::of(options),
                account: account.clone(),
            }),
            AuthKind::Fixed { .. } => self.clone(),
        }
    }

    /// The account, as far as the options name it.
    #[must_use]
    pub fn account(&self) -> Account {
        match &self.0 {
            AuthKind::Keystone { account, .. } => account.clone(),
            AuthKind::Fixed { token, .. } => Account {
                auth_type: Some(match token {
                    Some(_) => AuthType::AdminToken,
                    None => AuthType::None,
                }),
                ..Account::default()
            },
        }
    }

    pub(crate) async fn access(&self) -> Result<ServiceAccess, AuthError> {
        match &self.0 {
            AuthKind::Fixed { endpoint, token } => Ok(ServiceAccess {
                token: token.clone(),
                endpoint: endpoint.clone(),
                session: None,
            }),
            AuthKind::Keystone {
                session, target, ..
            } => {
                let token = session.token().await?;
                let endpoint = target.endpoint(&token.catalog)?;
                Ok(ServiceAccess {
                    token: Some(token.header.clone()),
                    endpoint,
                    session: Some(token),
                })
            }
        }
    }

    /// The service answered 401. Returns whether a new token can be requested.
    pub(crate) fn refused(&self, access: &ServiceAccess) -> Renewal {
        match (&self.0, &access.session) {
            (AuthKind::Keystone { session, .. }, Some(token)) => {
                session.refused(token);
                Renewal::Possible
            }
            _ => Renewal::Impossible,
        }
    }
}

/// Whether there can be another token after a 401.
pub(crate) enum Renewal {
    Possible,
    Impossible,
}

fn missing(option: &'static str) -> OptionsError {
    OptionsError {
        problems: vec![OptionProblem {
            option,
            sentence: "is not set or cannot be used".to_owned(),
        }],
    }
}

//! What an adapter asks before each request: a token and the endpoint.

use std::sync::Arc;

use http::HeaderValue;

use super::session::{Session, Token};
use super::target::{BaseUrl, Target};
use super::{AuthError, AuthOptions, AuthType, Clock, OptionProblem, OptionsError, Secret};
use crate::call::Link;
use crate::{AdapterOptions, HttpService};

/// Who asks, and where the service is. Clones share the session with Keystone.
#[derive(Clone)]
pub struct Auth(Kind);

#[derive(Clone)]
enum Kind {
    Fixed {
        endpoint: BaseUrl,
        token: Option<HeaderValue>,
    },
    Keystone {
        session: Arc<Session>,
        target: Target,
        account: Account,
    },
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Fixed { endpoint, .. } => write!(f, "Auth(fixed endpoint {})", endpoint.as_str()),
            Kind::Keystone { account, .. } => write!(f, "Auth(Keystone, {account:?})"),
        }
    }
}

/// The account as the options name it, for sentences that say how to mend its roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The user's name or id.
    pub user: Option<String>,
    /// The project's name or id.
    pub project: Option<String>,
}

/// A token and an endpoint to ask with.
pub(crate) struct Access {
    pub(crate) token: Option<HeaderValue>,
    pub(crate) endpoint: BaseUrl,
    session: Option<Arc<Token>>,
}

impl Auth {
    /// No token; the service is at `endpoint`.
    pub fn none(endpoint: &str) -> Result<Self, OptionsError> {
        Self::fixed(endpoint, None)
    }

    /// A fixed token, sent as it is; the service is at `endpoint`.
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
        Ok(Self(Kind::Fixed { endpoint, token }))
    }

    /// By the options. Nothing is sent yet; Keystone is asked through `http` when the first call needs a token.
    pub fn from_options(
        options: &AuthOptions,
        http: &HttpService,
        clock: Clock,
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
        let link = Link::new("identity", http.clone(), adapter);
        Ok(Self(Kind::Keystone {
            session: Arc::new(Session::new(link, &url, options.clone(), clock)),
            target: Target::of(options),
            account: Account {
                user: options.username.clone().or_else(|| options.user_id.clone()),
                project: options
                    .project_name
                    .clone()
                    .or_else(|| options.project_id.clone()),
            },
        }))
    }

    /// The same session for another service: its type, name, region, interfaces and `endpoint_override` are taken from
    /// `options`. Auth without Keystone has one endpoint only and stays as it is.
    #[must_use]
    pub fn for_service(&self, options: &AuthOptions) -> Self {
        match &self.0 {
            Kind::Keystone {
                session, account, ..
            } => Self(Kind::Keystone {
                session: Arc::clone(session),
                target: Target::of(options),
                account: account.clone(),
            }),
            Kind::Fixed { .. } => self.clone(),
        }
    }

    /// The account, as far as the options name it.
    #[must_use]
    pub fn account(&self) -> Account {
        match &self.0 {
            Kind::Keystone { account, .. } => account.clone(),
            Kind::Fixed { .. } => Account::default(),
        }
    }

    pub(crate) async fn access(&self) -> Result<Access, AuthError> {
        match &self.0 {
            Kind::Fixed { endpoint, token } => Ok(Access {
                token: token.clone(),
                endpoint: endpoint.clone(),
                session: None,
            }),
            Kind::Keystone {
                session, target, ..
            } => {
                let token = session.token().await?;
                let endpoint = target.endpoint(&token.catalog)?;
                Ok(Access {
                    token: Some(token.header.clone()),
                    endpoint,
                    session: Some(token),
                })
            }
        }
    }

    /// The service answered 401 to this access. Says whether another one can be had.
    pub(crate) fn refused(&self, access: &Access) -> Renewal {
        match (&self.0, &access.session) {
            (Kind::Keystone { session, .. }, Some(token)) => {
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

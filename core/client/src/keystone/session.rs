//! A Keystone session: one token that all calls of a client share. A single request renews it before it expires.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use berth_wire::keystone::{
    AuthRequest, CatalogService, DomainRef, IdentityErrorDocument, Login, LoginScope, ProjectRef,
    TokenDocument, UserRef, parse_expiry,
};
use berth_wire::{BodyError, decode, encode};
use http::{HeaderValue, Method, StatusCode};
use tokio::sync::Mutex;

use super::target::BaseUrl;
use super::{AuthError, AuthOptions, AuthType, Secret};
use crate::call::{PreparedRequest, Repeat, ServiceLink, request_id};
use crate::sanitize::shown;

/// The wall clock, replaceable in tests.
pub type WallClock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The machine's wall clock.
#[must_use]
pub fn system_clock() -> WallClock {
    Arc::new(SystemTime::now)
}

/// A token is renewed this long before it expires. A token with a lifetime under 25 minutes is renewed when a fifth of
/// its lifetime is left.
const RENEW_BEFORE_EXPIRY: Duration = Duration::from_secs(300);
/// The pause after a failed renewal while the current token is still valid.
const RENEWAL_PAUSE: Duration = Duration::from_secs(30);
/// The route of the request in metrics and errors.
const ROUTE: &str = "/v3/auth/tokens";

/// A token with its catalog and expiry.
pub(super) struct SessionToken {
    pub(super) header: HeaderValue,
    pub(super) catalog: Vec<CatalogService>,
    expires_at: SystemTime,
    renew_at: SystemTime,
}

pub(super) struct KeystoneSession {
    link: ServiceLink,
    url: BaseUrl,
    options: AuthOptions,
    clock: WallClock,
    current: RwLock<Option<Arc<SessionToken>>>,
    /// Held while a token is requested.
    renewal_lock: Mutex<()>,
}

impl KeystoneSession {
    /// `url` is the checked `auth_url` of the options.
    pub(super) fn new(
        link: ServiceLink,
        url: &BaseUrl,
        options: AuthOptions,
        clock: WallClock,
    ) -> Self {
        Self {
            link,
            url: url.v3(),
            options,
            clock,
            current: RwLock::new(None),
            renewal_lock: Mutex::new(()),
        }
    }

    /// A valid token. It may expire soon if another task is renewing it, or if the renewal failed for a temporary reason.
    pub(super) async fn token(&self) -> Result<Arc<SessionToken>, AuthError> {
        let held = self.current_token();
        if let Some(token) = held
            .as_ref()
            .filter(|token| (self.clock)() < token.renew_at)
        {
            return Ok(Arc::clone(token));
        }
        // While one task renews a token that is still valid, others keep using it.
        let usable = held.filter(|token| (self.clock)() < token.expires_at);
        let _turn = match (usable.is_some(), self.renewal_lock.try_lock()) {
            (_, Ok(turn)) => turn,
            (true, Err(_)) if let Some(token) = usable => return Ok(token),
            (_, Err(_)) => self.renewal_lock.lock().await,
        };
        if let Some(token) = self
            .current_token()
            .filter(|token| (self.clock)() < token.renew_at)
        {
            return Ok(token);
        }
        let token = match (self.request_token().await, usable) {
            (Ok(token), _) => Arc::new(token),
            (Err(error), Some(old)) if error.disposition() == crate::Disposition::Retry => {
                tracing::debug!(%error, "renewing the token early failed; using the current one");
                let renew_at = ((self.clock)() + RENEWAL_PAUSE).min(old.expires_at);
                Arc::new(SessionToken {
                    header: old.header.clone(),
                    catalog: old.catalog.clone(),
                    renew_at,
                    ..*old
                })
            }
            (Err(error), _) => return Err(error),
        };
        self.set_current_token(Some(Arc::clone(&token)));
        Ok(token)
    }

    /// A service refused this token: the next call requests a new one.
    pub(super) fn refused(&self, token: &Arc<SessionToken>) {
        if self
            .current_token()
            .is_some_and(|held| held.header == token.header)
        {
            self.set_current_token(None);
        }
    }

    fn current_token(&self) -> Option<Arc<SessionToken>> {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_current_token(&self, token: Option<Arc<SessionToken>>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = token;
    }

    async fn request_token(&self) -> Result<SessionToken, AuthError> {
        let url = format!("{}/auth/tokens", self.url.as_str());
        let (login, scope) = (login(&self.options), scope(&self.options));
        let request = PreparedRequest {
            method: Method::POST,
            route: ROUTE,
            url: url.clone(),
            headers: Vec::new(),
            body: Some(encode(&AuthRequest::new(login, scope)).into()),
            // A repeated login only creates another token.
            repeat: Repeat::Safe,
            patience: 1,
            id: self.link.new_id(),
        };
        let answer = self
            .link
            .send(&request)
            .await
            .map_err(|reason| AuthError::Transport {
                url: url.clone(),
                reason,
            })?;
        let status = answer.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            let request_id = request_id(&answer);
            return Err(AuthError::Unavailable {
                url,
                status: status.as_u16(),
                request_id,
            });
        }
        if !status.is_success() {
            let document = decode::<IdentityErrorDocument>(answer.body());
            return Err(AuthError::Refused {
                account: account(&self.options),
                status: status.as_u16(),
                request_id: request_id(&answer),
                message: document.map_or_else(
                    |_| "no reason given".to_owned(),
                    |d| {
                        shown(
                            d.error.message.trim_end_matches('.'),
                            secrets(&self.options),
                        )
                    },
                ),
                hint: hint(status, &self.options),
                url,
            });
        }
        self.read_token(&answer)
            .map_err(|reason| AuthError::Malformed { url, reason })
    }

    fn read_token(&self, answer: &http::Response<bytes::Bytes>) -> Result<SessionToken, BodyError> {
        let subject = answer.headers().get("x-subject-token");
        let mut header = subject
            .cloned()
            .ok_or_else(|| BodyError::field("X-Subject-Token", "the header is missing"))?;
        header.set_sensitive(true);
        let token = decode::<TokenDocument>(answer.body())?.token;
        let expires_at = parse_expiry(&token.expires_at)
            .map_err(|error| BodyError::field("token.expires_at", error))?;
        let now = (self.clock)();
        let lifetime = expires_at.duration_since(now).unwrap_or_default();
        let renew_at = now + (lifetime - RENEW_BEFORE_EXPIRY.min(lifetime / 5));
        Ok(SessionToken {
            header,
            catalog: token.catalog,
            expires_at,
            renew_at,
        })
    }
}

fn login(options: &AuthOptions) -> Login<'_> {
    match options.auth_type {
        Some(AuthType::ApplicationCredential) => Login::ApplicationCredential {
            id: options.application_credential_id.as_deref(),
            name: match options.application_credential_id {
                Some(_) => None,
                None => options.application_credential_name.as_deref(),
            },
            user: options
                .application_credential_id
                .is_none()
                .then(|| user(options)),
            secret: revealed(&options.application_credential_secret),
        },
        Some(AuthType::Token) => Login::Token {
            id: revealed(&options.token),
        },
        _ => Login::Password {
            user: user(options),
            password: revealed(&options.password),
        },
    }
}

fn revealed(secret: &Option<Secret>) -> &str {
    secret.as_ref().map_or("", Secret::reveal)
}

fn scope(options: &AuthOptions) -> LoginScope<'_> {
    if options.auth_type == Some(AuthType::ApplicationCredential) {
        return LoginScope::Unscoped;
    }
    if options.system_scope.is_some() {
        return LoginScope::System;
    }
    let domain = || {
        domain(
            options,
            &options.project_domain_id,
            &options.project_domain_name,
        )
    };
    match (&options.project_id, &options.project_name) {
        (Some(id), _) => LoginScope::Project(ProjectRef {
            id: Some(id),
            name: None,
            domain: None,
        }),
        (None, Some(name)) => LoginScope::Project(ProjectRef {
            id: None,
            name: Some(name),
            domain: domain(),
        }),
        (None, None) => LoginScope::Unscoped,
    }
}

fn user(options: &AuthOptions) -> UserRef<'_> {
    match &options.user_id {
        Some(id) => UserRef {
            id: Some(id),
            name: None,
            domain: None,
        },
        None => UserRef {
            id: None,
            name: options.username.as_deref(),
            domain: domain(options, &options.user_domain_id, &options.user_domain_name),
        },
    }
}

fn domain<'a>(
    options: &'a AuthOptions,
    id: &'a Option<String>,
    name: &'a Option<String>,
) -> Option<DomainRef<'a>> {
    let own = id
        .as_deref()
        .map(DomainRef::Id)
        .or(name.as_deref().map(DomainRef::Name));
    let id = || options.default_domain_id.as_deref().map(DomainRef::Id);
    own.or_else(id)
        .or_else(|| options.default_domain_name.as_deref().map(DomainRef::Name))
}

/// The account, for error messages.
fn account(options: &AuthOptions) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let who = match options.auth_type {
        Some(AuthType::ApplicationCredential) => {
            let named = options
                .application_credential_id
                .as_ref()
                .or(options.application_credential_name.as_ref());
            format!(
                "application credential {}",
                named.cloned().unwrap_or_default()
            )
        }
        Some(AuthType::Token) => "the token".to_owned(),
        _ => format!(
            "user {}",
            text(&options.user_id.clone().or(options.username.clone()))
        ),
    };
    match (
        options
            .project_name
            .as_ref()
            .or(options.project_id.as_ref()),
        &options.system_scope,
    ) {
        (Some(project), _) => format!("{who} in project {project}"),
        (None, Some(_)) => format!("{who} for the system"),
        (None, None) => who,
    }
}

/// The secrets that a login may send.
fn secrets(options: &AuthOptions) -> impl Iterator<Item = &Secret> {
    [
        &options.password,
        &options.application_credential_secret,
        &options.token,
    ]
    .into_iter()
    .flatten()
}

fn hint(status: StatusCode, options: &AuthOptions) -> &'static str {
    if status != StatusCode::UNAUTHORIZED {
        return "check auth_url";
    }
    match options.auth_type {
        Some(AuthType::ApplicationCredential) => {
            "check application_credential_id and application_credential_secret, and whether the credential has expired"
        }
        Some(AuthType::Token) => "the token has expired or was revoked; give a new one",
        _ => {
            "check username, password, the domains and the project, and that the user has a role in that project \
             (openstack role assignment list --names)"
        }
    }
}

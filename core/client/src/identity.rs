//! Requests to Keystone with the service's own token: validates tokens (GET /v3/auth/tokens) and looks up projects.

use berth_wire::keystone::{IdentityErrorDocument, ValidatedToken, ValidatedTokenDocument};
use berth_wire::{BodyError, decode};
use http::{HeaderValue, Method, StatusCode};

use crate::adapter::AdapterCall;
use crate::keystone::target::BaseUrl;
use crate::{
    Adapter, AdapterOptions, Auth, AuthOptions, HttpService, OptionsError, ServiceCallError,
    WallClock,
};

/// The token could not be validated, or the project not be looked up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValidateError {
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    /// Keystone refused: the service's own account may not validate tokens.
    #[error(
        "Keystone answers {} ({request_id}) to a token validation; the account of [keystone_authtoken] needs \
         the role service or admin",
        status.as_u16()
    )]
    Refused {
        status: StatusCode,
        /// The answer's request id; `-` if it has none.
        request_id: String,
    },
    /// Keystone refused: the service's own account may not see projects.
    #[error(
        "Keystone answers {} ({request_id}) to the lookup of a project; the account of [keystone_authtoken] needs the \
         role reader for the system, or admin",
        status.as_u16()
    )]
    ProjectRefused {
        status: StatusCode,
        /// The answer's request id; `-` if it has none.
        request_id: String,
    },
    /// The answer is not a token document.
    #[error("Keystone's answer is not a token: {reason}")]
    Malformed { reason: BodyError },
}

/// Keystone. Clones share connections and session.
#[derive(Clone)]
pub struct IdentityClient {
    adapter: Adapter,
}

impl IdentityClient {
    /// Keystone at the `auth_url` of the account's options (`[keystone_authtoken]`).
    pub fn from_options(
        http: HttpService,
        options: &AuthOptions,
        clock: WallClock,
    ) -> Result<Self, OptionsError> {
        let adapter = AdapterOptions::from(options);
        let auth = Auth::from_options(options, &http, clock, &adapter)?;
        let url = BaseUrl::new(options.auth_url.as_deref().unwrap_or_default());
        let here = AuthOptions {
            endpoint_override: url.map(|url| url.unversioned().to_owned()),
            ..options.clone()
        };
        let auth = auth.for_service(&here);
        Ok(Self {
            adapter: Adapter::new("identity", http, auth, &adapter),
        })
    }

    /// Validates a token; `None` if Keystone does not know it.
    pub async fn validate(&self, token: &str) -> Result<Option<ValidatedToken>, ValidateError> {
        let Ok(mut subject) = HeaderValue::from_str(token) else {
            return Ok(None);
        };
        subject.set_sensitive(true);
        let path = "/v3/auth/tokens?nocatalog".to_owned();
        let call = AdapterCall::new(Method::GET, "/v3/auth/tokens", path, None);
        let answer = self.adapter.call_about(call, Some(subject)).await?;
        match answer.status {
            // A 404 of something else at this URL says nothing about the token.
            StatusCode::NOT_FOUND => decode::<IdentityErrorDocument>(&answer.body)
                .map(|_| None)
                .map_err(|reason| ValidateError::Malformed { reason }),
            status if status.is_success() => decode::<ValidatedTokenDocument>(&answer.body)
                .map(|document| Some(document.token))
                .map_err(|reason| ValidateError::Malformed { reason }),
            status => Err(ValidateError::Refused {
                status,
                request_id: answer.request_id,
            }),
        }
    }

    /// Whether a project exists.
    pub async fn project_exists(&self, project_id: &str) -> Result<bool, ValidateError> {
        // Keystone's ids have no other characters, so such a project does not exist, and the path needs no escapes.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if project_id.is_empty() || !project_id.bytes().all(is_plain) {
            return Ok(false);
        }
        let path = format!("/v3/projects/{project_id}");
        let call = AdapterCall::new(Method::GET, "/v3/projects/{id}", path, None);
        let answer = self.adapter.call(call).await?;
        match answer.status {
            StatusCode::NOT_FOUND => decode::<IdentityErrorDocument>(&answer.body)
                .map(|_| false)
                .map_err(|reason| ValidateError::Malformed { reason }),
            status if status.is_success() => Ok(true),
            status => Err(ValidateError::ProjectRefused {
                status,
                request_id: answer.request_id,
            }),
        }
    }
}

//! keystoneauth's options, by their names.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::StatusCode;

use super::Secret;
use crate::{Delay, RetryPolicy, TransportOptions};

/// The authentication method (`auth_type`, keystoneauth's plugin names).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthType {
    /// `password` or `v3password`.
    Password,
    /// `v3applicationcredential`.
    ApplicationCredential,
    /// `token` or `v3token`: a token exchanged for one of the wanted scope.
    Token,
    /// `admin_token`: a fixed token without Keystone.
    AdminToken,
    /// `none` or `noauth`: no token; no Keystone.
    None,
}

impl AuthType {
    /// Every name that [`AuthType::from_str`] takes.
    pub const NAMES: [&'static str; 8] = [
        "password",
        "v3password",
        "v3applicationcredential",
        "token",
        "v3token",
        "admin_token",
        "none",
        "noauth",
    ];
}

/// An unknown `auth_type`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an auth_type; known are {}", AuthType::NAMES.join(", "))]
pub struct AuthTypeError {
    text: String,
}

impl FromStr for AuthType {
    type Err = AuthTypeError;

    fn from_str(text: &str) -> Result<Self, AuthTypeError> {
        match text {
            "password" | "v3password" => Ok(Self::Password),
            "v3applicationcredential" => Ok(Self::ApplicationCredential),
            "token" | "v3token" => Ok(Self::Token),
            "admin_token" => Ok(Self::AdminToken),
            "none" | "noauth" => Ok(Self::None),
            _ => Err(AuthTypeError {
                text: text.chars().take(80).collect(),
            }),
        }
    }
}

impl fmt::Display for AuthType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password => "password",
            Self::ApplicationCredential => "v3applicationcredential",
            Self::Token => "v3token",
            Self::AdminToken => "admin_token",
            Self::None => "none",
        })
    }
}

/// The interface of an endpoint (`valid_interfaces`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceInterface {
    /// `internal`.
    Internal,
    /// `public`.
    Public,
    /// `admin`.
    Admin,
}

impl ServiceInterface {
    /// The name in the catalog.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Public => "public",
            Self::Admin => "admin",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an interface; known are internal, public, admin")]
pub struct InterfaceError {
    text: String,
}

impl FromStr for ServiceInterface {
    type Err = InterfaceError;

    /// Takes `internal` as well as the older `internalURL`.
    fn from_str(text: &str) -> Result<Self, InterfaceError> {
        match text.strip_suffix("URL").unwrap_or(text) {
            "internal" => Ok(Self::Internal),
            "public" => Ok(Self::Public),
            "admin" => Ok(Self::Admin),
            _ => Err(InterfaceError {
                text: text.chars().take(80).collect(),
            }),
        }
    }
}

/// One client section of the configuration (`[placement]`, `[cyborg]`): keystoneauth's options by their names. There is
/// no `min_version` and `max_version`, because every call pins its microversion.
#[derive(Debug, Clone)]
pub struct AuthOptions {
    /// The authentication method; required.
    pub auth_type: Option<AuthType>,
    /// Keystone's URL, with or without `/v3`.
    pub auth_url: Option<String>,
    /// The user's name; needs a user domain.
    pub username: Option<String>,
    /// The user's id; instead of `username`.
    pub user_id: Option<String>,
    pub password: Option<Secret>,
    /// The domain of `username`, by name.
    pub user_domain_name: Option<String>,
    /// The domain of `username`, by id.
    pub user_domain_id: Option<String>,
    /// The project's name; needs a project domain.
    pub project_name: Option<String>,
    /// The project's id; instead of `project_name`.
    pub project_id: Option<String>,
    /// The domain of `project_name`, by name.
    pub project_domain_name: Option<String>,
    /// The domain of `project_name`, by id.
    pub project_domain_id: Option<String>,
    /// The default for user and project domain, by name.
    pub default_domain_name: Option<String>,
    /// The default for user and project domain, by id.
    pub default_domain_id: Option<String>,
    /// `all`: a token for the whole system instead of a project.
    pub system_scope: Option<String>,
    /// The application credential's id.
    pub application_credential_id: Option<String>,
    /// The application credential's name; needs a user.
    pub application_credential_name: Option<String>,
    /// The application credential's secret.
    pub application_credential_secret: Option<Secret>,
    /// The token of `token`, `v3token` and `admin_token`.
    pub token: Option<Secret>,
    /// The service's URL, instead of the one in the catalog.
    pub endpoint_override: Option<String>,
    /// The same option as named by `admin_token` and `none`.
    pub endpoint: Option<String>,
    /// Only endpoints of this region.
    pub region_name: Option<String>,
    /// Interfaces in order of preference (default internal, then public).
    pub valid_interfaces: Vec<ServiceInterface>,
    /// The service's type in the catalog.
    pub service_type: String,
    /// Only services of this name.
    pub service_name: Option<String>,
    /// A PEM file of the authorities to trust.
    pub cafile: Option<PathBuf>,
    /// A PEM file with this client's certificate.
    pub certfile: Option<PathBuf>,
    /// A PEM file with its key.
    pub keyfile: Option<PathBuf>,
    /// Certificates are not checked.
    pub insecure: bool,
    /// Repetitions after a connection failed (default 0).
    pub connect_retries: u32,
    /// A fixed delay between them; by default the delay doubles from 0.5 s up to 60 s.
    pub connect_retry_delay: Option<Duration>,
    /// Repetitions after a retriable status (default 0).
    pub status_code_retries: u32,
    /// A fixed delay between them; by default the delay doubles from 0.5 s up to 60 s.
    pub status_code_retry_delay: Option<Duration>,
    /// Statuses after which a request is retried (default 503).
    pub retriable_status_codes: Vec<u16>,
    /// The timeout of one request (default 60 s; ten times as long for a reshape).
    pub timeout: Option<Duration>,
}

impl AuthOptions {
    /// The defaults for a service of this type in the catalog (`placement`, `accelerator`).
    #[must_use]
    pub fn for_service(service_type: &str) -> Self {
        Self {
            auth_type: None,
            auth_url: None,
            username: None,
            user_id: None,
            password: None,
            user_domain_name: None,
            user_domain_id: None,
            project_name: None,
            project_id: None,
            project_domain_name: None,
            project_domain_id: None,
            default_domain_name: None,
            default_domain_id: None,
            system_scope: None,
            application_credential_id: None,
            application_credential_name: None,
            application_credential_secret: None,
            token: None,
            endpoint_override: None,
            endpoint: None,
            region_name: None,
            valid_interfaces: vec![ServiceInterface::Internal, ServiceInterface::Public],
            service_type: service_type.to_owned(),
            service_name: None,
            cafile: None,
            certfile: None,
            keyfile: None,
            insecure: false,
            connect_retries: 0,
            connect_retry_delay: None,
            status_code_retries: 0,
            status_code_retry_delay: None,
            retriable_status_codes: vec![503],
            timeout: None,
        }
    }

    /// The options of the connection.
    #[must_use]
    pub fn transport(&self) -> TransportOptions {
        TransportOptions {
            cafile: self.cafile.clone(),
            certfile: self.certfile.clone(),
            keyfile: self.keyfile.clone(),
            insecure: self.insecure,
            ..TransportOptions::default()
        }
    }

    /// How often requests are to be repeated.
    #[must_use]
    pub fn retry(&self) -> RetryPolicy {
        let delay = |fixed: Option<Duration>| fixed.map_or(Delay::Exponential, Delay::Fixed);
        let codes = self.retriable_status_codes.iter();
        RetryPolicy {
            connect_retries: self.connect_retries,
            connect_retry_delay: delay(self.connect_retry_delay),
            status_code_retries: self.status_code_retries,
            status_code_retry_delay: delay(self.status_code_retry_delay),
            retriable_status_codes: codes
                .filter_map(|code| StatusCode::from_u16(*code).ok())
                .collect(),
        }
    }

    /// The service's URL, if it is fixed.
    pub(super) fn fixed_endpoint(&self) -> Option<&str> {
        self.endpoint_override
            .as_deref()
            .or(self.endpoint.as_deref())
    }
}

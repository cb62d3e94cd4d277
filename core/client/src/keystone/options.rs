//! keystoneauth's options, with their names.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use berth_options::{OptionKind, options, text_type};
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
    /// All names that [`AuthType::from_str`] accepts.
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

text_type!(AuthType, OptionKind::Choice(&AuthType::NAMES));

/// The interface of an endpoint (`valid_interfaces`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceInterface {
    Internal,
    Public,
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

impl fmt::Display for ServiceInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const INTERFACES: &[&str] = &["internal", "public", "admin"];

text_type!(
    ServiceInterface,
    OptionKind::Choice(INTERFACES),
    OptionKind::Choices(INTERFACES)
);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an interface; known are internal, public, admin")]
pub struct InterfaceError {
    text: String,
}

impl FromStr for ServiceInterface {
    type Err = InterfaceError;

    /// Accepts `internal` as well as the older `internalURL`.
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

options! {
    /// One client section of the configuration (`[placement]`, `[cyborg]`), with keystoneauth's options. `min_version`
    /// and `max_version` do not exist, because every call has a fixed microversion.
    #[derive(Debug, Clone)]
    pub struct AuthOptions in "" {
        /// How to log in: `password`, `v3applicationcredential`, `v3token`, `admin_token` (a fixed token) or `none`.
        pub auth_type: Option<AuthType> = None, example: "\"password\"";
        /// The Identity service.
        pub auth_url: Option<String> = None, kind: URL, example: "\"https://keystone.example.org:5000/v3\"";
        /// User name.
        pub username: Option<String> = None, example: "\"berth\"";
        /// User id, instead of name and domain.
        pub user_id: Option<String> = None;
        /// Password.
        pub password: Option<Secret> = None;
        /// Domain of the user.
        pub user_domain_name: Option<String> = None, example: "\"Default\"";
        /// Domain of the user, by id.
        pub user_domain_id: Option<String> = None;
        /// Project to be scoped to.
        pub project_name: Option<String> = None, example: "\"service\"";
        /// Project to be scoped to, by id.
        pub project_id: Option<String> = None;
        /// Domain of the project.
        pub project_domain_name: Option<String> = None, example: "\"Default\"";
        /// Domain of the project, by id.
        pub project_domain_id: Option<String> = None;
        /// Domain that is used if no user or project domain is given.
        pub default_domain_name: Option<String> = None;
        /// Id of the domain that is used if no user or project domain is given.
        pub default_domain_id: Option<String> = None;
        /// `all` for a system scoped token.
        pub system_scope: Option<String> = None, kind: Choice(&["all"]), example: "\"all\"";
        /// Application credential, by id.
        pub application_credential_id: Option<String> = None;
        /// Application credential, by name; needs the user too.
        pub application_credential_name: Option<String> = None;
        /// Secret of the application credential.
        pub application_credential_secret: Option<Secret> = None;
        /// Token, for `v3token` and `admin_token`.
        pub token: Option<Secret> = None;
        /// The service's endpoint, instead of the one in the catalog.
        pub endpoint_override: Option<String> = None, kind: URL;
        /// The same as `endpoint_override`, under its name for `admin_token` and `none`.
        pub endpoint: Option<String> = None, kind: URL;
        /// Region of the endpoint in the catalog.
        pub region_name: Option<String> = None, example: "\"RegionOne\"";
        /// Service type in the catalog.
        pub service_type: String = String::new();
        /// Service name in the catalog.
        pub service_name: Option<String> = None;
        /// Interfaces of the endpoint in the catalog, in order of preference.
        pub valid_interfaces: Vec<ServiceInterface> = vec![ServiceInterface::Internal, ServiceInterface::Public];
        /// PEM file of the authorities that may sign the server.
        pub cafile: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/ssl/certs/ca-certificates.crt\"";
        /// PEM file of the client certificate.
        pub certfile: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/client.pem\"";
        /// PEM file of the client certificate's key.
        pub keyfile: Option<PathBuf> = None, kind: SECRET_FILE, example: "\"/etc/berth/client.key\"";
        /// Whether any server certificate is accepted.
        pub insecure: bool = false;
        /// Seconds that one request may take. A reshape of Placement may take ten times as long.
        pub timeout: Option<Duration> = None, kind: Seconds(0.1, 3600.0), derived: "60", example: "60.0";
        /// How often a failed connection is retried.
        pub connect_retries: u32 = 0, kind: Integer(0, 100);
        /// Seconds before a failed connection is retried; unset: doubling from 0.5 up to 60.
        pub connect_retry_delay: Option<Duration> = None, kind: Seconds(0.0, 600.0), example: "0.5";
        /// How often a request is retried after status 503.
        pub status_code_retries: u32 = 0, kind: Integer(0, 100);
        /// Seconds before a request is retried after status 503; unset: doubling from 0.5 up to 60.
        pub status_code_retry_delay: Option<Duration> = None, kind: Seconds(0.0, 600.0), example: "0.5";
    }
    extra {
        /// Statuses after which a request is retried.
        pub retriable_status_codes: Vec<u16> = vec![503];
    }
}

impl AuthOptions {
    /// The defaults for a service of this type in the catalog (`placement`, `accelerator`).
    #[must_use]
    pub fn for_service(service_type: &str) -> Self {
        Self {
            service_type: service_type.to_owned(),
            ..Self::default()
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

    /// How often requests are retried.
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

//! The real Keystone, on a copy of a database that `tests/peers/keystone_seed.py` filled: a project `service`, the
//! users below, and a catalog with Placement, Cyborg, Glance, Neutron and a Nova.

use std::collections::HashMap;
use std::fs;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use super::uwsgi::Uwsgi;
use super::{PeerError, installed, sqlite, write};
use crate::exchange::HttpCall;
use crate::scratch::{Scratch, copy_tree};

/// Every user's; it guards nothing.
pub(super) const PASSWORD: &str = "test-only";

/// How a [`RealKeystone`] is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeystoneSettings {
    /// Lifetime of its tokens in seconds.
    pub token_expiration: u32,
}

impl Default for KeystoneSettings {
    /// Tokens for an hour, as Keystone's own default.
    fn default() -> Self {
        Self {
            token_expiration: 3600,
        }
    }
}

/// What a client logs in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// `auth_type = password`, on the project `service` in the domain `default`.
    Password { username: String, password: String },
    /// The same on the project `tenant`.
    Tenant { username: String, password: String },
    /// `auth_type = v3applicationcredential`.
    ApplicationCredential { id: String, secret: String },
}

impl Credentials {
    fn password(username: &str) -> Self {
        Self::Password {
            username: username.to_owned(),
            password: PASSWORD.to_owned(),
        }
    }

    /// The project that they are for.
    #[must_use]
    pub fn project(&self) -> &'static str {
        match self {
            Self::Password { .. } | Self::ApplicationCredential { .. } => "service",
            Self::Tenant { .. } => "tenant",
        }
    }

    /// What tells the account from others.
    fn account(&self) -> &str {
        match self {
            Self::Password { username, .. } | Self::Tenant { username, .. } => username,
            Self::ApplicationCredential { id, .. } => id,
        }
    }

    fn request(&self) -> Value {
        match self {
            Self::Password { username, password } | Self::Tenant { username, password } => {
                json!({"auth": {
                    "identity": {"methods": ["password"], "password": {"user": {
                        "name": username, "domain": {"id": "default"}, "password": password}}},
                    "scope": {"project": {"name": self.project(), "domain": {"id": "default"}}},
                }})
            }
            Self::ApplicationCredential { id, secret } => json!({"auth": {
                "identity": {"methods": ["application_credential"], "application_credential": {
                    "id": id, "secret": secret}},
            }}),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Seed {
    region: String,
    application_credential_id: String,
    application_credential_secret: String,
    identity_endpoints: Vec<String>,
    placement_endpoints: Vec<String>,
    accelerator_endpoints: Vec<String>,
    compute_endpoints: Vec<String>,
    image_endpoints: Vec<String>,
    network_endpoints: Vec<String>,
    tenant: String,
}

#[derive(Debug)]
pub struct RealKeystone {
    service: Uwsgi,
    seed: Seed,
    /// The first token of each account, by its user's name or its credential's id.
    kept: Mutex<HashMap<String, String>>,
    /// Last: the service ends before its files go.
    scratch: Scratch,
}

impl RealKeystone {
    pub fn start(settings: KeystoneSettings) -> Result<Self, PeerError> {
        let peers = installed()?;
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for Keystone"))?;
        let dir = scratch.join("keystone");
        copy_tree(&peers.join("templates/keystone"), &dir)
            .map_err(PeerError::files("copy Keystone's template"))?;
        let seed = fs::read(dir.join("seed.json"))
            .map_err(PeerError::files("read what Keystone was given"))?;
        let seed: Seed = serde_json::from_slice(&seed).map_err(|error| PeerError::Files {
            doing: "read what Keystone was given",
            source: error.into(),
        })?;
        let configuration = include_str!("../../peers/keystone.conf")
            .replace("@DIR@", &dir.display().to_string())
            .replace("@EXPIRATION@", &settings.token_expiration.to_string());
        write(&dir.join("keystone.conf"), &configuration)?;
        let log = scratch.join("log");
        let service = Uwsgi::new(
            "keystone.wsgi.api:application",
            ("OS_KEYSTONE_CONFIG_DIR", dir),
            1,
            log,
        )?;
        let mut keystone = Self {
            service,
            seed,
            kept: Mutex::default(),
            scratch,
        };
        // keystonemiddleware looks its own Keystone up in the catalog.
        keystone.set_endpoints(&keystone.seed.identity_endpoints, &keystone.url())?;
        keystone.restart()?;
        Ok(keystone)
    }

    /// `http://127.0.0.1:PORT/v3`, the `auth_url` of clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v3", self.service.port())
    }

    /// The region of its catalog.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.seed.region
    }

    /// `berth`: roles `admin` and `service`.
    #[must_use]
    pub fn berth(&self) -> Credentials {
        Credentials::password("berth")
    }

    /// `berth_admin_only`: role `admin`, so POST /reshaper is refused.
    #[must_use]
    pub fn berth_admin_only(&self) -> Credentials {
        Credentials::password("berth_admin_only")
    }

    /// The id of the project `tenant`.
    #[must_use]
    pub fn tenant_project(&self) -> &str {
        &self.seed.tenant
    }

    /// A user of the project `tenant` with the role `member`.
    #[must_use]
    pub fn tenant(&self) -> Credentials {
        Credentials::Tenant {
            username: "tenant".to_owned(),
            password: PASSWORD.to_owned(),
        }
    }

    /// A user of the project `tenant` with the roles `member` and `service`.
    #[must_use]
    pub fn tenant_service(&self) -> Credentials {
        Credentials::Tenant {
            username: "tenant_service".to_owned(),
            password: PASSWORD.to_owned(),
        }
    }

    /// An application credential of `berth`, with both its roles.
    #[must_use]
    pub fn application_credential(&self) -> Credentials {
        Credentials::ApplicationCredential {
            id: self.seed.application_credential_id.clone(),
            secret: self.seed.application_credential_secret.clone(),
        }
    }

    /// Logs in and gives the token.
    pub fn token(&self, credentials: &Credentials) -> Result<String, PeerError> {
        self.log_in(&credentials.request())
    }

    /// The account's token, from one login for the life of this Keystone, for frequent callers that end before the
    /// token expires.
    pub fn kept_token(&self, credentials: &Credentials) -> Result<String, PeerError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let account = credentials.account();
        if let Some(token) = kept.get(account) {
            return Ok(token.clone());
        }
        let token = self.token(credentials)?;
        kept.insert(account.to_owned(), token.clone());
        Ok(token)
    }

    /// Ends a token at once, as a change of password or role would.
    pub fn revoke(&self, token: &str) -> Result<(), PeerError> {
        let ask = HttpCall::delete(format!("{}/auth/tokens", self.url()))
            .header("x-auth-token", token)
            .header("x-subject-token", token);
        expect_success("DELETE /v3/auth/tokens", ask).map(drop)
    }

    /// Lets the catalog name this URL for the service `placement`, on its three interfaces.
    pub fn set_placement_endpoint(&self, url: &str) -> Result<(), PeerError> {
        self.set_endpoints(&self.seed.placement_endpoints, url)
    }

    /// The same for the service `accelerator`.
    pub fn set_accelerator_endpoint(&self, url: &str) -> Result<(), PeerError> {
        self.set_endpoints(&self.seed.accelerator_endpoints, url)
    }

    /// The same for the service `compute`, which gets Cyborg's events about binds.
    pub fn set_compute_endpoint(&self, url: &str) -> Result<(), PeerError> {
        self.set_endpoints(&self.seed.compute_endpoints, url)
    }

    /// The same for the service `image`.
    pub fn set_image_endpoint(&self, url: &str) -> Result<(), PeerError> {
        self.set_endpoints(&self.seed.image_endpoints, url)
    }

    /// The same for the service `network`.
    pub fn set_network_endpoint(&self, url: &str) -> Result<(), PeerError> {
        self.set_endpoints(&self.seed.network_endpoints, url)
    }

    /// In its database, which it reads at each request; by its API a token of a short life would not do.
    fn set_endpoints(&self, endpoints: &[String], url: &str) -> Result<(), PeerError> {
        let sql = format!(
            "update endpoint set url = '{url}' where id in ('{}')",
            endpoints.join("', '")
        );
        sqlite::query(&self.scratch.join("keystone/keystone.sqlite"), &sql).map(drop)
    }

    /// A graceful end. Connections are refused afterwards.
    pub fn stop(&mut self) {
        self.service.stop();
    }

    /// SIGKILL to all its processes.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts it again on the same port and rows, where it does not run.
    pub fn restart(&mut self) -> Result<(), PeerError> {
        self.service.start("/v3")
    }

    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.service.log()).unwrap_or_default()).into_owned()
    }

    fn log_in(&self, request: &Value) -> Result<String, PeerError> {
        let ask = HttpCall::post(format!("{}/auth/tokens", self.url())).json(request);
        Ok(expect_success("POST /v3/auth/tokens", ask)?
            .header("x-subject-token")
            .to_owned())
    }
}

fn expect_success(asked: &str, ask: HttpCall) -> Result<crate::exchange::HttpAnswer, PeerError> {
    let answer = ask.send()?;
    if answer.status.is_success() {
        return Ok(answer);
    }
    Err(PeerError::Answer {
        asked: asked.to_owned(),
        status: answer.status.as_u16(),
        body: answer.text(),
    })
}

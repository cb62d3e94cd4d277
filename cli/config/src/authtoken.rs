//! `[keystone_authtoken]` as the client's own [`AuthOptions`].

use std::path::PathBuf;
use std::time::Duration;

use berth_client::{AuthOptions, AuthType, Secret};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

#[derive(Debug, Clone)]
pub struct KeystoneAuthtoken {
    /// The account that asks.
    pub account: AuthOptions,
    /// How long Keystone's word on a token is believed.
    pub token_cache_time: Duration,
}

/// The section as it is written; the client's type has no serde.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthtokenWords {
    auth_type: String,
    auth_url: Option<String>,
    username: Option<String>,
    password: Option<Secret>,
    user_domain_name: Option<String>,
    project_name: Option<String>,
    project_domain_name: Option<String>,
    application_credential_id: Option<String>,
    application_credential_secret: Option<Secret>,
    cafile: Option<PathBuf>,
    insecure: bool,
    token_cache_time: u64,
}

impl<'de> Deserialize<'de> for KeystoneAuthtoken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = AuthtokenWords::deserialize(deserializer)?;
        let auth_type: AuthType = words.auth_type.parse().map_err(D::Error::custom)?;
        Ok(Self {
            account: AuthOptions {
                auth_type: Some(auth_type),
                auth_url: words.auth_url,
                username: words.username,
                password: words.password,
                user_domain_name: words.user_domain_name,
                project_name: words.project_name,
                project_domain_name: words.project_domain_name,
                application_credential_id: words.application_credential_id,
                application_credential_secret: words.application_credential_secret,
                cafile: words.cafile,
                insecure: words.insecure,
                // A caller waits behind this.
                timeout: Some(Duration::from_secs(10)),
                ..AuthOptions::for_service("identity")
            },
            token_cache_time: Duration::from_secs(words.token_cache_time),
        })
    }
}

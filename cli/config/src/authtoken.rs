//! `[keystone_authtoken]` as the client's own [`AuthOptions`].

use std::path::PathBuf;
use std::time::Duration;

use berth_client::{AuthOptions, AuthType, Secret};
use berth_options::{options, seconds};

#[derive(Debug, Clone)]
pub struct KeystoneAuthtoken {
    /// The account of the service.
    pub account: AuthOptions,
    /// How long a validated token is cached.
    pub token_cache_time: Duration,
}

options! {
    /// The account with which a built-in service validates tokens in Keystone if its `auth_strategy` is `keystone`. The
    /// options have keystonemiddleware's names.
    #[derive(Debug, Clone)]
    pub(super) struct AuthtokenOptions in "keystone_authtoken" {
        /// How to log in.
        auth_type: AuthType = AuthType::Password, kind: Choice(&["password", "v3applicationcredential"]);
        /// The Identity service.
        auth_url: Option<String> = None, kind: URL, example: "\"https://keystone.example.org:5000/v3\"";
        /// User name.
        username: Option<String> = None, example: "\"cyborg\"";
        /// Password.
        password: Option<Secret> = None;
        /// Domain of the user.
        user_domain_name: Option<String> = None, example: "\"Default\"";
        /// Project to be scoped to.
        project_name: Option<String> = None, example: "\"service\"";
        /// Domain of the project.
        project_domain_name: Option<String> = None, example: "\"Default\"";
        /// Application credential, by id.
        application_credential_id: Option<String> = None;
        /// Secret of the application credential.
        application_credential_secret: Option<Secret> = None;
        /// PEM file of the authorities that may sign the server.
        cafile: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/ssl/certs/ca-certificates.crt\"";
        /// Whether any server certificate is accepted.
        insecure: bool = false;
        /// Seconds for which a validated token is cached. A revoked token stays valid for that long.
        token_cache_time: Duration = seconds(300), kind: Integer(0, 3600);
    }
}

impl Default for KeystoneAuthtoken {
    fn default() -> Self {
        AuthtokenOptions::default().into()
    }
}

impl From<AuthtokenOptions> for KeystoneAuthtoken {
    fn from(options: AuthtokenOptions) -> Self {
        Self {
            account: AuthOptions {
                auth_type: Some(options.auth_type),
                auth_url: options.auth_url,
                username: options.username,
                password: options.password,
                user_domain_name: options.user_domain_name,
                project_name: options.project_name,
                project_domain_name: options.project_domain_name,
                application_credential_id: options.application_credential_id,
                application_credential_secret: options.application_credential_secret,
                cafile: options.cafile,
                insecure: options.insecure,
                // Callers wait for this.
                timeout: Some(seconds(10)),
                ..AuthOptions::for_service("identity")
            },
            token_cache_time: options.token_cache_time,
        }
    }
}

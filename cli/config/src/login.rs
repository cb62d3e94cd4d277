//! `[placement]` as the client's own [`AuthOptions`].

use std::path::PathBuf;
use std::time::Duration;

use berth_client::keystone::{InterfaceError, ServiceInterface};
use berth_client::{AuthOptions, AuthType, Secret};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// The section as it is written; the client's type has no serde.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginWords {
    auth_type: Option<String>,
    auth_url: Option<String>,
    username: Option<String>,
    user_id: Option<String>,
    password: Option<Secret>,
    user_domain_name: Option<String>,
    user_domain_id: Option<String>,
    project_name: Option<String>,
    project_id: Option<String>,
    project_domain_name: Option<String>,
    project_domain_id: Option<String>,
    default_domain_name: Option<String>,
    default_domain_id: Option<String>,
    system_scope: Option<String>,
    application_credential_id: Option<String>,
    application_credential_name: Option<String>,
    application_credential_secret: Option<Secret>,
    token: Option<Secret>,
    endpoint_override: Option<String>,
    endpoint: Option<String>,
    region_name: Option<String>,
    valid_interfaces: Vec<String>,
    service_type: String,
    service_name: Option<String>,
    cafile: Option<PathBuf>,
    certfile: Option<PathBuf>,
    keyfile: Option<PathBuf>,
    insecure: bool,
    connect_retries: u32,
    connect_retry_delay: Option<f64>,
    status_code_retries: u32,
    status_code_retry_delay: Option<f64>,
    timeout: Option<f64>,
}

pub(super) fn auth_options<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<AuthOptions, D::Error> {
    let words = LoginWords::deserialize(deserializer)?;
    let seconds = |number: Option<f64>| {
        number
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(D::Error::custom)
    };
    Ok(AuthOptions {
        auth_type: words
            .auth_type
            .as_deref()
            .map(str::parse::<AuthType>)
            .transpose()
            .map_err(D::Error::custom)?,
        auth_url: words.auth_url,
        username: words.username,
        user_id: words.user_id,
        password: words.password,
        user_domain_name: words.user_domain_name,
        user_domain_id: words.user_domain_id,
        project_name: words.project_name,
        project_id: words.project_id,
        project_domain_name: words.project_domain_name,
        project_domain_id: words.project_domain_id,
        default_domain_name: words.default_domain_name,
        default_domain_id: words.default_domain_id,
        system_scope: words.system_scope,
        application_credential_id: words.application_credential_id,
        application_credential_name: words.application_credential_name,
        application_credential_secret: words.application_credential_secret,
        token: words.token,
        endpoint_override: words.endpoint_override,
        endpoint: words.endpoint,
        region_name: words.region_name,
        valid_interfaces: interfaces(&words.valid_interfaces).map_err(D::Error::custom)?,
        service_name: words.service_name,
        cafile: words.cafile,
        certfile: words.certfile,
        keyfile: words.keyfile,
        insecure: words.insecure,
        connect_retries: words.connect_retries,
        connect_retry_delay: seconds(words.connect_retry_delay)?,
        status_code_retries: words.status_code_retries,
        status_code_retry_delay: seconds(words.status_code_retry_delay)?,
        timeout: seconds(words.timeout)?,
        ..AuthOptions::for_service(&words.service_type)
    })
}

fn interfaces(words: &[String]) -> Result<Vec<ServiceInterface>, InterfaceError> {
    words.iter().map(|word| word.parse()).collect()
}

//! The built-in Placement for callers outside this process: whom it believes, who may do what, where it is heard.

use std::net::SocketAddr;
use std::sync::Arc;

use berth_http::{NoAuth2, ValidateToken};
use berth_placement::Options;

use super::policy;
use crate::config::{AuthStrategy, Config};
use crate::failure::Failure;
use crate::keystone_tokens::KeystoneTokens;

/// How the built-in Placement behaves, by `[placement_service]` and `[cors]`.
///
/// # Errors
/// The way to Keystone is not configured, or the policy file cannot be used.
pub(crate) fn options(config: &Config) -> Result<Options, Failure> {
    let own = &config.placement_service;
    let tokens: Arc<dyn ValidateToken> = match own.auth_strategy {
        AuthStrategy::Noauth2 => Arc::new(NoAuth2::default()),
        AuthStrategy::Keystone => Arc::new(KeystoneTokens::new(&config.keystone_authtoken)?),
    };
    Ok(Options {
        tokens,
        policy: policy::in_force(config)?,
        incomplete_consumer_project_id: own.incomplete_consumer_project_id.clone(),
        incomplete_consumer_user_id: own.incomplete_consumer_user_id.clone(),
        randomize_allocation_candidates: own.randomize_allocation_candidates,
        max_allocation_candidates: own.max_allocation_candidates,
        cors: config.cors.clone().into(),
        path_prefix: own.path_prefix.clone(),
        ..Options::default()
    })
}

/// Where its callers find it.
pub(crate) fn url(address: SocketAddr, config: &Config) -> String {
    format!("http://{address}{}", config.placement_service.path_prefix)
}

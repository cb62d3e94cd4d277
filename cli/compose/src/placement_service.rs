//! The options of the built-in Placement: tokens, policy and limits, from `[placement_service]` and `[cors]`.

use std::net::SocketAddr;
use std::sync::Arc;

use berth_config::{AuthStrategy, Config, SNAPSHOT_NEEDS_SQLITE, Secret};
use berth_http::{NoAuth2, ValidateToken};
use berth_output::{ErrorCode, Failure};
use berth_placement::{CandidatesFrom, PlacementApiOptions};
use berth_store::sql::Location;

use crate::database;
use crate::keystone_tokens::KeystoneTokens;
use crate::policy::placement_policy_in_force;

/// Options of the built-in Placement on the database of a URL, from `[placement_service]` and `[cors]`.
///
/// Errors: Access to Keystone is not configured, the policy file cannot be used, or `snapshot` is set although other
/// processes may write.
pub fn placement_options(config: &Config, url: &Secret) -> Result<PlacementApiOptions, Failure> {
    let own = &config.placement_service;
    if own.allocation_candidates_from == CandidatesFrom::Snapshot
        && matches!(database::location(url)?, Location::Server(_))
    {
        let what = format!(
            "placement_service.allocation_candidates_from: {}",
            SNAPSHOT_NEEDS_SQLITE
        );
        return Err(Failure::new(ErrorCode::BadValue, what).hint("write \"auto\" or \"sql\""));
    }
    let tokens: Arc<dyn ValidateToken> = match own.auth_strategy {
        AuthStrategy::Noauth2 => Arc::new(NoAuth2::default()),
        AuthStrategy::Keystone => Arc::new(KeystoneTokens::new(&config.keystone_authtoken)?),
    };
    Ok(PlacementApiOptions {
        tokens,
        policy: placement_policy_in_force(config)?,
        incomplete_consumer_project_id: own.incomplete_consumer_project_id.clone(),
        incomplete_consumer_user_id: own.incomplete_consumer_user_id.clone(),
        randomize_allocation_candidates: own.randomize_allocation_candidates,
        max_allocation_candidates: own.max_allocation_candidates,
        candidates_from: own.allocation_candidates_from,
        cors: config.cors.clone(),
        path_prefix: own.path_prefix.clone(),
        ..PlacementApiOptions::default()
    })
}

/// The URL for its callers.
pub fn placement_url(address: SocketAddr, config: &Config) -> String {
    let root = config.placement_listener().url(address);
    format!("{root}{}", config.placement_service.path_prefix)
}

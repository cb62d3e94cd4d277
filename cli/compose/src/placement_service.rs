//! The built-in Placement: its options (tokens, policy and limits, from `[placement_service]` and `[cors]`), and its
//! parts in `berth up` and `berth controller`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use berth_config::{AuthStrategy, Config, SNAPSHOT_NEEDS_SQLITE, Secret};
use berth_http::{NoAuth2, Prefix, ValidateToken};
use berth_output::{ErrorCode, Failure};
use berth_placement::{CandidatesFrom, PlacementApiOptions, router};
use berth_store::SqlStore;
use berth_store::sql::Location;

use crate::database;
use crate::keystone_tokens::KeystoneTokens;
use crate::listener::{PLACEMENT, ServiceListener};
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
    let tokens: Arc<dyn ValidateToken> = match own.auth_strategy.unwrap_or_default() {
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

/// The built-in Placement, open and not served yet.
pub struct BuiltInPlacement {
    pub store: SqlStore,
    pub options: PlacementApiOptions,
    /// Its own address, if one is configured.
    pub listener: Option<ServiceListener>,
}

impl BuiltInPlacement {
    /// Opens the database, and the service's own address if there is one.
    ///
    /// Errors: As for [`placement_options`]; another process uses the database or the address; or the configuration
    /// does not say who may use the address.
    pub async fn open(config: &Config, listen: Option<SocketAddr>) -> Result<Self, Failure> {
        let url = config.placement_database();
        let options = placement_options(config, &url)?;
        let store = database::open(&url, config).await?;
        let strategy = config.placement_service.auth_strategy;
        Ok(Self {
            listener: PLACEMENT.own(config, listen, strategy).await?,
            store,
            options,
        })
    }

    /// The URL of its own address.
    #[must_use]
    pub fn url(&self, config: &Config) -> Option<String> {
        let listener = self.listener.as_ref()?;
        Some(placement_url(listener.address, config))
    }

    /// The API for callers that a socket has authenticated.
    pub(crate) fn local_api(&self) -> Router {
        let options = PlacementApiOptions {
            tokens: Arc::new(NoAuth2::default()),
            path_prefix: Prefix::default(),
            ..self.options.clone()
        };
        router(self.store.clone(), options)
    }
}

/// The URL for its callers.
pub fn placement_url(address: SocketAddr, config: &Config) -> String {
    let root = config.placement_listener().url(address);
    format!("{root}{}", config.placement_service.path_prefix)
}

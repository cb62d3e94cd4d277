//! The options of the built-in accelerator service, from `[accelerator_service]`.

use std::sync::Arc;
use std::time::Duration;

use berth_accelerator::{AcceleratorApiOptions, EventNotifier, HostChangeNotifier, ServiceTokens};
use berth_client::PlacementClient;
use berth_config::{AuthStrategy, Config};
use berth_http::{NoAuth2, ValidateToken};
use berth_output::Failure;

use crate::keystone_tokens::KeystoneTokens;
use crate::policy::accelerator_policy_in_force;
use crate::provider_roots::ProviderRoots;

/// Time between two checks of Placement for lost resource providers.
pub const PROVIDER_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The service's options from the configuration. The service looks up the providers of reported
/// devices in `placement`.
///
/// Errors: Access to Keystone is not configured, or the policy file cannot be used.
pub fn accelerator_options(
    config: &Config,
    event_notifier: EventNotifier,
    hosts: HostChangeNotifier,
    placement: Option<PlacementClient>,
) -> Result<AcceleratorApiOptions, Failure> {
    let (tokens, service_tokens): (Arc<dyn ValidateToken>, _) =
        match config.accelerator_service.auth_strategy.unwrap_or_default() {
            AuthStrategy::Noauth2 => (Arc::new(NoAuth2::default()), ServiceTokens::Waived),
            AuthStrategy::Keystone => {
                let tokens = KeystoneTokens::new(&config.keystone_authtoken)?;
                (Arc::new(tokens), ServiceTokens::Required)
            }
        };
    Ok(AcceleratorApiOptions {
        tokens,
        policy: accelerator_policy_in_force(config)?,
        service_tokens,
        notifier: event_notifier,
        hosts,
        orphan_grace: config.accelerator_service.orphan_request_grace,
        bind_timeout: config.accelerator_service.bind_timeout,
        max_unbound_requests: config.accelerator_service.max_unbound_requests,
        providers: placement.map(|placement| Arc::new(ProviderRoots(placement)) as _),
        ..AcceleratorApiOptions::default()
    })
}

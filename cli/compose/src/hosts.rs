//! The built-in hosts service and the scheduler: one database of host states, which agents write and the scheduler
//! reads for each boot.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_client::{HostsClient, PlacementClient};
use berth_conductor::{AttestationSource, FilterScheduler, PluginError, Plugins};
use berth_config::{AuthStrategy, Config};
use berth_hosts::{Hosts, HostsApiOptions, HostsOptions, router};
use berth_http::{NoAuth2, ValidateToken};
use berth_output::{ErrorCode, Failure};
use berth_scheduler::select::Scheduler;
use berth_store::SqlStore;

use crate::database;
use crate::hosts_in_process;
use crate::keystone_tokens::KeystoneTokens;
use crate::listener::ServiceListener;
use crate::policy::compute_policy_in_force;
use crate::provider_roots::ProviderRoots;

pub struct OpenHosts {
    store: SqlStore,
    hosts: Hosts,
    scheduler: Scheduler,
    plugins: Plugins,
    attestations: Option<AttestationSource>,
    /// The listener for agents of other hosts, if one is configured.
    listener: Option<(ServiceListener, Router)>,
    /// The client through which this process's agent reports its host state.
    pub client: HostsClient,
}

impl OpenHosts {
    /// Opens the database. `listener` is the address of the compute API, to which agents of other hosts report.
    /// The service looks up the providers of reported nodes in `placement`.
    ///
    /// Errors: Another process uses the database, the scheduler's options are invalid, or a plugin's manifest cannot be read.
    pub async fn open(
        config: &Config,
        listener: Option<ServiceListener>,
        placement: PlacementClient,
    ) -> Result<Self, Failure> {
        let options = config.scheduler_options();
        let kept = HostsOptions {
            default_availability_zone: options.default.default_availability_zone.clone(),
            service_down_time: Duration::try_from_secs_f64(options.service_down_time())
                .unwrap_or_default(),
            ..HostsOptions::default()
        };
        let (scheduler, plugins) = scheduler(config).await?;
        let store = database::open_hosts(&config.hosts_database(), &config.state_path).await?;
        let providers = Arc::new(ProviderRoots(placement));
        let hosts = Hosts::new(store.clone(), kept).with_providers(providers);
        let listener = match listener {
            None => None,
            Some(listener) => Some((listener, router(hosts.clone(), options_for_others(config)?))),
        };
        // Requests in this process come from this process.
        let client = hosts_in_process(router(hosts.clone(), HostsApiOptions::default()))?;
        Ok(Self {
            store,
            hosts,
            scheduler,
            plugins,
            attestations: attestations(config),
            listener,
            client,
        })
    }

    /// The address of the listener for agents of other hosts, for messages.
    pub fn address(&self) -> Option<SocketAddr> {
        let (listener, _) = self.listener.as_ref()?;
        Some(listener.address)
    }

    /// The listener for agents of other hosts, to be served.
    pub fn take_listener(&mut self) -> Option<(ServiceListener, Router)> {
        self.listener.take()
    }

    pub fn hosts(&self) -> Hosts {
        self.hosts.clone()
    }

    /// The scheduler, and the database, which must be closed last.
    pub fn into_scheduler(self) -> (FilterScheduler, SqlStore) {
        let scheduler = FilterScheduler::new(self.scheduler, self.hosts);
        let scheduler = scheduler
            .with_plugins(self.plugins)
            .with_attestations(self.attestations);
        (scheduler, self.store)
    }
}

/// The scheduler with the configured filters, weighers and plugins. If this future is dropped early, running plugins
/// are killed.
///
/// Errors: The scheduler's options are invalid, or a plugin's manifest cannot be read.
pub async fn scheduler(config: &Config) -> Result<(Scheduler, Plugins), Failure> {
    let options = config.scheduler_options();
    let plugins = Plugins::open(config.scheduler_plugins(), &options).await;
    let plugins = plugins.map_err(|error| refused(&error))?;
    let scheduler = Scheduler::with_custom_plugins(options, &plugins.custom_plugins())
        .map_err(|error| Failure::new(ErrorCode::BadValue, error.to_string()))?;
    for warning in scheduler.warnings() {
        tracing::warn!(%warning, "scheduler option ignored");
    }
    Ok((scheduler, plugins))
}

/// The failure of a plugin that cannot be used.
pub fn refused(error: &PluginError) -> Failure {
    Failure::new(ErrorCode::BadValue, error.to_string()).hint(error.hint())
}

/// The attestations of the nodes, if a file is configured.
fn attestations(config: &Config) -> Option<AttestationSource> {
    let section = &config.trusted_computing;
    let file = section.attestation_file.clone()?;
    Some(AttestationSource {
        file,
        validity: section.attestation_auth_timeout,
    })
}

/// Callers in other processes need a token.
fn options_for_others(config: &Config) -> Result<HostsApiOptions, Failure> {
    let tokens: Arc<dyn ValidateToken> =
        match config.compute_service.auth_strategy.unwrap_or_default() {
            AuthStrategy::Noauth2 => Arc::new(NoAuth2::default()),
            AuthStrategy::Keystone => Arc::new(KeystoneTokens::new(&config.keystone_authtoken)?),
        };
    Ok(HostsApiOptions {
        tokens,
        policy: compute_policy_in_force(config)?,
        ..HostsApiOptions::default()
    })
}

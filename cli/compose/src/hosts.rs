//! The built-in hosts service and the scheduler: one database of host states, which agents write and the scheduler reads for
//! each boot.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_client::HostsClient;
use berth_conductor::{AttestationSource, FilterScheduler, PluginError, Plugins};
use berth_config::{AuthStrategy, Config};
use berth_hosts::{Hosts, HostsApiOptions, HostsOptions, router};
use berth_http::{NoAuth2, ValidateToken};
use berth_output::{ErrorCode, Failure};
use berth_scheduler::select::Scheduler;
use berth_store::SqlStore;
use tokio::net::TcpListener;

use crate::database;
use crate::hosts_in_process;
use crate::keystone_tokens::KeystoneTokens;
use crate::listener::COMPUTE;

pub struct OpenHosts {
    store: SqlStore,
    hosts: Hosts,
    scheduler: Scheduler,
    plugins: Plugins,
    attestations: Option<AttestationSource>,
    /// For agents of other hosts, where they may tell.
    door: Option<(TcpListener, Router)>,
    /// Where this process's agent tells its host's state.
    pub client: HostsClient,
}

impl OpenHosts {
    /// Opens the database.
    ///
    /// Errors: Another process has it, nobody can schedule by the configuration, or a plugin does not say what it is.
    pub async fn open(config: &Config) -> Result<Self, Failure> {
        let options = config.scheduler_options();
        let kept = HostsOptions {
            default_availability_zone: options.default.default_availability_zone.clone(),
            service_down_time: Duration::try_from_secs_f64(options.service_down_time())
                .unwrap_or_default(),
            ..HostsOptions::default()
        };
        let (scheduler, plugins) = scheduler(config).await?;
        let store = database::open_hosts(&config.hosts_database(), &config.state_path).await?;
        let hosts = Hosts::new(store.clone(), kept);
        let service = &config.compute_service;
        let door = match service.listen {
            None => None,
            Some(address) => {
                let listener = COMPUTE.listen_on(address, service.auth_strategy).await?;
                Some((listener, router(hosts.clone(), options_for_others(config)?)))
            }
        };
        // Who asks in this process is this process.
        let client = hosts_in_process(router(hosts.clone(), HostsApiOptions::default()))?;
        Ok(Self {
            store,
            hosts,
            scheduler,
            plugins,
            attestations: attestations(config),
            door,
            client,
        })
    }

    /// Where agents of other hosts tell their state, for people; none where they may not.
    pub fn address(&self) -> Option<SocketAddr> {
        let (listener, _) = self.door.as_ref()?;
        listener.local_addr().ok()
    }

    /// The door for agents of other hosts, to be served.
    pub fn take_door(&mut self) -> Option<(TcpListener, Router)> {
        self.door.take()
    }

    /// What is known of the hosts.
    pub fn hosts(&self) -> Hosts {
        self.hosts.clone()
    }

    /// Who says where guests go, and the database, to be closed last.
    pub fn into_scheduler(self) -> (FilterScheduler, SqlStore) {
        let scheduler = FilterScheduler::new(self.scheduler, self.hosts);
        let scheduler = scheduler
            .with_plugins(self.plugins)
            .with_attestations(self.attestations);
        (scheduler, self.store)
    }
}

/// Filters, weighers and plugins as they are configured. Dropped before it is done, it ends the plugins that it asks what they are.
///
/// Errors: Nobody can schedule by the configuration, or a plugin does not say what it is.
pub async fn scheduler(config: &Config) -> Result<(Scheduler, Plugins), Failure> {
    let options = config.scheduler_options();
    let plugins = Plugins::open(config.scheduler_plugins(), &options).await;
    let plugins = plugins.map_err(|error| refused(&error))?;
    let scheduler = Scheduler::with_own(options, &plugins.own())
        .map_err(|error| Failure::new(ErrorCode::BadValue, error.to_string()))?;
    for warning in scheduler.warnings() {
        tracing::warn!(%warning, "an option of the scheduler");
    }
    Ok((scheduler, plugins))
}

/// A plugin that cannot be one.
pub fn refused(error: &PluginError) -> Failure {
    Failure::new(ErrorCode::BadValue, error.to_string()).mend(error.hint())
}

/// What is attested of the nodes, where an operator has it written.
fn attestations(config: &Config) -> Option<AttestationSource> {
    let section = &config.trusted_computing;
    let file = section.attestation_file.clone()?;
    Some(AttestationSource {
        file,
        holds: section.attestation_auth_timeout,
    })
}

/// Others show a token.
fn options_for_others(config: &Config) -> Result<HostsApiOptions, Failure> {
    let tokens: Arc<dyn ValidateToken> = match config.compute_service.auth_strategy {
        AuthStrategy::Noauth2 => Arc::new(NoAuth2::default()),
        AuthStrategy::Keystone => Arc::new(KeystoneTokens::new(&config.keystone_authtoken)?),
    };
    Ok(HostsApiOptions {
        tokens,
        ..HostsApiOptions::default()
    })
}

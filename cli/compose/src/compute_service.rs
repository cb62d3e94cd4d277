//! The built-in compute API: opened from `[compute_service]`, then served with a conductor and the hosts database.

use std::sync::Arc;

use axum::Router;
use berth_compute::{Compute, ComputeApiOptions, ComputeOptions, ComputeParts, Images, router};
use berth_conductor::journal::JournalError;
use berth_conductor::{Conductor, ConductorOptions};
use berth_config::{AuthStrategy, Config};
use berth_hosts::Hosts;
use berth_http::{NoAuth2, Policy, ValidateToken, audited};
use berth_identity::UnifiedLimits;
use berth_output::{ErrorCode, Failure};
use berth_quota::QuotaHook;
use berth_store::SqlStore;
use berth_wire::guest::NetworkBody;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::audit;
use crate::consoles::OpenConsoleProxies;
use crate::database;
use crate::guests::journal_code;
use crate::images::ServerImages;
use crate::keystone_tokens::KeystoneTokens;
use crate::listener::ServiceListener;
use crate::policy::compute_policy_in_force;
use crate::unified_limits::QuotasAsLimits;

/// The compute API, open and not served yet.
pub struct OpenCompute {
    store: SqlStore,
    images: Arc<dyn Images>,
    quota: Option<QuotaHook>,
    policy: Policy,
}

impl OpenCompute {
    /// Opens the database. `images` are the images for servers.
    ///
    /// Errors: Another process uses the database, the policy file cannot be used, or access to the image service is not
    /// configured.
    pub async fn open(config: &Config, images: &ServerImages) -> Result<Self, Failure> {
        let images = images.for_compute(config)?;
        let quota = config.quota_hook().map(QuotaHook::open).transpose();
        let quota = quota.map_err(|error| {
            Failure::new(ErrorCode::Missing, format!("[quota] hook: {error}"))
                .hint("name a program that exists")
        })?;
        let policy = compute_policy_in_force(config)?;
        let store = database::open_compute(&config.compute_database(), &config.state_path).await?;
        Ok(Self {
            store,
            images,
            quota,
            policy,
        })
    }

    /// Starts the compute API with a conductor and the hosts service, and the proxies of its consoles, until `stop`. It
    /// listens on its own address if one is configured.
    pub fn begin(
        self,
        config: &Config,
        (conductor, hosts): (Conductor, Hosts),
        (listener, consoles): (Option<(ServiceListener, Router)>, OpenConsoleProxies),
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Result<RunningCompute, Failure> {
        let parts = ComputeParts {
            store: self.store.clone(),
            conductor,
            hosts: hosts.clone(),
            images: self.images,
            quota: self.quota,
        };
        let source = config.compute_service.auto_network();
        let options = ComputeOptions {
            auto_network: source.map(|source| NetworkBody { source, mac: None }),
            quotas: config.quota_limits(),
            consoles: consoles.options(config),
            heal_interval: config.compute_service.heal_interval(),
            ..ComputeOptions::default()
        };
        let compute = Compute::new(parts, options);
        consoles.serve(config, &compute, tasks, stop);
        let stopped = || stop.clone().cancelled_owned();
        if let Some((listener, for_agents)) = listener {
            let api = router(
                compute.clone(),
                options_at(own_tokens(config)?, &self.policy),
            );
            // All routes that are not for agents belong to the API.
            let routes = for_agents.fallback_service(api);
            let routes = audited(routes, &audit::open(config)?);
            tasks.spawn(listener.serve(routes, stopped()));
        }
        let (end, kept) = (stopped(), compute.clone());
        tasks.spawn(async move { kept.run_reconciler(end).await });
        Ok(RunningCompute {
            store: self.store,
            compute,
            hosts,
            policy: self.policy,
        })
    }
}

/// The running compute API.
pub struct RunningCompute {
    /// The database, which must be closed last.
    pub store: SqlStore,
    compute: Compute,
    hosts: Hosts,
    policy: Policy,
}

impl RunningCompute {
    /// The API and the routes for agents of other hosts; `tokens` validates the callers' tokens.
    pub fn routes(&self, tokens: &Arc<dyn ValidateToken>) -> Router {
        let for_agents = berth_hosts::HostsApiOptions {
            tokens: Arc::clone(tokens),
            policy: self.policy.clone(),
            ..berth_hosts::HostsApiOptions::default()
        };
        let api = router(
            self.compute.clone(),
            options_at(Arc::clone(tokens), &self.policy),
        );
        berth_hosts::router(self.hosts.clone(), for_agents).fallback_service(api)
    }

    /// The quotas, for the Identity service.
    pub fn unified_limits(&self) -> Arc<dyn UnifiedLimits> {
        Arc::new(QuotasAsLimits(self.compute.clone()))
    }
}

/// Validates tokens at the API's own address.
fn own_tokens(config: &Config) -> Result<Arc<dyn ValidateToken>, Failure> {
    Ok(
        match config.compute_service.auth_strategy.unwrap_or_default() {
            AuthStrategy::Noauth2 => Arc::new(NoAuth2::with_admin_roles([
                "admin", "service", "member", "reader",
            ])),
            AuthStrategy::Keystone => Arc::new(KeystoneTokens::new(&config.keystone_authtoken)?),
        },
    )
}

fn options_at(tokens: Arc<dyn ValidateToken>, policy: &Policy) -> ComputeApiOptions {
    ComputeApiOptions {
        tokens,
        policy: policy.clone(),
        ..ComputeApiOptions::default()
    }
}

/// The conductor's options from the configuration.
pub fn conductor_options(config: &Config) -> ConductorOptions {
    ConductorOptions {
        retry_timeout: config.conductor_service.retry_timeout,
        max_attempts: config.scheduler_attempts(),
        workers: config.conductor_service.workers,
        scheduler_workers: config.conductor_service.scheduler_workers,
        headroom_interval: config.conductor_service.headroom_interval(),
        ..ConductorOptions::default()
    }
}

/// Converts the error of the conductor's journal into a failure.
pub fn unusable_journal(error: &JournalError) -> Failure {
    let code = journal_code(error);
    Failure::caused(code, "cannot use the conductor's journal", error)
}

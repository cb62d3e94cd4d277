//! The services of `berth up` and `berth controller`: Placement, accelerator service, conductor, scheduler, compute API.
//!
//! Each has its own database, and this process calls them without a socket. Local commands use the unix sockets of
//! Placement, accelerator service and conductor, for the users of the agent's admin socket. A service has a port of its
//! own only if its section has `listen`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use berth_accelerator::{
    AcceleratorApiOptions, EventNotifier, HostChangeNotifier, ServiceTokens, delete_idle_arqs,
    deliver_events, end_late_programmings, router, watch_providers,
};
use berth_agent::metrics::EmbeddedMetrics;
use berth_agent_api::{AdminError, EmbeddedSocket};
use berth_client::{AcceleratorClient, PlacementClient};
use berth_conductor::journal::SqlBootJournal;
use berth_conductor::{Agents, Conductor, ConductorParts};
use berth_config::{AuthStrategy, ConductorAuthStrategy, Config, ConsoleDefault};
use berth_http::{NoAuth2, ValidateToken, audited, audited_as};
use berth_identity::UnifiedLimits;
use berth_output::{ErrorCode, Failure};
use berth_store::SqlStore;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::audit;
use super::conductor_metrics::ConductorMetrics;
use super::consoles::OpenConsoleProxies;
use super::hosts::OpenHosts;
use crate::accelerator_service::{PROVIDER_CHECK_INTERVAL, accelerator_options};
use crate::compute_service::{OpenCompute, RunningCompute, conductor_options, unusable_journal};
use crate::database;
use crate::event_receivers::ConfiguredReceivers;
use crate::images::ServerImages;
use crate::listener::{ACCELERATOR, CONDUCTOR, ServiceListener};
use crate::networks::network_service;
use crate::placement_client::write_endpoint;
use crate::placement_service::BuiltInPlacement;
use crate::{
    ACCELERATOR_ENDPOINT_FILE, CONDUCTOR_ENDPOINT_FILE, ENDPOINT_FILE, accelerator_socket,
    accelerators_in_process, conductor_socket, placement_socket,
};

/// The APIs of the local sockets in audit records.
const CONDUCTOR_OBSERVER: &str = "service/conductor";
const PLACEMENT_OBSERVER: &str = "service/placement";
const ACCELERATOR_OBSERVER: &str = "service/accelerator";

/// The accelerator service, open but not yet served.
pub struct OpenAccelerator {
    store: SqlStore,
    event_notifier: EventNotifier,
    hosts: HostChangeNotifier,
    /// Its own listener in addition to the front listener.
    listener: Option<ServiceListener>,
    /// A client of the service in this process.
    pub client: AcceleratorClient,
}

impl OpenAccelerator {
    /// Opens the database, and the listener if one is configured.
    ///
    /// Errors: Another process uses one of them, or the configuration does not say who may use the listener.
    pub async fn open(config: &Config) -> Result<Self, Failure> {
        let service = &config.accelerator_service;
        let store =
            database::open_accelerator(&config.accelerator_database(), &config.state_path).await?;
        let listener = ACCELERATOR
            .own(config, service.own_listen(), service.auth_strategy)
            .await?;
        let (event_notifier, hosts) = (EventNotifier::default(), HostChangeNotifier::default());
        // Requests in this process come from this process and need no token.
        let own = AcceleratorApiOptions {
            notifier: event_notifier.clone(),
            hosts: hosts.clone(),
            orphan_grace: service.orphan_request_grace,
            bind_timeout: service.bind_timeout,
            max_unbound_requests: service.max_unbound_requests,
            ..AcceleratorApiOptions::default()
        };
        let client = accelerators_in_process(router(store.clone(), own))?;
        Ok(Self {
            store,
            event_notifier,
            hosts,
            listener,
            client,
        })
    }

    /// The URL of its own listener, without a path.
    pub fn url(&self) -> Option<String> {
        self.listener.as_ref().map(ServiceListener::url)
    }
}

/// The inputs of [`Services::begin`].
pub struct ServiceParts {
    pub placement: BuiltInPlacement,
    pub accelerator: OpenAccelerator,
    pub hosts: OpenHosts,
    /// A client of Placement in this process.
    pub placement_client: PlacementClient,
    /// The agents that the conductor calls.
    pub agents: Arc<dyn Agents>,
    /// The receivers of external events.
    pub receivers: ConfiguredReceivers,
    /// The images for servers.
    pub images: ServerImages,
    /// Validates tokens behind the front listener, if there is one.
    pub api: Option<Arc<dyn ValidateToken>>,
    /// Where the proxies of consoles listen by default.
    pub consoles: ConsoleDefault,
}

/// What the front listener serves of these services.
pub struct MountedApis {
    pub accelerator: Router,
    pub compute: Router,
    /// The quotas of the compute API, for the Identity service.
    pub unified_limits: Arc<dyn UnifiedLimits>,
}

/// The running services.
pub struct Services {
    accelerators: SqlStore,
    hosts: SqlStore,
    compute: Option<RunningCompute>,
    boots: SqlBootJournal,
    tasks: JoinSet<()>,
    endpoints: Vec<PathBuf>,
    /// The routers to be mounted behind the front listener, if there is one.
    pub behind: Option<MountedApis>,
    /// The addresses for local commands and for the conductor's metrics, each as a line for people.
    pub addresses: Vec<String>,
    /// Why the conductor's journal cannot be used; `None` while it can.
    pub unusable: watch::Receiver<Option<String>>,
    pub metrics: Arc<dyn EmbeddedMetrics>,
}

impl Services {
    /// Serves Placement, the accelerator service and the conductor until `stop`, and creates the compute API if it is
    /// served anywhere.
    pub async fn begin(
        config: &Config,
        parts: ServiceParts,
        stop: &CancellationToken,
    ) -> Result<Self, Failure> {
        let ServiceParts {
            placement,
            accelerator,
            mut hosts,
            placement_client,
            agents,
            receivers,
            images,
            api: api_tokens,
            consoles,
        } = parts;
        let state = &config.state_path;
        let boots = SqlBootJournal::open(state)
            .await
            .map_err(|error| unusable_journal(&error))?;
        let sockets = LocalSockets::open(config).await?;
        let mut addresses = sockets.addresses.clone();
        let mut endpoints = Vec::new();
        if let Some(url) = placement.url(config) {
            endpoints.push(endpoint(state, ENDPOINT_FILE, &url)?);
        }
        if let Some(url) = accelerator.url() {
            endpoints.push(endpoint(state, ACCELERATOR_ENDPOINT_FILE, &url)?);
        }
        let conductor_port = conductor_port(config).await?;
        if let Some((listener, offers)) = &conductor_port {
            let url = listener.url();
            addresses.push(match offers {
                PortOffers::Metrics => format!("Conductor's metrics at {url}/metrics"),
                PortOffers::Everything => format!("Conductor at {url}"),
            });
            endpoints.push(endpoint(state, CONDUCTOR_ENDPOINT_FILE, &url)?);
        }
        let compute = match hosts.take_listener() {
            None if api_tokens.is_none() => None,
            listener => {
                let consoles = OpenConsoleProxies::open(config, consoles).await?;
                addresses.extend(consoles.addresses());
                Some((
                    OpenCompute::open(config, &images).await?,
                    hosts.hosts(),
                    (listener, consoles),
                ))
            }
        };
        let (scheduler, kept) = hosts.into_scheduler();
        let parts = ConductorParts {
            journal: Arc::new(boots.clone()),
            placement: placement_client.clone(),
            accelerators: accelerator.client,
            networks: network_service(config)?,
            agents,
            scheduler,
        };
        let conductor = Conductor::open(parts, conductor_options(config));
        let (store, event_notifier, hosts) = (
            accelerator.store,
            accelerator.event_notifier,
            accelerator.hosts,
        );
        let options = accelerator_options(
            config,
            event_notifier.clone(),
            hosts.clone(),
            Some(placement_client.clone()),
        )?;
        let accelerator_behind = api_tokens.as_ref().map(|tokens| {
            let behind = AcceleratorApiOptions {
                tokens: Arc::clone(tokens),
                service_tokens: ServiceTokens::Required,
                ..options.clone()
            };
            router(store.clone(), behind)
        });
        let local = AcceleratorApiOptions {
            tokens: Arc::new(NoAuth2::default()),
            service_tokens: ServiceTokens::Waived,
            ..options.clone()
        };
        let local_accelerators = router(store.clone(), local);
        let audit = audit::open(config)?;
        let api = audited(router(store.clone(), options), &audit);
        let stopped = || stop.clone().cancelled_owned();
        let mut tasks = JoinSet::new();
        let placement_audit = (audit.clone(), PLACEMENT_OBSERVER);
        let local_placement = placement.local_api();
        tasks.spawn(
            sockets
                .placement
                .serve(local_placement, placement_audit, stop.clone()),
        );
        if let Some(listener) = placement.listener {
            let api = berth_placement::router(placement.store, placement.options);
            let api = audited(api, &audit);
            tasks.spawn(listener.serve(api, stopped()));
        }
        let accelerator_audit = (audit.clone(), ACCELERATOR_OBSERVER);
        tasks.spawn(sockets.accelerators.serve(
            local_accelerators,
            accelerator_audit,
            stop.clone(),
        ));
        let end = stopped();
        let end = async move {
            end.await;
            // Waiting agents would delay the stop.
            hosts.end();
        };
        match accelerator.listener {
            Some(listener) => drop(tasks.spawn(listener.serve(api, end))),
            None => drop(tasks.spawn(end)),
        }
        tasks.spawn(end_late_programmings(
            store.clone(),
            event_notifier.clone(),
            stopped(),
        ));
        let grace = config.accelerator_service.unbound_request_grace;
        tasks.spawn(delete_idle_arqs(store.clone(), grace, stopped()));
        tasks.spawn(deliver_events(
            store.clone(),
            receivers,
            event_notifier,
            stopped(),
        ));
        tasks.spawn(watch_providers(
            store.clone(),
            placement_client,
            PROVIDER_CHECK_INTERVAL,
            stopped(),
        ));
        let compute = match compute {
            None => None,
            Some((compute, hosts, listener)) => Some(compute.begin(
                config,
                (conductor.clone(), hosts),
                listener,
                &mut tasks,
                stop,
            )?),
        };
        let behind = match (&compute, accelerator_behind, &api_tokens) {
            (Some(compute), Some(accelerator), Some(tokens)) => Some(MountedApis {
                accelerator,
                compute: compute.routes(tokens),
                unified_limits: compute.unified_limits(),
            }),
            _ => None,
        };
        let api = berth_conductor::router(conductor.clone());
        if let Some((listener, offers)) = conductor_port {
            let api = match offers {
                PortOffers::Metrics => berth_conductor::metrics_router(conductor.clone()),
                PortOffers::Everything => audited_as(api.clone(), &audit, CONDUCTOR_OBSERVER),
            };
            tasks.spawn(listener.serve(api, stopped()));
        }
        let conductor_audit = (audit, CONDUCTOR_OBSERVER);
        tasks.spawn(sockets.conductor.serve(api, conductor_audit, stop.clone()));
        let end = stopped();
        let unusable = conductor.unusable();
        let metrics = Arc::new(ConductorMetrics(conductor.clone()));
        tasks.spawn(async move { conductor.run(end).await });
        Ok(Self {
            accelerators: store,
            hosts: kept,
            compute,
            boots,
            tasks,
            endpoints,
            behind,
            addresses,
            unusable,
            metrics,
        })
    }

    /// Waits until all services have ended, and closes the databases.
    pub async fn ended(mut self) {
        // A panic in one has been reported already.
        while self.tasks.join_next().await.is_some() {}
        for file in &self.endpoints {
            let _ = std::fs::remove_file(file);
        }
        self.boots.close().await;
        if let Some(compute) = &self.compute {
            compute.store.close().await;
        }
        self.hosts.close().await;
        self.accelerators.close().await;
    }
}

/// Writes the URL of a service into a file below `state_path`.
fn endpoint(state: &Path, name: &str, url: &str) -> Result<PathBuf, Failure> {
    let file = state.join(name);
    write_endpoint(&file, url)?;
    Ok(file)
}

/// The sockets for local commands, next to the agent's socket and for the same users.
struct LocalSockets {
    placement: EmbeddedSocket,
    accelerators: EmbeddedSocket,
    conductor: EmbeddedSocket,
    /// Each as a line for people.
    addresses: Vec<String>,
}

impl LocalSockets {
    async fn open(config: &Config) -> Result<Self, Failure> {
        let (placement, accelerators, conductor) = (
            placement_socket(config),
            accelerator_socket(config),
            conductor_socket(config),
        );
        let addresses = [
            ("Placement", &placement),
            ("Accelerator", &accelerators),
            ("Conductor", &conductor),
        ];
        let addresses = addresses.map(|(service, path)| format!("{service} at {}", path.display()));
        let group = &config.agent.admin_group;
        Ok(Self {
            placement: open_socket(&placement, group).await?,
            accelerators: open_socket(&accelerators, group).await?,
            conductor: open_socket(&conductor, group).await?,
            addresses: addresses.to_vec(),
        })
    }
}

async fn open_socket(path: &Path, group: &str) -> Result<EmbeddedSocket, Failure> {
    let socket = EmbeddedSocket::open(path, group).await;
    socket.map_err(|error| not_open(path, &error))
}

fn not_open(socket: &Path, error: &AdminError) -> Failure {
    let code = match error {
        AdminError::Held { .. } => ErrorCode::Held,
        _ => ErrorCode::BadValue,
    };
    let what = format!("cannot listen on {}", socket.display());
    Failure::caused(code, what, error)
        .hint("the socket is in the folder of [agent] admin_socket: set that")
}

/// What the conductor's port offers to every local user.
enum PortOffers {
    Metrics,
    Everything,
}

/// The conductor's port, if one is configured.
async fn conductor_port(config: &Config) -> Result<Option<(ServiceListener, PortOffers)>, Failure> {
    let service = &config.conductor_service;
    let Some(address) = service.listen.address() else {
        return Ok(None);
    };
    Ok(Some(match service.auth_strategy {
        None => (
            CONDUCTOR.for_everybody(config, address).await?,
            PortOffers::Metrics,
        ),
        Some(ConductorAuthStrategy::Noauth2) => {
            let listener = CONDUCTOR
                .listen_on(config, address, AuthStrategy::Noauth2)
                .await?;
            (listener, PortOffers::Everything)
        }
    }))
}

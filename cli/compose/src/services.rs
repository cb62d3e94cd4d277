//! The services of `berth up` and `berth controller` next to Placement: accelerator service, conductor, scheduler,
//! compute API.
//!
//! Each has its own database, and this process calls them without a socket. The conductor requires no token: it listens
//! on a unix socket for the users of the agent's admin socket, and on a port only if `[conductor_service] listen` is
//! set.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use berth_accelerator::{
    AcceleratorApiOptions, EventNotifier, HostChangeNotifier, ServiceTokens, delete_idle_arqs,
    deliver_events, end_late_programmings, router, serve_tcp, watch_providers,
};
use berth_agent::metrics::EmbeddedMetrics;
use berth_agent_api::{AdminError, EmbeddedSocket};
use berth_client::{AcceleratorClient, PlacementClient};
use berth_conductor::journal::SqlBootJournal;
use berth_conductor::{Agents, Conductor, ConductorParts};
use berth_config::Config;
use berth_http::{HttpListener, ValidateToken};
use berth_output::{ErrorCode, Failure};
use berth_store::SqlStore;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::conductor_metrics::ConductorMetrics;
use super::hosts::OpenHosts;
use crate::accelerator_service::{PROVIDER_CHECK_INTERVAL, accelerator_options};
use crate::compute_service::{OpenCompute, RunningCompute, conductor_options, unusable_journal};
use crate::database;
use crate::event_receivers::ConfiguredReceivers;
use crate::images::ServerImages;
use crate::listener::listen_on;
use crate::placement_client::write_endpoint;
use crate::{
    ACCELERATOR_ENDPOINT_FILE, CONDUCTOR_ENDPOINT_FILE, accelerators_in_process, conductor_socket,
};

/// The accelerator service, open but not yet served.
pub struct OpenAccelerator {
    store: SqlStore,
    event_notifier: EventNotifier,
    hosts: HostChangeNotifier,
    /// Its own listener in addition to the front listener, with the address.
    listener: Option<(HttpListener, SocketAddr)>,
    /// A client of the service in this process.
    pub client: AcceleratorClient,
}

impl OpenAccelerator {
    /// Opens the database, and the listener if one is configured.
    pub async fn open(config: &Config, listen: Option<SocketAddr>) -> Result<Self, Failure> {
        let service = &config.accelerator_service;
        let store =
            database::open_accelerator(&config.accelerator_database(), &config.state_path).await?;
        let listener = match listen {
            None => None,
            Some(address) => {
                let listener = listen_on(address, config, &config.accelerator_listener()).await?;
                let address = listener.local_addr().unwrap_or(address);
                Some((listener, address))
            }
        };
        let (event_notifier, hosts) = (EventNotifier::default(), HostChangeNotifier::default());
        // Requests in this process come from this process and need no token.
        let own = AcceleratorApiOptions {
            notifier: event_notifier.clone(),
            hosts: hosts.clone(),
            orphan_grace: service.orphan_request_grace,
            bind_timeout: service.bind_timeout,
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

    /// The address of its own listener, for messages.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }
}

/// The inputs of [`Services::begin`].
pub struct ServiceParts {
    pub accelerator: OpenAccelerator,
    pub hosts: OpenHosts,
    /// A client of Placement in this process.
    pub placement: PlacementClient,
    /// The agents that the conductor calls.
    pub agents: Arc<dyn Agents>,
    /// The receivers of external events.
    pub receivers: ConfiguredReceivers,
    /// The images for servers.
    pub images: ServerImages,
    /// Validates tokens behind the front listener, if there is one.
    pub api: Option<Arc<dyn ValidateToken>>,
}

/// The routers to be mounted behind the front listener.
pub struct MountedApis {
    pub accelerator: Router,
    pub compute: Router,
}

/// The running services next to Placement.
pub struct Services {
    accelerators: SqlStore,
    hosts: SqlStore,
    compute: Option<RunningCompute>,
    boots: SqlBootJournal,
    tasks: JoinSet<()>,
    endpoints: Vec<PathBuf>,
    /// The routers to be mounted behind the front listener, if there is one.
    pub behind: Option<MountedApis>,
    /// The addresses of the conductor, for messages.
    pub conductor: String,
    /// Why the conductor's journal cannot be used; `None` while it can.
    pub unusable: watch::Receiver<Option<String>>,
    pub metrics: Arc<dyn EmbeddedMetrics>,
}

impl Services {
    /// Serves the accelerator service and the conductor until `stop`, and creates the compute API if it is served
    /// anywhere.
    pub async fn begin(
        config: &Config,
        parts: ServiceParts,
        stop: &CancellationToken,
    ) -> Result<Self, Failure> {
        let ServiceParts {
            accelerator,
            mut hosts,
            placement,
            agents,
            receivers,
            images,
            api: api_tokens,
        } = parts;
        let state = &config.state_path;
        let boots = SqlBootJournal::open(state)
            .await
            .map_err(|error| unusable_journal(&error))?;
        let path = conductor_socket(config);
        let socket = EmbeddedSocket::open(&path, &config.agent.admin_group).await;
        let socket = socket.map_err(|error| not_open(&path, &error))?;
        let mut conductor_at = path.display().to_string();
        let mut endpoints = Vec::new();
        if let Some(address) = accelerator.address() {
            let url = config.accelerator_listener().url(address);
            endpoints.push(endpoint(state, ACCELERATOR_ENDPOINT_FILE, &url)?);
        }
        let mut port = None;
        if let Some(address) = config.conductor_service.listen {
            let listener = conductor_port(address).await?;
            let address = listener.local_addr().unwrap_or(address);
            let url = format!("http://{address}");
            endpoints.push(endpoint(state, CONDUCTOR_ENDPOINT_FILE, &url)?);
            conductor_at = format!("{conductor_at} and {url}");
            port = Some(listener);
        }
        let compute = match hosts.take_listener() {
            None if api_tokens.is_none() => None,
            listener => Some((
                OpenCompute::open(config, &images).await?,
                hosts.hosts(),
                listener,
            )),
        };
        let (scheduler, kept) = hosts.into_scheduler();
        let parts = ConductorParts {
            journal: Arc::new(boots.clone()),
            placement: placement.clone(),
            accelerators: accelerator.client,
            agents,
            scheduler,
        };
        let conductor = Conductor::open(parts, conductor_options(config));
        let (store, event_notifier, hosts) = (
            accelerator.store,
            accelerator.event_notifier,
            accelerator.hosts,
        );
        let options = accelerator_options(config, event_notifier.clone(), hosts.clone())?;
        let accelerator_behind = api_tokens.as_ref().map(|tokens| {
            let behind = AcceleratorApiOptions {
                tokens: Arc::clone(tokens),
                service_tokens: ServiceTokens::Required,
                ..options.clone()
            };
            router(store.clone(), behind)
        });
        let api = router(store.clone(), options);
        let stopped = || stop.clone().cancelled_owned();
        let mut tasks = JoinSet::new();
        let end = stopped();
        let end = async move {
            end.await;
            // Waiting agents would delay the stop.
            hosts.end();
        };
        match accelerator.listener {
            Some((listener, _)) => drop(tasks.spawn(serve_tcp(listener, api, end))),
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
            placement,
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
            }),
            _ => None,
        };
        let api = berth_conductor::router(conductor.clone());
        if let Some(port) = port {
            tasks.spawn(berth_conductor::serve_tcp(port, api.clone(), stopped()));
        }
        tasks.spawn(socket.serve(api, stop.clone()));
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
            conductor: conductor_at,
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

fn not_open(socket: &Path, error: &AdminError) -> Failure {
    let code = match error {
        AdminError::Held { .. } => ErrorCode::Held,
        _ => ErrorCode::BadValue,
    };
    let what = format!("the conductor cannot listen on {}", socket.display());
    Failure::caused(code, what, error)
        .hint("the socket is in the folder of [agent] admin_socket: set that")
}

async fn conductor_port(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::AddrInUse => ErrorCode::Held,
            _ => ErrorCode::BadValue,
        };
        Failure::caused(code, format!("cannot listen on {address}"), &error)
            .hint("stop what listens there, or set [conductor_service] listen")
    })
}

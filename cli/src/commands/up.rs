//! `berth up`: runs everything on this machine, in the foreground, in one process. Placement and the accelerator
//! service listen on loopback, the conductor on a socket for operators. The agent runs in the same process. One front
//! listener serves all APIs in addition.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;

use berth_agent::metrics::Metrics;
use berth_compose::agent::{AgentHost, AgentRun, AgentRunArguments};
use berth_compose::api::{FrontListener, OpenApi};
use berth_compose::event_receivers::ConfiguredReceivers;
use berth_compose::hosts::{OpenHosts, scheduler};
use berth_compose::images::{ServerImages, report_images};
use berth_compose::listener::PLACEMENT;
use berth_compose::placement_service::{placement_options, placement_url};
use berth_compose::services::{OpenAccelerator, ServiceParts, Services};
use berth_compose::state_lock::StateLock;
use berth_compose::{
    AgentReceivers, EMBEDDED_TOKEN, ENDPOINT_FILE, HostGuests, KnownAgents, database,
    images_in_process, placement_in_process, signals, state_file, write_endpoint,
};
use berth_config::{AuthStrategy, Config, LoadedConfig};
use berth_image::ImageApiOptions as ImageOptions;
use berth_output::{ExitCode, Failure};
use berth_placement::{router, serve_tcp};
use berth_store::SqlStore;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, quoted};

#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  berth up
  berth up --machine drivers/fake/machines/eight-gpu-flat.toml --state-dir /tmp/berth    without hardware")]
pub struct UpArguments {
    #[command(flatten)]
    run: AgentRunArguments,
}

pub fn run(
    arguments: &UpArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    context.serve(everything(arguments, context, &loaded, out))??;
    Ok(ExitCode::Done)
}

/// The file name of the conductor's journal in findings.
const CONDUCTOR: &str = "conductor.db";

async fn everything(
    arguments: &UpArguments,
    context: &Context,
    loaded: &LoadedConfig,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let end = signals::end();
    let config = &loaded.config;
    let _folder = StateLock::take(&config.state_path)?;
    let service = &config.placement_service;
    let url = config.placement_database();
    let options = placement_options(config, &url)?;
    let store = database::open(&url, config).await?;
    let listener = PLACEMENT
        .listen_on(service.listen, service.auth_strategy)
        .await?;
    let address = listener.local_addr().unwrap_or(service.listen);
    let url = placement_url(address, config);
    let endpoint = config.state_path.join(ENDPOINT_FILE);
    write_endpoint(&endpoint, &url)?;
    match service.auth_strategy {
        AuthStrategy::Noauth2 => writeln!(out, "Placement at {url}, token {EMBEDDED_TOKEN}")?,
        // With Keystone, callers get a token themselves.
        AuthStrategy::Keystone => writeln!(out, "Placement at {url}")?,
    }
    // With --once no caller can use the service.
    let images = match arguments.run.once {
        true => ServerImages::Service,
        false => ServerImages::of(config).await?,
    };
    let front = match config.api_listen().filter(|_| !arguments.run.once) {
        Some(address) => Some(OpenApi::open(address, loaded, &images).await?),
        None => None,
    };
    let clouds = match &front {
        Some(front) => Some(front.clouds.clone()),
        None => clouds_without_identity(config, &url)?,
    };
    out.flush()?;

    let shutdown = CancellationToken::new();
    let front = front.map(|open| FrontListener::new(open, &options, &images));
    let has_front = front.is_some();
    let believes = service.auth_strategy == AuthStrategy::Noauth2;
    let believing = believes.then_some(url.as_str());
    let api = router(store.clone(), options);
    let serving = tokio::spawn(serve_tcp(listener, api, shutdown.clone().cancelled_owned()));
    let stop = shutdown.clone();
    let waiting = tokio::spawn(async move {
        end.await;
        stop.cancel();
    });
    let ended = host(
        arguments,
        context,
        loaded,
        (&store, front, images),
        &shutdown,
        |out| {
            next(
                &context.invocation(),
                believing,
                clouds.as_deref(),
                has_front,
                out,
            )
        },
        out,
    )
    .await;
    shutdown.cancel();
    waiting.abort();
    // The task ends with the token. A panic in it is already reported.
    let _ = serving.await;
    // Commands read the address from this file from now on. A stale file would make them report an unreachable
    // conductor.
    let _ = std::fs::remove_file(&endpoint);
    store.close().await;
    ended
}

/// Runs this host's agent, and the accelerator service and the conductor if they are configured. `print_ready` is called once
/// the agent is ready.
async fn host(
    arguments: &UpArguments,
    context: &Context,
    loaded: &LoadedConfig,
    (store, front, images): (&SqlStore, Option<FrontListener>, ServerImages),
    shutdown: &CancellationToken,
    print_ready: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let config = &loaded.config;
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let placement = placement_in_process(store.clone(), Some(Arc::new(metrics.clone())))?;
    let own = AgentHost::take(loaded, &arguments.run)?;
    // With --once no caller can request a guest.
    let accelerator = match arguments.run.once {
        true => None,
        false => {
            Some(OpenAccelerator::open(config, Some(config.accelerator_service.listen)).await?)
        }
    };
    // Opening the hosts waits for plugins, which may be slow.
    let hosts = tokio::select! {
        biased;
        () = shutdown.cancelled() => return Ok(()),
        hosts = hosts(config, arguments.run.once) => hosts?,
    };
    let client = accelerator.as_ref().map(|service| service.client.clone());
    let scheduler = hosts.as_ref().map(|hosts| hosts.client.clone());
    let own_images = images.list().map(|list| {
        // Callers in this process need no authentication.
        images_in_process(berth_image::router(
            Arc::clone(list),
            ImageOptions::default(),
        ))
    });
    let own_images = own_images.transpose()?;
    let guests =
        HostGuests::open(config, &own.driver, client, placement.clone(), own_images).await?;
    let services = match accelerator.zip(hosts) {
        None => None,
        Some((accelerator, hosts)) => {
            if let Some(address) = accelerator.address() {
                writeln!(out, "Accelerator at http://{address}/v2")?;
            }
            if let Some(address) = hosts.address() {
                writeln!(
                    out,
                    "Scheduler at http://{address}, for agents of other hosts"
                )?;
                writeln!(out, "Compute at http://{address}/v2.1")?;
            }
            let here = Some(guests.receiver()?);
            let parts = ServiceParts {
                accelerator,
                hosts,
                placement: placement.clone(),
                agents: Arc::new(KnownAgents::new(config, guests.client()?, guests.trees())?),
                receivers: match ConfiguredReceivers::new(config)? {
                    Some(receivers) => receivers,
                    None => ConfiguredReceivers::Agents(AgentReceivers::new(config, here)?),
                },
                images: images.clone(),
                api: front.as_ref().map(|front| front.open.tokens()),
            };
            let begun = Services::begin(config, parts, shutdown).await?;
            writeln!(out, "Conductor at {}", begun.conductor)?;
            Some(begun)
        }
    };
    let mut services = services;
    let served = match front.zip(services.as_mut().and_then(|it| it.behind.take())) {
        None => None,
        Some((front, behind)) => {
            report_images(&images, out)?;
            writeln!(out, "All APIs at {}", front.open.base)?;
            if let Some(url) = &front.open.internal_base {
                writeln!(out, "All APIs for agents and services at {url}")?;
            }
            Some(front.serve(config, store, behind, shutdown)?)
        }
    };
    out.flush()?;
    let (ready_sender, ready) = oneshot::channel();
    let run = AgentRun {
        loaded,
        sources: &context.sources,
        arguments: &arguments.run,
        metrics,
        embedded_metrics: services.as_ref().map(|it| Arc::clone(&it.metrics)),
        shutdown: shutdown.clone(),
    };
    let error_watches = services.as_ref().map(|it| (CONDUCTOR, it.unusable.clone()));
    let serving = pin!(own.serve(
        run,
        placement,
        &guests,
        scheduler,
        error_watches,
        // The receiver belongs to this function.
        |ready| drop(ready_sender.send(ready)),
    ));
    let ready = async {
        // A service that never starts sends nothing.
        let mut ready = ready.await.ok()?;
        ready.wait_for(|ready| *ready).await.ok().map(drop)
    };
    let ended = with_next(serving, ready, || {
        // With --once no caller follows.
        if arguments.run.once {
            return Ok(());
        }
        print_ready(out)
    })
    .await;
    shutdown.cancel();
    if let Some(services) = services {
        services.ended().await;
    }
    if let Some(served) = served {
        served.ended().await;
    }
    guests.close().await;
    ended
}

/// Opens the scheduler's host data. With --once it only checks whether scheduling is possible.
async fn hosts(config: &Config, once: bool) -> Result<Option<OpenHosts>, Failure> {
    match once {
        true => scheduler(config).await.map(|_| None),
        false => OpenHosts::open(config).await.map(Some),
    }
}

/// Waits for the agent's end. Prints the next steps once the agent is ready, but not if it never gets ready.
async fn with_next(
    mut agent: Pin<&mut impl Future<Output = Result<(), Failure>>>,
    ready: impl Future<Output = Option<()>>,
    print_ready: impl FnOnce() -> io::Result<()>,
) -> Result<(), Failure> {
    tokio::select! {
        biased;
        ended = &mut agent => return ended,
        Some(()) = ready => print_ready()?,
    }
    agent.await
}

/// Prints the next steps. `believing`: the URL of a Placement that does not authenticate its callers.
fn next(
    berth: &str,
    believing: Option<&str>,
    clouds: Option<&Path>,
    has_front: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "next:")?;
    writeln!(out, "  {berth} agent status")?;
    writeln!(out, "  {berth} provider tree")?;
    if let Some(url) = believing {
        writeln!(
            out,
            "  curl -H 'X-Auth-Token: {EMBEDDED_TOKEN}' {url}/resource_providers"
        )?;
    }
    if let Some(clouds) = clouds {
        let more: &[&str] = match has_front {
            true => &["hypervisor list", "resource provider list"],
            false => &["resource provider list"],
        };
        for command in more {
            writeln!(
                out,
                "  OS_CLIENT_CONFIG_FILE={} OS_CLOUD=berth openstack {command}",
                quoted(clouds)
            )?;
        }
    }
    out.flush()
}

/// A `clouds.yaml` for a Placement without an Identity service, if it does not authenticate its callers; otherwise
/// callers have their own configuration.
fn clouds_without_identity(config: &Config, url: &str) -> Result<Option<PathBuf>, Failure> {
    if config.placement_service.auth_strategy == AuthStrategy::Keystone {
        return Ok(None);
    }
    let clouds = config.state_path.join("clouds.yaml");
    let compute = config.compute_service.listen.filter(|it| it.port() != 0);
    state_file::write(&clouds, &clouds_yaml(url, compute))?;
    Ok(Some(clouds))
}

/// A `clouds.yaml` for OpenStack's own clients.
fn clouds_yaml(url: &str, compute: Option<SocketAddr>) -> String {
    let compute = compute.map(|at| format!("    compute_endpoint_override: http://{at}/v2.1\n"));
    format!(
        "clouds:\n  berth:\n    auth_type: admin_token\n    auth:\n      endpoint: {url}\n      \
         token: {EMBEDDED_TOKEN}\n    placement_endpoint_override: {url}\n{}",
        compute.unwrap_or_default()
    )
}

//! `berth up`: runs everything on this machine, in the foreground, in one process. One front listener serves all APIs to
//! callers with a token. Local commands use unix sockets, which are for operators. The agent runs in the same process.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;

use berth_agent::metrics::Metrics;
use berth_client::PlacementClient;
use berth_compose::agent::{AgentHost, AgentRun, AgentRunArguments};
use berth_compose::api::{ApiAddresses, FrontListener, OpenApi};
use berth_compose::event_receivers::ConfiguredReceivers;
use berth_compose::hosts::{OpenHosts, scheduler};
use berth_compose::images::{ServerImages, report_images};
use berth_compose::listener::COMPUTE;
use berth_compose::placement_service::BuiltInPlacement;
use berth_compose::services::{OpenAccelerator, ServiceParts, Services};
use berth_compose::state_files::CLOUDS;
use berth_compose::state_lock::{WITH_GUESTS, lock_and_open};
use berth_compose::{
    AgentReceivers, EMBEDDED_TOKEN, HostGuests, KnownAgents, images_in_process, open_driver,
    placement_in_process, placement_socket, signals, state_file,
};
use berth_config::{AuthStrategy, ComputeDriver, Config, ConsoleDefault, LoadedConfig};
use berth_image::ImageApiOptions as ImageOptions;
use berth_output::{ExitCode, Failure};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, quoted};

#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  berth up
  berth up --state-dir ~/berth                        a trial that leaves /var/lib/berth alone
  berth up --machine drivers/fake/machines/eight-gpu-flat.toml --state-dir ~/berth    without hardware")]
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
    if config.compute_driver == ComputeDriver::Fake {
        // A wrong machine file is the first error: nothing is created or opened for it.
        open_driver(config)?;
    }
    // With --once no caller can use a service.
    let address = config.api_listen().filter(|_| !arguments.run.once);
    let addresses = async {
        match address {
            Some(address) => ApiAddresses::open(address, config).await.map(Some),
            None => Ok(None),
        }
    };
    let (_folder, addresses) = lock_and_open(&config.state_path, WITH_GUESTS, addresses).await?;
    let listen = config.placement_service.own_listen();
    let placement = BuiltInPlacement::open(config, listen.filter(|_| !arguments.run.once)).await?;
    let own_url = placement.url(config);
    if let Some(url) = &own_url {
        writeln!(out, "Placement at {url}")?;
    }
    let images = match arguments.run.once {
        true => ServerImages::Service,
        false => ServerImages::of(config).await?,
    };
    let front = match addresses {
        Some(addresses) => Some(OpenApi::open(addresses, loaded, &images).await?),
        None => None,
    };
    let clouds = match (&front, &own_url) {
        (Some(front), _) => Some(front.clouds.clone()),
        (None, Some(url)) => clouds_without_identity(config, url)?,
        (None, None) => None,
    };
    out.flush()?;

    let shutdown = CancellationToken::new();
    let front = front.map(|open| FrontListener::new(open, &placement.options, &images));
    let has_front = front.is_some();
    let store = placement.store.clone();
    let stop = shutdown.clone();
    let waiting = tokio::spawn(async move {
        end.await;
        stop.cancel();
    });
    let ended = host(
        arguments,
        context,
        loaded,
        (placement, front, images),
        &shutdown,
        |out| {
            next(
                &context.invocation(),
                &placement_socket(config),
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
    store.close().await;
    ended
}

/// Runs this host's agent, and the accelerator service and the conductor if they are configured. `print_ready` is called once
/// the agent is ready.
async fn host(
    arguments: &UpArguments,
    context: &Context,
    loaded: &LoadedConfig,
    (built_in, front, images): (BuiltInPlacement, Option<FrontListener>, ServerImages),
    shutdown: &CancellationToken,
    print_ready: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let config = &loaded.config;
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let store = built_in.store.clone();
    let placement = placement_in_process(store.clone(), Some(Arc::new(metrics.clone())))?;
    let own = AgentHost::take(loaded, &arguments.run)?;
    // With --once no caller can request a guest.
    let accelerator = match arguments.run.once {
        true => None,
        false => Some(OpenAccelerator::open(config).await?),
    };
    // Opening the hosts waits for plugins, which may be slow.
    let hosts = tokio::select! {
        biased;
        () = shutdown.cancelled() => return Ok(()),
        hosts = hosts(config, arguments.run.once, &placement) => hosts?,
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
            if let Some(root) = accelerator.url() {
                writeln!(out, "Accelerator at {root}/v2")?;
            }
            if let Some(address) = hosts.address() {
                let root = config.compute_listener().url(address);
                writeln!(out, "Scheduler at {root}, for agents of other hosts")?;
                writeln!(out, "Compute at {root}/v2.1")?;
            }
            let here = Some(guests.event_receiver_client()?);
            let parts = ServiceParts {
                placement: built_in,
                accelerator,
                hosts,
                placement_client: placement.clone(),
                agents: Arc::new(KnownAgents::new(
                    config,
                    guests.guest_api_client()?,
                    (guests.own_host_name(), guests.provider_trees()),
                )?),
                receivers: match ConfiguredReceivers::new(config)? {
                    Some(receivers) => receivers,
                    None => ConfiguredReceivers::Agents(AgentReceivers::new(config, here)?),
                },
                images: images.clone(),
                api: front.as_ref().map(|front| front.open.tokens()),
                consoles: ConsoleDefault::Loopback,
            };
            let begun = Services::begin(config, parts, shutdown).await?;
            for line in &begun.addresses {
                writeln!(out, "{line}")?;
            }
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
            Some(front.serve(config, &store, behind, shutdown)?)
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
async fn hosts(
    config: &Config,
    once: bool,
    placement: &PlacementClient,
) -> Result<Option<OpenHosts>, Failure> {
    match once {
        true => scheduler(config).await.map(|_| None),
        false => {
            let service = &config.compute_service;
            let listen = service.listen.address();
            let listener = COMPUTE.own(config, listen, service.auth_strategy).await?;
            let hosts = OpenHosts::open(config, listener, placement.clone()).await?;
            Ok(Some(hosts))
        }
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

/// Prints the next steps. `socket`: Placement's for local commands.
fn next(
    berth: &str,
    socket: &Path,
    clouds: Option<&Path>,
    has_front: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "next:")?;
    writeln!(out, "  {berth} agent status")?;
    writeln!(out, "  {berth} provider tree")?;
    writeln!(
        out,
        "  curl --unix-socket {} -H 'X-Auth-Token: {EMBEDDED_TOKEN}' http://placement/resource_providers",
        quoted(socket)
    )?;
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

/// A `clouds.yaml` for a Placement with an address of its own and without an Identity service, if it does not
/// authenticate its callers; otherwise callers have their own configuration.
fn clouds_without_identity(config: &Config, url: &str) -> Result<Option<PathBuf>, Failure> {
    if config.placement_service.auth_strategy != Some(AuthStrategy::Noauth2) {
        return Ok(None);
    }
    let clouds = config.state_path.join(CLOUDS);
    let compute = config.compute_service.listen.address();
    let compute = compute.filter(|it| it.port() != 0);
    let compute = compute.map(|address| config.compute_listener().url(address));
    state_file::write(&clouds, &clouds_yaml(url, compute.as_deref()))?;
    Ok(Some(clouds))
}

/// A `clouds.yaml` for OpenStack's own clients.
fn clouds_yaml(url: &str, compute: Option<&str>) -> String {
    let compute = compute.map(|at| format!("    compute_endpoint_override: {at}/v2.1\n"));
    format!(
        "clouds:\n  berth:\n    auth_type: admin_token\n    auth:\n      endpoint: {url}\n      \
         token: {EMBEDDED_TOKEN}\n    placement_endpoint_override: {url}\n{}",
        compute.unwrap_or_default()
    )
}

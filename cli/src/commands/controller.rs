//! `berth controller`: runs the services of a cloud without its hypervisors, in one process. It is `berth up` without
//! the agent: Placement, accelerator service, scheduler, conductor, compute API and identity, behind one listener.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use berth_compose::api::{ApiAddresses, FrontListener, OpenApi, ServedListener};
use berth_compose::event_receivers::ConfiguredReceivers;
use berth_compose::hosts::OpenHosts;
use berth_compose::images::{ServerImages, report_images};
use berth_compose::listener::COMPUTE;
use berth_compose::placement_service::BuiltInPlacement;
use berth_compose::services::{OpenAccelerator, ServiceParts, Services};
use berth_compose::state_lock::{WITHOUT_GUESTS, lock_and_open};
use berth_compose::{AgentReceivers, agents_elsewhere, database, placement_in_process, signals};
use berth_config::{Config, ConsoleDefault, LoadedConfig, Secret};
use berth_output::{ErrorCode, ExitCode, Failure};
use berth_store::sql::Location;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, quoted};

#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  berth controller
  berth controller --listen 192.0.2.10:8770 --database file:/etc/berth/database-url

The agents are those of [conductor_service] agents. Placement, accelerator service and compute API listen at addresses of their own as
well where [placement_service], [accelerator_service] and [compute_service] listen say so.")]
pub struct ControllerArguments {
    /// A database server for the tables of all services; default: the connection of each section. file:PATH reads the
    /// URL from a file.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The address to listen on; default: [api] listen.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

pub fn run(
    arguments: &ControllerArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let mut loaded = context.load()?;
    loaded.config = configured(arguments, loaded.config)?;
    context.serve(serve(&loaded, out))??;
    Ok(ExitCode::Done)
}

/// The configuration with the options of the command line.
fn configured(arguments: &ControllerArguments, mut config: Config) -> Result<Config, Failure> {
    if let Some(url) = &arguments.database {
        let url = Secret::from(url.as_str());
        if !matches!(database::location(&url)?, Location::Server(_)) {
            let what = "--database: a file holds only one service's tables, and this command runs all services";
            return Err(Failure::new(ErrorCode::Usage, what).hint(
                "give the URL of a server (postgresql://, mysql://), or omit it: each service then has its own file below state_path",
            ));
        }
        config = config.with_database(&url);
    }
    Ok(match arguments.listen {
        Some(address) => config.with_api_listen(address),
        None => config,
    })
}

async fn serve(loaded: &LoadedConfig, out: &mut dyn Write) -> Result<(), Failure> {
    let end = signals::end();
    let config = &loaded.config;
    let addresses = async {
        let address = config.api_listen().ok_or_else(|| {
            let what = "the controller has no address to listen on";
            Failure::new(ErrorCode::Missing, what)
                .hint("set [api] listen, or give --listen 127.0.0.1:8770")
        })?;
        ApiAddresses::open(address, config).await
    };
    let (_folder, addresses) = lock_and_open(&config.state_path, WITHOUT_GUESTS, addresses).await?;
    let stop = CancellationToken::new();
    let listen = config.placement_service.own_listen();
    let placement = BuiltInPlacement::open(config, listen).await?;
    if let Some(url) = placement.url(config) {
        writeln!(out, "Placement at {url}")?;
    }
    let store = placement.store.clone();
    let images = ServerImages::of(config).await?;
    let open = OpenApi::open(addresses, loaded, &images).await?;
    let clouds = open.clouds.clone();
    let front = FrontListener::new(open, &placement.options, &images);
    let (services, front) = begin(config, placement, (front, images), &stop, out).await?;
    writeln!(
        out,
        "next:\n  OS_CLIENT_CONFIG_FILE={} OS_CLOUD=berth openstack compute service list",
        quoted(&clouds)
    )?;
    out.flush()?;
    end.await;
    stop.cancel();
    services.ended().await;
    front.ended().await;
    store.close().await;
    Ok(())
}

/// Starts all services.
async fn begin(
    config: &Config,
    placement: BuiltInPlacement,
    (front, images): (FrontListener, ServerImages),
    stop: &CancellationToken,
    out: &mut dyn Write,
) -> Result<(Services, ServedListener), Failure> {
    let store = placement.store.clone();
    let accelerator = OpenAccelerator::open(config).await?;
    let compute = &config.compute_service;
    let listener = COMPUTE
        .own(config, compute.listen.address(), compute.auth_strategy)
        .await?;
    let placement_client = placement_in_process(store.clone(), None)?;
    let hosts = OpenHosts::open(config, listener, placement_client.clone()).await?;
    if let Some(root) = accelerator.url() {
        writeln!(out, "Accelerator at {root}/v2")?;
    }
    if let Some(address) = hosts.address() {
        let root = config.compute_listener().url(address);
        writeln!(out, "Compute at {root}/v2.1")?;
    }
    let parts = ServiceParts {
        placement_client,
        placement,
        accelerator,
        hosts,
        agents: Arc::new(agents_elsewhere(config)?),
        receivers: match ConfiguredReceivers::new(config)? {
            Some(receivers) => receivers,
            None => ConfiguredReceivers::Agents(AgentReceivers::new(config, None)?),
        },
        images: images.clone(),
        api: Some(front.open.tokens()),
        consoles: ConsoleDefault::None,
    };
    let mut services = Services::begin(config, parts, stop).await?;
    for line in &services.addresses {
        writeln!(out, "{line}")?;
    }
    let behind = services.behind.take().ok_or_else(|| {
        let what = "the services are missing from the front listener";
        Failure::new(ErrorCode::Bug, what)
    })?;
    report_images(&images, out)?;
    writeln!(out, "All APIs at {}", front.open.base)?;
    if let Some(url) = &front.open.internal_base {
        writeln!(out, "All APIs for agents and services at {url}")?;
    }
    let front = front.serve(config, &store, behind, stop)?;
    Ok((services, front))
}

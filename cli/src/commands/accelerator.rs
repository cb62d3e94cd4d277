//! `berth accelerator`: serves the accelerator API alone, and manages device profiles, requests and devices in Berth's
//! service or in Cyborg.

mod adopt;
mod ask;

use std::io::Write;
use std::net::SocketAddr;

use berth_accelerator::{
    EventNotifier, HostChangeNotifier, delete_idle_arqs, deliver_events, end_late_programmings,
    router, watch_providers,
};
use berth_client::{AuthOptions, AuthType, PlacementClient};
use berth_compose::accelerator_service::{PROVIDER_CHECK_INTERVAL, accelerator_options};
use berth_compose::event_receivers::ConfiguredReceivers;
use berth_compose::listener::ACCELERATOR;
use berth_compose::policy::accelerator_policy_in_force;
use berth_compose::{EMBEDDED_TOKEN, audit, database, signals};
use berth_config::{AuthStrategy, Config, Secret};
use berth_http::audited;
use berth_output::{ErrorCode, ExitCode, Failure, ListFormat};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::policy_list;

#[derive(Debug, clap::Args)]
pub struct AcceleratorArguments {
    #[command(subcommand)]
    command: AcceleratorCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AcceleratorCommand {
    /// Serve the accelerator API (Cyborg v2) alone, until SIGTERM or Ctrl-C. Without Keystone it does not authenticate
    /// its callers (noauth2), so it listens on loopback only.
    #[command(after_help = "Examples:\n  berth accelerator serve\n  \
                            berth accelerator serve --database sqlite:/var/lib/berth/accelerator.sqlite --listen 127.0.0.1:6666")]
    Serve {
        /// The database; default: [accelerator_service] connection. file:PATH reads the URL from a file.
        #[arg(long, value_name = "URL")]
        database: Option<String>,
        /// The address to listen on; default: [accelerator_service] listen.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
        /// The URL of Placement; default: [placement]. It is checked regularly for providers that no longer exist.
        /// Without a Placement this check is off.
        #[arg(long, value_name = "URL")]
        placement: Option<String>,
    },
    /// Device profiles: which accelerators a flavor requests.
    Profile {
        #[command(subcommand)]
        command: ask::DeviceProfileCommand,
    },
    /// Accelerator requests (ARQs): units of a device profile, bound to guests.
    Request {
        #[command(subcommand)]
        command: ask::AcceleratorRequestCommand,
    },
    /// Take over the data of a Cyborg. Its device profiles are created in Berth's own accelerator service,
    /// with their UUIDs, and its bound requests are held there. The hosts' agents must report their devices
    /// to Berth's service first.
    #[command(after_help = "Examples:\n  berth accelerator adopt --from http://controller:6666/v2")]
    Adopt(adopt::AdoptArguments),
    /// List the access policy: every rule, with its default and its override in `[accelerator_service] policy_file`.
    Policy {
        #[command(flatten)]
        format: ListFormat,
    },
    /// The accelerator devices of all hosts.
    Device {
        #[command(subcommand)]
        command: ask::AcceleratorDeviceCommand,
    },
}

pub fn run(
    arguments: &AcceleratorArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let config = context.load()?.config;
    let (database, listen, placement) = match &arguments.command {
        AcceleratorCommand::Serve {
            database,
            listen,
            placement,
        } => (database, listen, placement),
        AcceleratorCommand::Profile { command } => {
            context.block_on(ask::profile(command, &config, out))??;
            return Ok(ExitCode::Done);
        }
        AcceleratorCommand::Request { command } => {
            context.block_on(ask::request(command, &config, out))??;
            return Ok(ExitCode::Done);
        }
        AcceleratorCommand::Adopt(asked) => {
            return context.block_on(adopt::adopt(asked, &config, out))?;
        }
        AcceleratorCommand::Policy { format } => {
            policy_list::print(&accelerator_policy_in_force(&config)?, format, out)?;
            return Ok(ExitCode::Done);
        }
        AcceleratorCommand::Device { command } => {
            context.block_on(ask::device(command, &config, out))??;
            return Ok(ExitCode::Done);
        }
    };
    let url = database.as_ref().map_or_else(
        || config.accelerator_database(),
        |url| Secret::from(url.to_owned()),
    );
    let listen = listen.or(config.accelerator_service.serve_listen());
    let placement = placement_of(placement.as_deref(), &config)?;
    context.block_on(serve(&url, &config, listen, placement, out))??;
    Ok(ExitCode::Done)
}

async fn serve(
    url: &Secret,
    config: &Config,
    listen: Option<SocketAddr>,
    placement: Option<PlacementClient>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let end = signals::end();
    let event_notifier = EventNotifier::default();
    let hosts = HostChangeNotifier::default();
    let options = accelerator_options(
        config,
        event_notifier.clone(),
        hosts.clone(),
        placement.clone(),
    )?;
    let receivers = ConfiguredReceivers::new(config)?;
    let store = database::open_accelerator(url, &config.state_path).await?;
    let strategy = config.accelerator_service.auth_strategy.unwrap_or_default();
    let listener = ACCELERATOR.alone(config, listen, strategy).await?;
    writeln!(out, "Accelerator at {}/v2", listener.url())?;
    out.flush()?;
    let stopped = CancellationToken::new();
    let mut background = JoinSet::new();
    let late = stopped.clone().cancelled_owned();
    background.spawn(end_late_programmings(
        store.clone(),
        event_notifier.clone(),
        late,
    ));
    let grace = config.accelerator_service.unbound_request_grace;
    let unbound = stopped.clone().cancelled_owned();
    background.spawn(delete_idle_arqs(store.clone(), grace, unbound));
    if let Some(receivers) = receivers {
        let stopped = stopped.clone().cancelled_owned();
        background.spawn(deliver_events(
            store.clone(),
            receivers,
            event_notifier,
            stopped,
        ));
    }
    if let Some(placement) = placement {
        let stopped = stopped.clone().cancelled_owned();
        background.spawn(watch_providers(
            store.clone(),
            placement,
            PROVIDER_CHECK_INTERVAL,
            stopped,
        ));
    }
    let end = async move {
        end.await;
        // Pending long polls of agents would delay the stop.
        hosts.end();
    };
    let api = audited(router(store.clone(), options), &audit::open(config)?);
    listener.serve(api, end).await;
    stopped.cancel();
    // The tasks end with the token. A panic in one of them is already reported.
    while background.join_next().await.is_some() {}
    store.close().await;
    Ok(())
}

/// A client of Placement, if a URL is given or `[placement]` is configured.
fn placement_of(url: Option<&str>, config: &Config) -> Result<Option<PlacementClient>, Failure> {
    let section = &config.placement;
    let options = match (url, section.auth_type) {
        (None, None) => return Ok(None),
        (None, Some(_)) => section.clone(),
        (Some(url), Some(_)) => AuthOptions {
            endpoint_override: Some(url.to_owned()),
            ..section.clone()
        },
        (Some(url), None) => match config.accelerator_service.auth_strategy.unwrap_or_default() {
            AuthStrategy::Noauth2 => AuthOptions {
                auth_type: Some(AuthType::AdminToken),
                endpoint_override: Some(url.to_owned()),
                token: Some(Secret::from(EMBEDDED_TOKEN)),
                ..section.clone()
            },
            AuthStrategy::Keystone => AuthOptions {
                endpoint_override: Some(url.to_owned()),
                ..config.keystone_authtoken.account.clone()
            },
        },
    };
    PlacementClient::from_options(&options, None)
        .map(Some)
        .map_err(|error| {
            let what = "access to Placement is not configured";
            Failure::caused(ErrorCode::Missing, what, &error)
        })
}

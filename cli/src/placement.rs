//! `berth placement`: the built-in Placement alone, the offline upgrade, and what a Placement is asked.

mod explain;
mod policy;
mod service;

use std::io::Write;
use std::net::SocketAddr;

use berth_agent::options::Rename;
use berth_agent::startup::{self, Preview};
use berth_placement::{router, serve_tcp};

use crate::agent::alone;
use crate::compose::placement_in_process;
use crate::config::{Config, Secret};
use crate::context::Context;
use crate::database;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::listing::Format;
use crate::nodes::{Host, Intent};
use crate::policy_file;
use crate::progress::consumers;
use crate::reshape::failed;
use crate::signals;

pub(crate) use policy::with_file as policy_of;
pub(crate) use service::{listen_on, options, url as url_of};

/// `berth placement`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Serve the Placement API alone, until SIGTERM or Ctrl-C. Without Keystone it believes its callers (noauth2): loopback
    /// only.
    #[command(after_help = "Examples:\n  berth placement serve\n  \
                            berth placement serve --database sqlite:/var/lib/berth/placement.sqlite --listen 127.0.0.1:8778")]
    Serve {
        /// The database, else [placement_service] connection.
        #[arg(
            long,
            value_name = "URL",
            env = "BERTH_DATABASE_URL",
            hide_env_values = true
        )]
        database: Option<String>,
        /// Where to listen, else [placement_service] listen.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Who may do what: every rule, as it is by default, by `[placement_service] enforce_new_defaults` and by `policy_file`.
    Policy {
        #[command(flatten)]
        format: Format,
    },
    /// The offline upgrade: do on this host's database what the agent's next start would do, with no service running.
    #[command(
        after_help = "Examples:\n  berth placement migrate-compute-inventory --dry-run\n  \
                            berth placement migrate-compute-inventory --database sqlite:/var/lib/berth/placement.sqlite"
    )]
    MigrateComputeInventory {
        /// The database, else [placement_service] connection.
        #[arg(
            long,
            value_name = "URL",
            env = "BERTH_DATABASE_URL",
            hide_env_values = true
        )]
        database: Option<String>,
        /// Show what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Say why a question for allocation candidates has few or none: which resource, trait or aggregate of it empties the
    /// answer.
    #[command(
        after_help = "Examples:\n  berth placement explain 'resources=VCPU:64&required=HW_CPU_X86_AVX512F'\n  \
                            berth placement explain '/allocation_candidates?resources=PGPU%3A2&limit=1000' -f json"
    )]
    Explain(explain::Explain),
}

/// Runs `berth placement`.
///
/// # Errors
/// The database cannot be opened, the address cannot be listened on, or the upgrade is refused.
pub fn run(
    arguments: &Arguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let config = context.load()?.config;
    match &arguments.command {
        Command::Serve { database, listen } => {
            let url = url(database.as_deref(), &config);
            let listen = listen.unwrap_or(config.placement_service.listen);
            context.block_on(serve(&url, &config, listen, out))??;
        }
        Command::Policy { format } => {
            policy_file::list(&policy::in_force(&config)?, format, out)?;
        }
        Command::MigrateComputeInventory { database, dry_run } => {
            let url = url(database.as_deref(), &config);
            let upgrade = if *dry_run { Upgrade::Show } else { Upgrade::Do };
            context.block_on(migrate(&url, &config, upgrade, out))??;
        }
        Command::Explain(asked) => context.block_on(explain::explain(asked, &config, out))??,
    }
    Ok(ExitCode::Done)
}

fn url(given: Option<&str>, config: &Config) -> Secret {
    given.map_or_else(
        || config.placement_database(),
        |url| Secret::from(url.to_owned()),
    )
}

async fn serve(
    url: &Secret,
    config: &Config,
    address: SocketAddr,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let end = signals::end();
    let options = options(config)?;
    let store = database::open(url, &config.state_path).await?;
    let listener = listen_on(address, config.placement_service.auth_strategy).await?;
    let address = listener.local_addr().unwrap_or(address);
    writeln!(out, "Placement at {}", url_of(address, config))?;
    out.flush()?;
    let api = router(store.clone(), options);
    serve_tcp(listener, api, end).await;
    store.close().await;
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    Do,
    Show,
}

/// The startup of each node, over the router in this process. The database is this process's alone: a running service
/// holds it, and is told so.
async fn migrate(
    url: &Secret,
    config: &Config,
    upgrade: Upgrade,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let store = database::open_existing(url).await?;
    let placement = placement_in_process(store.clone(), None)?;
    // An agent on another Placement would go by the state folder this writes.
    let (intent, _alone) = match upgrade {
        Upgrade::Do => (Intent::Act, Some(alone(config)?)),
        Upgrade::Show => (Intent::Look, None),
    };
    let mut host = Host::observe(config, &placement, Rename::Refuse, intent).await?;
    for (identity, tracker) in &mut host.nodes {
        let bar = consumers(identity.node.as_str());
        let now = tokio::time::Instant::now();
        let (node, view, service) = (&identity.node, &host.view, host.service);
        if upgrade == Upgrade::Show {
            let previewed = startup::preview(tracker, view, service, now, &*bar).await;
            let (preview, plan) = previewed.map_err(|error| failed(&error))?;
            let would = match preview {
                Preview::InSync { .. } => "nothing to do",
                Preview::Update { .. } => "would be updated",
                Preview::Reshape(_) => "would be reshaped",
            };
            writeln!(out, "node {node}: {would}\n{}", plan.text)?;
            continue;
        }
        let started = startup::reconcile(tracker, view, service, now, None, &*bar).await;
        let started = started.map_err(|error| failed(&error))?;
        for reshape in &started.reshapes {
            writeln!(out, "node {node}: {reshape}")?;
        }
        writeln!(
            out,
            "node {node}: {} reshapes, {} units held without a home\n{}",
            started.reshapes.len(),
            started.held.iter().map(|held| held.used).sum::<u64>(),
            started.changed
        )?;
    }
    store.close().await;
    Ok(())
}

//! `berth placement`: serves the built-in Placement alone, manages its database, upgrades it offline, and audits or
//! explains any Placement.

mod allocations;
mod database_choice;
mod database_in_use;
mod db;
mod explain;
mod migrate;
mod placement_conf;

use std::io::Write;
use std::net::SocketAddr;

use berth_compose::listener::PLACEMENT;
use berth_compose::placement_service::{placement_options, placement_url};
use berth_compose::policy::placement_policy_in_force;
use berth_compose::{audit, database, signals};
use berth_config::{Config, Secret};
use berth_http::audited;
use berth_output::{ExitCode, Failure, ListFormat};
use berth_placement::router;

use crate::context::Context;
use crate::policy_list;
use database_choice::placement_database;

#[derive(Debug, clap::Args)]
pub struct PlacementArguments {
    #[command(subcommand)]
    command: PlacementCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PlacementCommand {
    /// Serve the Placement API alone, until SIGTERM or Ctrl-C. Without Keystone it does not authenticate its callers
    /// (noauth2), so it listens on loopback only.
    #[command(after_help = "Examples:\n  berth placement serve\n  \
                            berth placement serve --database sqlite:/var/lib/berth/placement.sqlite --listen 127.0.0.1:8778")]
    Serve {
        /// The database; default: [placement_service] connection. file:PATH reads the URL from a file.
        #[arg(
            long,
            value_name = "URL",
            env = "BERTH_DATABASE_URL",
            hide_env_values = true
        )]
        database: Option<String>,
        /// The address to listen on; default: [placement_service] listen.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// List the access policy: every rule, with its default, [placement_service] enforce_new_defaults and
    /// its override in `policy_file`.
    Policy {
        #[command(flatten)]
        format: ListFormat,
    },
    /// Upgrade offline: change this host's database as the agent's next start would, with no service running.
    #[command(
        after_help = "Examples:\n  berth placement migrate-compute-inventory --dry-run\n  \
                            berth placement migrate-compute-inventory --placement-config /etc/placement/placement.conf\n  \
                            berth placement migrate-compute-inventory --database sqlite:/var/lib/berth/placement.sqlite"
    )]
    MigrateComputeInventory(migrate::Migrate),
    /// Show, check and upgrade the schema of the database, or copy all rows to another database.
    #[command(subcommand)]
    Db(db::Db),
    /// Compare the allocations on this host's providers with what its guests use: orphaned allocations, and guests
    /// whose allocations are missing, too small or on another provider.
    #[command(
        after_help = "Examples:\n  berth placement audit\n  berth placement audit --delete\n  \
                            berth placement audit -f value -c consumer -c amiss"
    )]
    Audit(allocations::Audit),
    /// Create the missing allocations of this host's guests, on the providers that they use.
    #[command(
        after_help = "Examples:\n  berth placement heal-allocations --dry-run\n  berth placement heal-allocations"
    )]
    HealAllocations(allocations::Heal),
    /// Explain why a query for allocation candidates returns few or none: which resource, trait or
    /// aggregate excludes the hosts.
    #[command(
        after_help = "Examples:\n  berth placement explain 'resources=VCPU:64&required=HW_CPU_X86_AVX512F'\n  \
                            berth placement explain '/allocation_candidates?resources=PGPU%3A2&limit=1000' -f json"
    )]
    Explain(explain::ExplainArguments),
}

pub fn run(
    arguments: &PlacementArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let config = context.load()?.config;
    match &arguments.command {
        PlacementCommand::Serve { database, listen } => {
            let url = placement_database(database.as_deref(), &config);
            let listen = listen.or(config.placement_service.serve_listen());
            context.block_on(serve(&url, &config, listen, out))??;
        }
        PlacementCommand::Policy { format } => {
            policy_list::print(&placement_policy_in_force(&config)?, format, out)?;
        }
        PlacementCommand::MigrateComputeInventory(asked) => {
            context.block_on(migrate::migrate(asked, &config, out))??;
        }
        PlacementCommand::Db(asked) => context.block_on(db::run(asked, &config, out))??,
        PlacementCommand::Audit(asked) => {
            context.block_on(allocations::audit(asked, &config, out))??
        }
        PlacementCommand::HealAllocations(asked) => {
            context.block_on(allocations::heal(asked, &config, out))??;
        }
        PlacementCommand::Explain(asked) => {
            context.block_on(explain::explain(asked, &config, out))??
        }
    }
    Ok(ExitCode::Done)
}

async fn serve(
    url: &Secret,
    config: &Config,
    listen: Option<SocketAddr>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let end = signals::end();
    let options = placement_options(config, url)?;
    let store = database::open(url, config).await?;
    let strategy = config.placement_service.auth_strategy.unwrap_or_default();
    let listener = PLACEMENT.alone(config, listen, strategy).await?;
    let url = placement_url(listener.address, config);
    writeln!(out, "Placement at {url}")?;
    out.flush()?;
    let api = audited(router(store.clone(), options), &audit::open(config)?);
    listener.serve(api, end).await;
    store.close().await;
    Ok(())
}

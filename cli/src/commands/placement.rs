//! `berth placement`: the built-in Placement alone, its database, the offline upgrade, and what a Placement is asked.

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
use berth_compose::{database, signals};
use berth_config::{Config, Secret};
use berth_output::{ExitCode, Failure, ListFormat};
use berth_placement::{router, serve_tcp};

use crate::context::Context;
use crate::policy_list;
use database_choice::placement_database;

/// `berth placement`.
#[derive(Debug, clap::Args)]
pub struct PlacementArguments {
    #[command(subcommand)]
    command: PlacementCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PlacementCommand {
    /// Serve the Placement API alone, until SIGTERM or Ctrl-C. Without Keystone it believes its callers (noauth2): loopback
    /// only.
    #[command(after_help = "Examples:\n  berth placement serve\n  \
                            berth placement serve --database sqlite:/var/lib/berth/placement.sqlite --listen 127.0.0.1:8778")]
    Serve {
        /// The database, else [placement_service] connection. file:PATH is the URL that stands in a file.
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
        format: ListFormat,
    },
    /// The offline upgrade: do on this host's database what the agent's next start would do, with no service running.
    #[command(
        after_help = "Examples:\n  berth placement migrate-compute-inventory --dry-run\n  \
                            berth placement migrate-compute-inventory --placement-config /etc/placement/placement.conf\n  \
                            berth placement migrate-compute-inventory --database sqlite:/var/lib/berth/placement.sqlite"
    )]
    MigrateComputeInventory(migrate::Migrate),
    /// The schema of the database: what it is at, whether it is as it should be, and the way to this release's.
    #[command(subcommand)]
    Db(db::Db),
    /// Compare what is held of this host's providers with what its guests use: allocations that are nobody's, and guests that hold
    /// less than they use, or elsewhere.
    #[command(
        after_help = "Examples:\n  berth placement audit\n  berth placement audit --delete\n  \
                            berth placement audit -f value -c consumer -c amiss"
    )]
    Audit(allocations::Audit),
    /// Give this host's guests the allocations that they lack, on the providers where they use them.
    #[command(
        after_help = "Examples:\n  berth placement heal-allocations --dry-run\n  berth placement heal-allocations"
    )]
    HealAllocations(allocations::Heal),
    /// Say why a question for allocation candidates has few or none: which resource, trait or aggregate of it empties the
    /// answer.
    #[command(
        after_help = "Examples:\n  berth placement explain 'resources=VCPU:64&required=HW_CPU_X86_AVX512F'\n  \
                            berth placement explain '/allocation_candidates?resources=PGPU%3A2&limit=1000' -f json"
    )]
    Explain(explain::ExplainArguments),
}

/// Runs `berth placement`.
///
/// # Errors
/// The database cannot be opened, the address cannot be listened on, or the upgrade is refused.
pub fn run(
    arguments: &PlacementArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let config = context.load()?.config;
    match &arguments.command {
        PlacementCommand::Serve { database, listen } => {
            let url = placement_database(database.as_deref(), &config);
            let listen = listen.unwrap_or(config.placement_service.listen);
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
    address: SocketAddr,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let end = signals::end();
    let options = placement_options(config, url)?;
    let store = database::open(url, config).await?;
    let listener = PLACEMENT
        .listen_on(address, config.placement_service.auth_strategy)
        .await?;
    let address = listener.local_addr().unwrap_or(address);
    writeln!(out, "Placement at {}", placement_url(address, config))?;
    out.flush()?;
    let api = router(store.clone(), options);
    serve_tcp(listener, api, end).await;
    store.close().await;
    Ok(())
}

//! `berth compute`: the built-in compute API with its conductor and scheduler, for agents of other hosts.

mod service;

use std::io::Write;
use std::net::SocketAddr;

use berth_compose::policy::compute_policy_in_force;
use berth_output::{ExitCode, Failure, ListFormat};

use crate::context::Context;
use crate::policy_list;

/// `berth compute`.
#[derive(Debug, clap::Args)]
pub struct ComputeArguments {
    #[command(subcommand)]
    command: ComputeCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ComputeCommand {
    /// Serve the compute API (Nova's, 2.1 to 2.82) with conductor and scheduler, until SIGTERM or Ctrl-C: over the Placement of
    /// [placement], the accelerator service of [cyborg] and the agents of [conductor_service]. `berth up` serves it beside its own.
    #[command(
        after_help = "Examples:\n  berth compute serve\n  berth compute serve --listen 127.0.0.1:8774"
    )]
    Serve {
        /// The database, else [compute_service] connection. file:PATH is the URL that stands in a file.
        #[arg(long, value_name = "URL")]
        database: Option<String>,
        /// Where to listen, else [compute_service] listen.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Who may do what: every rule, as it is by default and by `[compute_service] policy_file`.
    #[command(after_help = "Examples:\n  berth compute policy\n  berth compute policy -f json")]
    Policy {
        #[command(flatten)]
        format: ListFormat,
    },
}

/// Runs `berth compute`.
///
/// # Errors
/// A database or the file of images cannot be used, the address cannot be listened on, or nothing says where a service is.
pub fn run(
    arguments: &ComputeArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let mut config = context.load()?.config;
    match &arguments.command {
        ComputeCommand::Serve { database, listen } => {
            let own = &mut config.compute_service;
            own.listen = listen.or(own.listen);
            context.serve(service::serve(database.as_deref(), &config, out))??;
        }
        ComputeCommand::Policy { format } => {
            policy_list::print(&compute_policy_in_force(&config)?, format, out)?;
        }
    }
    Ok(ExitCode::Done)
}

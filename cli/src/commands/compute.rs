//! `berth compute`: serves the compute API with its conductor and scheduler, for agents on other hosts.

mod service;

use std::io::Write;
use std::net::SocketAddr;

use berth_compose::policy::compute_policy_in_force;
use berth_config::ListenAddress;
use berth_output::{ExitCode, Failure, ListFormat};

use crate::context::Context;
use crate::policy_list;

#[derive(Debug, clap::Args)]
pub struct ComputeArguments {
    #[command(subcommand)]
    command: ComputeCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ComputeCommand {
    /// Serve the compute API (Nova's, 2.1 to 2.82) with conductor and scheduler, until SIGTERM or Ctrl-C. It uses the
    /// Placement of [placement], the accelerator service of [cyborg] and the agents of [conductor_service]. `berth
    /// up` includes this service.
    #[command(
        after_help = "Examples:\n  berth compute serve\n  berth compute serve --listen 127.0.0.1:8774"
    )]
    Serve {
        /// The database; default: [compute_service] connection. file:PATH reads the URL from a file.
        #[arg(long, value_name = "URL")]
        database: Option<String>,
        /// The address to listen on; default: [compute_service] listen.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// List the access policy: every rule, with its default and its override in `[compute_service] policy_file`.
    #[command(after_help = "Examples:\n  berth compute policy\n  berth compute policy -f json")]
    Policy {
        #[command(flatten)]
        format: ListFormat,
    },
}

pub fn run(
    arguments: &ComputeArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let mut config = context.load()?.config;
    match &arguments.command {
        ComputeCommand::Serve { database, listen } => {
            let own = &mut config.compute_service;
            own.listen = listen.map_or(own.listen, ListenAddress::at);
            context.serve(service::serve(database.as_deref(), &config, out))??;
        }
        ComputeCommand::Policy { format } => {
            policy_list::print(&compute_policy_in_force(&config)?, format, out)?;
        }
    }
    Ok(ExitCode::Done)
}

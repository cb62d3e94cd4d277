//! `berth agent`: runs the node agent, or controls the running agent over its admin socket.

mod ask;
mod serve;

use std::io::Write;

use berth_compose::agent::AgentRunArguments;
use berth_output::{ExitCode, Failure, ListFormat};

use crate::context::Context;
use ask::talk;
use serve::run_agent;

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  berth agent                                       run, as the unit does
  berth agent --once                                one startup and one tick, then end
  berth agent --expect-plan plan.json               do exactly the reviewed plan, or refuse
  berth agent status
  berth agent disable --reason 'memory is replaced'   no new guests here
  berth agent enable"
)]
pub struct AgentArguments {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    #[command(flatten)]
    run: AgentRunArguments,
}

#[derive(Debug, clap::Subcommand)]
enum AgentCommand {
    /// Show the state of the running agent: health, nodes and last synchronization.
    #[command(after_help = "Examples:\n  berth agent status\n  berth agent status -f json")]
    Status {
        #[command(flatten)]
        format: ListFormat,
        /// The time limit for the agent's answer, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
    },
    /// Stop scheduling new guests to this host (sets COMPUTE_STATUS_DISABLED). Running guests are not affected.
    #[command(after_help = "Examples:\n  berth agent disable --reason 'memory is replaced'")]
    Disable {
        /// The reason, shown to operators and schedulers.
        #[arg(long)]
        reason: String,
        /// Print what would change, without changing it.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Allow new guests to be scheduled to this host again.
    #[command(after_help = "Examples:\n  berth agent enable\n  berth agent enable -f json")]
    Enable {
        /// Print what would change, without changing it.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Make the running agent synchronize with Placement now, and print the result for each node.
    #[command(
        after_help = "Examples:\n  berth agent tick\n  berth agent tick -f value -c node -c result"
    )]
    Tick {
        #[command(flatten)]
        format: ListFormat,
    },
}

impl AgentArguments {
    /// Whether this command runs the agent itself.
    #[must_use]
    pub fn is_service(&self) -> bool {
        self.command.is_none()
    }
}

pub fn run(
    arguments: &AgentArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    match &arguments.command {
        None => {
            let run = run_agent(&loaded, &context.sources, &arguments.run);
            context.serve(run)??;
        }
        Some(command) => {
            let socket = &loaded.config.agent.admin_socket;
            context.block_on(talk(command, socket, out))??;
        }
    }
    Ok(ExitCode::Done)
}

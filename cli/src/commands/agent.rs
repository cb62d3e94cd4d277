//! `berth agent`: runs the node agent, or talks to the one that runs.

mod ask;
mod serve;

use std::io::Write;

use berth_compose::agent::AgentRunArguments;
use berth_output::{ExitCode, Failure, ListFormat};

use crate::context::Context;
use ask::talk;
use serve::alone_on_this_host;

/// `berth agent`.
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
    /// Say how the running agent is.
    #[command(after_help = "Examples:\n  berth agent status\n  berth agent status -f json")]
    Status {
        #[command(flatten)]
        format: ListFormat,
        /// How long the agent may take to answer.
        #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
    },
    /// Let schedulers pass this host over (COMPUTE_STATUS_DISABLED); its guests go on.
    #[command(after_help = "Examples:\n  berth agent disable --reason 'memory is replaced'")]
    Disable {
        /// Why, for those who wonder later.
        #[arg(long)]
        reason: String,
        /// Say what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Let schedulers use this host again.
    #[command(after_help = "Examples:\n  berth agent enable\n  berth agent enable -f json")]
    Enable {
        /// Say what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Make the running agent look now, and say what came of it.
    #[command(
        after_help = "Examples:\n  berth agent tick\n  berth agent tick -f value -c node -c result"
    )]
    Tick {
        #[command(flatten)]
        format: ListFormat,
    },
}

impl AgentArguments {
    /// Whether the agent itself is to run.
    #[must_use]
    pub fn is_service(&self) -> bool {
        self.command.is_none()
    }
}

/// Runs `berth agent`.
///
/// # Errors
/// As the agent's, each with its exit code.
pub fn run(
    arguments: &AgentArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    match &arguments.command {
        None => {
            let run = alone_on_this_host(&loaded, &context.sources, &arguments.run);
            context.serve(run)??;
        }
        Some(command) => {
            let socket = &loaded.config.agent.admin_socket;
            context.block_on(talk(command, socket, out))??;
        }
    }
    Ok(ExitCode::Done)
}

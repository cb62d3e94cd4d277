//! `berth scheduler`: what the filter scheduler would say, and why.

mod explain;
mod format;
mod lint;
#[cfg(feature = "replay")]
mod replay;

use std::io::Write;
#[cfg(feature = "replay")]
use std::path::PathBuf;

use berth_output::{ExitCode, Failure};

use crate::context::Context;

/// `berth scheduler`.
#[derive(Debug, clap::Args)]
pub struct SchedulerArguments {
    #[command(subcommand)]
    command: SchedulerCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SchedulerCommand {
    #[cfg(feature = "replay")]
    /// Answer the cases of a file, each with its own hosts and options, in a line of JSON each: the verdicts of a filter with its
    /// reasons, the scores of a weigher, the loop's selections, the query to Placement. Nothing is claimed, and no service is asked,
    /// nor any plugin: the answers are those of the file alone.
    #[command(
        after_help = "Examples:\n  berth scheduler replay --cases cases.json\n  \
                            berth scheduler replay --cases -"
    )]
    Replay {
        /// The file, JSON of schema sched-golden/1; -: standard input.
        #[arg(long, value_name = "FILE")]
        cases: PathBuf,
    },
    /// Schedule one request, claim nothing, and say why it has the host it has, or none: the hosts that each filter let pass, those
    /// that are out with the values that were compared, the scores of the best, the weighers that decide. Where no host is left, the
    /// smallest sets of filters without which there would be one.
    ///
    /// --request says what was decided for a guest that `berth guest create` asked for. REQUEST is a case as `berth scheduler replay` reads it (of kind pipeline or schedule), in a file of them or alone: the hosts, the
    /// request, the options. What if something of it were otherwise, options say. Ends with 1 where there is no host.
    #[command(after_help = "Examples:\n  berth scheduler explain request.json\n  \
                            berth scheduler explain --request vm1\n  \
                            berth scheduler explain request.json --host compute-7\n  \
                            berth scheduler explain request.json --plugins\n  \
                            berth scheduler explain request.json --without-filter RamFilter\n  \
                            berth scheduler explain request.json --option filter_scheduler.ram_weight_multiplier=-1 -f json\n  \
                            berth scheduler explain - --hint 'query=[\">=\", \"$free_ram_mb\", 4096]'")]
    Explain(explain::DecisionArguments),
    /// Check flavors, aggregates, device profiles, images and server groups, and print one finding per line: severity, object,
    /// problem, and the correct value.
    ///
    /// FILE is JSON or TOML with any of the lists flavors (name, extra_specs), aggregates (name, metadata), device_profiles (name,
    /// groups), images (name, properties), server_groups (name, policy), and the scheduler's options by section, which say what
    /// is read. It finds what OpenStack accepts silently: names that nothing reads, `>=8` without a blank, invalid numbers. Exits
    /// with 1 if there is an error.
    #[command(after_help = "Examples:\n  berth scheduler lint cloud.toml\n  \
                            berth scheduler lint cloud.json -f json\n  \
                            berth scheduler lint - -f value -c severity -c name -c key")]
    Lint(lint::Lint),
}

/// Runs it.
///
/// # Errors
/// The file cannot be read, or a case of it is none.
pub fn run(
    arguments: &SchedulerArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    match &arguments.command {
        #[cfg(feature = "replay")]
        SchedulerCommand::Replay { cases } => {
            replay::run(cases, out)?;
            Ok(ExitCode::Done)
        }
        SchedulerCommand::Explain(asked) => match &asked.decision {
            Some(guest) => explain::decided(guest, asked, context, out),
            None => explain::run(asked, context, out),
        },
        SchedulerCommand::Lint(asked) => lint::run(asked, out),
    }
}

//! `berth scheduler`: explains scheduling decisions, replays recorded cases, and checks flavors, aggregates, device
//! profiles and images.

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

#[derive(Debug, clap::Args)]
pub struct SchedulerArguments {
    #[command(subcommand)]
    command: SchedulerCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SchedulerCommand {
    #[cfg(feature = "replay")]
    /// Compute the results of recorded cases, one JSON line each. A case has its own hosts and options; the result is a
    /// filter's verdicts with reasons, a weigher's scores, the selections of the scheduling loop, or the query to
    /// Placement. Nothing is claimed, and no service or plugin is used.
    #[command(
        after_help = "Examples:\n  berth scheduler replay --cases cases.json\n  \
                            berth scheduler replay --cases -"
    )]
    Replay {
        /// The cases file, JSON of schema sched-golden/1; - is standard input.
        #[arg(long, value_name = "FILE")]
        cases: PathBuf,
    },
    /// Explain a scheduling decision without claiming anything: the hosts that each filter passed, the rejected hosts
    /// with the compared values, the scores of the best hosts, and the weighers that decide. If no host is left, it
    /// names the smallest sets of filters whose removal would leave one.
    ///
    /// --request shows the recorded decisions for a guest of `berth guest create`. REQUEST is a JSON file with hosts,
    /// options and one request (the format of `berth scheduler replay`, kind pipeline or schedule). Use the What-if
    /// options to change filters, options, extra specs or hints. Exits with 1 if no host is found.
    #[command(after_help = "Examples:\n  berth scheduler explain request.json\n  \
                            berth scheduler explain --request vm1\n  \
                            berth scheduler explain request.json --host compute-7\n  \
                            berth scheduler explain request.json --plugins\n  \
                            berth scheduler explain request.json --without-filter RamFilter\n  \
                            berth scheduler explain request.json --option filter_scheduler.ram_weight_multiplier=-1 -f json\n  \
                            berth scheduler explain - --hint 'query=[\">=\", \"$free_ram_mb\", 4096]'")]
    Explain(explain::DecisionArguments),
    /// Check flavors, aggregates, device profiles, images and the scheduler's options, and print one line for each
    /// finding: severity, place, problem, and what would be right.
    ///
    /// FILE is JSON or TOML with any of the lists flavors (name, extra_specs), aggregates (name, metadata),
    /// device_profiles (name, groups), images (name, properties), and options by group. It finds mistakes
    /// that OpenStack accepts silently: unknown names, `>=8` without a blank, invalid numbers. Exits with 1
    /// if there is an error.
    #[command(after_help = "Examples:\n  berth scheduler lint cloud.toml\n  \
                            berth scheduler lint cloud.json -f json\n  \
                            berth scheduler lint - -f value -c severity -c name -c key")]
    Lint(lint::Lint),
}

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

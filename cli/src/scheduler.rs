//! `berth scheduler`: what the filter scheduler would say, and why.

mod replay;

use std::io::Write;
use std::path::PathBuf;

use crate::context::Context;
use crate::exit::ExitCode;
use crate::failure::Failure;

/// `berth scheduler`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Answer the cases of a file, each with its own hosts and options, in a line of JSON each: the verdicts of a filter with its
    /// reasons, the scores of a weigher, the loop's selections, the query to Placement. Nothing is claimed, and no service is asked.
    #[command(
        after_help = "Examples:\n  berth scheduler replay --cases cases.json\n  \
                            berth scheduler replay --cases -"
    )]
    Replay {
        /// The file, JSON of schema sched-golden/1; -: standard input.
        #[arg(long, value_name = "FILE")]
        cases: PathBuf,
    },
}

/// Runs it.
///
/// # Errors
/// The file cannot be read, or a case of it is none.
pub fn run(arguments: &Arguments, _: &Context, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::Replay { cases } => replay::run(cases, out)?,
    }
    Ok(ExitCode::Done)
}

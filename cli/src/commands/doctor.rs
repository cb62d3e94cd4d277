//! `berth doctor`: checks whether this host can be a compute node. Each check has a name, evidence, and a hint.

mod checks;
pub mod facts;
pub mod finding;
pub mod placement_observation;
mod probe;

use std::io::Write;

use berth_output::{ExitCode, Failure, FormatKind, ListFormat, Listing, colour};
use serde_json::json;

use crate::context::Context;
use facts::HostFacts;
use finding::{CheckContext, CheckReport, Status, examine};
use placement_observation::PlacementObservation;

pub use checks::all as checks;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 good, 78 a failure (with --strict: or a warning).\n\n\
                        Examples:\n  berth doctor\n  berth doctor --strict -f json"
)]
pub struct DoctorArguments {
    /// Treat warnings as failures.
    #[arg(long)]
    strict: bool,
    /// Skip the checks of Placement.
    #[arg(long)]
    offline: bool,
    /// Print only warnings and failures.
    #[arg(long, short)]
    quiet: bool,
    /// Print the skipped checks, too, with the reason.
    #[arg(long, conflicts_with = "quiet")]
    all: bool,
    #[command(flatten)]
    format: ListFormat,
}

/// Runs every check and prints what was found.
///
/// Errors: the output cannot be written. Findings are reported by the exit code, not as an error.
pub fn run(
    arguments: &DoctorArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let loaded = berth_config::load(&context.sources);
    let placement = match &loaded {
        Err(_) => PlacementObservation::NotAsked("the configuration is refused".to_owned()),
        Ok(_) if arguments.offline => PlacementObservation::NotAsked("--offline".to_owned()),
        Ok(loaded) => context.block_on(probe::placement(&loaded.config))?,
    };
    let host = CheckContext {
        facts: &HostFacts::below("/"),
        config: loaded.as_ref(),
        check_command: &context.check_command(),
        placement: &placement,
    };
    let findings = examine(&checks(), &host);
    let is_table = matches!(arguments.format.format, FormatKind::Table);
    let shown: Vec<&CheckReport> = findings
        .iter()
        .filter(|each| match each.status {
            Status::Failure | Status::Warning => true,
            Status::Ok => !arguments.quiet,
            Status::Skipped => arguments.all || (!is_table && !arguments.quiet),
        })
        .collect();
    match arguments.format.format {
        FormatKind::Table => {
            print(&shown, colour::is_on_for_output(), out)?;
            print_totals(&findings, arguments.all, out)?;
        }
        _ => listing(&shown).print(&arguments.format, out)?,
    }
    Ok(verdict(&findings, arguments.strict))
}

/// 0 if nothing failed, else 78.
fn verdict(findings: &[CheckReport], strict: bool) -> ExitCode {
    let any = |status| findings.iter().any(|each| each.status == status);
    if any(Status::Failure) || strict && any(Status::Warning) {
        ExitCode::Configuration
    } else {
        ExitCode::Done
    }
}

fn listing(findings: &[&CheckReport]) -> Listing {
    let mut listing = Listing::new(&["check", "status", "title", "evidence", "hint"]);
    for each in findings {
        let hint = if each.hint.is_empty() {
            serde_json::Value::Null
        } else {
            json!(each.hint)
        };
        listing.push([
            json!(each.code),
            json!(each.status.word()),
            json!(each.title),
            json!(each.evidence),
            hint,
        ]);
    }
    listing
}

/// Prints a line for each check, and the hint below a failure or a warning.
fn print(findings: &[&CheckReport], is_coloured: bool, out: &mut dyn Write) -> std::io::Result<()> {
    for each in findings {
        writeln!(
            out,
            "{} {:<24} {}",
            match is_coloured {
                true => colour::status(each.status.word(), 8),
                false => format!("{:<8}", each.status.word()),
            },
            each.code,
            each.evidence
                .replace('\n', "\n                                  ")
        )?;
        if !each.hint.is_empty() {
            writeln!(out, "{:33} hint: {}", "", each.hint)?;
        }
    }
    Ok(())
}

fn print_totals(
    findings: &[CheckReport],
    shows_skipped: bool,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let count = |status| findings.iter().filter(|each| each.status == status).count();
    let counted = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    };
    let (ok, skipped) = (count(Status::Ok), count(Status::Skipped));
    let hidden = match skipped > 0 && !shows_skipped {
        true => " (--all shows them)",
        false => "",
    };
    writeln!(
        out,
        "{}, {}, {ok} ok, {skipped} skipped{hidden}",
        counted(count(Status::Failure), "failure"),
        counted(count(Status::Warning), "warning")
    )
}

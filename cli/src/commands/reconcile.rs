//! `berth reconcile`: what the running agent's guests, hypervisor, devices, accelerator requests and allocations disagree
//! about, and its repair.

use std::io::Write;

use berth_agent_api::client::AdminClient;
use berth_compose::admin_failure;
use berth_output::{ErrorCode, ExitCode, Failure, FormatKind, ListFormat, Listing};
use serde_json::json;

use crate::context::Context;

/// `berth reconcile`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  berth reconcile --dry-run                         what differs?
  berth reconcile                                   mend what can be mended, and say what was found
  berth reconcile --dry-run -f value -c code -c subject")]
pub struct ReconcileArguments {
    /// Say what differs, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: ListFormat,
}

/// Runs `berth reconcile`.
///
/// # Errors
/// The agent is away or refuses, a side of the comparison could not be read, or the output cannot be written.
pub fn run(
    arguments: &ReconcileArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let admin = AdminClient::new(&loaded.config.agent.admin_socket).map_err(admin_failure)?;
    let unknown = context.block_on(talk(arguments, &admin, out))??;
    if unknown.is_empty() {
        return Ok(ExitCode::Done);
    }
    // Whatever the format: an empty list must not be taken for "nothing differs" where a side was not seen.
    Err(Failure::new(
        ErrorCode::Unavailable,
        format!("not everything was compared: {}", unknown.join("; ")),
    )
    .mend("see `berth agent status` for what is away, and ask again"))
}

async fn talk(
    arguments: &ReconcileArguments,
    admin: &AdminClient,
    out: &mut dyn Write,
) -> Result<Vec<String>, Failure> {
    let found = match arguments.dry_run {
        true => admin.differences().await.map_err(admin_failure)?,
        false => admin.reconcile().await.map_err(admin_failure)?,
    };
    let mut listing = Listing::new(&["code", "subject", "remedy", "for_seconds", "text"]);
    for finding in &found.findings {
        listing.push([
            json!(finding.code),
            json!(finding.subject),
            json!(finding.remedy),
            json!(finding.for_seconds),
            json!(finding.text),
        ]);
    }
    let format = &arguments.format;
    let people = format.format == FormatKind::Table && format.columns.is_empty();
    if people && found.findings.is_empty() {
        let nothing = match found.unknown.is_empty() {
            true => "nothing differs",
            false => "nothing differs in what was compared",
        };
        writeln!(out, "{nothing}")?;
    } else {
        listing.print(format, out)?;
    }
    Ok(found.unknown)
}

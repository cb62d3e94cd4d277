//! `berth reconcile`: compares the running agent's guests, hypervisor, devices, accelerator requests and allocations,
//! and repairs the differences.

use std::io::Write;

use berth_agent_api::client::AdminClient;
use berth_compose::admin_failure;
use berth_output::{ErrorCode, ExitCode, Failure, FormatKind, ListFormat, Listing};
use serde_json::json;

use crate::context::Context;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  berth reconcile --dry-run                         show the differences
  berth reconcile                                   repair the differences, and show them
  berth reconcile --dry-run -f value -c code -c subject")]
pub struct ReconcileArguments {
    /// Print the differences, without changing anything.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: ListFormat,
}

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
    // In every format: an empty list must not mean "nothing differs" if a side could not be read.
    Err(Failure::new(
        ErrorCode::Unavailable,
        format!("not everything was compared: {}", unknown.join("; ")),
    )
    .hint("`berth agent status` shows what does not answer; repair it and repeat"))
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
            false => "no differences in what was compared",
        };
        writeln!(out, "{nothing}")?;
    } else {
        listing.print(format, out)?;
    }
    Ok(found.unknown)
}

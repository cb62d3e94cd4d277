//! `berth reconcile`: what the running agent's guests, hypervisor, devices, accelerator requests and allocations disagree
//! about, and its repair.

use std::io::Write;

use berth_agent::admin::client::AdminClient;
use serde_json::json;

use crate::context::Context;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::listing::{Format, FormatKind, Listing};

/// `berth reconcile`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  berth reconcile --dry-run                         what differs?
  berth reconcile                                   mend what can be mended, and say what was found
  berth reconcile --dry-run -f value -c code -c subject")]
pub struct Arguments {
    /// Say what differs, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: Format,
}

/// Runs `berth reconcile`.
///
/// # Errors
/// The agent is away or refuses, or the output cannot be written.
pub fn run(
    arguments: &Arguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let admin = AdminClient::new(&loaded.config.agent.admin_socket)?;
    context.block_on(talk(arguments, &admin, out))??;
    Ok(ExitCode::Done)
}

async fn talk(
    arguments: &Arguments,
    admin: &AdminClient,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let found = match arguments.dry_run {
        true => admin.differences().await?,
        false => admin.reconcile().await?,
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
        writeln!(out, "nothing differs")?;
    } else {
        listing.print(format, out)?;
    }
    for unknown in found.unknown.iter().filter(|_| people) {
        writeln!(out, "not compared: {unknown}")?;
    }
    Ok(())
}

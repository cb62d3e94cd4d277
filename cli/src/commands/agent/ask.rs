//! Commands to a running agent: status, disable, enable, tick.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use berth_agent_api::body::TickBody;
use berth_agent_api::client::{AdminClient, AdminClientError};
use berth_compose::admin_failure;
use berth_output::{ErrorCode, Failure, ListFormat, Listing};
use serde_json::json;

use super::AgentCommand;

pub(super) async fn talk(
    command: &AgentCommand,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let admin = AdminClient::new(socket).map_err(admin_failure)?;
    match command {
        AgentCommand::Status { format, timeout } => {
            let admin = admin.with_timeout(Duration::from_secs(*timeout));
            status(&admin, format, out).await
        }
        AgentCommand::Disable {
            reason,
            dry_run: false,
            format,
        } => {
            admin.disable(reason).await.map_err(admin_failure)?;
            let text = format!("disabled: {reason}");
            answer(format, true, Some(reason), text, out)
        }
        AgentCommand::Disable {
            dry_run: true,
            format,
            ..
        } => {
            let now = reason_now(&admin).await.map_err(admin_failure)?;
            let text = match now {
                Some(_) => "the reason would be replaced",
                None => "would be disabled",
            };
            answer(format, now.is_some(), now.as_deref(), text.to_owned(), out)
        }
        AgentCommand::Enable {
            dry_run: false,
            format,
        } => {
            admin.enable().await.map_err(admin_failure)?;
            answer(format, false, None, "enabled".to_owned(), out)
        }
        AgentCommand::Enable {
            dry_run: true,
            format,
        } => {
            let now = reason_now(&admin).await.map_err(admin_failure)?;
            let text = match now {
                Some(_) => "would be enabled",
                None => "is enabled",
            };
            answer(format, now.is_some(), now.as_deref(), text.to_owned(), out)
        }
        AgentCommand::Tick { format } => {
            ticked(&admin.tick().await.map_err(admin_failure)?, format, out)
        }
    }
}

/// The reason why the host is disabled; none if it is enabled.
async fn reason_now(admin: &AdminClient) -> Result<Option<String>, AdminClientError> {
    let disabled = admin.state().await?.disabled;
    Ok(disabled.map(|disabled| disabled.reason))
}

/// Prints the actual or planned change: a sentence, or a row with the host's new state for scripts.
fn answer(
    format: &ListFormat,
    disabled: bool,
    reason: Option<&str>,
    text: String,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if format.is_for_people() {
        return Ok(writeln!(out, "{text}")?);
    }
    let mut listing = Listing::new(&["disabled", "reason", "said"]);
    listing.push([json!(disabled), json!(reason), json!(text)]);
    listing.print(format, out)
}

/// Prints the result of a tick for each node.
fn ticked(tick: &TickBody, format: &ListFormat, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(reason) = &tick.unobserved {
        return Err(Failure::new(
            ErrorCode::Unavailable,
            format!("the hypervisor could not be observed: {reason}"),
        )
        .hint("berth doctor"));
    }
    let mut listing = Listing::new(&["node", "at", "took_seconds", "result", "text"]);
    for node in &tick.nodes {
        let pass = &node.pass;
        listing.push([
            json!(node.name),
            json!(pass.at),
            json!(pass.took_seconds),
            json!(pass.result),
            json!(pass.text),
        ]);
    }
    listing.print(format, out)
}

async fn status(
    admin: &AdminClient,
    format: &ListFormat,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let state = admin.state().await.map_err(admin_failure)?;
    let mut listing = Listing::new(&[
        "node",
        "phase",
        "plan",
        "root",
        "held",
        "failures",
        "last_pass",
    ]);
    for node in &state.nodes {
        let held: u64 = node.held.iter().map(|held| held.used).sum();
        let last = node
            .last_pass
            .as_ref()
            .map(|pass| format!("{} {}", pass.at, pass.result));
        listing.push([
            json!(node.name),
            json!(node.phase),
            json!(node.plan),
            json!(node.root),
            json!(held),
            json!(node.failures),
            json!(last),
        ]);
    }
    let people = format.is_for_people();
    if people {
        writeln!(
            out,
            "{} ({}, berth {})",
            state.summary, state.driver, state.version
        )?;
        if let Some(disabled) = &state.disabled {
            writeln!(out, "disabled: {}", disabled.reason)?;
        }
    }
    listing.print(format, out)?;
    if people {
        let health = admin.health().await.map_err(admin_failure)?;
        for message in &health.messages {
            writeln!(out, "{}: {}", message.severity, message.text)?;
        }
    }
    Ok(())
}

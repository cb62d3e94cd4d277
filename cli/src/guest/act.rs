//! What is done with a guest: power, delete, console.

use std::io::Write;
use std::time::Duration;

use berth_client::placement::Deleted;
use berth_model::ConsumerUuid;
use berth_wire::guest::GuestAction;
use tokio::time::{Instant, sleep};

use super::Change;
use super::ways::{Ways, failed, unknown};
use crate::failure::{ErrorCode, Failure};

/// How often it is looked whether a guest is gone.
const POLL: Duration = Duration::from_millis(300);

pub(super) async fn power(
    ways: &Ways,
    change: &Change,
    action: &GuestAction,
    done_word: &str,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let uuid = ways.guest(&change.guest).await?;
    let told = ways.agent.guest(uuid).await;
    let told = told.map_err(|error| failed(&error))?;
    let guest = told.ok_or_else(|| not_on_host(&change.guest))?;
    if change.dry_run {
        let status = &guest.status;
        let name = &guest.name;
        return Ok(writeln!(
            out,
            "{name}, which is {status}, would be {done_word}"
        )?);
    }
    let done = ways.agent.action(uuid, action).await;
    let done = done.map_err(|error| failed(&error))?;
    Ok(writeln!(out, "{} is {}", done.name, done.status)?)
}

/// Power is the agent's: one that is not built has none.
fn not_on_host(meant: &str) -> Failure {
    Failure::new(
        ErrorCode::Refused,
        format!("guest {meant} is not on this host, or not yet"),
    )
    .mend(format!("berth guest show {meant}"))
}

pub(super) async fn delete(
    ways: &Ways,
    change: &Change,
    wait: Option<Duration>,
    at_agent: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let uuid = ways.guest(&change.guest).await?;
    if change.dry_run {
        let known = if at_agent {
            let told = ways.agent.guest(uuid).await;
            told.map_err(|error| failed(&error))?.map(|it| it.status)
        } else {
            let told = ways.conductor.guest(uuid).await;
            told.map_err(|error| failed(&error))?.map(|it| it.status)
        };
        let status = known.ok_or_else(|| nobody_to_delete(&change.guest, at_agent))?;
        return Ok(writeln!(
            out,
            "{uuid}, which is {status}, would be deleted"
        )?);
    }
    let deleted = match at_agent {
        true => ways.agent.delete(uuid).await,
        false => ways.conductor.delete(uuid).await,
    };
    match deleted.map_err(|error| failed(&error))? {
        Deleted::Deleted => {}
        Deleted::AlreadyGone => return Err(nobody_to_delete(&change.guest, at_agent)),
    }
    let Some(timeout) = wait else {
        return Ok(writeln!(out, "{uuid} is being deleted")?);
    };
    until_gone(ways, uuid, at_agent, timeout).await?;
    Ok(writeln!(out, "{uuid} is gone")?)
}

fn nobody_to_delete(meant: &str, at_agent: bool) -> Failure {
    let failure = unknown(meant);
    if at_agent {
        return failure;
    }
    failure.mend("one that no conductor was asked for is deleted with --at-agent; berth guest list names all")
}

async fn until_gone(
    ways: &Ways,
    uuid: ConsumerUuid,
    at_agent: bool,
    timeout: Duration,
) -> Result<(), Failure> {
    let until = Instant::now() + timeout;
    loop {
        let reason = if at_agent {
            let told = ways.agent.guest(uuid).await;
            told.map_err(|error| failed(&error))?.map(|it| it.reason)
        } else {
            let told = ways.conductor.guest(uuid).await;
            told.map_err(|error| failed(&error))?.map(|it| it.fault)
        };
        let Some(reason) = reason else {
            return Ok(());
        };
        if Instant::now() >= until {
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            let what = format!("guest {uuid} is not gone within {timeout:?}{reason}");
            return Err(Failure::new(ErrorCode::Unavailable, what)
                .mend(format!("it goes on: berth guest show {uuid}")));
        }
        sleep(POLL).await;
    }
}

pub(super) async fn console(
    ways: &Ways,
    meant: &str,
    lines: Option<u32>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let uuid = ways.guest(meant).await?;
    let said = ways.agent.console(uuid, lines).await;
    Ok(out.write_all(&said.map_err(|error| failed(&error))?)?)
}

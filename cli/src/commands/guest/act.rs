//! Actions on a guest: power, delete, console.

use std::convert::Infallible;
use std::future::pending;
use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use berth_client::placement::DeleteOutcome;
use berth_model::ConsumerUuid;
use berth_output::progress::GuestProgress;
use berth_output::{ErrorCode, Failure, Listing};
use berth_wire::guest::GuestAction;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::change::GuestChange;
use super::clients::{GuestClients, failed, unknown};

/// How often the guest is polled, for its deletion and the progress of its image.
const POLL: Duration = Duration::from_millis(300);

pub(super) async fn power(
    clients: &GuestClients,
    change: &GuestChange,
    action: &GuestAction,
    done_word: &str,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let uuid = clients.guest(&change.guest).await?;
    let reported = clients.agent.guest(uuid).await;
    let reported = reported.map_err(|error| failed(&error))?;
    let guest = reported.ok_or_else(|| not_on_host(&change.guest))?;
    if change.dry_run {
        let status = &guest.status;
        let name = &guest.name;
        let text = format!("{name}, which is {status}, would be {done_word}");
        return answer(change, uuid, Some(status), text, out);
    }
    let shown = GuestProgress::shown(std::io::stderr().is_terminal());
    let doing = format!("{} is being {done_word}", guest.name);
    let done = tokio::select! {
        done = clients.agent.action(uuid, action, None) => done,
        never = watch(clients, uuid, doing, &shown) => match never {},
    };
    shown.end();
    let done = done.map_err(|error| failed(&error))?;
    let text = format!("{} is {}", done.name, done.status);
    answer(change, uuid, Some(&done.status), text, out)
}

/// Shows the action, and the progress of an image download that it causes. Without a terminal nothing is polled.
async fn watch(
    clients: &GuestClients,
    uuid: ConsumerUuid,
    doing: String,
    shown: &GuestProgress,
) -> Infallible {
    if shown.is_hidden() {
        return pending().await;
    }
    loop {
        let reported = clients.agent.guest(uuid).await.ok().flatten();
        let image = reported.and_then(|guest| guest.image);
        shown.is(doing.clone(), image.as_ref());
        sleep(POLL).await;
    }
}

/// Prints the result of a change: a sentence, or a row for scripts. `status`: the guest's; none if it is deleted.
fn answer(
    change: &GuestChange,
    uuid: ConsumerUuid,
    status: Option<&str>,
    text: String,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if change.format.is_for_people() {
        return Ok(writeln!(out, "{text}")?);
    }
    let mut listing = Listing::new(&["uuid", "status", "said"]);
    listing.push([json!(uuid.to_string()), json!(status), json!(text)]);
    listing.print(&change.format, out)
}

/// Only the agent controls power, so a guest that is not built yet has none.
fn not_on_host(meant: &str) -> Failure {
    Failure::new(
        ErrorCode::Refused,
        format!("guest {meant} is not on this host, or not yet"),
    )
    .hint(format!("berth guest show {meant}"))
}

pub(super) async fn delete(
    clients: &GuestClients,
    change: &GuestChange,
    wait: Option<Duration>,
    at_agent: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let uuid = clients.guest(&change.guest).await?;
    if change.dry_run {
        let known = if at_agent {
            let reported = clients.agent.guest(uuid).await;
            reported
                .map_err(|error| failed(&error))?
                .map(|it| it.status)
        } else {
            let reported = clients.conductor.guest(uuid).await;
            reported
                .map_err(|error| failed(&error))?
                .map(|it| it.status)
        };
        let status = known.ok_or_else(|| nothing_to_delete(&change.guest, at_agent))?;
        let text = format!("{uuid}, which is {status}, would be deleted");
        return answer(change, uuid, Some(&status), text, out);
    }
    let deleted = match at_agent {
        true => clients.agent.delete(uuid).await,
        false => clients.conductor.delete(uuid).await,
    };
    match deleted.map_err(|error| failed(&error))? {
        DeleteOutcome::Deleted => {}
        DeleteOutcome::AlreadyGone => return Err(nothing_to_delete(&change.guest, at_agent)),
    }
    let Some(timeout) = wait else {
        let text = format!("{uuid} is being deleted");
        return answer(change, uuid, Some("deleting"), text, out);
    };
    until_gone(clients, uuid, at_agent, timeout).await?;
    answer(change, uuid, None, format!("{uuid} is deleted"), out)
}

fn nothing_to_delete(meant: &str, at_agent: bool) -> Failure {
    let failure = unknown(meant);
    if at_agent {
        return failure;
    }
    failure.hint("a guest that no conductor created is deleted with --at-agent; berth guest list shows all guests")
}

async fn until_gone(
    clients: &GuestClients,
    uuid: ConsumerUuid,
    at_agent: bool,
    timeout: Duration,
) -> Result<(), Failure> {
    let until = Instant::now() + timeout;
    loop {
        let reason = if at_agent {
            let reported = clients.agent.guest(uuid).await;
            reported
                .map_err(|error| failed(&error))?
                .map(|it| it.reason)
        } else {
            let reported = clients.conductor.guest(uuid).await;
            reported.map_err(|error| failed(&error))?.map(|it| it.fault)
        };
        let Some(reason) = reason else {
            return Ok(());
        };
        if Instant::now() >= until {
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            let what = format!("guest {uuid} is not deleted within {timeout:?}{reason}");
            return Err(Failure::new(ErrorCode::Unavailable, what)
                .hint(format!("the deletion continues: berth guest show {uuid}")));
        }
        sleep(POLL).await;
    }
}

pub(super) async fn console(
    clients: &GuestClients,
    meant: &str,
    lines: Option<u32>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let uuid = clients.guest(meant).await?;
    let console = clients.agent.console(uuid, lines).await;
    Ok(out.write_all(&console.map_err(|error| failed(&error))?)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use berth_client::{AdapterOptions, Auth, ConductorClient, GuestClient, HttpService};
    use indicatif::{InMemoryTerm, ProgressDrawTarget};
    use uuid::Uuid;

    use super::*;

    /// An agent with one guest that is downloading its image.
    fn clients(asked: Arc<AtomicUsize>) -> GuestClients {
        let show = move || async move {
            asked.fetch_add(1, Ordering::SeqCst);
            axum::Json(
                json!({"uuid": Uuid::nil(), "name": "vm1", "node": "n", "status": "active", "reason": null,
                "accelerator_requests": [], "devices": [], "steps": [],
                "image": {"stage": "fetch", "bytes": 3 << 20, "total": null}}),
            )
        };
        let agent = Router::new().route("/v1/guests/{uuid}", get(show));
        let http = HttpService::in_process::<_, Body, _>(agent, 1 << 20);
        let options = AdapterOptions::default();
        let auth = || Auth::none("http://agent").unwrap();
        GuestClients {
            agent: GuestClient::new(http.clone(), auth(), &options),
            conductor: ConductorClient::new(http, auth(), &options),
            elsewhere: false,
        }
    }

    #[tokio::test]
    async fn during_a_rescue_the_image_progress_is_shown_and_in_a_pipe_it_is_not_polled() {
        let asked = Arc::new(AtomicUsize::new(0));
        let clients = clients(Arc::clone(&asked));
        let doing = || "vm1 is being rescued".to_owned();
        let guest = ConsumerUuid::from(Uuid::nil());
        let pipe = GuestProgress::shown(false);
        let terminal = InMemoryTerm::new(4, 100);
        let shown = GuestProgress::on(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        tokio::select! {
            never = watch(&clients, guest, doing(), &pipe) => match never {},
            never = watch(&clients, guest, doing(), &shown) => match never {},
            () = async {
                // By the second request, the first answer is displayed.
                while asked.load(Ordering::SeqCst) < 2 {
                    sleep(Duration::from_millis(5)).await;
                }
            } => {}
        }
        shown.redraw();
        let seen = terminal.contents();
        assert!(
            seen.contains("vm1 is being rescued: downloading its image 3.00 MiB"),
            "{seen}"
        );
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}

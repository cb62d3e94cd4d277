//! What was asked for is done with a guest: its agent is asked through the conductor, and how that ended is written down. What was
//! begun and not ended is asked for again, after a kill too, as its row says it and by its id: the agent does it once. So it goes
//! on where nobody answered, and where the agent cannot do it now (`pacing`).

use berth_client::{Disposition, GuestApiError};
use berth_conductor::ConductorError;
use berth_journeys::Turn;
use berth_model::ConsumerUuid;
use berth_wire::guest::{ActionId, GuestAction, GuestBody};
use tokio::time::Instant;
use uuid::Uuid;

use crate::compute::Compute;
use crate::courses::word;
use crate::instance_actions::{OpenAction, Outcome};
use crate::pacing::Why;
use crate::server_state::{Action, GuestStatus};
use crate::servers::{Begin, Besides, Ended, ServerError};

/// What came of a question to an agent.
enum Asked {
    Ended(Ended),
    /// It does not answer: it is asked again.
    NoAnswer,
    /// It cannot be done now, for this reason: it is asked again, for a while.
    NotNow(String),
}

/// The codes of refusals that pass: the guest is on its way, perhaps there; or it is brought back by the agent.
const PASSING: [&str; 2] = ["busy", "not_there"];

/// What an action of the agent is called in the API.
pub(crate) fn action_of(action: &GuestAction) -> Option<Action> {
    Some(match action {
        GuestAction::Start {} => Action::Start,
        GuestAction::Stop { .. } => Action::Stop,
        GuestAction::Pause {} => Action::Pause,
        GuestAction::Unpause {} => Action::Unpause,
        GuestAction::SoftReboot {} => Action::RebootSoft,
        GuestAction::HardReboot {} => Action::RebootHard,
        GuestAction::Rescue { .. } => Action::Rescue,
        GuestAction::Unrescue {} => Action::Unrescue,
        GuestAction::Rebuild { .. } => Action::Rebuild,
        GuestAction::Suspend {} | GuestAction::LiveMigrate { .. } => return None,
    })
}

impl Compute {
    /// Has something done with a server, which was checked to be possible as it is.
    pub(crate) async fn begin(
        &self,
        server: Uuid,
        ask: &GuestAction,
        besides: Besides,
        (user_id, request_id): (&str, &str),
    ) -> Result<(), ServerError> {
        let Some(action) = action_of(ask) else {
            let reason = "it is not offered here".to_owned();
            return Err(ServerError::Request(reason));
        };
        let begin = Begin {
            action,
            body: String::from_utf8_lossy(&berth_wire::encode(ask)).into_owned(),
            besides,
            user_id,
            request_id,
        };
        self.begin_action(server, begin).await?;
        self.set_out_task(server);
        Ok(())
    }

    /// Goes on with what was asked for, beside everything else.
    pub(crate) fn set_out_task(&self, uuid: Uuid) {
        let compute = self.clone();
        self.inner.tasks.set_out(uuid, move |turn| async move {
            if let Err(error) = compute.act(uuid, &turn).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    server = %uuid,
                    "what was asked for is not done yet"
                );
            }
        });
    }

    /// Does what is open, the oldest first, until all is done, something is not, or the API stops.
    async fn act(&self, uuid: Uuid, turn: &Turn<Uuid>) -> Result<(), ServerError> {
        let stop = turn.cut_short();
        match self.server(uuid).await {
            Ok(server) if self.is_anothers(&server) => return Ok(()),
            // Of one that is gone the rest is given up.
            Ok(_) | Err(ServerError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let pacing = &self.inner.pacing;
        // Read anew each time: what waited may have been given up meanwhile.
        while let Some(action) = self.oldest_open_action(uuid).await? {
            let asked = match pacing.end(uuid, action.id) {
                Some(ended) => Ok(Asked::Ended(ended)),
                None => tokio::select! {
                    biased;
                    // Its row stays as it is, and the agent goes on with what it was asked for.
                    () = stop.cancelled() => return Ok(()),
                    asked = self.ask(uuid, &action) => asked,
                },
            };
            let failed = |why| {
                let pause = self.inner.options.pause;
                pacing.failed((uuid, action.id), why, pause, Instant::now())
            };
            let ended = match asked {
                Ok(Asked::Ended(ended)) => ended,
                Ok(Asked::NoAnswer) => {
                    failed(Why::NoAnswer);
                    return Ok(());
                }
                Err(error) => {
                    failed(Why::NoAnswer);
                    return Err(error);
                }
                Ok(Asked::NotNow(reason)) => {
                    if !failed(Why::NotNow) {
                        return Ok(());
                    }
                    let reason = format!("asked for again and again, and given up: {reason}");
                    failure(reason, None)
                }
            };
            if let Err(error) = self.end_action(uuid, action.id, ended.clone()).await {
                failed(Why::NotWritten(ended));
                return Err(error);
            }
            pacing.ended(uuid);
        }
        Ok(())
    }

    async fn ask(&self, uuid: Uuid, action: &OpenAction) -> Result<Asked, ServerError> {
        let guest = ConsumerUuid::from(uuid);
        let failed = |reason: &str| Ok(Asked::Ended(failure(reason.to_owned(), None)));
        let Some((ask, id)) = asked_for(action) else {
            return failed("this release does not understand what was asked for");
        };
        let record = match self.inner.conductor.show(guest).await {
            Err(ConductorError::NotFound { .. }) => return failed("the server is gone"),
            record => record?,
        };
        let Some(chosen) = record.placed() else {
            return failed("the server is on no host");
        };
        let Some(agent) = self.inner.conductor.agent(&chosen.node) else {
            // After a start they come by and by.
            let reason = "nobody knows the agent of its host";
            return Ok(Asked::NotNow(reason.to_owned()));
        };
        match agent.action(guest, &ask, Some(&id)).await {
            Ok(guest) => Ok(Asked::Ended(success(&guest))),
            Err(GuestApiError::Call(_)) => Ok(Asked::NoAnswer),
            Err(error) => {
                // It may have been done by a question whose answer was lost, by an agent that takes no notice of ids.
                let now = agent.guest(guest).await.ok().flatten();
                Ok(match now {
                    Some(guest) if is_done(&ask, &guest) => Asked::Ended(success(&guest)),
                    _ if passes(&error) => Asked::NotNow(error.to_string()),
                    now => Asked::Ended(failure(error.to_string(), now.as_ref())),
                })
            }
        }
    }
}

/// It was done, and so is the guest by it.
fn success(guest: &GuestBody) -> Ended {
    Ended {
        outcome: Outcome::Success,
        word: word(guest),
    }
}

/// It was not done, for this reason, and so is the guest where that is known.
fn failure(reason: String, guest: Option<&GuestBody>) -> Ended {
    Ended {
        outcome: Outcome::Error(Some(reason)),
        word: guest.and_then(word),
    }
}

/// What an agent is asked for, and the id by which it does it once: callers name their requests, rows are numbered here.
fn asked_for(action: &OpenAction) -> Option<(GuestAction, ActionId)> {
    let ask = berth_wire::decode(action.body.as_bytes()).ok()?;
    let id = format!("{}.{}", action.request_id, action.id);
    Some((ask, id.parse().ok()?))
}

/// Whether what the agent refuses may be done by it later, or is being done.
fn passes(error: &GuestApiError) -> bool {
    let code = error.refusal().map(|refusal| refusal.code.as_str());
    error.disposition() == Disposition::Retry || code.is_some_and(|code| PASSING.contains(&code))
}

/// Whether a guest is what an action makes of it. Of a reboot or a rebuild that cannot be seen.
fn is_done(ask: &GuestAction, guest: &GuestBody) -> bool {
    let made = match ask {
        GuestAction::Start {} | GuestAction::Unpause {} | GuestAction::Unrescue {} => {
            GuestStatus::Active
        }
        GuestAction::Stop { .. } => GuestStatus::Stopped,
        GuestAction::Pause {} => GuestStatus::Paused,
        GuestAction::Rescue { .. } => GuestStatus::Rescued,
        _ => return false,
    };
    guest.status.parse() == Ok(made)
}

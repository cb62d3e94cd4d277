//! What was asked for is done with a guest: its agent is asked through the conductor, and how that ended is written down. What was
//! begun and not ended is asked for again after a kill, as its row says it.

use berth_client::GuestApiError;
use berth_conductor::ConductorError;
use berth_model::ConsumerUuid;
use berth_wire::guest::{GuestAction, GuestBody};
use uuid::Uuid;

use crate::compute::Compute;
use crate::instance_actions::{InstanceAction, Outcome};
use crate::server_state::{Action, GuestStatus};
use crate::servers::{Begin, ServerError};

/// What came of a question to an agent.
enum Asked {
    /// That.
    Ended(Outcome),
    /// It does not answer: it is asked again.
    NoAnswer,
}

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
    ///
    /// # Errors
    /// [`ServerError::Busy`], and as ever.
    pub(crate) async fn begin(
        &self,
        server: Uuid,
        ask: &GuestAction,
        image: Option<Uuid>,
        (user_id, request_id): (&str, &str),
    ) -> Result<(), ServerError> {
        let Some(action) = action_of(ask) else {
            let reason = "it is not offered here".to_owned();
            return Err(ServerError::Request(reason));
        };
        let begin = Begin {
            action,
            body: String::from_utf8_lossy(&berth_wire::encode(ask)).into_owned(),
            image,
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
            // Held until this is done.
            let _turn = turn;
            if let Err(error) = compute.act(uuid).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    server = %uuid,
                    "what was asked for is not done yet"
                );
            }
        });
    }

    /// Does what is open, the oldest first.
    async fn act(&self, uuid: Uuid) -> Result<(), ServerError> {
        let mut actions = self.instance_actions(uuid).await?;
        actions.reverse();
        actions.retain(|action| action.outcome.is_none());
        for (action, ask) in actions.iter().filter_map(asked_for) {
            let Some(task) = action_of(&ask).map(Action::task) else {
                continue;
            };
            match self.ask(uuid, &ask).await? {
                Asked::NoAnswer => return Ok(()),
                Asked::Ended(outcome) => self.end_action(uuid, action.id, task, outcome).await?,
            }
        }
        Ok(())
    }

    async fn ask(&self, uuid: Uuid, ask: &GuestAction) -> Result<Asked, ServerError> {
        let guest = ConsumerUuid::from(uuid);
        let failed = |reason: &str| Ok(Asked::Ended(Outcome::Error(Some(reason.to_owned()))));
        let record = match self.inner.conductor.show(guest).await {
            Err(ConductorError::NotFound { .. }) => return failed("the server is gone"),
            record => record?,
        };
        let Some(chosen) = record.placed() else {
            return failed("the server is on no host");
        };
        let Some(agent) = self.inner.conductor.agent(&chosen.node) else {
            return failed("nobody knows the agent of its host");
        };
        match agent.action(guest, ask).await {
            Ok(_) => Ok(Asked::Ended(Outcome::Success)),
            Err(GuestApiError::Call(_)) => Ok(Asked::NoAnswer),
            Err(error) => {
                // It may have been done by a question whose answer was lost.
                let now = agent.guest(guest).await.ok().flatten();
                match now.is_some_and(|guest| is_done(ask, &guest)) {
                    true => Ok(Asked::Ended(Outcome::Success)),
                    false => failed(&error.to_string()),
                }
            }
        }
    }
}

fn asked_for(action: &InstanceAction) -> Option<(&InstanceAction, GuestAction)> {
    let body = action.body.as_ref()?;
    Some((action, berth_wire::decode(body.as_bytes()).ok()?))
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

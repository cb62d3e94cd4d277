//! Carries out server actions: sends each to the guest's agent through the conductor and stores the result. Unfinished
//! actions are retried, also after a restart, with the same action id, so that the agent executes each only once.
//! Retries follow `retry_schedule`.

use berth_client::GuestApiError;
use berth_conductor::ConductorError;
use berth_keyed_tasks::KeyGuard;
use berth_model::ConsumerUuid;
use berth_wire::guest::{ActionId, GuestAction, GuestBody};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use uuid::Uuid;

use crate::compute::Compute;
use crate::instance_actions::{ActionKind, ActionOutcome, OpenAction};
use crate::retry_schedule::RetryCause;
use crate::server_state::{Action, GuestStatus};
use crate::server_status::stored_report;
use crate::servers::{ActionChanges, ActionEnd, ServerActionStart, ServerError};

/// The agent's answer to an action.
pub(crate) enum AgentAnswer {
    Ended(ActionEnd),
    NoAnswer,
    /// Not possible now, for this reason: retry for a limited time.
    NotNow(String),
}

/// What is left of a server's queue.
enum QueueState {
    Empty,
    Pending,
}

/// The API's name of an agent action.
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
        // The conductor sends these.
        GuestAction::SelectFunction { .. }
        | GuestAction::AttachInterface { .. }
        | GuestAction::DetachInterface { .. }
        | GuestAction::BindPorts { .. } => return None,
        GuestAction::Suspend {}
        | GuestAction::LiveMigrate { .. }
        | GuestAction::UpdateConfigDrive { .. } => return None,
    })
}

impl Compute {
    /// Records a new action of a server. The caller has checked that it is allowed.
    pub(crate) async fn start_action(
        &self,
        server: Uuid,
        request: &GuestAction,
        changes: ActionChanges,
        (user_id, request_id): (&str, &str),
    ) -> Result<(), ServerError> {
        let Some(action) = action_of(request) else {
            let reason = "this action is not supported".to_owned();
            return Err(ServerError::Request(reason));
        };
        let start = ServerActionStart {
            action,
            body: String::from_utf8_lossy(&berth_wire::encode(request)).into_owned(),
            changes,
            user_id,
            request_id,
        };
        self.queue_action(server, start).await
    }

    /// Records an action and starts to carry it out.
    pub(crate) async fn queue_action(
        &self,
        server: Uuid,
        start: ServerActionStart<'_>,
    ) -> Result<(), ServerError> {
        let changes_drive = start.changes.change_drive();
        self.record_action_start(server, start).await?;
        if changes_drive {
            self.inner.drive_updates.insert(server);
        }
        self.start_action_task(server);
        Ok(())
    }

    /// Starts a task that carries out pending actions.
    pub(crate) fn start_action_task(&self, uuid: Uuid) {
        let compute = self.clone();
        self.inner
            .action_tasks
            .spawn_if_idle(uuid, move |turn| async move {
                if let Err(error) = compute.run_actions(uuid, &turn).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        server = %uuid,
                        "server action failed; retrying"
                    );
                }
            });
    }

    /// Carries out pending actions, oldest first, until none is left, one fails, or the service stops.
    async fn run_actions(&self, uuid: Uuid, turn: &KeyGuard<Uuid>) -> Result<(), ServerError> {
        let pending = &self.inner.drive_updates;
        // Removed before the queue is read, so that a change that is queued meanwhile is not lost.
        let had_drive_update = pending.remove(uuid);
        let ran = self.run_pending(uuid, turn).await;
        if had_drive_update && !matches!(ran, Ok(QueueState::Empty)) {
            pending.insert(uuid);
        }
        ran.map(drop)
    }

    async fn run_pending(
        &self,
        uuid: Uuid,
        turn: &KeyGuard<Uuid>,
    ) -> Result<QueueState, ServerError> {
        let stop = turn.interrupt_token();
        match self.server(uuid).await {
            Ok(server) if self.is_owned_by_another(&server) => return Ok(QueueState::Pending),
            // Pending actions of a deleted server are cancelled.
            Ok(_) | Err(ServerError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let retries = &self.inner.retries;
        // Read again each time, because pending actions may be cancelled in the meantime.
        while let Some(action) = self.oldest_open_action(uuid).await? {
            let answer = match retries.unsaved_end(uuid, action.id) {
                Some(end) => Ok(AgentAnswer::Ended(end)),
                None => tokio::select! {
                    biased;
                    // The row stays as it is, and the agent continues the action.
                    () = stop.cancelled() => return Ok(QueueState::Pending),
                    answer = self.send_action(uuid, &action) => answer,
                },
            };
            let failed = |cause| {
                let interval = self.inner.options.reconcile_interval;
                retries.record_failure((uuid, action.id), cause, interval, Instant::now())
            };
            let end = match answer {
                Ok(AgentAnswer::Ended(end)) => end,
                Ok(AgentAnswer::NoAnswer) => {
                    failed(RetryCause::NoAnswer);
                    return Ok(QueueState::Pending);
                }
                Err(error) => {
                    failed(RetryCause::NoAnswer);
                    return Err(error);
                }
                Ok(AgentAnswer::NotNow(reason)) => {
                    if !failed(RetryCause::NotNow) {
                        return Ok(QueueState::Pending);
                    }
                    if action.kind == ActionKind::Interface {
                        self.cancel_interface_change(uuid, &action).await;
                    }
                    let reason = format!("gave up after repeated attempts: {reason}");
                    failure(reason, None)
                }
            };
            let recorded = match action.kind {
                ActionKind::DriveUpdate => self.delete_drive_update(action.id).await,
                ActionKind::Guest | ActionKind::Interface => {
                    self.record_action_end(uuid, action.id, end.clone()).await
                }
            };
            if let Err(error) = recorded {
                failed(RetryCause::NotWritten(end));
                return Err(error);
            }
            retries.clear(uuid);
        }
        Ok(QueueState::Empty)
    }

    async fn send_action(
        &self,
        uuid: Uuid,
        action: &OpenAction,
    ) -> Result<AgentAnswer, ServerError> {
        if action.kind == ActionKind::Interface {
            return Ok(self.change_interface(uuid, action).await);
        }
        let is_drive_update = action.kind == ActionKind::DriveUpdate;
        let guest = ConsumerUuid::from(uuid);
        let failed = |reason: &str| Ok(AgentAnswer::Ended(failure(reason.to_owned(), None)));
        let Some((mut request, id)) = parse_action::<GuestAction>(action) else {
            return failed("this release does not know the action");
        };
        let mut is_settled = true;
        if let GuestAction::UpdateConfigDrive { change } = &mut request {
            let server = match self.server(uuid).await {
                Err(ServerError::NotFound { .. }) => return failed("the server is gone"),
                server => server?,
            };
            is_settled = server.settled_at.is_some();
            change.name = Some(server.name);
            change.metadata = Some(server.metadata);
        }
        let record = match self.inner.conductor.show(guest).await {
            Err(ConductorError::NotFound { .. }) => return failed("the server is gone"),
            record => record?,
        };
        let chosen = match record.placement() {
            Some(chosen) => chosen,
            None if is_settled => return failed("the server is on no host"),
            None => return Ok(AgentAnswer::NoAnswer),
        };
        let Some(agent) = self.inner.conductor.agent(&chosen.host_node()) else {
            // After a start, agents register one after another.
            let reason = "the agent of its host is not registered";
            return Ok(match is_drive_update {
                true => AgentAnswer::NoAnswer,
                false => AgentAnswer::NotNow(reason.to_owned()),
            });
        };
        match agent.action(guest, &request, Some(&id)).await {
            Ok(guest) => Ok(AgentAnswer::Ended(success(&guest))),
            Err(GuestApiError::Call(_)) => Ok(AgentAnswer::NoAnswer),
            Err(error) if is_drive_update && error.is_temporary() => Ok(AgentAnswer::NoAnswer),
            Err(error) if is_drive_update => {
                tracing::warn!(server = %uuid, %error, "the agent refused to change the config drive");
                failed("the agent refused")
            }
            Err(error) => {
                // An earlier request may have been carried out without its answer arriving, by an agent that ignores
                // action ids.
                let now = agent.guest(guest).await.ok().flatten();
                Ok(match now {
                    Some(guest) if is_already_done(&request, &guest) => {
                        AgentAnswer::Ended(success(&guest))
                    }
                    _ if error.is_temporary() => AgentAnswer::NotNow(error.to_string()),
                    now => AgentAnswer::Ended(failure(error.to_string(), now.as_ref())),
                })
            }
        }
    }
}

/// The result of a completed action, with the guest's state.
fn success(guest: &GuestBody) -> ActionEnd {
    ActionEnd {
        outcome: ActionOutcome::Success,
        report: stored_report(guest),
    }
}

/// The result of a failed action, with the guest's state if known.
pub(crate) fn failure(reason: String, guest: Option<&GuestBody>) -> ActionEnd {
    ActionEnd {
        outcome: ActionOutcome::Error(Some(reason)),
        report: guest.and_then(stored_report),
    }
}

/// The stored action and its id: client request ids and row numbers identify the action.
pub(crate) fn parse_action<T: DeserializeOwned>(action: &OpenAction) -> Option<(T, ActionId)> {
    let request = berth_wire::decode(action.body.as_bytes()).ok()?;
    let id = format!("{}.{}", action.request_id, action.id);
    Some((request, id.parse().ok()?))
}

/// Whether the guest already is in the state that the action leads to. This cannot be seen for reboots and rebuilds.
fn is_already_done(request: &GuestAction, guest: &GuestBody) -> bool {
    let target = match request {
        GuestAction::Start {} | GuestAction::Unpause {} | GuestAction::Unrescue {} => {
            GuestStatus::Active
        }
        GuestAction::Stop { .. } => GuestStatus::Stopped,
        GuestAction::Pause {} => GuestStatus::Paused,
        GuestAction::Rescue { .. } => GuestStatus::Rescued,
        _ => return false,
    };
    guest.status.parse() == Ok(target)
}

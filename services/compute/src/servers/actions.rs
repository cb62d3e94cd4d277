//! Starts and ends server actions. The history entry and the changes to the server's row are written in one
//! transaction.

use std::collections::BTreeMap;

use berth_quota::QuotaLimits;
use berth_store::{Transaction, Value, Work};
use berth_wire::guest::ConfigDriveChangeBody;
use uuid::Uuid;

use super::update::{StoredAgentReport, set};
use super::{ServerError, ServerUpdate, drive_updates, metadata, rows};
use crate::compute::Compute;
use crate::instance_actions::{self, ActionOutcome, NewAction};
use crate::project_quotas::limits_of;
use crate::server_state::Action;

/// Changes to the server's row when an action starts, in addition to the task state.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActionChanges {
    /// The new image. It is shown at once and stays if the rebuild fails, as in Nova.
    pub(crate) image: Option<Uuid>,
    pub(crate) update: ServerUpdate,
    /// Replaces all metadata; `None`: unchanged.
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    /// User data and keys of the config drive, in addition to the server's name and metadata.
    pub(crate) drive: ConfigDriveChangeBody,
}

impl ActionChanges {
    /// Whether the config drive says something else afterwards.
    pub(crate) fn change_drive(&self) -> bool {
        let is_default = self.drive == ConfigDriveChangeBody::default();
        self.update.name.is_some() || self.metadata.is_some() || !is_default
    }
}

/// An action to be started.
pub(crate) struct ServerActionStart<'a> {
    pub(crate) action: Action,
    /// The agent's request body, JSON.
    pub(crate) body: String,
    pub(crate) changes: ActionChanges,
    pub(crate) user_id: &'a str,
    pub(crate) request_id: &'a str,
}

/// The end of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActionEnd {
    pub(crate) outcome: ActionOutcome,
    /// The guest's state reported by the agent after the action, if any. It becomes the last known state.
    pub(crate) report: Option<StoredAgentReport>,
}

impl Compute {
    /// Records an action that was checked.
    pub(crate) async fn record_action_start(
        &self,
        uuid: Uuid,
        start: ServerActionStart<'_>,
    ) -> Result<(), ServerError> {
        let quotas = &self.inner.options.quotas;
        let work = RecordActionStart {
            uuid,
            start,
            quotas,
        };
        self.tables.write(&work).await
    }

    /// Records the end of an action.
    pub(crate) async fn record_action_end(
        &self,
        uuid: Uuid,
        action: i64,
        end: ActionEnd,
    ) -> Result<(), ServerError> {
        let work = RecordActionEnd { uuid, action, end };
        self.tables.write(&work).await
    }

    /// Cancels all pending actions of a server. They are not sent to the agent again.
    pub(crate) async fn cancel_actions(&self, uuid: Uuid) -> Result<(), ServerError> {
        self.tables.write(&CancelActions(uuid)).await?;
        self.inner.retries.clear(uuid);
        Ok(())
    }
}

struct RecordActionStart<'a> {
    uuid: Uuid,
    start: ServerActionStart<'a>,
    quotas: &'a QuotaLimits,
}

impl Work for RecordActionStart<'_> {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = rows::lock(tx, self.uuid).await?;
        let action = self.start.action;
        if let Some(task_state) = server.task.filter(|task| !action.comes_after(*task)) {
            return Err(ServerError::Busy {
                action: action.as_str(),
                uuid: self.uuid,
                task_state,
            });
        }
        // An equal hard reboot is already queued: this one ends together with it and is not sent to the agent.
        let ends_with_another = action == Action::RebootHard
            && instance_actions::is_queued(tx, self.uuid, &self.start.body).await?;
        let mut columns = vec![("task", Value::from(action.task().as_str()))];
        let changes = &self.start.changes;
        columns.extend(changes.update.columns());
        if let Some(image) = changes.image {
            columns.push(("image", Value::from(image.to_string())));
        }
        set(tx, self.uuid, columns).await?;
        if let Some(all) = &changes.metadata {
            let limits = limits_of(tx, self.quotas, &server.project_id).await?;
            metadata::check_count(&limits, all)?;
            metadata::replace(tx, server.id, all).await?;
        }
        // In front of the action, which thus starts the guest with it.
        if changes.change_drive() {
            drive_updates::queue(tx, &server, changes.drive.clone()).await?;
        }
        let action = NewAction {
            server: self.uuid,
            project_id: &server.project_id,
            user_id: self.start.user_id,
            request_id: self.start.request_id,
            action: action.as_str(),
            event: action.event(),
            body: Some(self.start.body.as_str()).filter(|_| !ends_with_another),
        };
        instance_actions::insert(tx, &action).await?;
        Ok(())
    }
}

struct RecordActionEnd {
    uuid: Uuid,
    action: i64,
    end: ActionEnd,
}

impl Work for RecordActionEnd {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        // The server's row first, so that concurrent starts of actions are serialised.
        let exists = match rows::lock(tx, self.uuid).await {
            Err(ServerError::NotFound { .. }) => false,
            other => other.map(|_| true)?,
        };
        let outcome = &self.end.outcome;
        instance_actions::finish(tx, self.uuid, self.action, outcome).await?;
        if !exists {
            return Ok(());
        }
        let report = self.end.report.as_ref();
        let mut columns = report.map_or_else(Vec::new, StoredAgentReport::columns);
        // Releases before schema 2 did not write the image into the server's row when the rebuild started.
        if *outcome == ActionOutcome::Success
            && let Some(image) = instance_actions::image_of(tx, self.action).await?
        {
            columns.push(("image", Value::from(image)));
        }
        // A hard reboot may follow.
        if !instance_actions::has_open_action(tx, self.uuid).await? {
            columns.push(("task", Value::Null));
        }
        Ok(set(tx, self.uuid, columns).await?)
    }
}

struct CancelActions(Uuid);

impl Work for CancelActions {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        rows::lock(tx, self.0).await?;
        set(tx, self.0, vec![("task", Value::Null)]).await?;
        let reason = "cancelled by an operator (os-resetState)".to_owned();
        Ok(instance_actions::cancel_all(tx, self.0, &ActionOutcome::Error(Some(reason))).await?)
    }
}

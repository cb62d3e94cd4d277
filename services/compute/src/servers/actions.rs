//! Actions and the rows of their servers: what begins, ends, or is given up is written in one transaction with what it makes of them.

use std::collections::BTreeMap;

use berth_store::{Transaction, Value, Work};
use uuid::Uuid;

use super::update::set;
use super::{MOST_METADATA, ServerError, ServerUpdate, metadata, rows};
use crate::compute::Compute;
use crate::instance_actions::{self, NewAction, Outcome};
use crate::server_state::Action;

/// What an action makes of a server's row, beside what is under way. The default is nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Besides {
    /// The image that its root disk is of once it is done.
    pub(crate) image: Option<Uuid>,
    /// What changes at once.
    pub(crate) update: ServerUpdate,
    /// All of its metadata from now on; none: that stays.
    pub(crate) metadata: Option<BTreeMap<String, String>>,
}

/// An action that begins.
pub(crate) struct Begin<'a> {
    /// Which.
    pub(crate) action: Action,
    /// As it is asked of the agent, as JSON.
    pub(crate) body: String,
    /// What becomes of its row.
    pub(crate) besides: Besides,
    /// Who asks, and by which request.
    pub(crate) user_id: &'a str,
    pub(crate) request_id: &'a str,
}

impl Compute {
    /// Something is done with it from now on, which was checked.
    ///
    /// # Errors
    /// [`ServerError::NotFound`]; [`ServerError::Busy`] where something else began in between.
    pub(crate) async fn begin_action(
        &self,
        uuid: Uuid,
        begin: Begin<'_>,
    ) -> Result<(), ServerError> {
        self.tables.write(&BeginAction { uuid, begin }).await
    }

    /// It has been done, or not.
    pub(crate) async fn end_action(
        &self,
        uuid: Uuid,
        action: i64,
        outcome: Outcome,
    ) -> Result<(), ServerError> {
        let work = EndAction {
            uuid,
            action,
            outcome,
        };
        self.tables.write(&work).await
    }

    /// What is under way is given up: nobody asks for it any more.
    pub(crate) async fn give_up(&self, uuid: Uuid) -> Result<(), ServerError> {
        self.tables.write(&GiveUp(uuid)).await?;
        self.inner.pacing.ended(uuid);
        Ok(())
    }
}

struct BeginAction<'a> {
    uuid: Uuid,
    begin: Begin<'a>,
}

impl Work for BeginAction<'_> {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = rows::touch(tx, self.uuid).await?;
        let action = self.begin.action;
        if let Some(task_state) = server.task.filter(|task| !action.comes_after(*task)) {
            return Err(ServerError::Busy {
                action: action.as_str(),
                uuid: self.uuid,
                task_state,
            });
        }
        // Where one waits already that does what this one would, this one ends with it, and no agent is asked for it.
        let goes_with_another = action == Action::RebootHard
            && instance_actions::waits(tx, self.uuid, &self.begin.body).await?;
        let mut columns = vec![("task", Value::from(action.task().as_str()))];
        let besides = &self.begin.besides;
        columns.extend(besides.update.columns());
        set(tx, self.uuid, columns).await?;
        if let Some(all) = &besides.metadata {
            if all.len() > MOST_METADATA {
                return Err(ServerError::ManyMetadata);
            }
            metadata::replace(tx, server.id, all).await?;
        }
        let action = NewAction {
            server: self.uuid,
            project_id: &server.project_id,
            user_id: self.begin.user_id,
            request_id: self.begin.request_id,
            action: action.as_str(),
            event: action.event(),
            body: Some(self.begin.body.as_str()).filter(|_| !goes_with_another),
            image: besides.image,
        };
        instance_actions::insert(tx, &action).await?;
        Ok(())
    }
}

struct EndAction {
    uuid: Uuid,
    action: i64,
    outcome: Outcome,
}

impl Work for EndAction {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        // First the server: whoever begins an action at the same time comes before this transaction or behind it.
        let is_there = match rows::touch(tx, self.uuid).await {
            Err(ServerError::NotFound { .. }) => false,
            other => other.map(|_| true)?,
        };
        instance_actions::finish(tx, self.uuid, self.action, &self.outcome).await?;
        let image = match self.outcome {
            Outcome::Success => instance_actions::image_of(tx, self.action).await?,
            Outcome::Error(_) => None,
        };
        if let Some(image) = image.filter(|_| is_there) {
            set(tx, self.uuid, vec![("image", Value::from(image))]).await?;
        }
        // A hard reboot may have come after it.
        if is_there && !instance_actions::is_any_open(tx, self.uuid).await? {
            set(tx, self.uuid, vec![("task", Value::Null)]).await?;
        }
        Ok(())
    }
}

struct GiveUp(Uuid);

impl Work for GiveUp {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        rows::touch(tx, self.0).await?;
        set(tx, self.0, vec![("task", Value::Null)]).await?;
        let reason = "an operator gave it up".to_owned();
        Ok(instance_actions::give_up(tx, self.0, &Outcome::Error(Some(reason))).await?)
    }
}

//! Actions and the rows of their servers: what begins, ends, or is given up is written in one transaction with what it makes of them.

use std::collections::BTreeMap;

use berth_store::{Transaction, Value, Work};
use uuid::Uuid;

use super::update::{AgentWord, set};
use super::{MOST_METADATA, ServerError, ServerUpdate, metadata, rows};
use crate::compute::Compute;
use crate::instance_actions::{self, NewAction, Outcome};
use crate::server_state::Action;

/// What an action makes of a server's row, beside what is under way. The default is nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Besides {
    /// The image that its root disk is made of anew. It is shown at once, and stays where that fails, as with Nova.
    pub(crate) image: Option<Uuid>,
    /// What its users say of it from now on.
    pub(crate) update: ServerUpdate,
    /// All of its metadata from now on; none: that stays.
    pub(crate) metadata: Option<BTreeMap<String, String>>,
}

/// An action that begins.
pub(crate) struct Begin<'a> {
    pub(crate) action: Action,
    /// As it is asked of the agent, as JSON.
    pub(crate) body: String,
    /// What becomes of its row.
    pub(crate) besides: Besides,
    /// Who asks, and by which request.
    pub(crate) user_id: &'a str,
    pub(crate) request_id: &'a str,
}

/// An action that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// What the agent said of the guest then, which is the last word until it is asked again; none where it said nothing.
    pub(crate) word: Option<AgentWord>,
}

impl Compute {
    /// Something is done with it from now on, which was checked.
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
        ended: Ended,
    ) -> Result<(), ServerError> {
        let work = EndAction {
            uuid,
            action,
            ended,
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
        if let Some(image) = besides.image {
            columns.push(("image", Value::from(image.to_string())));
        }
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
        };
        instance_actions::insert(tx, &action).await?;
        Ok(())
    }
}

struct EndAction {
    uuid: Uuid,
    action: i64,
    ended: Ended,
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
        let outcome = &self.ended.outcome;
        instance_actions::finish(tx, self.uuid, self.action, outcome).await?;
        if !is_there {
            return Ok(());
        }
        let word = self.ended.word.as_ref();
        let mut columns = word.map_or_else(Vec::new, AgentWord::columns);
        // An earlier release had not written it into the server's row when the rebuild began.
        if *outcome == Outcome::Success
            && let Some(image) = instance_actions::image_of(tx, self.action).await?
        {
            columns.push(("image", Value::from(image)));
        }
        // A hard reboot may have come after it.
        if !instance_actions::is_any_open(tx, self.uuid).await? {
            columns.push(("task", Value::Null));
        }
        Ok(set(tx, self.uuid, columns).await?)
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

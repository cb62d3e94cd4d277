//! What changes of a server's row, beside its metadata and tags.

use berth_store::{Moment, SqlError, Statement, Transaction, Value, Work};
use uuid::Uuid;

use super::{Lock, Server, ServerError, rows};
use crate::compute::Compute;
use crate::instance_actions::{self, NewAction, Outcome};
use crate::server_state::{Action, TaskState};

/// What its users change of a server. None stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerUpdate {
    /// Its name.
    pub name: Option<String>,
    /// What is said of it, or nothing.
    pub description: Option<Option<String>>,
    /// `AUTO` or `MANUAL`.
    pub disk_config: Option<String>,
    /// What is said of its addresses, or nothing.
    pub access_ip_v4: Option<Option<String>>,
    /// The same.
    pub access_ip_v6: Option<Option<String>>,
}

/// An action that begins.
pub(crate) struct Begin<'a> {
    /// Which.
    pub(crate) action: Action,
    /// As it is asked of the agent, as JSON.
    pub(crate) body: String,
    /// The image that its root disk is of from now on; none: that stays.
    pub(crate) image: Option<Uuid>,
    /// Who asks, and by which request.
    pub(crate) user_id: &'a str,
    pub(crate) request_id: &'a str,
}

impl Compute {
    /// Changes what its users say of a server; the server as it is then.
    ///
    /// # Errors
    /// [`ServerError::NotFound`].
    pub async fn update_server(
        &self,
        uuid: Uuid,
        update: ServerUpdate,
    ) -> Result<Server, ServerError> {
        self.tables.write(&Update { uuid, update }).await
    }

    /// Locks a server, or opens it; the server as it is then.
    ///
    /// # Errors
    /// [`ServerError::NotFound`].
    pub async fn set_lock(&self, uuid: Uuid, lock: Option<Lock>) -> Result<Server, ServerError> {
        let columns = vec![
            (
                "locked_by",
                text(lock.as_ref().map(|lock| lock.by.as_str())),
            ),
            ("locked_reason", text(lock.and_then(|lock| lock.reason))),
        ];
        self.tables.write(&Set { uuid, columns }).await
    }

    /// The conductor has it: what it was asked for is nobody else's business any more.
    pub(crate) async fn handed_over(&self, uuid: Uuid) -> Result<Server, ServerError> {
        let columns = vec![("handed", Value::from(1)), ("request", Value::Null)];
        self.tables.write(&Set { uuid, columns }).await
    }

    /// The conductor does not take it.
    pub(crate) async fn refused(&self, uuid: Uuid, reason: &str) -> Result<(), ServerError> {
        let work = Settle {
            uuid,
            refusal: Some(reason.to_owned()),
            outcome: Outcome::Error(Some(reason.to_owned())),
            host: None,
        };
        self.tables.write(&work).await
    }

    /// Its boot has come to its end.
    pub(crate) async fn settled(
        &self,
        uuid: Uuid,
        outcome: Outcome,
        host: Option<String>,
    ) -> Result<(), ServerError> {
        let work = Settle {
            uuid,
            refusal: None,
            outcome,
            host,
        };
        self.tables.write(&work).await
    }

    /// It is to go; whether that is new.
    pub(crate) async fn begin_delete(
        &self,
        uuid: Uuid,
        user_id: &str,
        request_id: &str,
    ) -> Result<(), ServerError> {
        let work = BeginDelete {
            uuid,
            user_id,
            request_id,
        };
        self.tables.write(&work).await
    }

    /// What its agent said of it.
    pub(crate) async fn seen(
        &self,
        uuid: Uuid,
        status: &str,
        power: Option<&str>,
    ) -> Result<(), ServerError> {
        let work = Seen {
            uuid,
            status: status.to_owned(),
            power: power.map(str::to_owned),
        };
        self.tables.write(&work).await
    }

    /// Something is done with it from now on, which was checked.
    ///
    /// # Errors
    /// [`ServerError::NotFound`]; [`ServerError::Busy`] where something else began in between.
    pub(crate) async fn begin_action(
        &self,
        uuid: Uuid,
        begin: Begin<'_>,
    ) -> Result<i64, ServerError> {
        self.tables.write(&BeginAction { uuid, begin }).await
    }

    /// It has been done, or not.
    pub(crate) async fn end_action(
        &self,
        uuid: Uuid,
        action: i64,
        task: TaskState,
        outcome: Outcome,
    ) -> Result<(), ServerError> {
        let work = EndAction {
            uuid,
            action,
            task,
            outcome,
        };
        self.tables.write(&work).await
    }

    /// What is under way is given up: nobody asks for it any more.
    pub(crate) async fn give_up(&self, uuid: Uuid) -> Result<(), ServerError> {
        self.tables.write(&GiveUp(uuid)).await
    }

    /// Nobody knows the guest any more: the row goes too.
    pub(crate) async fn forget_server(&self, uuid: Uuid) -> Result<(), ServerError> {
        self.tables.write(&Forget(uuid)).await
    }
}

fn text<T: Into<String>>(text: Option<T>) -> Value {
    Value::from(text.map(Into::into))
}

/// Columns of one row.
struct Set {
    uuid: Uuid,
    columns: Vec<(&'static str, Value)>,
}

impl Work for Set {
    type Output = Server;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<Server, ServerError> {
        rows::touch(tx, self.uuid).await?;
        set(tx, self.uuid, self.columns.clone()).await?;
        rows::one(tx, self.uuid).await
    }
}

async fn set(
    tx: &mut Transaction,
    uuid: Uuid,
    columns: Vec<(&'static str, Value)>,
) -> Result<(), SqlError> {
    for (column, value) in columns {
        let sql = format!("UPDATE compute_servers SET {column} = ? WHERE uuid = ?");
        let set = Statement::recurring(sql).bind(value).bind(uuid.to_string());
        tx.execute(set).await?;
    }
    Ok(())
}

struct Update {
    uuid: Uuid,
    update: ServerUpdate,
}

impl Work for Update {
    type Output = Server;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<Server, ServerError> {
        let update = self.update.clone();
        rows::touch(tx, self.uuid).await?;
        let columns = [
            ("name", update.name.map(Some)),
            ("description", update.description),
            ("disk_config", update.disk_config.map(Some)),
            ("access_ip_v4", update.access_ip_v4),
            ("access_ip_v6", update.access_ip_v6),
        ];
        let columns = columns
            .into_iter()
            .filter_map(|(column, value)| Some((column, Value::from(value?))));
        set(tx, self.uuid, columns.collect()).await?;
        rows::one(tx, self.uuid).await
    }
}

struct Settle {
    uuid: Uuid,
    refusal: Option<String>,
    outcome: Outcome,
    host: Option<String>,
}

impl Work for Settle {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = rows::touch(tx, self.uuid).await?;
        if server.settled_at.is_some() {
            return Ok(());
        }
        let now = tx.dialect().now();
        let sql = format!("UPDATE compute_servers SET settled_at = {now} WHERE uuid = ?");
        let settle = Statement::recurring(sql).bind(self.uuid.to_string());
        tx.execute(settle).await?;
        if let Some(reason) = &self.refusal {
            let columns = vec![
                ("refusal", Value::from(reason.clone())),
                ("handed", Value::from(1)),
                ("request", Value::Null),
            ];
            set(tx, self.uuid, columns).await?;
        }
        instance_actions::finish_all(tx, self.uuid, "create", &self.outcome, self.host.as_deref())
            .await?;
        Ok(())
    }
}

struct BeginDelete<'a> {
    uuid: Uuid,
    user_id: &'a str,
    request_id: &'a str,
}

impl Work for BeginDelete<'_> {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = rows::touch(tx, self.uuid).await?;
        if server.deleting {
            return Ok(());
        }
        set(tx, self.uuid, vec![("deleting", Value::from(1))]).await?;
        let action = NewAction {
            server: self.uuid,
            project_id: &server.project_id,
            user_id: self.user_id,
            request_id: self.request_id,
            action: "delete",
            event: "compute_terminate_instance",
            body: None,
        };
        instance_actions::insert(tx, &action).await?;
        Ok(())
    }
}

struct Seen {
    uuid: Uuid,
    status: String,
    power: Option<String>,
}

impl Work for Seen {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let columns = vec![
            ("seen_status", Value::from(self.status.clone())),
            ("seen_power", Value::from(self.power.clone())),
        ];
        Ok(set(tx, self.uuid, columns).await?)
    }
}

struct BeginAction<'a> {
    uuid: Uuid,
    begin: Begin<'a>,
}

impl Work for BeginAction<'_> {
    type Output = i64;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<i64, ServerError> {
        let server = rows::touch(tx, self.uuid).await?;
        let action = self.begin.action;
        if let Some(task_state) = server.task.filter(|task| !action.comes_after(*task)) {
            return Err(ServerError::Busy {
                action: action.as_str(),
                uuid: self.uuid,
                task_state,
            });
        }
        let mut columns = vec![("task", Value::from(action.task().as_str()))];
        if let Some(image) = self.begin.image {
            columns.push(("image", Value::from(image.to_string())));
        }
        set(tx, self.uuid, columns).await?;
        let action = NewAction {
            server: self.uuid,
            project_id: &server.project_id,
            user_id: self.begin.user_id,
            request_id: self.begin.request_id,
            action: action.as_str(),
            event: action.event(),
            body: Some(&self.begin.body),
        };
        Ok(instance_actions::insert(tx, &action).await?)
    }
}

struct EndAction {
    uuid: Uuid,
    action: i64,
    task: TaskState,
    outcome: Outcome,
}

impl Work for EndAction {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        instance_actions::finish(tx, self.action, &self.outcome).await?;
        let server = match rows::touch(tx, self.uuid).await {
            Err(ServerError::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        // A hard reboot may have come after it.
        if server.task == Some(self.task) {
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

struct Forget(Uuid);

impl Work for Forget {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = match rows::touch(tx, self.0).await {
            Err(ServerError::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        for sql in [
            "DELETE FROM compute_server_metadata WHERE server_id = ?",
            "DELETE FROM compute_server_tags WHERE server_id = ?",
            "DELETE FROM compute_servers WHERE id = ?",
        ] {
            tx.execute(Statement::new(sql).bind(server.id)).await?;
        }
        instance_actions::finish_all(tx, self.0, "delete", &Outcome::Success, None).await?;
        instance_actions::drop_old(tx, Moment::now()).await?;
        Ok(())
    }
}

//! What changes of a server's row, beside its metadata and tags.

use berth_store::{Moment, SqlError, Statement, Transaction, Value, Work};
use uuid::Uuid;

use super::{Handed, Lock, Locker, Server, ServerError, rows};
use crate::compute::Compute;
use crate::instance_actions::{self, NewAction, Outcome};
use crate::server_state::Seen;

/// What its users change of a server. None stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerUpdate {
    pub name: Option<String>,
    /// What is said of it, or nothing.
    pub description: Option<Option<String>>,
    /// `AUTO` or `MANUAL`.
    pub disk_config: Option<String>,
    /// What is said of its addresses, or nothing.
    pub access_ip_v4: Option<Option<String>>,
    pub access_ip_v6: Option<Option<String>>,
}

/// What an agent says of a guest, in its words, which this release knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentWord {
    pub(crate) status: String,
    /// What the hypervisor has of it.
    pub(crate) power: Option<String>,
}

impl AgentWord {
    pub(super) fn columns(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("seen_status", Value::from(self.status.clone())),
            ("seen_power", Value::from(self.power.clone())),
        ]
    }
}

impl Compute {
    /// Changes what its users say of a server; the server as it is then.
    pub async fn update_server(
        &self,
        uuid: Uuid,
        update: ServerUpdate,
    ) -> Result<Server, ServerError> {
        self.tables.write(&Update { uuid, update }).await
    }

    /// Locks a server; the server as it is then. Its owner's lock leaves one that is there as it is, whosever that is.
    pub async fn lock(&self, uuid: Uuid, lock: Lock) -> Result<Server, ServerError> {
        let change = LockChange::Lock(lock);
        self.tables.write(&SetLock { uuid, change }).await
    }

    /// Opens a server; the server as it is then.
    ///
    /// # Errors
    /// [`ServerError::NotFound`]; [`ServerError::Locked`] where an operator locked it and `opens` says that only its owner's lock
    /// may go.
    pub async fn unlock(&self, uuid: Uuid, opens: Locker) -> Result<Server, ServerError> {
        let change = LockChange::Unlock(opens);
        self.tables.write(&SetLock { uuid, change }).await
    }

    /// The conductor has it: what it was asked for is nobody else's business any more.
    pub(crate) async fn handed_over(&self, uuid: Uuid) -> Result<Server, ServerError> {
        let owner = self.owner().to_string();
        let columns = vec![
            ("handed", Value::from(1)),
            ("request", Value::Null),
            ("owner", Value::from(owner)),
        ];
        let server = self.tables.write(&Set { uuid, columns }).await?;
        // It may have somebody's words in it that are to be on one config drive alone.
        self.tables.empty_log().await;
        Ok(server)
    }

    /// A row of an earlier release is that of this conductor's journal: that knows the guest.
    pub(crate) async fn owned(&self, uuid: Uuid) -> Result<Server, ServerError> {
        let columns = vec![("owner", Value::from(self.owner().to_string()))];
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
        self.tables.write(&work).await?;
        self.tables.empty_log().await;
        Ok(())
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

    /// It is to go.
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

    /// What its agent said of it, asked by whoever knew this of it: where that is not what is known any more, another asked later.
    pub(crate) async fn seen(&self, server: &Server, word: AgentWord) -> Result<(), ServerError> {
        let (uuid, before) = (server.uuid, server.last);
        self.tables.write(&Remember { uuid, before, word }).await
    }

    /// This conductor's journal does not know the guest any more: the row goes too, where it is one of that journal's.
    pub(crate) async fn forget_server(&self, uuid: Uuid) -> Result<(), ServerError> {
        let owner = self.owner();
        self.tables.write(&Forget { uuid, owner }).await?;
        self.inner.pacing.ended(uuid);
        Ok(())
    }

    /// What was done long ago with servers that are gone is forgotten.
    pub(crate) async fn drop_old_actions(&self) -> Result<(), ServerError> {
        self.tables.write(&DropOld).await
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

pub(super) async fn set(
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

struct SetLock {
    uuid: Uuid,
    change: LockChange,
}

enum LockChange {
    Lock(Lock),
    /// Of whom a lock may go at most.
    Unlock(Locker),
}

impl Work for SetLock {
    type Output = Server;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<Server, ServerError> {
        let server = rows::touch(tx, self.uuid).await?;
        let was = server.lock.as_ref().map(|lock| lock.by);
        let lock = match &self.change {
            LockChange::Lock(lock) if was.is_some() && lock.by == Locker::Owner => {
                return Ok(server);
            }
            LockChange::Unlock(Locker::Owner) if was == Some(Locker::Admin) => {
                let uuid = self.uuid;
                return Err(ServerError::Locked { uuid });
            }
            LockChange::Lock(lock) => Some(lock),
            LockChange::Unlock(_) => None,
        };
        let reason = lock.and_then(|lock| lock.reason.clone());
        let columns = vec![
            ("locked_by", text(lock.map(|lock| lock.by.as_str()))),
            ("locked_reason", text(reason)),
        ];
        set(tx, self.uuid, columns).await?;
        rows::one(tx, self.uuid).await
    }
}

struct Update {
    uuid: Uuid,
    update: ServerUpdate,
}

impl Work for Update {
    type Output = Server;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<Server, ServerError> {
        rows::touch(tx, self.uuid).await?;
        set(tx, self.uuid, self.update.columns()).await?;
        rows::one(tx, self.uuid).await
    }
}

impl ServerUpdate {
    pub(super) fn columns(&self) -> Vec<(&'static str, Value)> {
        let update = self.clone();
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
        columns.collect()
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
        // Until its agent says more, that is the last word about it.
        if self.outcome == Outcome::Success && server.last.is_none() {
            let word = AgentWord {
                status: "active".to_owned(),
                power: None,
            };
            set(tx, self.uuid, word.columns()).await?;
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

struct Remember {
    uuid: Uuid,
    before: Option<Seen>,
    word: AgentWord,
}

impl Work for Remember {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        // Nobody else writes it from here on. It is no change that a user made.
        let hold = "UPDATE compute_servers SET seen_status = seen_status WHERE uuid = ?";
        let hold = Statement::recurring(hold.to_owned()).bind(self.uuid.to_string());
        if tx.execute(hold).await?.rows_affected == 0
            || rows::one(tx, self.uuid).await?.last != self.before
        {
            return Ok(());
        }
        Ok(set(tx, self.uuid, self.word.columns()).await?)
    }
}

struct Forget {
    uuid: Uuid,
    owner: Uuid,
}

impl Work for Forget {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = match rows::touch(tx, self.uuid).await {
            Err(ServerError::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        let is_refused = matches!(server.handed, Handed::Refused { .. });
        if server.owner != Some(self.owner) && !is_refused {
            return Ok(());
        }
        for sql in [
            "DELETE FROM compute_server_metadata WHERE server_id = ?",
            "DELETE FROM compute_server_tags WHERE server_id = ?",
            "DELETE FROM compute_servers WHERE id = ?",
        ] {
            tx.execute(Statement::new(sql).bind(server.id)).await?;
        }
        instance_actions::finish_all(tx, self.uuid, "delete", &Outcome::Success, None).await?;
        let gone = Outcome::Error(Some("the server was deleted meanwhile".to_owned()));
        // It was asked to go before it was there, and nobody looks at its boot any more.
        instance_actions::finish_all(tx, self.uuid, "create", &gone, None).await?;
        Ok(instance_actions::give_up(tx, self.uuid, &gone).await?)
    }
}

struct DropOld;

impl Work for DropOld {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        Ok(instance_actions::drop_old(tx, Moment::now()).await?)
    }
}

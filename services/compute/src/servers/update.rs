//! Changes to a server's row, except metadata and tags.

use berth_store::{SqlError, SqlTimestamp, Statement, Transaction, Value, Work};
use berth_wire::guest::ConfigDriveChangeBody;
use uuid::Uuid;

use super::{ConductorHandoff, Lock, Locker, ServerError, ServerRecord, drive_updates, rows};
use crate::compute::Compute;
use crate::consoles;
use crate::instance_actions::{self, ActionOutcome, NewAction};
use crate::server_state::GuestObservation;

/// Changes requested by users. `None`: unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerUpdate {
    pub name: Option<String>,
    /// `Some(None)` removes the description.
    pub description: Option<Option<String>>,
    /// `Some(None)` removes the key.
    pub key_name: Option<Option<String>>,
    /// `AUTO` or `MANUAL`.
    pub disk_config: Option<String>,
    /// `Some(None)` removes the address.
    pub access_ip_v4: Option<Option<String>>,
    pub access_ip_v6: Option<Option<String>>,
}

/// The agent's report in its stored form. This release can parse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredAgentReport {
    pub(crate) status: String,
    /// The hypervisor's power state.
    pub(crate) power: Option<String>,
}

impl StoredAgentReport {
    pub(super) fn columns(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("seen_status", Value::from(self.status.clone())),
            ("seen_power", Value::from(self.power.clone())),
        ]
    }
}

impl Compute {
    /// Changes a server. Returns the changed server.
    pub async fn update_server(
        &self,
        uuid: Uuid,
        update: ServerUpdate,
    ) -> Result<ServerRecord, ServerError> {
        let is_renamed = update.name.is_some();
        let server = self.tables.write(&UpdateServerRow { uuid, update }).await?;
        if is_renamed {
            self.send_drive_update(uuid);
        }
        Ok(server)
    }

    /// Locks a server. Returns the changed server. An owner's lock does not replace an existing lock.
    pub async fn lock(&self, uuid: Uuid, lock: Lock) -> Result<ServerRecord, ServerError> {
        let change = LockChange::Lock(lock);
        self.tables.write(&SetLock { uuid, change }).await
    }

    /// Releases the lock. Returns the changed server.
    ///
    /// Errors: [`ServerError::NotFound`]; [`ServerError::Locked`] if an operator locked the server
    /// and `opens` is [`Locker::Owner`].
    pub async fn unlock(&self, uuid: Uuid, opens: Locker) -> Result<ServerRecord, ServerError> {
        let change = LockChange::Unlock(opens);
        self.tables.write(&SetLock { uuid, change }).await
    }

    /// Records that the conductor accepted the server, and deletes the stored request.
    pub(crate) async fn record_accepted(&self, uuid: Uuid) -> Result<ServerRecord, ServerError> {
        let owner = self.owner().to_string();
        let columns = vec![
            ("handed", Value::from(1)),
            ("request", Value::Null),
            ("owner", Value::from(owner)),
        ];
        let server = self
            .tables
            .write(&SetServerColumns { uuid, columns })
            .await?;
        // The request may contain user data, which must not remain on disk.
        self.tables.empty_log().await;
        Ok(server)
    }

    /// Records this conductor's journal as the owner of a server.
    pub(crate) async fn take_ownership(&self, uuid: Uuid) -> Result<ServerRecord, ServerError> {
        let columns = vec![("owner", Value::from(self.owner().to_string()))];
        self.tables.write(&SetServerColumns { uuid, columns }).await
    }

    /// Records that the conductor refused the server.
    pub(crate) async fn record_refused(&self, uuid: Uuid, reason: &str) -> Result<(), ServerError> {
        let work = RecordBootEnd {
            uuid,
            refusal: Some(reason.to_owned()),
            outcome: ActionOutcome::Error(Some(reason.to_owned())),
            host: None,
        };
        self.tables.write(&work).await?;
        self.tables.empty_log().await;
        Ok(())
    }

    /// Records the end of the boot.
    pub(crate) async fn record_boot_end(
        &self,
        uuid: Uuid,
        outcome: ActionOutcome,
        host: Option<String>,
    ) -> Result<(), ServerError> {
        let work = RecordBootEnd {
            uuid,
            refusal: None,
            outcome,
            host,
        };
        self.tables.write(&work).await
    }

    /// Marks the server for deletion.
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

    /// Stores an agent's report. It is dropped if the stored report changed since `server` was read, because then a
    /// newer query has answered.
    pub(crate) async fn store_agent_report(
        &self,
        server: &ServerRecord,
        report: StoredAgentReport,
    ) -> Result<(), ServerError> {
        let (uuid, before) = (server.uuid, server.last_report);
        self.tables
            .write(&StoreAgentReport {
                uuid,
                before,
                report,
            })
            .await
    }

    /// Deletes the row of a server if its guest no longer exists and this conductor's journal owns it.
    pub(crate) async fn delete_server_row(&self, uuid: Uuid) -> Result<(), ServerError> {
        let owner = self.owner();
        self.tables.write(&DeleteServerRow { uuid, owner }).await?;
        self.inner.retries.clear(uuid);
        Ok(())
    }

    /// Deletes the old history of servers that no longer exist.
    pub(crate) async fn delete_old_actions(&self) -> Result<(), ServerError> {
        self.tables.write(&DeleteOldActions).await
    }
}

fn text<T: Into<String>>(text: Option<T>) -> Value {
    Value::from(text.map(Into::into))
}

/// Sets columns of one row.
struct SetServerColumns {
    uuid: Uuid,
    columns: Vec<(&'static str, Value)>,
}

impl Work for SetServerColumns {
    type Output = ServerRecord;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<ServerRecord, ServerError> {
        let now = tx.dialect().now();
        let touch = format!("updated_at = {now}");
        let set = set_statement(self.uuid, self.columns.clone(), vec![touch]);
        if tx.execute(set).await?.rows_affected == 0 {
            return Err(ServerError::NotFound { uuid: self.uuid });
        }
        rows::find(tx, self.uuid).await
    }
}

pub(super) async fn set(
    tx: &mut Transaction,
    uuid: Uuid,
    columns: Vec<(&'static str, Value)>,
) -> Result<(), SqlError> {
    if !columns.is_empty() {
        tx.execute(set_statement(uuid, columns, Vec::new())).await?;
    }
    Ok(())
}

/// The statement that sets columns, after other assignments.
fn set_statement(
    uuid: Uuid,
    columns: Vec<(&'static str, Value)>,
    mut assignments: Vec<String>,
) -> Statement {
    let (names, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    assignments.extend(names.iter().map(|name| format!("{name} = ?")));
    let assignments = assignments.join(", ");
    Statement::recurring(format!(
        "UPDATE compute_servers SET {assignments} WHERE uuid = ?"
    ))
    .bind_all(values)
    .bind(uuid.to_string())
}

struct SetLock {
    uuid: Uuid,
    change: LockChange,
}

enum LockChange {
    Lock(Lock),
    /// The most privileged lock that the caller may release.
    Unlock(Locker),
}

impl Work for SetLock {
    type Output = ServerRecord;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<ServerRecord, ServerError> {
        let server = rows::lock(tx, self.uuid).await?;
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
        rows::find(tx, self.uuid).await
    }
}

struct UpdateServerRow {
    uuid: Uuid,
    update: ServerUpdate,
}

impl Work for UpdateServerRow {
    type Output = ServerRecord;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<ServerRecord, ServerError> {
        let server = rows::lock(tx, self.uuid).await?;
        set(tx, self.uuid, self.update.columns()).await?;
        if self.update.name.is_some() {
            drive_updates::queue(tx, &server, ConfigDriveChangeBody::default()).await?;
        }
        rows::find(tx, self.uuid).await
    }
}

impl ServerUpdate {
    pub(super) fn columns(&self) -> Vec<(&'static str, Value)> {
        let update = self.clone();
        let columns = [
            ("name", update.name.map(Some)),
            ("description", update.description),
            ("key_name", update.key_name),
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

struct RecordBootEnd {
    uuid: Uuid,
    refusal: Option<String>,
    outcome: ActionOutcome,
    host: Option<String>,
}

impl Work for RecordBootEnd {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = rows::lock(tx, self.uuid).await?;
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
        // The state until the agent reports one.
        if self.outcome == ActionOutcome::Success && server.last_report.is_none() {
            let report = StoredAgentReport {
                status: "active".to_owned(),
                power: None,
            };
            set(tx, self.uuid, report.columns()).await?;
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
        let server = rows::lock(tx, self.uuid).await?;
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

struct StoreAgentReport {
    uuid: Uuid,
    before: Option<GuestObservation>,
    report: StoredAgentReport,
}

impl Work for StoreAgentReport {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        // Locks the row without changing `updated_at`, because no user changed the server.
        let hold = "UPDATE compute_servers SET seen_status = seen_status WHERE uuid = ?";
        let hold = Statement::recurring(hold.to_owned()).bind(self.uuid.to_string());
        if tx.execute(hold).await?.rows_affected == 0
            || rows::find(tx, self.uuid).await?.last_report != self.before
        {
            return Ok(());
        }
        Ok(set(tx, self.uuid, self.report.columns()).await?)
    }
}

struct DeleteServerRow {
    uuid: Uuid,
    owner: Uuid,
}

impl Work for DeleteServerRow {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = match rows::lock(tx, self.uuid).await {
            Err(ServerError::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        let is_refused = matches!(server.handoff, ConductorHandoff::Refused { .. });
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
        consoles::delete_of(tx, self.uuid).await?;
        instance_actions::finish_all(tx, self.uuid, "delete", &ActionOutcome::Success, None)
            .await?;
        let gone = ActionOutcome::Error(Some("the server was deleted meanwhile".to_owned()));
        // The server may be deleted before its boot ended, which is then no longer observed.
        instance_actions::finish_all(tx, self.uuid, "create", &gone, None).await?;
        Ok(instance_actions::cancel_all(tx, self.uuid, &gone).await?)
    }
}

struct DeleteOldActions;

impl Work for DeleteOldActions {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        Ok(instance_actions::delete_old(tx, SqlTimestamp::now()).await?)
    }
}

//! Instance actions: the history of a server, with requester and outcome. The history of a deleted server is kept for a
//! week.
//!
//! Rows with a `body` are also the queue of actions that are sent to the server's agent ([`OpenAction`]). Changes of the
//! config drive ([`DRIVE_UPDATE`]) are in the queue only: they are not shown, and deleted when they end.

mod listing;

use std::time::Duration;

use berth_store::{Row, SqlError, SqlTimestamp, Statement, Transaction};
use uuid::Uuid;

pub(crate) use listing::ActionsPart;

use crate::compute::Compute;
use crate::server_state::Action;
use crate::servers::ServerError;

/// How long the history of a deleted server is kept.
const HISTORY_RETENTION: Duration = Duration::from_hours(7 * 24);

/// The action of a pending change of the config drive.
pub(crate) const DRIVE_UPDATE: &str = "update_config_drive";

/// SQL condition: the action or change is still to be sent to the agent.
const IS_PENDING: &str = "server_uuid = ? AND body IS NOT NULL AND outcome IS NULL";

/// SQL condition: the action is still to be sent to the agent.
const IS_OPEN: &str =
    "server_uuid = ? AND body IS NOT NULL AND outcome IS NULL AND action <> 'update_config_drive'";

/// SQL condition: the action is a reboot that ends together with an equal reboot that was already queued. It is not
/// sent to the agent.
const ENDS_WITH_ANOTHER: &str = "action = 'reboot' AND body IS NULL AND finished_at IS NULL";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionOutcome {
    Success,
    /// With the reason, for operators.
    Error(Option<String>),
}

impl ActionOutcome {
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Error(_) => "Error",
        }
    }
}

/// An entry in the history of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceAction {
    /// The row number, never reused.
    pub(crate) id: i64,
    /// The project of the server.
    pub project_id: String,
    pub user_id: String,
    pub request_id: String,
    /// Nova's name of the action, such as `create` or `stop`.
    pub action: String,
    /// Nova's name of the event that the action causes on the host.
    pub event: String,
    /// The host on which the action was executed, if known.
    pub host: Option<String>,
    /// `None` while the action is pending.
    pub outcome: Option<ActionOutcome>,
    pub started_at: SqlTimestamp,
    pub finished_at: Option<SqlTimestamp>,
}

/// An action that is still to be sent to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenAction {
    pub(crate) id: i64,
    pub(crate) request_id: String,
    /// The agent's request body, or an [`InterfaceChange`]; JSON.
    ///
    /// [`InterfaceChange`]: crate::interface_changes::InterfaceChange
    pub(crate) body: String,
    pub(crate) kind: ActionKind,
}

/// Who carries out an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionKind {
    /// The agent.
    Guest,
    /// The agent, for a change of the config drive.
    DriveUpdate,
    /// The conductor, for a change of the guest's interfaces.
    Interface,
}

impl ActionKind {
    fn of(action: &str) -> Self {
        let interface = [Action::AttachInterface, Action::DetachInterface];
        match action {
            DRIVE_UPDATE => Self::DriveUpdate,
            name if interface.iter().any(|one| one.as_str() == name) => Self::Interface,
            _ => Self::Guest,
        }
    }
}

pub(crate) struct NewAction<'a> {
    pub(crate) server: Uuid,
    pub(crate) project_id: &'a str,
    pub(crate) user_id: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) action: &'a str,
    pub(crate) event: &'a str,
    /// The agent's request body, JSON; `None` if the agent is not involved.
    pub(crate) body: Option<&'a str>,
}

impl Compute {
    /// The oldest action that is still to be sent to the agent.
    pub(crate) async fn oldest_open_action(
        &self,
        server: Uuid,
    ) -> Result<Option<OpenAction>, ServerError> {
        let mut tx = self.tables.read().await?;
        let sql = format!(
            "SELECT id, request_id, body, action FROM compute_server_actions WHERE {IS_PENDING} ORDER BY id LIMIT 1"
        );
        let statement = Statement::recurring(sql).bind(server.to_string());
        let row = tx.row(statement).await?;
        Ok(row.as_ref().map(open).transpose()?)
    }
}

impl Compute {
    /// The outcome of the action of a request; `None` if there is no such action, or while it is pending.
    pub(crate) async fn action_outcome(
        &self,
        server: Uuid,
        request_id: &str,
        action: Action,
    ) -> Result<Option<ActionOutcome>, ServerError> {
        let mut tx = self.tables.read().await?;
        let sql = "SELECT outcome, details FROM compute_server_actions \
             WHERE server_uuid = ? AND request_id = ? AND action = ? ORDER BY id DESC LIMIT 1";
        let statement = Statement::new(sql)
            .bind(server.to_string())
            .bind(request_id)
            .bind(action.as_str());
        let Some(row) = tx.row(statement).await? else {
            return Ok(None);
        };
        let success = ActionOutcome::Success.as_str();
        Ok(match row.opt_text(0)? {
            None => None,
            Some(outcome) if outcome == success => Some(ActionOutcome::Success),
            Some(_) => Some(ActionOutcome::Error(row.opt_text(1)?)),
        })
    }
}

fn open(row: &Row) -> Result<OpenAction, SqlError> {
    Ok(OpenAction {
        id: row.int(0)?,
        request_id: row.text(1)?,
        body: row.text(2)?,
        kind: ActionKind::of(&row.text(3)?),
    })
}

/// The servers with pending changes of their config drives.
pub(crate) async fn servers_with_drive_updates(
    tx: &mut Transaction,
) -> Result<Vec<Uuid>, SqlError> {
    let sql = "SELECT DISTINCT server_uuid FROM compute_server_actions WHERE action = ?";
    let rows = tx.rows(Statement::new(sql).bind(DRIVE_UPDATE)).await?;
    let servers = rows.iter().map(|row| row.text(0));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    Ok(servers
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect())
}

/// Whether an equal change of the config drive waits behind the current action.
pub(crate) async fn is_drive_update_queued(
    tx: &mut Transaction,
    server: Uuid,
    body: &str,
) -> Result<bool, SqlError> {
    let sql = format!(
        "SELECT body FROM compute_server_actions WHERE {IS_PENDING} AND id > \
         (SELECT MIN(id) FROM compute_server_actions WHERE {IS_PENDING}) AND action = ?"
    );
    let waiting = Statement::recurring(sql)
        .bind(server.to_string())
        .bind(server.to_string())
        .bind(DRIVE_UPDATE);
    for waiting in tx.rows(waiting).await? {
        if waiting.text(0)? == body {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes a change of the config drive that has ended.
pub(crate) async fn delete_drive_update(tx: &mut Transaction, id: i64) -> Result<(), SqlError> {
    let sql = "DELETE FROM compute_server_actions WHERE id = ? AND action = ?";
    let delete = Statement::new(sql).bind(id).bind(DRIVE_UPDATE);
    tx.execute(delete).await.map(drop)
}

/// Whether any action is still to be sent to the agent.
pub(crate) async fn has_open_action(tx: &mut Transaction, server: Uuid) -> Result<bool, SqlError> {
    let sql = format!("SELECT 1 FROM compute_server_actions WHERE {IS_OPEN} LIMIT 1");
    let any = Statement::recurring(sql).bind(server.to_string());
    Ok(tx.row(any).await?.is_some())
}

/// Whether an equal action is queued behind the current one.
pub(crate) async fn is_queued(
    tx: &mut Transaction,
    server: Uuid,
    body: &str,
) -> Result<bool, SqlError> {
    let sql = format!("SELECT body FROM compute_server_actions WHERE {IS_OPEN} ORDER BY id");
    let open = tx.rows(Statement::recurring(sql).bind(server.to_string()));
    for waiting in open.await?.iter().skip(1) {
        if waiting.text(0)? == body {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) async fn insert(tx: &mut Transaction, action: &NewAction<'_>) -> Result<(), SqlError> {
    let sql = format!(
        "INSERT INTO compute_server_actions (server_uuid, project_id, user_id, request_id, action, event, body, started_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, {})",
        tx.dialect().now()
    );
    let server = action.server.to_string();
    let insert = Statement::recurring(sql)
        .bind(server)
        .bind(action.project_id)
        .bind(action.user_id)
        .bind(action.request_id)
        .bind(action.action)
        .bind(action.event)
        .bind(action.body.map(str::to_owned));
    tx.execute(insert).await.map(drop)
}

/// The server's image after this action; `None` if the server's row already has it.
pub(crate) async fn image_of(tx: &mut Transaction, id: i64) -> Result<Option<String>, SqlError> {
    let sql = "SELECT image FROM compute_server_actions WHERE id = ?";
    let row = tx.row(Statement::new(sql).bind(id)).await?;
    row.map_or(Ok(None), |row| row.opt_text(0))
}

/// Ends an action and the reboots that end together with it.
pub(crate) async fn finish(
    tx: &mut Transaction,
    server: Uuid,
    id: i64,
    outcome: &ActionOutcome,
) -> Result<(), SqlError> {
    let now = tx.dialect().now();
    let sql = format!(
        "UPDATE compute_server_actions SET outcome = ?, details = ?, finished_at = {now} WHERE id = ? AND finished_at IS NULL"
    );
    let finish = Statement::recurring(sql)
        .bind(outcome.as_str())
        .bind(details(outcome));
    tx.execute(finish.bind(id)).await?;
    // Reboots after the next open action end with that one. This is a query of its own because MySQL cannot read the
    // table that a statement updates.
    let sql = format!("SELECT MIN(id) FROM compute_server_actions WHERE {IS_OPEN} AND id > ?");
    let next = Statement::recurring(sql).bind(server.to_string()).bind(id);
    let next = tx.row(next).await?;
    let next = next.map_or(Ok(None), |row| row.opt_int(0))?;
    let sql = format!(
        "UPDATE compute_server_actions SET outcome = ?, details = ?, finished_at = {now} \
         WHERE server_uuid = ? AND {ENDS_WITH_ANOTHER} AND id > ? AND id < ?"
    );
    let finish = Statement::recurring(sql)
        .bind(outcome.as_str())
        .bind(details(outcome))
        .bind(server.to_string())
        .bind(id)
        .bind(next.unwrap_or(i64::MAX));
    tx.execute(finish).await.map(drop)
}

/// Ends all pending actions of this name.
pub(crate) async fn finish_all(
    tx: &mut Transaction,
    server: Uuid,
    action: &str,
    outcome: &ActionOutcome,
    host: Option<&str>,
) -> Result<(), SqlError> {
    let now = tx.dialect().now();
    let sql = format!(
        "UPDATE compute_server_actions SET outcome = ?, details = ?, host = ?, finished_at = {now} \
         WHERE server_uuid = ? AND action = ? AND finished_at IS NULL"
    );
    let finish = Statement::recurring(sql)
        .bind(outcome.as_str())
        .bind(details(outcome))
        .bind(host.map(str::to_owned))
        .bind(server.to_string())
        .bind(action);
    tx.execute(finish).await.map(drop)
}

/// Ends all open actions of a server and the reboots that end together with them.
pub(crate) async fn cancel_all(
    tx: &mut Transaction,
    server: Uuid,
    outcome: &ActionOutcome,
) -> Result<(), SqlError> {
    let now = tx.dialect().now();
    let sql = format!(
        "UPDATE compute_server_actions SET outcome = ?, details = ?, finished_at = {now} \
         WHERE server_uuid = ? AND action <> 'update_config_drive' \
         AND (body IS NOT NULL AND finished_at IS NULL OR {ENDS_WITH_ANOTHER})"
    );
    let finish = Statement::recurring(sql)
        .bind(outcome.as_str())
        .bind(details(outcome))
        .bind(server.to_string());
    tx.execute(finish).await.map(drop)
}

/// Deletes the old history of servers that no longer exist.
pub(crate) async fn delete_old(tx: &mut Transaction, now: SqlTimestamp) -> Result<(), SqlError> {
    let sql = "DELETE FROM compute_server_actions WHERE started_at < ? AND server_uuid NOT IN (SELECT uuid FROM compute_servers)";
    let delete_old = Statement::new(sql).bind(now.before(HISTORY_RETENTION));
    tx.execute(delete_old).await.map(drop)
}

fn details(outcome: &ActionOutcome) -> Option<String> {
    match outcome {
        ActionOutcome::Success => None,
        ActionOutcome::Error(details) => details.clone(),
    }
}

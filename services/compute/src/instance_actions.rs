//! What was done with servers, by whom, and how it ended. What was done with a server that is gone is known for a week.

mod listing;

use std::time::Duration;

use berth_store::{Moment, Row, SqlError, Statement, Transaction};
use uuid::Uuid;

pub(crate) use listing::ActionsPart;

use crate::compute::Compute;
use crate::servers::ServerError;

/// How long what was done with a server is known after it.
const KEPT: Duration = Duration::from_hours(7 * 24);

/// That an agent is still to be asked for it.
const IS_OPEN: &str = "server_uuid = ? AND body IS NOT NULL AND outcome IS NULL";

/// That it ends with another reboot, which waited when it was asked for and does the same: no agent is asked for this one.
const GOES_WITH_ANOTHER: &str = "action = 'reboot' AND body IS NULL AND finished_at IS NULL";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// Not well, for this reason.
    Error(Option<String>),
}

impl Outcome {
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Error(_) => "Error",
        }
    }
}

/// One thing that was done with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceAction {
    /// Another number for each there ever was.
    pub(crate) id: i64,
    /// Whose the server is.
    pub project_id: String,
    pub user_id: String,
    pub request_id: String,
    /// Nova's word for it: `create`, `stop`, …
    pub action: String,
    /// Nova's word for what is done about it.
    pub event: String,
    /// The host that it was done on, where that is known.
    pub host: Option<String>,
    /// How it ended; none where it has not.
    pub outcome: Option<Outcome>,
    pub started_at: Moment,
    pub finished_at: Option<Moment>,
}

/// What an agent is still to be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenAction {
    pub(crate) id: i64,
    /// The request by which it was asked for.
    pub(crate) request_id: String,
    /// What is asked of the agent, as JSON.
    pub(crate) body: String,
}

pub(crate) struct NewAction<'a> {
    pub(crate) server: Uuid,
    pub(crate) project_id: &'a str,
    pub(crate) user_id: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) action: &'a str,
    pub(crate) event: &'a str,
    /// What is asked of the agent, as JSON; none where nothing is.
    pub(crate) body: Option<&'a str>,
}

impl Compute {
    /// The oldest of what an agent is still to be asked for.
    pub(crate) async fn oldest_open_action(
        &self,
        server: Uuid,
    ) -> Result<Option<OpenAction>, ServerError> {
        let mut tx = self.tables.read().await?;
        let sql = format!(
            "SELECT id, request_id, body FROM compute_server_actions WHERE {IS_OPEN} ORDER BY id LIMIT 1"
        );
        let statement = Statement::recurring(sql).bind(server.to_string());
        let row = tx.row(statement).await?;
        Ok(row.as_ref().map(open).transpose()?)
    }
}

fn open(row: &Row) -> Result<OpenAction, SqlError> {
    Ok(OpenAction {
        id: row.int(0)?,
        request_id: row.text(1)?,
        body: row.text(2)?,
    })
}

/// Whether an agent is still to be asked for anything.
pub(crate) async fn is_any_open(tx: &mut Transaction, server: Uuid) -> Result<bool, SqlError> {
    let sql = format!("SELECT 1 FROM compute_server_actions WHERE {IS_OPEN} LIMIT 1");
    let any = Statement::recurring(sql).bind(server.to_string());
    Ok(tx.row(any).await?.is_some())
}

/// Whether an agent is still to be asked for this, behind something else.
pub(crate) async fn waits(
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

/// The image that a server is of once this is done; none where its row says so already.
pub(crate) async fn image_of(tx: &mut Transaction, id: i64) -> Result<Option<String>, SqlError> {
    let sql = "SELECT image FROM compute_server_actions WHERE id = ?";
    let row = tx.row(Statement::new(sql).bind(id)).await?;
    row.map_or(Ok(None), |row| row.opt_text(0))
}

/// It ends, and so do the reboots that go with it.
pub(crate) async fn finish(
    tx: &mut Transaction,
    server: Uuid,
    id: i64,
    outcome: &Outcome,
) -> Result<(), SqlError> {
    let now = tx.dialect().now();
    let sql = format!(
        "UPDATE compute_server_actions SET outcome = ?, details = ?, finished_at = {now} WHERE id = ? AND finished_at IS NULL"
    );
    let finish = Statement::recurring(sql)
        .bind(outcome.as_str())
        .bind(details(outcome));
    tx.execute(finish.bind(id)).await?;
    // Behind the next one are those that go with that. By itself: MySQL does not read the table that it writes.
    let sql = format!("SELECT MIN(id) FROM compute_server_actions WHERE {IS_OPEN} AND id > ?");
    let next = Statement::recurring(sql).bind(server.to_string()).bind(id);
    let next = tx.row(next).await?;
    let next = next.map_or(Ok(None), |row| row.opt_int(0))?;
    let sql = format!(
        "UPDATE compute_server_actions SET outcome = ?, details = ?, finished_at = {now} \
         WHERE server_uuid = ? AND {GOES_WITH_ANOTHER} AND id > ? AND id < ?"
    );
    let finish = Statement::recurring(sql)
        .bind(outcome.as_str())
        .bind(details(outcome))
        .bind(server.to_string())
        .bind(id)
        .bind(next.unwrap_or(i64::MAX));
    tx.execute(finish).await.map(drop)
}

/// All of a server end that are of this word and have not.
pub(crate) async fn finish_all(
    tx: &mut Transaction,
    server: Uuid,
    action: &str,
    outcome: &Outcome,
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

/// All of a server end that an agent is asked for and that have not, and those that go with them.
pub(crate) async fn give_up(
    tx: &mut Transaction,
    server: Uuid,
    outcome: &Outcome,
) -> Result<(), SqlError> {
    let now = tx.dialect().now();
    let sql = format!(
        "UPDATE compute_server_actions SET outcome = ?, details = ?, finished_at = {now} \
         WHERE server_uuid = ? AND (body IS NOT NULL AND finished_at IS NULL OR {GOES_WITH_ANOTHER})"
    );
    let finish = Statement::recurring(sql)
        .bind(outcome.as_str())
        .bind(details(outcome))
        .bind(server.to_string());
    tx.execute(finish).await.map(drop)
}

/// What was done long ago with servers that are gone is forgotten.
pub(crate) async fn drop_old(tx: &mut Transaction, now: Moment) -> Result<(), SqlError> {
    let sql = "DELETE FROM compute_server_actions WHERE started_at < ? AND server_uuid NOT IN (SELECT uuid FROM compute_servers)";
    let drop_old = Statement::new(sql).bind(now.before(KEPT));
    tx.execute(drop_old).await.map(drop)
}

fn details(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Success => None,
        Outcome::Error(details) => details.clone(),
    }
}

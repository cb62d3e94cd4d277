//! Reads the history of a server: one page, one entry, and the project of a deleted server.

use berth_store::{Row, SqlError, SqlTimestamp, Statement, Transaction, Value};
use uuid::Uuid;

use super::{ActionOutcome, InstanceAction};
use crate::compute::Compute;
use crate::servers::ServerError;

/// Without `body`, which may be long.
const COLUMNS: &str = "id, project_id, user_id, request_id, action, event, host, outcome, details, started_at, finished_at";

/// One page of a server's history, newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActionsPart<'a> {
    /// The page starts after all entries of this request.
    pub(crate) marker: Option<&'a str>,
    /// Only entries changed at this time or later.
    pub(crate) since: Option<SqlTimestamp>,
    /// Only entries changed at this time or earlier.
    pub(crate) before: Option<SqlTimestamp>,
    /// The maximum number of entries. The entries of the last request are completed even beyond the limit, so that a
    /// request is never split across pages.
    pub(crate) limit: usize,
}

/// A `WHERE` condition with its values.
struct ActionCondition {
    conditions: Vec<&'static str>,
    values: Vec<Value>,
}

impl ActionCondition {
    fn of_server(server: Uuid) -> Self {
        Self {
            conditions: vec!["server_uuid = ?", "action <> 'update_config_drive'"],
            values: vec![server.to_string().into()],
        }
    }

    fn and(mut self, condition: &'static str, value: impl Into<Value>) -> Self {
        self.conditions.push(condition);
        self.values.push(value.into());
        self
    }

    fn of(self, part: &ActionsPart<'_>, behind: Option<i64>) -> Self {
        let behind = behind.map(Value::from);
        let (since, before) = (part.since.map(Value::from), part.before.map(Value::from));
        [
            ("id < ?", behind),
            ("COALESCE(finished_at, started_at) >= ?", since),
            ("COALESCE(finished_at, started_at) <= ?", before),
        ]
        .into_iter()
        .filter_map(|(condition, value)| Some((condition, value?)))
        .fold(self, |all, (condition, value)| all.and(condition, value))
    }

    fn statement(self, limit: Option<usize>) -> Statement {
        let limit = limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
        let sql = format!(
            "SELECT {COLUMNS} FROM compute_server_actions WHERE {} ORDER BY id DESC{limit}",
            self.conditions.join(" AND ")
        );
        Statement::new(sql).bind_all(self.values)
    }

    async fn read(
        self,
        tx: &mut Transaction,
        limit: Option<usize>,
    ) -> Result<Vec<InstanceAction>, SqlError> {
        let rows = tx.rows(self.statement(limit)).await?;
        rows.iter().map(of_row).collect()
    }
}

impl Compute {
    /// Reads a page; `None` if the marker does not exist.
    pub(crate) async fn instance_actions(
        &self,
        server: Uuid,
        part: &ActionsPart<'_>,
    ) -> Result<Option<Vec<InstanceAction>>, ServerError> {
        let mut tx = self.tables.read().await?;
        let mut behind = None;
        if let Some(marker) = part.marker {
            behind = oldest(&mut tx, server, marker).await?;
            if behind.is_none() {
                return Ok(None);
            }
        }
        let those = |behind| ActionCondition::of_server(server).of(part, behind);
        let mut actions = those(behind).read(&mut tx, Some(part.limit)).await?;
        if let Some(last) = actions.last().filter(|_| actions.len() == part.limit) {
            let rest = those(Some(last.id)).and("request_id = ?", &last.request_id);
            actions.extend(rest.read(&mut tx, None).await?);
        }
        Ok(Some(actions))
    }

    /// The last entry of a request.
    pub(crate) async fn instance_action(
        &self,
        server: Uuid,
        request_id: &str,
    ) -> Result<Option<InstanceAction>, ServerError> {
        let mut tx = self.tables.read().await?;
        let those = ActionCondition::of_server(server).and("request_id = ?", request_id);
        Ok(those.read(&mut tx, Some(1)).await?.pop())
    }

    /// The project of the newest entry.
    pub(crate) async fn project_of_actions(
        &self,
        server: Uuid,
    ) -> Result<Option<String>, ServerError> {
        let mut tx = self.tables.read().await?;
        let last = ActionCondition::of_server(server)
            .read(&mut tx, Some(1))
            .await?;
        Ok(last.into_iter().next().map(|last| last.project_id))
    }
}

/// The number of the oldest entry of a request.
async fn oldest(
    tx: &mut Transaction,
    server: Uuid,
    request_id: &str,
) -> Result<Option<i64>, SqlError> {
    let sql = "SELECT MIN(id) FROM compute_server_actions WHERE server_uuid = ? AND request_id = ?";
    let oldest = Statement::new(sql)
        .bind(server.to_string())
        .bind(request_id);
    let row = tx.row(oldest).await?;
    row.map_or(Ok(None), |row| row.opt_int(0))
}

fn of_row(row: &Row) -> Result<InstanceAction, SqlError> {
    let outcome = row.opt_text(7)?;
    let details = row.opt_text(8)?;
    Ok(InstanceAction {
        id: row.int(0)?,
        project_id: row.text(1)?,
        user_id: row.text(2)?,
        request_id: row.text(3)?,
        action: row.text(4)?,
        event: row.text(5)?,
        host: row.opt_text(6)?,
        outcome: outcome.map(|word| match word.as_str() {
            "Success" => ActionOutcome::Success,
            _ => ActionOutcome::Error(details),
        }),
        started_at: row.moment(9)?,
        finished_at: row.opt_moment(10)?,
    })
}

#[cfg(test)]
mod tests {
    use berth_store::SqlStore;

    use super::*;

    #[tokio::test]
    async fn a_part_is_read_by_an_index_in_its_order() {
        let store = SqlStore::in_memory().await.unwrap();
        crate::prepare(&store).await.unwrap();
        let part = ActionsPart {
            marker: None,
            since: Some(SqlTimestamp::now()),
            before: None,
            limit: 50,
        };
        for behind in [None, Some(7)] {
            let those = ActionCondition::of_server(Uuid::nil()).of(&part, behind);
            let statement = those.statement(Some(part.limit)).query_plan();
            let rows = store.rows(statement).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.text(3).unwrap()).collect();
            assert!(
                plan[0].contains("compute_server_actions_server"),
                "{plan:?}"
            );
            assert!(!plan.iter().any(|line| line.contains("TEMP")), "{plan:?}");
        }
    }
}

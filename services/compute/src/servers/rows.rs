//! Reads servers from the database.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{Row, SqlError, SqlTimestamp, Statement, Transaction, Value};
use uuid::Uuid;

use super::{ConductorHandoff, Lock, ServerError, ServerFlavor, ServerRecord};
use crate::server_state::GuestObservation;
use crate::store::{ComputeTableError, foreign, typed};

const TABLE: &str = "compute_servers";

const COLUMNS: &str = "s.id, s.uuid, s.project_id, s.user_id, s.name, s.hostname, s.description, s.reservation_id, s.launch_index, \
                       s.key_name, s.image, s.flavor, s.zone, s.server_group, s.disk_config, s.access_ip_v4, s.access_ip_v6, \
                       s.request, s.handed, s.refusal, s.deleting, s.task, s.seen_status, s.seen_power, s.locked_by, \
                       s.locked_reason, s.created_at, s.updated_at, s.settled_at, s.owner";

/// SQL condition: servers with unfinished work. Each part has an index; `task >= ''` instead of `IS NOT NULL` makes
/// the databases use it.
const OPEN: &str = "s.handed = 0 OR s.deleting = 1 OR s.settled_at IS NULL OR s.task >= ''";

#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerSelection<'a> {
    All,
    Project(&'a str),
    One(&'a str),
    These(&'a [Uuid]),
    /// Servers of an earlier release without a recorded owner.
    Ownerless,
    /// Servers with unfinished work: not handed over, not settled, being deleted, or with a pending action.
    Open,
    /// One page, newest first.
    Part(ServerPage<'a>),
}

/// One page of the servers of a project, or of all servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerPage<'a> {
    pub(crate) project: Option<&'a str>,
    /// Restricts the page to the servers of one request.
    pub(crate) reservation: Option<&'a str>,
    /// The marker: creation time and row number of the server before the page.
    pub(crate) behind: Option<(SqlTimestamp, i64)>,
    /// The maximum number of servers.
    pub(crate) limit: usize,
}

impl<'a> ServerSelection<'a> {
    /// The `WHERE` clause and its values.
    fn condition(self) -> (String, Vec<Value>) {
        let condition =
            |column: &str, value: &str| (format!("WHERE {column} = ?"), vec![value.into()]);
        match self {
            Self::All => (String::new(), Vec::new()),
            Self::Project(project) => condition("s.project_id", project),
            Self::One(uuid) => condition("s.uuid", uuid),
            Self::These(uuids) => {
                let marks = vec!["?"; uuids.len()].join(", ");
                let uuids = uuids.iter().map(|uuid| Value::from(uuid.to_string()));
                (format!("WHERE s.uuid IN ({marks})"), uuids.collect())
            }
            Self::Ownerless => ("WHERE s.owner IS NULL".to_owned(), Vec::new()),
            Self::Open => (format!("WHERE {OPEN}"), Vec::new()),
            Self::Part(part) => part.condition(),
        }
    }

    fn limit(self) -> String {
        match self {
            Self::Part(part) => format!(" LIMIT {}", part.limit),
            _ => String::new(),
        }
    }
}

impl ServerPage<'_> {
    fn condition(self) -> (String, Vec<Value>) {
        let (mut conditions, mut values) = (vec!["1 = 1"], Vec::new());
        if let Some(project) = self.project {
            conditions.push("s.project_id = ?");
            values.push(Value::from(project));
        }
        if let Some(reservation) = self.reservation {
            conditions.push("s.reservation_id = ?");
            values.push(Value::from(reservation));
        }
        if let Some((created_at, id)) = self.behind {
            // The redundant first comparison lets the databases start at the right place of the index.
            conditions.push("s.created_at <= ? AND (s.created_at < ? OR s.id < ?)");
            values.extend([created_at.into(), created_at.into(), Value::from(id)]);
        }
        (format!("WHERE {}", conditions.join(" AND ")), values)
    }
}

pub(super) async fn find(tx: &mut Transaction, uuid: Uuid) -> Result<ServerRecord, ServerError> {
    let text = uuid.to_string();
    let found = list(tx, ServerSelection::One(&text)).await?.pop();
    found.ok_or(ServerError::NotFound { uuid })
}

pub(super) async fn row_id(tx: &mut Transaction, uuid: Uuid) -> Result<i64, ServerError> {
    let sql = format!("SELECT id FROM {TABLE} WHERE uuid = ?");
    let row = tx
        .row(Statement::recurring(sql).bind(uuid.to_string()))
        .await?;
    Ok(row.ok_or(ServerError::NotFound { uuid })?.int(0)?)
}

/// Reads a server for a change. The update comes first, so that concurrent writers of this row are serialised.
pub(super) async fn lock(tx: &mut Transaction, uuid: Uuid) -> Result<ServerRecord, ServerError> {
    let now = tx.dialect().now();
    let sql = format!("UPDATE {TABLE} SET updated_at = {now} WHERE uuid = ?");
    let touched = Statement::recurring(sql).bind(uuid.to_string());
    if tx.execute(touched).await?.rows_affected == 0 {
        return Err(ServerError::NotFound { uuid });
    }
    find(tx, uuid).await
}

/// Reads the selected servers, newest first.
pub(crate) async fn list(
    tx: &mut Transaction,
    selection: ServerSelection<'_>,
) -> Result<Vec<ServerRecord>, ComputeTableError> {
    let (condition, values) = selection.condition();
    let limit = selection.limit();
    // Texts of pages vary too much to be cached as prepared statements.
    let statement = |text: String| match selection {
        ServerSelection::Part(_) | ServerSelection::These(_) => Statement::new(text),
        _ => Statement::recurring(text),
    };
    let of_servers = format!(
        "SELECT {COLUMNS} FROM {TABLE} s {condition} ORDER BY s.created_at DESC, s.id DESC{limit}"
    );
    let servers = tx
        .rows(statement(of_servers).bind_all(values.clone()))
        .await?;
    if servers.is_empty() {
        return Ok(Vec::new());
    }
    // No condition selects the page again, so its rows are selected by number.
    let (condition, values) = match selection {
        ServerSelection::Part(_) => {
            let ids: Vec<Value> = servers
                .iter()
                .map(|row| Ok(Value::from(row.int(0)?)))
                .collect::<Result<_, SqlError>>()?;
            let marks = vec!["?"; ids.len()].join(", ");
            (format!("WHERE s.id IN ({marks})"), ids)
        }
        _ => (condition, values),
    };
    // One statement for both, because a message to the database costs more than the rows.
    let of_lists = format!(
        "SELECT m.server_id, m.item, m.setting FROM compute_server_metadata m \
         JOIN {TABLE} s ON s.id = m.server_id {condition} \
         UNION ALL SELECT t.server_id, t.tag, NULL FROM compute_server_tags t \
         JOIN {TABLE} s ON s.id = t.server_id {condition}"
    );
    let of_lists = statement(of_lists)
        .bind_all(values.clone())
        .bind_all(values);
    let mut metadata: BTreeMap<i64, BTreeMap<String, String>> = BTreeMap::new();
    let mut tags: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    for row in tx.rows(of_lists).await? {
        let (server, name) = (row.int(0)?, row.text(1)?);
        match row.opt_text(2)? {
            Some(value) => {
                metadata.entry(server).or_default().insert(name, value);
            }
            None => {
                tags.entry(server).or_default().insert(name);
            }
        }
    }
    let whole = |row: &Row| -> Result<ServerRecord, ComputeTableError> {
        let id = row.int(0)?;
        Ok(ServerRecord {
            metadata: metadata.remove(&id).unwrap_or_default(),
            tags: tags.remove(&id).unwrap_or_default(),
            ..of_row(row)?
        })
    };
    servers.iter().map(whole).collect()
}

fn of_row(row: &Row) -> Result<ServerRecord, ComputeTableError> {
    let flavor = row.text(11)?;
    Ok(ServerRecord {
        id: row.int(0)?,
        uuid: typed(&row.text(1)?, TABLE, "uuid")?,
        project_id: row.text(2)?,
        user_id: row.text(3)?,
        name: row.text(4)?,
        hostname: row.text(5)?,
        description: row.opt_text(6)?,
        reservation_id: row.text(7)?,
        launch_index: row.int(8)?,
        key_name: row.opt_text(9)?,
        image: optional(row, 10, "image")?,
        flavor: serde_json::from_str::<ServerFlavor>(&flavor)
            .map_err(|_| foreign(&flavor, TABLE, "flavor"))?,
        zone: row.opt_text(12)?,
        server_group: optional(row, 13, "server_group")?,
        disk_config: row.text(14)?,
        access_ip_v4: row.opt_text(15)?,
        access_ip_v6: row.opt_text(16)?,
        handoff: handoff(row)?,
        deleting: row.int(20)? != 0,
        task: optional(row, 21, "task")?,
        last_report: last_report(row)?,
        lock: match row.opt_text(24)? {
            None => None,
            Some(by) => Some(Lock {
                by: typed(&by, TABLE, "locked_by")?,
                reason: row.opt_text(25)?,
            }),
        },
        created_at: row.moment(26)?,
        updated_at: row.opt_moment(27)?,
        settled_at: row.opt_moment(28)?,
        owner: optional(row, 29, "owner")?,
        metadata: BTreeMap::new(),
        tags: BTreeSet::new(),
    })
}

fn handoff(row: &Row) -> Result<ConductorHandoff, ComputeTableError> {
    if let Some(reason) = row.opt_text(19)? {
        return Ok(ConductorHandoff::Refused { reason });
    }
    match (row.int(18)?, row.opt_text(17)?) {
        (0, Some(request)) => Ok(ConductorHandoff::Pending { request }),
        (0, None) => Err(foreign("NULL", TABLE, "request")),
        (_, _) => Ok(ConductorHandoff::Accepted),
    }
}

/// States that this release does not know count as none.
fn last_report(row: &Row) -> Result<Option<GuestObservation>, ComputeTableError> {
    let (status, power) = (row.opt_text(22)?, row.opt_text(23)?);
    let status = status.and_then(|word| word.parse().ok());
    let power = power.and_then(|word| word.parse().ok());
    Ok(status.map(|status| GuestObservation { status, power }))
}

fn optional<T: std::str::FromStr>(
    row: &Row,
    at: usize,
    column: &'static str,
) -> Result<Option<T>, ComputeTableError> {
    let text = row.opt_text(at)?;
    text.map(|text| typed(&text, TABLE, column)).transpose()
}

#[cfg(test)]
mod tests {
    use berth_store::SqlStore;

    use super::*;

    #[tokio::test]
    async fn a_page_is_read_by_an_index_in_its_order() {
        let store = SqlStore::in_memory().await.unwrap();
        crate::prepare(&store).await.unwrap();
        let moment: SqlTimestamp = "2026-11-23 07:56:44".parse().unwrap();
        for (project, behind, index) in [
            (None, None, "compute_servers_created"),
            (None, Some((moment, 7)), "compute_servers_created"),
            (Some("p"), None, "compute_servers_of_project"),
            (Some("p"), Some((moment, 7)), "compute_servers_of_project"),
        ] {
            let part = ServerPage {
                project,
                reservation: None,
                behind,
                limit: 50,
            };
            let (condition, values) = part.condition();
            let sql = format!(
                "EXPLAIN QUERY PLAN SELECT {COLUMNS} FROM {TABLE} s {condition} ORDER BY s.created_at DESC, s.id DESC LIMIT 50"
            );
            let rows = store.rows(Statement::new(sql).bind_all(values)).await;
            let plan: Vec<String> = rows.unwrap().iter().map(|it| it.text(3).unwrap()).collect();
            assert!(plan.iter().any(|line| line.contains(index)), "{plan:?}");
            assert!(!plan.iter().any(|line| line.contains("TEMP")), "{plan:?}");
        }
    }

    #[tokio::test]
    async fn the_keeper_reads_the_open_rows_by_their_indexes() {
        let store = SqlStore::in_memory().await.unwrap();
        crate::prepare(&store).await.unwrap();
        let mut tx = store.read().await.unwrap();
        let explain = format!("EXPLAIN QUERY PLAN SELECT {COLUMNS} FROM {TABLE} s WHERE {OPEN}");
        let rows = tx.rows(Statement::new(explain)).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.text(3).unwrap()).collect();
        assert!(plan[0].contains("MULTI-INDEX OR"), "{plan:?}");
        assert!(plan.iter().all(|step| !step.contains("SCAN")), "{plan:?}");
    }
}

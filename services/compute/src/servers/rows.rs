//! Servers as their rows.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{Moment, Row, SqlError, Statement, Transaction, Value};
use uuid::Uuid;

use super::{Handed, Lock, Server, ServerError, ServerFlavor};
use crate::server_state::Seen;
use crate::store::{TableError, foreign, typed};

const TABLE: &str = "compute_servers";

const COLUMNS: &str = "s.id, s.uuid, s.project_id, s.user_id, s.name, s.hostname, s.description, s.reservation_id, s.launch_index, \
                       s.key_name, s.image, s.flavor, s.zone, s.server_group, s.disk_config, s.access_ip_v4, s.access_ip_v6, \
                       s.request, s.handed, s.refusal, s.deleting, s.task, s.seen_status, s.seen_power, s.locked_by, \
                       s.locked_reason, s.created_at, s.updated_at, s.settled_at, s.owner";

/// The rows that somebody has still something to do with. Each has an index, and is asked so that it is used: no task is less than
/// an empty one.
const OPEN: &str = "s.handed = 0 OR s.deleting = 1 OR s.settled_at IS NULL OR s.task >= ''";

/// Which servers are meant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows<'a> {
    All,
    /// Those of a project.
    Project(&'a str),
    One(&'a str),
    These(&'a [Uuid]),
    /// Those of which nobody wrote down whose journal knows their guests: an earlier release made them.
    Ownerless,
    /// Those that are not handed over, not settled, or on their way out.
    Open,
    /// A part of them in the order in which they were asked for, the last first.
    Part(Part<'a>),
}

/// So many of the servers of a project, or of all, that come behind one of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) project: Option<&'a str>,
    /// Of one request, where only its servers are meant.
    pub(crate) reservation: Option<&'a str>,
    /// That one: when it was asked for, and its number.
    pub(crate) behind: Option<(Moment, i64)>,
    /// So many at most.
    pub(crate) limit: usize,
}

impl<'a> Rows<'a> {
    /// The condition, and what is bound to it.
    fn condition(self) -> (String, Vec<Value>) {
        let only = |column: &str, value: &str| (format!("WHERE {column} = ?"), vec![value.into()]);
        match self {
            Self::All => (String::new(), Vec::new()),
            Self::Project(project) => only("s.project_id", project),
            Self::One(uuid) => only("s.uuid", uuid),
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

impl Part<'_> {
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
            // So said, databases begin in their index where the part begins.
            conditions.push("s.created_at <= ? AND (s.created_at < ? OR s.id < ?)");
            values.extend([created_at.into(), created_at.into(), Value::from(id)]);
        }
        (format!("WHERE {}", conditions.join(" AND ")), values)
    }
}

/// The server of this UUID, as this transaction sees it.
pub(super) async fn one(tx: &mut Transaction, uuid: Uuid) -> Result<Server, ServerError> {
    let text = uuid.to_string();
    let found = read(tx, Rows::One(&text)).await?.pop();
    found.ok_or(ServerError::NotFound { uuid })
}

/// The number of the server of this UUID.
pub(super) async fn number(tx: &mut Transaction, uuid: Uuid) -> Result<i64, ServerError> {
    let sql = format!("SELECT id FROM {TABLE} WHERE uuid = ?");
    let row = tx
        .row(Statement::recurring(sql).bind(uuid.to_string()))
        .await?;
    Ok(row.ok_or(ServerError::NotFound { uuid })?.int(0)?)
}

/// The server of this UUID, changed first: whoever changes or removes it at the same time comes before this transaction or behind it.
pub(super) async fn touch(tx: &mut Transaction, uuid: Uuid) -> Result<Server, ServerError> {
    let now = tx.dialect().now();
    let sql = format!("UPDATE {TABLE} SET updated_at = {now} WHERE uuid = ?");
    let touched = Statement::recurring(sql).bind(uuid.to_string());
    if tx.execute(touched).await?.rows_affected == 0 {
        return Err(ServerError::NotFound { uuid });
    }
    one(tx, uuid).await
}

/// Those that are meant; those that were asked for last come first.
pub(crate) async fn read(tx: &mut Transaction, meant: Rows<'_>) -> Result<Vec<Server>, TableError> {
    let (only, values) = meant.condition();
    let limit = meant.limit();
    // Of parts there are too many texts to be remembered.
    let statement = |text: String| match meant {
        Rows::Part(_) | Rows::These(_) => Statement::new(text),
        _ => Statement::recurring(text),
    };
    let of_servers = format!(
        "SELECT {COLUMNS} FROM {TABLE} s {only} ORDER BY s.created_at DESC, s.id DESC{limit}"
    );
    let servers = tx
        .rows(statement(of_servers).bind_all(values.clone()))
        .await?;
    if servers.is_empty() {
        return Ok(Vec::new());
    }
    // Of a part of them only these: no condition says which they are.
    let (only, values) = match meant {
        Rows::Part(_) => {
            let ids: Vec<Value> = servers
                .iter()
                .map(|row| Ok(Value::from(row.int(0)?)))
                .collect::<Result<_, SqlError>>()?;
            let marks = vec!["?"; ids.len()].join(", ");
            (format!("WHERE s.id IN ({marks})"), ids)
        }
        _ => (only, values),
    };
    let of_metadata = format!(
        "SELECT m.server_id, m.item, m.setting FROM compute_server_metadata m JOIN {TABLE} s ON s.id = m.server_id {only}"
    );
    let mut metadata: BTreeMap<i64, BTreeMap<String, String>> = BTreeMap::new();
    let of_metadata = statement(of_metadata).bind_all(values.clone());
    for row in tx.rows(of_metadata).await? {
        let of_server = metadata.entry(row.int(0)?).or_default();
        of_server.insert(row.text(1)?, row.text(2)?);
    }
    let of_tags = format!(
        "SELECT t.server_id, t.tag FROM compute_server_tags t JOIN {TABLE} s ON s.id = t.server_id {only}"
    );
    let mut tags: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    let of_tags = statement(of_tags).bind_all(values);
    for row in tx.rows(of_tags).await? {
        tags.entry(row.int(0)?).or_default().insert(row.text(1)?);
    }
    let whole = |row: &Row| -> Result<Server, TableError> {
        let id = row.int(0)?;
        Ok(Server {
            metadata: metadata.remove(&id).unwrap_or_default(),
            tags: tags.remove(&id).unwrap_or_default(),
            ..of_row(row)?
        })
    };
    servers.iter().map(whole).collect()
}

fn of_row(row: &Row) -> Result<Server, TableError> {
    let flavor = row.text(11)?;
    Ok(Server {
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
        handed: handed(row)?,
        deleting: row.int(20)? != 0,
        task: optional(row, 21, "task")?,
        last: last(row)?,
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

fn handed(row: &Row) -> Result<Handed, TableError> {
    if let Some(reason) = row.opt_text(19)? {
        return Ok(Handed::Refused { reason });
    }
    match (row.int(18)?, row.opt_text(17)?) {
        (0, Some(request)) => Ok(Handed::NotYet { request }),
        (0, None) => Err(foreign("NULL", TABLE, "request")),
        (_, _) => Ok(Handed::Over),
    }
}

/// A word of an agent that another release knew is as good as none.
fn last(row: &Row) -> Result<Option<Seen>, TableError> {
    let (status, power) = (row.opt_text(22)?, row.opt_text(23)?);
    let status = status.and_then(|word| word.parse().ok());
    let power = power.and_then(|word| word.parse().ok());
    Ok(status.map(|status| Seen { status, power }))
}

fn optional<T: std::str::FromStr>(
    row: &Row,
    at: usize,
    column: &'static str,
) -> Result<Option<T>, TableError> {
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
        let moment: Moment = "2026-11-23 07:56:44".parse().unwrap();
        for (project, behind, index) in [
            (None, None, "compute_servers_created"),
            (None, Some((moment, 7)), "compute_servers_created"),
            (Some("p"), None, "compute_servers_of_project"),
            (Some("p"), Some((moment, 7)), "compute_servers_of_project"),
        ] {
            let part = Part {
                project,
                reservation: None,
                behind,
                limit: 50,
            };
            let (only, values) = part.condition();
            let sql = format!(
                "EXPLAIN QUERY PLAN SELECT {COLUMNS} FROM {TABLE} s {only} ORDER BY s.created_at DESC, s.id DESC LIMIT 50"
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

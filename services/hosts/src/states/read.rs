//! What the tables say of nodes: names of states with the services of their hosts, and bodies.

use berth_scheduler::host_state::Service;
use berth_store::{Moment, Row, Statement, Transaction};
use uuid::Uuid;

use crate::store::{TableError, seconds, typed};

/// A node, without its state.
#[derive(Debug)]
pub(super) struct NodeRow {
    pub(super) uuid: Uuid,
    /// What its state is called.
    pub(super) revision: String,
    pub(super) host: String,
    pub(super) cell: String,
    pub(super) service: Service,
}

/// A state as it is kept.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) uuid: Uuid,
    pub(super) text: String,
}

/// Node, state, host, cell, disabled, why, why by the agent, forced down, last seen, created, now.
type Columns = (
    String,
    String,
    String,
    String,
    i64,
    Option<String>,
    Option<String>,
    i64,
    Option<String>,
    String,
    String,
);

/// These nodes, in no certain order.
pub(super) async fn nodes(
    tx: &mut Transaction,
    uuids: &[Uuid],
) -> Result<Vec<NodeRow>, TableError> {
    if uuids.is_empty() {
        return Ok(Vec::new());
    }
    let dialect = tx.dialect();
    let columns = format!(
        "n.uuid, n.revision, h.host, h.cell, h.disabled, h.disabled_reason, h.agent_disabled_reason, h.forced_down, \
         h.last_seen_at, h.created_at, {}",
        dialect.now()
    );
    let sql = format!(
        "SELECT {} FROM compute_nodes n JOIN compute_hosts h ON h.host = n.host WHERE n.uuid IN",
        dialect.packed(&columns)
    );
    let keys: Vec<String> = uuids.iter().map(Uuid::to_string).collect();
    let packed = tx.rows_in(&Statement::recurring(sql), &keys, "").await?;
    let mut rows = Vec::with_capacity(uuids.len());
    for row in packed {
        for columns in row.unpack::<Columns>(0)? {
            rows.push(node(columns)?);
        }
    }
    Ok(rows)
}

fn node(columns: Columns) -> Result<NodeRow, TableError> {
    let (uuid, revision, host, cell, disabled, reason, by_agent, forced, seen, created, now) =
        columns;
    let moment = |text: &str| typed::<Moment>(text, "compute_hosts", "last_seen_at");
    let now = moment(&now)?;
    let age = |text: &str| moment(text).map(|at| seconds(at, now));
    let by_operator = disabled != 0;
    Ok(NodeRow {
        uuid: typed(&uuid, "compute_nodes", "uuid")?,
        revision,
        host,
        cell,
        service: Service {
            disabled: by_operator || by_agent.is_some(),
            disabled_reason: if by_operator { reason } else { by_agent },
            forced_down: forced != 0,
            last_seen_age_s: seen.as_deref().map(age).transpose()?,
            created_age_s: Some(age(&created)?),
        },
    })
}

/// The states of these nodes.
pub(super) async fn bodies(tx: &mut Transaction, uuids: &[Uuid]) -> Result<Vec<Body>, TableError> {
    let keys: Vec<String> = uuids.iter().map(Uuid::to_string).collect();
    let head = Statement::new("SELECT uuid, body FROM compute_nodes WHERE uuid IN");
    let rows = match keys.is_empty() {
        true => Vec::new(),
        false => tx.rows_in(&head, &keys, "").await?,
    };
    let body = |row: &Row| {
        Ok(Body {
            uuid: typed(&row.text(0)?, "compute_nodes", "uuid")?,
            text: row.text(1)?,
        })
    };
    rows.iter().map(body).collect()
}

/// The UUIDs of all nodes.
pub(super) async fn uuids(tx: &mut Transaction) -> Result<Vec<Uuid>, TableError> {
    let rows = tx
        .rows(Statement::new(
            "SELECT uuid FROM compute_nodes ORDER BY uuid",
        ))
        .await?;
    let uuid = |row: &Row| typed(&row.text(0)?, "compute_nodes", "uuid");
    rows.iter().map(uuid).collect::<Result<_, TableError>>()
}

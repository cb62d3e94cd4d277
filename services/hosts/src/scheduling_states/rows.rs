//! Queries of node rows with the services of their hosts, and of stored node states.

use berth_scheduler::host_state::ServiceState;
use berth_store::{Row, SqlTimestamp, Statement, Transaction};
use uuid::Uuid;

use crate::store::{HostTableError, seconds_between, typed};

/// A node with its host's service, without the state itself.
#[derive(Debug)]
pub(super) struct NodeRow {
    pub(super) uuid: Uuid,
    /// Digest of the node's state.
    pub(super) revision: String,
    pub(super) host: String,
    pub(super) cell: String,
    pub(super) service: ServiceState,
}

/// A stored state as JSON text.
#[derive(Debug)]
pub(super) struct StoredNodeBody {
    pub(super) uuid: Uuid,
    pub(super) text: String,
}

/// Node, digest, host, cell, disabled, disabled reason, agent's disabled reason, forced down, last
/// seen, created, current time.
type NodeColumns = (
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

/// The rows of these nodes, in unspecified order.
pub(super) async fn list_nodes(
    tx: &mut Transaction,
    uuids: &[Uuid],
) -> Result<Vec<NodeRow>, HostTableError> {
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
        for columns in row.unpack::<NodeColumns>(0)? {
            rows.push(node_from_columns(columns)?);
        }
    }
    Ok(rows)
}

fn node_from_columns(columns: NodeColumns) -> Result<NodeRow, HostTableError> {
    let (uuid, revision, host, cell, disabled, reason, by_agent, forced, seen, created, now) =
        columns;
    let moment = |text: &str| typed::<SqlTimestamp>(text, "compute_hosts", "last_seen_at");
    let now = moment(&now)?;
    let age = |text: &str| moment(text).map(|at| seconds_between(at, now));
    let by_operator = disabled != 0;
    Ok(NodeRow {
        uuid: typed(&uuid, "compute_nodes", "uuid")?,
        revision,
        host,
        cell,
        service: ServiceState {
            disabled: by_operator || by_agent.is_some(),
            disabled_reason: if by_operator { reason } else { by_agent },
            forced_down: forced != 0,
            last_seen_age_s: seen.as_deref().map(age).transpose()?,
            created_age_s: Some(age(&created)?),
        },
    })
}

/// The stored states of these nodes.
pub(super) async fn load_bodies(
    tx: &mut Transaction,
    uuids: &[Uuid],
) -> Result<Vec<StoredNodeBody>, HostTableError> {
    let keys: Vec<String> = uuids.iter().map(Uuid::to_string).collect();
    let head = Statement::new("SELECT uuid, body FROM compute_nodes WHERE uuid IN");
    let rows = match keys.is_empty() {
        true => Vec::new(),
        false => tx.rows_in(&head, &keys, "").await?,
    };
    let body = |row: &Row| {
        Ok(StoredNodeBody {
            uuid: typed(&row.text(0)?, "compute_nodes", "uuid")?,
            text: row.text(1)?,
        })
    };
    rows.iter().map(body).collect()
}

pub(super) async fn list_uuids(tx: &mut Transaction) -> Result<Vec<Uuid>, HostTableError> {
    let rows = tx
        .rows(Statement::new(
            "SELECT uuid FROM compute_nodes ORDER BY uuid",
        ))
        .await?;
    let uuid = |row: &Row| typed(&row.text(0)?, "compute_nodes", "uuid");
    rows.iter().map(uuid).collect::<Result<_, HostTableError>>()
}

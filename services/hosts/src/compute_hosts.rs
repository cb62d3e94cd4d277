//! Compute hosts as services: list, show, disable, force down and remove.

use std::collections::BTreeMap;

use berth_store::{
    Disposition, Retryable, Row, SqlError, SqlTimestamp, Statement, Transaction, Work,
};
use berth_wire::BodyError;
use uuid::Uuid;

use crate::hosts::Hosts;
use crate::report::{check_name_text, check_reason};
use crate::store::{HostTableError, seconds_between, typed};

#[derive(Debug, Clone, PartialEq)]
pub struct ComputeHost {
    pub host: String,
    pub cell: String,
    /// Digest of its state; `None` if the host must report its whole state.
    pub state: Option<String>,
    pub version: String,
    pub status: ServiceStatus,
    /// Reason for which the agent disabled the host, possibly empty; `None` if the agent enables it.
    pub agent_disabled_reason: Option<String>,
    /// Whether an operator forced the service down.
    pub forced_down: bool,
    /// Time of the first report, by the database's clock.
    pub created_at: SqlTimestamp,
    /// Time of the last report or heartbeat.
    pub last_seen_at: Option<SqlTimestamp>,
    /// Seconds since the last report or heartbeat; negative if the database's clock was set back.
    pub last_seen_age_s: Option<f64>,
    /// Compute nodes in the order in which the host reports them.
    pub nodes: Vec<ComputeNode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputeNode {
    /// UUID of the node and of its root resource provider.
    pub uuid: Uuid,
    pub hypervisor_hostname: String,
    pub instances: i64,
}

/// Whether the operator allows new guests on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceStatus {
    Enabled,
    Disabled { reason: Option<String> },
}

/// Changes of a host's service; `None` leaves a setting unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceUpdate {
    pub status: Option<ServiceStatus>,
    pub forced_down: Option<bool>,
    pub cell: Option<String>,
}

/// Error of showing, changing or removing a host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A field is invalid.
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("compute host {host} not found")]
    NotFound { host: String },
    #[error(transparent)]
    Table(#[from] HostTableError),
}

impl From<SqlError> for HostError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl HostError {
    /// How a caller's loop continues after the error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Table(error) => error.disposition(),
            Self::Body(_) | Self::NotFound { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for HostError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}

impl Hosts {
    /// All hosts, by name.
    pub async fn hosts(&self) -> Result<Vec<ComputeHost>, HostError> {
        let mut tx = self.tables.read().await?;
        Ok(read_hosts(&mut tx, None).await?)
    }

    pub async fn host(&self, host: &str) -> Result<ComputeHost, HostError> {
        find_host(&mut self.tables.read().await?, host).await
    }

    /// Changes a host's service. Returns the changed host.
    pub async fn update_service(
        &self,
        host: &str,
        update: ServiceUpdate,
    ) -> Result<ComputeHost, HostError> {
        if let Some(ServiceStatus::Disabled { reason: Some(text) }) = &update.status {
            check_reason("disabled_reason", text)?;
        }
        if let Some(cell) = &update.cell {
            check_name_text("cell", cell)?;
        }
        self.tables.write(&UpdateService { host, update }).await
    }

    /// Removes a host with its nodes and aggregate memberships. If its agent is still running, its next report
    /// creates the host again.
    pub async fn remove(&self, host: &str) -> Result<(), HostError> {
        self.tables.write_aggregates(&RemoveHost(host)).await
    }
}

struct UpdateService<'a> {
    host: &'a str,
    update: ServiceUpdate,
}

impl Work for UpdateService<'_> {
    type Output = ComputeHost;
    type Error = HostError;

    async fn run(&self, tx: &mut Transaction) -> Result<ComputeHost, HostError> {
        let Self { host, update } = self;
        if let Some(status) = &update.status {
            let (disabled, reason) = match status {
                ServiceStatus::Enabled => (0, None),
                ServiceStatus::Disabled { reason } => (1, reason.clone()),
            };
            let sql = "UPDATE compute_hosts SET disabled = ?, disabled_reason = ? WHERE host = ?";
            let set = Statement::new(sql).bind(disabled).bind(reason);
            tx.execute(set.bind(*host)).await?;
        }
        if let Some(forced_down) = update.forced_down {
            let sql = "UPDATE compute_hosts SET forced_down = ? WHERE host = ?";
            let set = Statement::new(sql).bind(i64::from(forced_down));
            tx.execute(set.bind(*host)).await?;
        }
        if let Some(cell) = &update.cell {
            let sql = "UPDATE compute_hosts SET cell = ? WHERE host = ?";
            tx.execute(Statement::new(sql).bind(cell).bind(*host))
                .await?;
        }
        find_host(tx, host).await
    }
}

struct RemoveHost<'a>(&'a str);

impl Work for RemoveHost<'_> {
    type Output = ();
    type Error = HostError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), HostError> {
        // Lock the host's row first, as `store_state` does. Otherwise a concurrent report could add a node
        // after the nodes were deleted.
        let hold = "UPDATE compute_hosts SET last_seen_at = last_seen_at WHERE host = ?";
        tx.execute(Statement::new(hold).bind(self.0)).await?;
        for sql in [
            "DELETE FROM host_aggregate_members WHERE host = ?",
            "DELETE FROM compute_nodes WHERE host = ?",
        ] {
            tx.execute(Statement::new(sql).bind(self.0)).await?;
        }
        let delete = Statement::new("DELETE FROM compute_hosts WHERE host = ?").bind(self.0);
        match tx.execute(delete).await?.rows_affected {
            0 => Err(not_found(self.0)),
            _ => Ok(()),
        }
    }
}

fn not_found(host: &str) -> HostError {
    HostError::NotFound {
        host: host.to_owned(),
    }
}

async fn find_host(tx: &mut Transaction, host: &str) -> Result<ComputeHost, HostError> {
    let found = read_hosts(tx, Some(host)).await?.pop();
    found.ok_or_else(|| not_found(host))
}

/// Reads one host, or all hosts sorted by name.
async fn read_hosts(
    tx: &mut Transaction,
    host: Option<&str>,
) -> Result<Vec<ComputeHost>, HostTableError> {
    let now = tx.dialect().now();
    let mut sql = format!(
        "SELECT host, cell, state, version, disabled, disabled_reason, agent_disabled_reason, forced_down, created_at, \
         last_seen_at, {now} FROM compute_hosts"
    );
    let mut of_nodes =
        "SELECT host, uuid, hypervisor_hostname, instances FROM compute_nodes".to_owned();
    let only = if host.is_some() {
        " WHERE host = ?"
    } else {
        ""
    };
    sql.push_str(only);
    sql.push_str(" ORDER BY host");
    of_nodes.push_str(only);
    of_nodes.push_str(" ORDER BY host, place");
    let rows = tx.rows(Statement::recurring(sql).bind_all(host)).await?;
    let mut nodes: BTreeMap<String, Vec<ComputeNode>> = BTreeMap::new();
    for row in tx
        .rows(Statement::recurring(of_nodes).bind_all(host))
        .await?
    {
        nodes.entry(row.text(0)?).or_default().push(ComputeNode {
            uuid: typed(&row.text(1)?, "compute_nodes", "uuid")?,
            hypervisor_hostname: row.text(2)?,
            instances: row.int(3)?,
        });
    }
    rows.iter()
        .map(|row| host_from_row(row, &mut nodes))
        .collect::<Result<_, SqlError>>()
        .map_err(HostTableError::from)
}

fn host_from_row(
    row: &Row,
    nodes: &mut BTreeMap<String, Vec<ComputeNode>>,
) -> Result<ComputeHost, SqlError> {
    let host = row.text(0)?;
    let (last_seen_at, now) = (row.opt_moment(9)?, row.moment(10)?);
    let status = match row.int(4)? {
        0 => ServiceStatus::Enabled,
        _ => ServiceStatus::Disabled {
            reason: row.opt_text(5)?,
        },
    };
    Ok(ComputeHost {
        nodes: nodes.remove(&host).unwrap_or_default(),
        host,
        cell: row.text(1)?,
        state: row.opt_text(2)?,
        version: row.text(3)?,
        status,
        agent_disabled_reason: row.opt_text(6)?,
        forced_down: row.int(7)? != 0,
        created_at: row.moment(8)?,
        last_seen_at,
        last_seen_age_s: last_seen_at.map(|seen| seconds_between(seen, now)),
    })
}

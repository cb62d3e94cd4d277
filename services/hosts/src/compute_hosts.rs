//! Compute hosts as services: which there are, when each was heard of, and what operators of the cloud want of it.

use std::collections::BTreeMap;

use berth_store::{Disposition, Moment, Retryable, Row, SqlError, Statement, Transaction, Work};
use berth_wire::BodyError;
use uuid::Uuid;

use crate::hosts::Hosts;
use crate::report::{own_name, reason};
use crate::store::{TableError, seconds, typed};

#[derive(Debug, Clone, PartialEq)]
pub struct ComputeHost {
    pub host: String,
    pub cell: String,
    /// What its state is called; none where it has to be told anew.
    pub state: Option<String>,
    pub version: String,
    /// What an operator of the cloud wants.
    pub status: ServiceStatus,
    /// Why the host itself wants no new guests; none where they are welcome. May be empty.
    pub agent_disabled_reason: Option<String>,
    /// Whether an operator says that it is dead.
    pub forced_down: bool,
    /// When it was first heard of, by the database's clock.
    pub created_at: Moment,
    /// When it was last heard of.
    pub last_seen_at: Option<Moment>,
    /// Seconds since then; negative where the database's clock went back.
    pub last_seen_age_s: Option<f64>,
    /// Its compute nodes, in its own order.
    pub nodes: Vec<ComputeNode>,
}

/// A compute node of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputeNode {
    /// Its UUID, which is its root provider's.
    pub uuid: Uuid,
    pub hypervisor_hostname: String,
    /// How many guests it has.
    pub instances: i64,
}

/// Whether an operator of the cloud wants new guests on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceStatus {
    Enabled,
    Disabled {
        /// Why, where he said.
        reason: Option<String>,
    },
}

/// What is to be changed of a host's service. None stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceUpdate {
    /// Whether new guests are wanted.
    pub status: Option<ServiceStatus>,
    /// Whether it is said to be dead.
    pub forced_down: Option<bool>,
    pub cell: Option<String>,
}

/// Why a host could not be shown, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A field is not what it may be.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// There is no such host.
    #[error("there is no compute host {host}")]
    NotFound {
        host: String,
    },
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<SqlError> for HostError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl HostError {
    /// What a loop does about it.
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
        Ok(read(&mut tx, None).await?)
    }

    pub async fn host(&self, host: &str) -> Result<ComputeHost, HostError> {
        one(&mut self.tables.read().await?, host).await
    }

    /// Changes what the cloud wants of a host; the host as it is then.
    pub async fn update_service(
        &self,
        host: &str,
        update: ServiceUpdate,
    ) -> Result<ComputeHost, HostError> {
        if let Some(ServiceStatus::Disabled { reason: Some(text) }) = &update.status {
            reason("disabled_reason", text)?;
        }
        if let Some(cell) = &update.cell {
            own_name("cell", cell)?;
        }
        self.tables.write(&Update { host, update }).await
    }

    /// Removes a host with its nodes, from its aggregates too. Should its agent still live, it comes back with its next report.
    pub async fn remove(&self, host: &str) -> Result<(), HostError> {
        self.tables.write_aggregates(&Remove(host)).await
    }
}

struct Update<'a> {
    host: &'a str,
    update: ServiceUpdate,
}

impl Work for Update<'_> {
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
        one(tx, host).await
    }
}

struct Remove<'a>(&'a str);

impl Work for Remove<'_> {
    type Output = ();
    type Error = HostError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), HostError> {
        // The host's row first, as whoever tells its state has it: else a node could be told after its nodes are gone.
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

async fn one(tx: &mut Transaction, host: &str) -> Result<ComputeHost, HostError> {
    let found = read(tx, Some(host)).await?.pop();
    found.ok_or_else(|| not_found(host))
}

/// One host, or all by name.
async fn read(tx: &mut Transaction, host: Option<&str>) -> Result<Vec<ComputeHost>, TableError> {
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
        .map(|row| of_row(row, &mut nodes))
        .collect::<Result<_, SqlError>>()
        .map_err(TableError::from)
}

fn of_row(
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
        last_seen_age_s: last_seen_at.map(|seen| seconds(seen, now)),
    })
}

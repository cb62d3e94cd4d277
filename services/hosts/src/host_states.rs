//! The states of hosts as their agents tell them: told whole, seen, shown.

use berth_store::{Disposition, Moment, Retryable, Row, SqlError, Statement, Transaction, Work};
use berth_wire::host_state::{HostStateBody, HostWanted, ServiceBody};
use berth_wire::{BodyError, decode};
use uuid::Uuid;

use crate::hosts::Hosts;
use crate::report::{Node, Report, host_name};
use crate::store::{TableError, foreign, seconds, typed};

/// Why a host's state could not be told, seen or shown.
#[derive(Debug, thiserror::Error)]
pub enum HostStateError {
    /// A field is not what it may be.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Another host tells of the same node, and was heard of a short while ago.
    #[error(
        "compute node {node} is told by host {other}, which was heard of {age:.0} s ago, and now by host {host}: a node has one \
         host; give one of them a UUID of its own, or remove {other}"
    )]
    Elsewhere {
        node: Uuid,
        host: String,
        other: String,
        /// How long ago that was heard of, in seconds.
        age: f64,
    },
    /// The state that was named is not the one that is known.
    #[error("host {host} has another state than {state:?}, or none: tell it whole")]
    OtherState {
        host: String,
        state: String,
    },
    /// Nothing was ever told of this host.
    #[error("there is no compute host {host}")]
    NotFound {
        host: String,
    },
    /// Somebody else changed a node at the same time.
    #[error("somebody else changed compute node {node} at the same time")]
    Outrun {
        node: Uuid,
    },
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<SqlError> for HostStateError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl HostStateError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Outrun { .. } | Self::OtherState { .. } => Disposition::Refresh,
            Self::Table(error) => error.disposition(),
            Self::Body(_) | Self::Elsewhere { .. } | Self::NotFound { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for HostStateError {
    fn disposition(&self) -> Disposition {
        match self {
            // The same again would be the same.
            Self::OtherState { .. } => Disposition::Fatal,
            other => other.disposition(),
        }
    }
}

impl Hosts {
    /// Takes a host's whole state; what it is called from now on, and what the cloud wants of the host.
    ///
    /// # Errors
    /// [`HostStateError::Body`] names the field that is not what it may be; [`HostStateError::Elsewhere`] where another host that
    /// lives tells of one of its nodes.
    pub async fn tell(
        &self,
        host: &str,
        body: HostStateBody,
    ) -> Result<HostWanted, HostStateError> {
        let tell = Tell {
            report: &Report::new(host, body)?,
            cell: &self.options.cell,
            service_down_time: self.options.service_down_time.as_secs_f64(),
        };
        self.tables.write(&tell).await
    }

    /// Notes that a host lives, and is as it told. The state is not read.
    pub async fn seen(&self, host: &str, state: &str) -> Result<HostWanted, HostStateError> {
        host_name(host)?;
        self.tables.write(&Seen { host, state }).await
    }

    /// What a host told last, without what another host has told since.
    pub async fn told(&self, host: &str) -> Result<HostStateBody, HostStateError> {
        let mut tx = self.tables.read().await?;
        let sql = "SELECT version, agent_disabled_reason FROM compute_hosts WHERE host = ?";
        let Some(row) = tx.row(Statement::new(sql).bind(host)).await? else {
            let host = host.to_owned();
            return Err(HostStateError::NotFound { host });
        };
        let service = ServiceBody {
            version: row.text(0)?,
            disabled_reason: row.opt_text(1)?,
        };
        let sql = "SELECT body FROM compute_nodes WHERE host = ? ORDER BY place";
        let rows = tx.rows(Statement::new(sql).bind(host)).await?;
        let nodes = rows.iter().map(|row| {
            let body = row.text(0)?;
            decode(body.as_bytes()).map_err(|_| foreign(&body, "compute_nodes", "body"))
        });
        Ok(HostStateBody {
            service,
            nodes: nodes.collect::<Result<_, TableError>>()?,
        })
    }
}

struct Seen<'a> {
    host: &'a str,
    state: &'a str,
}

impl Work for Seen<'_> {
    type Output = HostWanted;
    type Error = HostStateError;

    async fn run(&self, tx: &mut Transaction) -> Result<HostWanted, HostStateError> {
        let now = tx.dialect().now();
        let sql =
            format!("UPDATE compute_hosts SET last_seen_at = {now} WHERE host = ? AND state = ?");
        let update = Statement::recurring(sql).bind(self.host).bind(self.state);
        if tx.execute(update).await?.rows_affected == 0 {
            return Err(HostStateError::OtherState {
                host: self.host.to_owned(),
                state: self.state.chars().take(80).collect(),
            });
        }
        let (_, wanted) = wanted(tx, self.host, self.state).await?;
        Ok(wanted)
    }
}

/// The state that is known of a host, and what is wanted of it when it has told this one.
async fn wanted(
    tx: &mut Transaction,
    host: &str,
    state: &str,
) -> Result<(Option<String>, HostWanted), TableError> {
    let sql = "SELECT state, disabled, disabled_reason FROM compute_hosts WHERE host = ?";
    let row = tx.row(Statement::new(sql).bind(host)).await?;
    let row = row.ok_or_else(|| foreign(host, "compute_hosts", "host"))?;
    let disabled_reason = match row.int(1)? {
        0 => None,
        _ => Some(row.opt_text(2)?.unwrap_or_default()),
    };
    let wanted = HostWanted {
        state: state.to_owned(),
        disabled_reason,
    };
    Ok((row.opt_text(0)?, wanted))
}

struct Tell<'a> {
    report: &'a Report,
    cell: &'a str,
    service_down_time: f64,
}

impl Work for Tell<'_> {
    type Output = HostWanted;
    type Error = HostStateError;

    async fn run(&self, tx: &mut Transaction) -> Result<HostWanted, HostStateError> {
        let Self { report, .. } = self;
        // The host's row first: whoever tells the same host's state at the same time comes after, or begins anew.
        self.touch(tx).await?;
        let (known, wanted) = wanted(tx, &report.host, &report.state).await?;
        if known.as_ref() == Some(&report.state) {
            return Ok(wanted);
        }
        self.take_over(tx).await?;
        self.write_nodes(tx).await?;
        let sql = "UPDATE compute_hosts SET state = ?, version = ?, agent_disabled_reason = ? WHERE host = ?";
        let update = Statement::new(sql)
            .bind(&report.state)
            .bind(&report.service.version)
            .bind(report.service.disabled_reason.clone())
            .bind(&report.host);
        tx.execute(update).await?;
        Ok(wanted)
    }
}

impl Tell<'_> {
    async fn touch(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let now = tx.dialect().now();
        let sql = format!("UPDATE compute_hosts SET last_seen_at = {now} WHERE host = ?");
        let update = Statement::recurring(sql).bind(&self.report.host);
        if tx.execute(update).await?.rows_affected == 0 {
            let sql = format!(
                "INSERT INTO compute_hosts (host, cell, version, disabled, forced_down, created_at, last_seen_at) \
                 VALUES (?, ?, ?, 0, 0, {now}, {now})"
            );
            let insert = Statement::recurring(sql)
                .bind(&self.report.host)
                .bind(self.cell)
                .bind(&self.report.service.version);
            tx.execute(insert).await?;
        }
        Ok(())
    }

    /// Takes the nodes that another host told before. One that lives keeps them.
    async fn take_over(&self, tx: &mut Transaction) -> Result<(), HostStateError> {
        let now = tx.dialect().now();
        let sql = format!(
            "SELECT n.uuid, n.host, h.forced_down, h.last_seen_at, {now} FROM compute_nodes n \
             JOIN compute_hosts h ON h.host = n.host WHERE n.host <> ? AND n.uuid IN"
        );
        let head = Statement::recurring(sql).bind(&self.report.host);
        for row in tx.rows_in(&head, &self.uuids(), "").await? {
            let node: Uuid = typed(&row.text(0)?, "compute_nodes", "uuid")?;
            let other = row.text(1)?;
            if let Some(age) = self.age_of_the_living(&row)? {
                let host = self.report.host.clone();
                return Err(HostStateError::Elsewhere {
                    node,
                    host,
                    other,
                    age,
                });
            }
            let sql = "DELETE FROM compute_nodes WHERE uuid = ? AND host = ?";
            let delete = Statement::new(sql).bind(node.to_string()).bind(&other);
            if tx.execute(delete).await?.rows_affected == 0 {
                return Err(HostStateError::Outrun { node });
            }
            // Should it come back, it has to tell all of its state, and is refused.
            let sql = "UPDATE compute_hosts SET state = NULL WHERE host = ?";
            tx.execute(Statement::new(sql).bind(other)).await?;
        }
        Ok(())
    }

    /// How long ago a host was heard of, where it counts as one that lives.
    fn age_of_the_living(&self, row: &Row) -> Result<Option<f64>, SqlError> {
        if row.int(2)? != 0 {
            return Ok(None);
        }
        let now = row.moment(4)?;
        let age = row.opt_moment(3)?.map(|seen: Moment| seconds(seen, now));
        Ok(age.filter(|age| age.abs() <= self.service_down_time))
    }

    fn uuids(&self) -> Vec<String> {
        let nodes = self.report.nodes.iter();
        nodes.map(|node| node.uuid.to_string()).collect()
    }

    /// Writes the nodes that are others than they were, and removes those that were not told.
    async fn write_nodes(&self, tx: &mut Transaction) -> Result<(), HostStateError> {
        let sql = "SELECT uuid, revision, place FROM compute_nodes WHERE host = ?";
        let rows = tx.rows(Statement::new(sql).bind(&self.report.host)).await?;
        let mut known = std::collections::BTreeMap::new();
        for row in rows {
            known.insert(row.text(0)?, (row.text(1)?, row.int(2)?));
        }
        for (place, node) in (0_i64..).zip(&self.report.nodes) {
            match known.remove(&node.uuid.to_string()) {
                Some((revision, at)) if revision == node.revision && at == place => {}
                Some(_) => self.update(tx, place, node).await?,
                None => self.insert(tx, place, node).await?,
            }
        }
        let gone: Vec<String> = known.into_keys().collect();
        let delete = Statement::new("DELETE FROM compute_nodes WHERE uuid IN");
        tx.execute_in(&delete, &gone).await?;
        Ok(())
    }

    async fn update(&self, tx: &mut Transaction, place: i64, node: &Node) -> Result<(), SqlError> {
        let sql = "UPDATE compute_nodes SET place = ?, hypervisor_hostname = ?, revision = ?, instances = ?, body = ? WHERE uuid = ?";
        let update = Statement::new(sql)
            .bind(place)
            .bind(&node.hypervisor_hostname)
            .bind(&node.revision)
            .bind(node.instances)
            .bind(&node.body)
            .bind(node.uuid.to_string());
        tx.execute(update).await?;
        Ok(())
    }

    async fn insert(&self, tx: &mut Transaction, place: i64, node: &Node) -> Result<(), SqlError> {
        let sql = "INSERT INTO compute_nodes (uuid, host, place, hypervisor_hostname, revision, instances, body) \
                   VALUES (?, ?, ?, ?, ?, ?, ?)";
        let insert = Statement::new(sql)
            .bind(node.uuid.to_string())
            .bind(&self.report.host)
            .bind(place)
            .bind(&node.hypervisor_hostname)
            .bind(&node.revision)
            .bind(node.instances)
            .bind(&node.body);
        tx.execute(insert).await?;
        Ok(())
    }
}

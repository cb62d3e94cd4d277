//! Stores the state that an agent reports for its host, records its heartbeats, and returns the last report.
//!
//! - [`Hosts::store_state`]: replaces the whole state; takes over nodes of hosts that are down.
//! - [`Hosts::store_account_state`]: the same for a host's account, which takes over no node.
//! - [`Hosts::record_heartbeat`]: confirms that the host is up and its state unchanged.
//! - [`Hosts::reported_state`]: returns the last report.

use std::collections::BTreeSet;

use berth_http::{ProviderLookupError, is_provider_of_host};
use berth_store::{
    Disposition, Retryable, Row, SqlError, SqlTimestamp, Statement, Transaction, Work,
};
use berth_wire::host_state::{HostStateBody, HostWanted, ServiceBody};
use berth_wire::{BodyError, decode};
use uuid::Uuid;

use crate::hosts::Hosts;
use crate::report::{HostReport, NodeReport, check_host_name};
use crate::store::{HostTableError, seconds_between, typed, unexpected_value};

/// Error of storing, confirming or reading a host's state.
#[derive(Debug, thiserror::Error)]
pub enum HostStateError {
    /// A field is invalid.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Another host that is up reports the same node.
    #[error(
        "compute node {node} is reported by both host {other} (last heartbeat {age:.0} s ago) and host {host}: give one of the \
         nodes another UUID, or remove host {other}"
    )]
    ReportedByOther {
        node: Uuid,
        host: String,
        other: String,
        /// Seconds since the last heartbeat of `other`.
        age: f64,
    },
    /// Another host has reported the node first, and the account of a host takes over no node.
    #[error(
        "compute node {node} belongs to host {other}, which reported it first, and the account of host {host} cannot take it: \
         give the node of host {host} another UUID, or remove host {other} (openstack compute service delete)"
    )]
    NodeOfOtherHost {
        node: Uuid,
        host: String,
        other: String,
    },
    /// The account of a host reports a node with the name of another host, or of another host's node.
    #[error(
        "compute node {name} of host {host} has the name of host {other} or of a node of it: give the node of host {host} \
         another name, or remove host {other} (openstack compute service delete)"
    )]
    NodeNameOfOtherHost {
        name: String,
        host: String,
        other: String,
    },
    /// The account of a host reports a node that is the resource provider of another host, or that has another name in
    /// Placement.
    #[error(
        "compute node {name} of host {host} has the UUID of resource provider {provider} in Placement: a node has the name of \
         its provider, which is {host} or begins with {host}_ (UUID {node})"
    )]
    OtherProvider {
        node: Uuid,
        name: String,
        host: String,
        provider: String,
    },
    /// The account of a host reports a node that is no resource provider.
    #[error(
        "compute node {node} of host {host} has no resource provider in Placement yet: report it when it has one"
    )]
    NoProvider { node: Uuid, host: String },
    /// The resource provider of a node could not be looked up.
    #[error("cannot look up resource provider {node} in Placement")]
    ProviderLookup {
        node: Uuid,
        source: ProviderLookupError,
    },
    /// The digest of a heartbeat differs from that of the stored state.
    #[error("host {host} has no stored state with digest {state:?}: report the whole state")]
    StateMismatch { host: String, state: String },
    /// The host has never reported.
    #[error("compute host {host} not found")]
    NotFound { host: String },
    /// Another transaction changed the node.
    #[error("compute node {node} was changed concurrently")]
    ConcurrentUpdate { node: Uuid },
    #[error(transparent)]
    Table(#[from] HostTableError),
}

impl From<SqlError> for HostStateError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl HostStateError {
    /// How a caller's loop continues after the error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::ConcurrentUpdate { .. } | Self::StateMismatch { .. } => Disposition::Refresh,
            Self::Table(error) => error.disposition(),
            Self::NoProvider { .. } | Self::ProviderLookup { .. } => Disposition::Retry,
            Self::Body(_)
            | Self::ReportedByOther { .. }
            | Self::NodeOfOtherHost { .. }
            | Self::NodeNameOfOtherHost { .. }
            | Self::OtherProvider { .. }
            | Self::NotFound { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for HostStateError {
    fn disposition(&self) -> Disposition {
        match self {
            // A repeated transaction finds the same digest.
            Self::StateMismatch { .. } => Disposition::Fatal,
            other => other.disposition(),
        }
    }
}

impl Hosts {
    /// Stores a host's complete state. Returns the digest of the state, and whether the operator disabled the host.
    ///
    /// Errors: [`HostStateError::Body`] names an invalid field. [`HostStateError::ReportedByOther`] if another host
    /// that is up reports one of the nodes.
    pub async fn store_state(
        &self,
        host: &str,
        body: HostStateBody,
    ) -> Result<HostWanted, HostStateError> {
        self.store_report(host, body, NodeTakeover::OfHostsThatAreDown)
            .await
    }

    /// Stores the complete state that the account of this host reports. A node belongs to the host that reported it
    /// first, until an operator removes that host. A node that is new or has a new name must be the root of a tree of this
    /// host in Placement, with the same name ([`Hosts::with_providers`]).
    ///
    /// Errors: As for [`Hosts::store_state`], and [`HostStateError::NodeOfOtherHost`] or
    /// [`HostStateError::NodeNameOfOtherHost`] if a node has the UUID or the name of another host's node, or the name
    /// of another host; [`HostStateError::OtherProvider`], [`HostStateError::NoProvider`] or
    /// [`HostStateError::ProviderLookup`] if a new node is not a provider of this host with this name.
    pub async fn store_account_state(
        &self,
        host: &str,
        body: HostStateBody,
    ) -> Result<HostWanted, HostStateError> {
        check_host_name(host)?;
        self.check_new_nodes(host, &body).await?;
        self.store_report(host, body, NodeTakeover::Refused).await
    }

    /// Checks that each node that the host did not report before with this name is one of its resource providers. No
    /// transaction is open meanwhile: Placement may be slow.
    async fn check_new_nodes(
        &self,
        host: &str,
        body: &HostStateBody,
    ) -> Result<(), HostStateError> {
        let Some(providers) = &self.providers else {
            return Ok(());
        };
        let mut tx = self.tables.read().await?;
        let sql = "SELECT uuid, hypervisor_hostname FROM compute_nodes WHERE host = ?";
        let rows = tx.rows(Statement::new(sql).bind(host)).await?;
        drop(tx);
        let mut known = BTreeSet::new();
        for row in rows {
            known.insert((row.text(0)?, row.text(1)?));
        }
        for reported in &body.nodes {
            let (node, name) = (reported.uuid, reported.hypervisor_hostname.clone());
            if known.contains(&(node.to_string(), name.clone())) {
                continue;
            }
            let found = providers.provider_root(node).await;
            let found = found.map_err(|source| HostStateError::ProviderLookup { node, source })?;
            let host = host.to_owned();
            match found {
                Some(root)
                    if root.uuid == node
                        && root.name == name
                        && is_provider_of_host(&root.name, &host) => {}
                Some(root) => {
                    return Err(HostStateError::OtherProvider {
                        node,
                        name,
                        host,
                        provider: root.name,
                    });
                }
                None => return Err(HostStateError::NoProvider { node, host }),
            }
        }
        Ok(())
    }

    async fn store_report(
        &self,
        host: &str,
        body: HostStateBody,
        takeover: NodeTakeover,
    ) -> Result<HostWanted, HostStateError> {
        let store = StoreReport {
            report: &HostReport::new(host, body)?,
            takeover,
            cell: &self.options.cell,
            service_down_time: self.options.service_down_time.as_secs_f64(),
        };
        self.tables.write(&store).await
    }

    /// Records a heartbeat of a host if its state still has the digest `state`. The state itself is not read.
    pub async fn record_heartbeat(
        &self,
        host: &str,
        state: &str,
    ) -> Result<HostWanted, HostStateError> {
        check_host_name(host)?;
        self.tables.write(&RecordHeartbeat { host, state }).await
    }

    /// The last reported state of a host, without nodes that another host has taken over.
    pub async fn reported_state(&self, host: &str) -> Result<HostStateBody, HostStateError> {
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
            decode(body.as_bytes()).map_err(|_| unexpected_value(&body, "compute_nodes", "body"))
        });
        Ok(HostStateBody {
            service,
            nodes: nodes.collect::<Result<_, HostTableError>>()?,
        })
    }
}

struct RecordHeartbeat<'a> {
    host: &'a str,
    state: &'a str,
}

impl Work for RecordHeartbeat<'_> {
    type Output = HostWanted;
    type Error = HostStateError;

    async fn run(&self, tx: &mut Transaction) -> Result<HostWanted, HostStateError> {
        let now = tx.dialect().now();
        let sql =
            format!("UPDATE compute_hosts SET last_seen_at = {now} WHERE host = ? AND state = ?");
        let update = Statement::recurring(sql).bind(self.host).bind(self.state);
        if tx.execute(update).await?.rows_affected == 0 {
            return Err(HostStateError::StateMismatch {
                host: self.host.to_owned(),
                state: self.state.chars().take(80).collect(),
            });
        }
        let (_, wanted) = desired_state(tx, self.host, self.state).await?;
        Ok(wanted)
    }
}

/// Returns the digest of the stored state, and the reply to a host that reports the digest `state`.
async fn desired_state(
    tx: &mut Transaction,
    host: &str,
    state: &str,
) -> Result<(Option<String>, HostWanted), HostTableError> {
    let sql = "SELECT state, disabled, disabled_reason FROM compute_hosts WHERE host = ?";
    let row = tx.row(Statement::new(sql).bind(host)).await?;
    let row = row.ok_or_else(|| unexpected_value(host, "compute_hosts", "host"))?;
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

/// Which nodes of other hosts a report takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeTakeover {
    /// Nodes of hosts that are down: a host may have another name now.
    OfHostsThatAreDown,
    /// None: a host's account speaks for its host alone.
    Refused,
}

struct StoreReport<'a> {
    report: &'a HostReport,
    takeover: NodeTakeover,
    cell: &'a str,
    service_down_time: f64,
}

impl Work for StoreReport<'_> {
    type Output = HostWanted;
    type Error = HostStateError;

    async fn run(&self, tx: &mut Transaction) -> Result<HostWanted, HostStateError> {
        let Self { report, .. } = self;
        // Lock the host's row first, so that concurrent reports of one host are serialised.
        self.touch_host(tx).await?;
        let (known, wanted) = desired_state(tx, &report.host, &report.state).await?;
        if known.as_ref() == Some(&report.state) {
            return Ok(wanted);
        }
        if self.takeover == NodeTakeover::Refused {
            self.check_new_names(tx).await?;
        }
        self.take_over_nodes(tx).await?;
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

impl StoreReport<'_> {
    async fn touch_host(&self, tx: &mut Transaction) -> Result<(), SqlError> {
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

    /// Fails if a node has a name that it did not have in the last report, and that is the name of another host or of
    /// another host's node.
    async fn check_new_names(&self, tx: &mut Transaction) -> Result<(), HostStateError> {
        let host = &self.report.host;
        let sql = "SELECT hypervisor_hostname FROM compute_nodes WHERE host = ?";
        let mut known = BTreeSet::new();
        for row in tx.rows(Statement::new(sql).bind(host)).await? {
            known.insert(row.text(0)?);
        }
        let names = self
            .report
            .nodes
            .iter()
            .map(|node| &node.hypervisor_hostname);
        // The names of known nodes are left out: the column has no index.
        let new: Vec<String> = names
            .filter(|name| !known.contains(*name))
            .cloned()
            .collect();
        for sql in [
            "SELECT host, host FROM compute_hosts WHERE host <> ? AND host IN",
            "SELECT hypervisor_hostname, host FROM compute_nodes WHERE host <> ? AND hypervisor_hostname IN",
        ] {
            let head = Statement::new(sql).bind(host);
            if let Some(row) = tx.rows_in(&head, &new, "").await?.first() {
                return Err(HostStateError::NodeNameOfOtherHost {
                    name: row.text(0)?,
                    host: host.clone(),
                    other: row.text(1)?,
                });
            }
        }
        Ok(())
    }

    /// Takes over nodes from other hosts that are down or forced down; fails if one of these hosts is up, or if no node
    /// may be taken over.
    async fn take_over_nodes(&self, tx: &mut Transaction) -> Result<(), HostStateError> {
        let now = tx.dialect().now();
        let sql = format!(
            "SELECT n.uuid, n.host, h.forced_down, h.last_seen_at, {now} FROM compute_nodes n \
             JOIN compute_hosts h ON h.host = n.host WHERE n.host <> ? AND n.uuid IN"
        );
        let head = Statement::recurring(sql).bind(&self.report.host);
        for row in tx.rows_in(&head, &self.uuids(), "").await? {
            let node: Uuid = typed(&row.text(0)?, "compute_nodes", "uuid")?;
            let other = row.text(1)?;
            if self.takeover == NodeTakeover::Refused {
                let host = self.report.host.clone();
                return Err(HostStateError::NodeOfOtherHost { node, host, other });
            }
            if let Some(age) = self.live_host_age(&row)? {
                let host = self.report.host.clone();
                return Err(HostStateError::ReportedByOther {
                    node,
                    host,
                    other,
                    age,
                });
            }
            let sql = "DELETE FROM compute_nodes WHERE uuid = ? AND host = ?";
            let delete = Statement::new(sql).bind(node.to_string()).bind(&other);
            if tx.execute(delete).await?.rows_affected == 0 {
                return Err(HostStateError::ConcurrentUpdate { node });
            }
            // If the other host returns, its heartbeat is refused, and it must report its whole state.
            let sql = "UPDATE compute_hosts SET state = NULL WHERE host = ?";
            tx.execute(Statement::new(sql).bind(other)).await?;
        }
        Ok(())
    }

    /// Seconds since the last heartbeat of a host that counts as up; `None` if it is down.
    fn live_host_age(&self, row: &Row) -> Result<Option<f64>, SqlError> {
        if row.int(2)? != 0 {
            return Ok(None);
        }
        let now = row.moment(4)?;
        let age = row
            .opt_moment(3)?
            .map(|seen: SqlTimestamp| seconds_between(seen, now));
        Ok(age.filter(|age| age.abs() <= self.service_down_time))
    }

    fn uuids(&self) -> Vec<String> {
        let nodes = self.report.nodes.iter();
        nodes.map(|node| node.uuid.to_string()).collect()
    }

    /// Writes new and changed nodes, and deletes nodes that are no longer reported.
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

    async fn update(
        &self,
        tx: &mut Transaction,
        place: i64,
        node: &NodeReport,
    ) -> Result<(), SqlError> {
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

    async fn insert(
        &self,
        tx: &mut Transaction,
        place: i64,
        node: &NodeReport,
    ) -> Result<(), SqlError> {
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

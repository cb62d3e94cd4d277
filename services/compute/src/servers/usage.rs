//! Counts servers per project and lists them per group and node, without reading whole rows.

use std::collections::BTreeMap;

use berth_conductor::journal::BootRecord;
use berth_model::{ConsumerUuid, NodeName};
use berth_quota::{GuestResources, QuotaAmounts, QuotaLimits};
use berth_store::{SqlError, Statement, Transaction};
use uuid::Uuid;

use super::{ServerError, ServerFlavor, instance_name};
use crate::compute::Compute;
use crate::project_quotas::{QuotaHolder, generation, limits_of};
use crate::store::{ComputeTableError, foreign, typed};

const TABLE: &str = "compute_servers";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerOnNode {
    pub(crate) uuid: Uuid,
    /// The name of the guest on the hypervisor.
    pub(crate) instance_name: String,
}

/// The limits and the usage of a project at one time.
pub(crate) struct ProjectUsage {
    pub(crate) limits: QuotaLimits,
    pub(crate) used: QuotaAmounts,
    /// The number of the last transaction that stored servers of the project.
    pub(crate) generation: i64,
}

/// The resources used by a project. Servers that failed or are being deleted count as long as they exist, as in Nova.
pub(crate) async fn used_in(
    tx: &mut Transaction,
    project: &str,
) -> Result<QuotaAmounts, ComputeTableError> {
    let sql = format!(
        "SELECT flavor, resources, COUNT(*) FROM {TABLE} WHERE project_id = ? GROUP BY flavor, resources"
    );
    let mut used = QuotaAmounts::default();
    for row in tx.rows(Statement::recurring(sql).bind(project)).await? {
        let (text, resources) = (row.text(0)?, row.opt_text(1)?);
        let count = u64::try_from(row.int(2)?).unwrap_or_default();
        let flavor = serde_json::from_str::<ServerFlavor>(&text);
        let flavor = flavor.map_err(|_| foreign(&text, TABLE, "flavor"))?;
        let resources = resources.map(|text| {
            serde_json::from_str::<GuestResources>(&text)
                .map_err(|_| foreign(&text, TABLE, "resources"))
        });
        let each = QuotaAmounts::of_server(&flavor.body, resources.transpose()?);
        used.add(count, &each);
    }
    Ok(used)
}

/// The number of servers that were created in a server group.
pub(super) async fn members_in(tx: &mut Transaction, group: Uuid) -> Result<u64, SqlError> {
    let sql = format!("SELECT COUNT(*) FROM {TABLE} WHERE deleting = 0 AND server_group = ?");
    let row = tx
        .row(Statement::recurring(sql).bind(group.to_string()))
        .await?;
    let count = row.map_or(Ok(0), |row| row.int(0))?;
    Ok(u64::try_from(count).unwrap_or_default())
}

impl Compute {
    /// The limits and the usage of a project, read in one transaction.
    pub(crate) async fn project_usage(&self, project: &str) -> Result<ProjectUsage, ServerError> {
        let mut tx = self.tables.read().await?;
        Ok(ProjectUsage {
            limits: limits_of(&mut tx, &self.inner.options.quotas, project).await?,
            used: used_in(&mut tx, project).await?,
            generation: generation(&mut tx, QuotaHolder::Project(project)).await?,
        })
    }

    /// The members of server groups: the servers created with a group as a hint.
    pub async fn servers_of_groups(
        &self,
        groups: &[Uuid],
    ) -> Result<BTreeMap<Uuid, Vec<Uuid>>, ServerError> {
        let mut members: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
        let sql = format!(
            "SELECT server_group, uuid FROM {TABLE} WHERE deleting = 0 AND server_group IN"
        );
        let groups: Vec<String> = groups.iter().map(Uuid::to_string).collect();
        let mut tx = self.tables.read().await?;
        for row in tx.rows_in(&Statement::new(sql), &groups, "").await? {
            let group: Uuid = typed(&row.text(0)?, TABLE, "server_group")?;
            let server: Uuid = typed(&row.text(1)?, TABLE, "uuid")?;
            members.entry(group).or_default().push(server);
        }
        Ok(members)
    }

    /// The servers of each node, newest first.
    pub(crate) async fn servers_on_nodes(
        &self,
    ) -> Result<BTreeMap<NodeName, Vec<ServerOnNode>>, ServerError> {
        let sql = format!("SELECT id, uuid FROM {TABLE} WHERE handed = 1 ORDER BY id DESC");
        let rows = {
            let mut tx = self.tables.read().await?;
            tx.rows(Statement::recurring(sql)).await?
        };
        let all: Result<Vec<(i64, Uuid)>, ComputeTableError> = rows
            .iter()
            .map(|row| Ok((row.int(0)?, typed(&row.text(1)?, TABLE, "uuid")?)))
            .collect();
        let all = all?;
        let asked: Vec<ConsumerUuid> = all.iter().map(|(_, it)| ConsumerUuid::from(*it)).collect();
        let records = self.inner.conductor.guests_of(&asked).await?;
        for guest in &records.unreadable {
            self.log_unreadable_record(guest);
        }
        let placed = records.readable.iter().filter_map(|record| {
            let chosen = BootRecord::placement(record)?;
            Some((*record.request.uuid().as_uuid(), chosen.node.clone()))
        });
        let nodes: BTreeMap<Uuid, NodeName> = placed.collect();
        let mut servers: BTreeMap<NodeName, Vec<ServerOnNode>> = BTreeMap::new();
        for (id, uuid) in all {
            if let Some(node) = nodes.get(&uuid) {
                let instance_name = instance_name(id);
                let on_node = servers.entry(node.clone()).or_default();
                on_node.push(ServerOnNode {
                    uuid,
                    instance_name,
                });
            }
        }
        Ok(servers)
    }
}

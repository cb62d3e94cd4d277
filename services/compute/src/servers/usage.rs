//! Counts servers per project and lists them per group and node, without reading whole rows.

use std::collections::BTreeMap;

use berth_conductor::journal::BootRecord;
use berth_model::{ConsumerUuid, NodeName};
use berth_store::Statement;
use uuid::Uuid;

use super::{ServerError, ServerFlavor, instance_name};
use crate::compute::Compute;
use crate::quota::QuotaAmounts;
use crate::store::{ComputeTableError, foreign, typed};

const TABLE: &str = "compute_servers";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerOnNode {
    pub(crate) uuid: Uuid,
    /// The name of the guest on the hypervisor.
    pub(crate) instance_name: String,
}

impl Compute {
    /// The resources used by a project.
    pub(crate) async fn used(&self, project: &str) -> Result<QuotaAmounts, ServerError> {
        let sql =
            format!("SELECT flavor, COUNT(*) FROM {TABLE} WHERE project_id = ? GROUP BY flavor");
        let mut tx = self.tables.read().await?;
        let mut used = QuotaAmounts::default();
        for row in tx.rows(Statement::recurring(sql).bind(project)).await? {
            let (text, count) = (row.text(0)?, row.int(1)?);
            let count = u64::try_from(count).unwrap_or_default();
            let flavor = serde_json::from_str::<ServerFlavor>(&text);
            let flavor = flavor.map_err(|_| foreign(&text, TABLE, "flavor"))?.body;
            let of_all = |each: u64| each.saturating_mul(count);
            used = QuotaAmounts {
                instances: used.instances.saturating_add(count),
                cores: used.cores.saturating_add(of_all(flavor.vcpus.into())),
                ram_mb: used.ram_mb.saturating_add(of_all(flavor.ram_mb)),
            };
        }
        Ok(used)
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

//! Queries for deployables.

use std::collections::BTreeMap;

use berth_store::{Row, Statement, Transaction};
use berth_wire::accelerator::{DeployableBody, GroupBody};
use berth_wire::encode;
use uuid::Uuid;

use super::{AcceleratorTableError, moment, typed};

const TABLE: &str = "deployables";

const SELECT: &str = "SELECT d.id, d.uuid, d.name, d.device_id, d.rp_uuid, d.driver_name, d.created_at, \
     d.updated_at, (SELECT COUNT(*) FROM attach_handles h WHERE h.deployable_id = d.id AND h.vanished = 0), \
     d.bitstream_id FROM deployables d";

fn deployable(row: &Row) -> Result<(i64, DeployableBody), AcceleratorTableError> {
    let body = DeployableBody {
        uuid: typed(&row.text(1)?, TABLE, "uuid")?,
        parent_id: None,
        root_id: None,
        name: row.text(2)?,
        num_accelerators: row.int(8)?,
        device_id: row.int(3)?,
        attributes_list: String::new(),
        rp_uuid: typed(&row.text(4)?, TABLE, "rp_uuid")?,
        driver_name: row.opt_text(5)?,
        bitstream_id: row.opt_text(9)?,
        links: Vec::new(),
        created_at: moment(row, 6)?,
        updated_at: moment(row, 7)?,
    };
    Ok((row.int(0)?, body))
}

pub(crate) async fn list(
    tx: &mut Transaction,
) -> Result<Vec<DeployableBody>, AcceleratorTableError> {
    let rows = tx
        .rows(Statement::new(format!("{SELECT} ORDER BY d.id")))
        .await?;
    with_attributes(tx, &rows).await
}

/// One deployable, if it exists.
pub(crate) async fn get(
    tx: &mut Transaction,
    uuid: Uuid,
) -> Result<Option<DeployableBody>, AcceleratorTableError> {
    let statement = Statement::new(format!("{SELECT} WHERE d.uuid = ?")).bind(uuid.to_string());
    let rows = tx.rows(statement).await?;
    Ok(with_attributes(tx, &rows).await?.pop())
}

async fn with_attributes(
    tx: &mut Transaction,
    rows: &[Row],
) -> Result<Vec<DeployableBody>, AcceleratorTableError> {
    let found: Vec<(i64, DeployableBody)> =
        rows.iter().map(deployable).collect::<Result<_, _>>()?;
    let ids: Vec<i64> = found.iter().map(|(id, _)| *id).collect();
    let head =
        Statement::new("SELECT deployable_id, name, value FROM attributes WHERE deployable_id IN");
    let mut attributes: BTreeMap<i64, Vec<GroupBody>> = BTreeMap::new();
    for row in tx.rows_in(&head, &ids, "ORDER BY id").await? {
        let pair = GroupBody(vec![(row.text(1)?, row.text(2)?)]);
        attributes.entry(row.int(0)?).or_default().push(pair);
    }
    let filled = found.into_iter().map(|(id, mut body)| {
        let list = encode(&attributes.remove(&id).unwrap_or_default());
        body.attributes_list = String::from_utf8_lossy(&list).into_owned();
        body
    });
    Ok(filled.collect())
}

//! Attach handles: assigned, released, and deleted with their device.

use berth_model::{AttachHandleInfo, AttachHandleType};
use berth_store::{SqlError, Statement, Transaction};
use berth_wire::accelerator::AttachHandleInfoBody;
use berth_wire::encode;

use super::arqs::{ArqError, ArqRow};
use super::{AcceleratorTableError, devices, foreign, now};

const TABLE: &str = "attach_handles";

/// Parses a handle's address from its columns.
pub(crate) fn read_info(kind: &str, info: &str) -> Result<AttachHandleInfo, AcceleratorTableError> {
    let known =
        AttachHandleType::from_name(kind).ok_or_else(|| foreign(kind, TABLE, "attach_type"))?;
    serde_json::from_str::<AttachHandleInfoBody>(info)
        .ok()
        .and_then(|body| body.into_info(known).ok())
        .ok_or_else(|| foreign(info, TABLE, "attach_info"))
}

/// A handle's address as a column value.
pub(crate) fn write_info(info: &AttachHandleInfo) -> String {
    let body = encode(&AttachHandleInfoBody::from(info));
    String::from_utf8_lossy(&body).into_owned()
}

/// Free handles of a deployable, up to a number.
const FREE: &str = "SELECT id FROM attach_handles WHERE deployable_id = ? AND arq_id IS NULL \
     AND unavailable IS NULL AND cleaned = releases AND vanished = 0 ORDER BY id LIMIT ?";

/// Up to `count` free handles of a deployable.
pub(crate) async fn free(
    tx: &mut Transaction,
    deployable: i64,
    count: usize,
) -> Result<Vec<i64>, SqlError> {
    let search = Statement::new(FREE)
        .bind(deployable)
        .bind(i64::try_from(count).unwrap_or(i64::MAX));
    let rows = tx.rows(search).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

/// Handles of a deployable that will be free once their host has cleaned them, up to a number.
const UNCLEAN: &str = "SELECT id FROM attach_handles WHERE deployable_id = ? AND arq_id IS NULL \
     AND unavailable IS NULL AND cleaned <> releases AND vanished = 0 ORDER BY id LIMIT ?";

/// How many handles of a deployable, `count` at most, will be free once their host has cleaned them.
pub(crate) async fn unclean(
    tx: &mut Transaction,
    deployable: i64,
    count: usize,
) -> Result<usize, SqlError> {
    let search = Statement::new(UNCLEAN)
        .bind(deployable)
        .bind(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(tx.rows(search).await?.len())
}

/// Gives a free handle to a request.
pub(crate) async fn take(tx: &mut Transaction, handle: i64, arq: i64) -> Result<(), ArqError> {
    let sql =
        "UPDATE attach_handles SET arq_id = ?, updated_at = ? WHERE id = ? AND arq_id IS NULL";
    let update = Statement::new(sql).bind(arq).bind(now()).bind(handle);
    match tx.execute(update).await?.rows_affected {
        1 => Ok(()),
        _ => Err(ArqError::Raced),
    }
}

/// The deployables of vanished handles that requests hold.
const VANISHED_OF: &str =
    "SELECT DISTINCT deployable_id FROM attach_handles WHERE vanished = 1 AND arq_id IN";
/// Releases the handles of requests. Handles that hosts clean are then waiting to be cleaned.
const RELEASE: &str = "UPDATE attach_handles SET arq_id = NULL, releases = releases + scrubbed, updated_at = ? WHERE arq_id IN";

/// Releases the handles of these requests, and deletes the handles of vanished devices.
pub(crate) async fn release(tx: &mut Transaction, rows: &[ArqRow]) -> Result<(), SqlError> {
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let head = Statement::new(VANISHED_OF);
    let held = tx.rows_in(&head, &ids, "").await?;
    let deployables: Vec<i64> = held
        .iter()
        .map(|row| row.int(0))
        .collect::<Result<_, _>>()?;
    let head = Statement::new(RELEASE);
    tx.execute_in(&head.bind(now()), &ids).await?;
    sweep(tx, &deployables).await
}

/// Deletes vanished, unassigned handles of these deployables, then deployables without handles, then devices without
/// deployables. Operator settings outlive a device: a device that is out of service, and a deployable with an
/// operator's attributes, stay without handles.
pub(crate) async fn sweep(tx: &mut Transaction, deployables: &[i64]) -> Result<(), SqlError> {
    let mut emptied = Vec::new();
    for id in deployables {
        let sql = "DELETE FROM attach_handles WHERE deployable_id = ? AND arq_id IS NULL AND vanished = 1";
        tx.execute(Statement::new(sql).bind(*id)).await?;
        let sql = "SELECT device_id FROM deployables WHERE id = ? AND vanished = 1 \
                   AND NOT EXISTS (SELECT 1 FROM attach_handles WHERE deployable_id = ?)";
        let gone = tx.row(Statement::new(sql).bind(*id).bind(*id)).await?;
        let Some(row) = gone else { continue };
        emptied.push(row.int(0)?);
        let sql = "DELETE FROM programmings WHERE deployable_id = ?";
        tx.execute(Statement::new(sql).bind(*id)).await?;
        let sql = "SELECT 1 FROM deployables d JOIN devices v ON v.id = d.device_id WHERE d.id = ? AND (v.status <> ? \
                   OR EXISTS (SELECT 1 FROM attributes a WHERE a.deployable_id = d.id AND a.reported = 0))";
        let query = Statement::new(sql).bind(*id).bind(devices::ENABLED);
        let steps: &[&'static str] = match tx.row(query).await? {
            // The deployable stays, but what was programmed into it is gone.
            Some(_) => &[
                "UPDATE deployables SET bitstream_id = NULL WHERE id = ? AND bitstream_id IS NOT NULL",
            ],
            None => &[
                "DELETE FROM attributes WHERE deployable_id = ?",
                "DELETE FROM deployables WHERE id = ?",
            ],
        };
        for sql in steps {
            tx.execute(Statement::new(*sql).bind(*id)).await?;
        }
    }
    sweep_devices(tx, &emptied).await
}

/// Deletes vanished devices without deployables, unless they are out of service.
pub(super) async fn sweep_devices(tx: &mut Transaction, ids: &[i64]) -> Result<(), SqlError> {
    for id in ids {
        let sql = "DELETE FROM devices WHERE id = ? AND vanished = 1 AND status = ? \
                   AND NOT EXISTS (SELECT 1 FROM deployables WHERE device_id = ?)";
        let delete = Statement::new(sql).bind(*id).bind(devices::ENABLED);
        tx.execute(delete.bind(*id)).await?;
    }
    Ok(())
}

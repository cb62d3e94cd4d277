//! Partitions of the NVSwitch fabric that may be active. A partition is recorded before it is activated and removed after it was
//! deactivated. So the partition of a guest is known even if the configuration changes meanwhile.

use std::collections::BTreeSet;

use berth_model::{ConsumerUuid, PciAddress};
use berth_store::{Row, SqlError, Statement, Transaction, Work};
use berth_workflow::JournalError;

use crate::register::DeviceRegister;

/// A partition that may be active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivePartition {
    /// Fabric Manager's ID.
    pub id: u32,
    pub guest: ConsumerUuid,
    /// Its GPUs when it was recorded.
    pub functions: BTreeSet<PciAddress>,
}

/// Result of [`DeviceRegister::record_partition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionRecord {
    Recorded,
    /// It may be active for this guest.
    HeldBy(ConsumerUuid),
}

impl DeviceRegister {
    /// Records that a partition is about to be activated, unless it may be active for another guest.
    pub async fn record_partition(
        &self,
        partition: &ActivePartition,
    ) -> Result<PartitionRecord, JournalError> {
        let recorded = self.file.write(&RecordPartition(partition)).await?;
        recorded.map_err(|reason| self.file.damaged(reason))
    }

    /// The partitions that may be active for a guest.
    pub async fn partitions_of(
        &self,
        guest: ConsumerUuid,
    ) -> Result<Vec<ActivePartition>, JournalError> {
        let sql = "SELECT id, guest, functions FROM fabric_partition WHERE guest = ? ORDER BY id";
        let select = Statement::new(sql).bind(guest.to_string());
        let rows = self.file.rows(select).await?;
        let rows = rows.iter().map(partition).collect::<Result<Vec<_>, _>>();
        let rows = rows.map_err(|source| self.file.failed(source))?;
        let rows = rows.into_iter().collect::<Result<_, _>>();
        rows.map_err(|reason| self.file.damaged(reason))
    }

    /// Records that a partition is not active.
    pub async fn remove_partition(&self, id: u32) -> Result<(), JournalError> {
        let sql = "DELETE FROM fabric_partition WHERE id = ?";
        let delete = Statement::new(sql).bind(i64::from(id));
        self.file.execute(vec![delete]).await
    }
}

struct RecordPartition<'a>(&'a ActivePartition);

impl Work for RecordPartition<'_> {
    /// The error is the reason why a row is invalid.
    type Output = Result<PartitionRecord, String>;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Self::Output, SqlError> {
        let wanted = self.0;
        let sql = "SELECT id, guest, functions FROM fabric_partition WHERE id = ?";
        let there = tx
            .row(Statement::new(sql).bind(i64::from(wanted.id)))
            .await?;
        if let Some(row) = there {
            match partition(&row)? {
                Ok(there) if there.guest != wanted.guest => {
                    return Ok(Ok(PartitionRecord::HeldBy(there.guest)));
                }
                Ok(_) => {}
                Err(reason) => return Ok(Err(reason)),
            }
        }
        let sql = "INSERT INTO fabric_partition (id, guest, functions) VALUES (?, ?, ?) \
                   ON CONFLICT (id) DO UPDATE SET functions = excluded.functions";
        let functions: Vec<_> = wanted.functions.iter().map(ToString::to_string).collect();
        let insert = Statement::new(sql)
            .bind(i64::from(wanted.id))
            .bind(wanted.guest.to_string())
            .bind(functions.join(","));
        tx.execute(insert).await?;
        Ok(Ok(PartitionRecord::Recorded))
    }
}

/// An inner error is the reason why the row is invalid.
fn partition(row: &Row) -> Result<Result<ActivePartition, String>, SqlError> {
    let (id, guest, functions) = (row.int(0)?, row.text(1)?, row.text(2)?);
    let addresses = functions.split(',').map(str::parse);
    let (Ok(number), Ok(guest), Ok(functions)) =
        (u32::try_from(id), guest.parse(), addresses.collect())
    else {
        return Ok(Err(format!(
            "partition {id} of guest {guest:?} with the functions {functions:?} is not valid"
        )));
    };
    Ok(Ok(ActivePartition {
        id: number,
        guest,
        functions,
    }))
}

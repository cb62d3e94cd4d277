//! Inventories of providers.

use std::collections::BTreeMap;

use berth_http::Microversion;
use berth_store::{
    Dialect, Disposition, Retryable, Row, SqlError, SqlTimestamp, Statement, Transaction, Value,
    Work,
};

use super::providers::{self, ProviderError, ProviderRow};
use super::{moment, now, resource_classes};
use crate::inventory::{InventoryRecord, ReservedError, check_reserved};

#[derive(Debug, Clone)]
pub(crate) struct InventoryRow {
    pub(crate) class_id: i64,
    pub(crate) class: String,
    pub(crate) inventory: InventoryRecord,
    pub(crate) modified: SqlTimestamp,
}

/// Why inventories could not be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InventoryTableError {
    #[error("resource provider generation conflict")]
    Generation,
    #[error("No such resource class {0}.")]
    NoSuchClass(String),
    #[error("No inventory of class {0} found.")]
    NotFound(String),
    #[error("Inventory of class {0} already exists.")]
    Exists(String),
    #[error("Inventory for '{classes}' on resource provider '{provider}' in use.")]
    InUse { classes: String, provider: String },
    #[error("Invalid inventory for '{class}' on resource provider '{provider}'. {reason}")]
    Reserved {
        class: String,
        provider: String,
        reason: ReservedError,
    },
    #[error(
        "Another thread concurrently updated the resource provider data. Please retry your update"
    )]
    ConcurrentUpdate,
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error("the database failed")]
    Sql(#[from] SqlError),
}

impl Retryable for InventoryTableError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry_disposition(error),
            Self::Provider(error) => error.disposition(),
            Self::ConcurrentUpdate => Disposition::Retry,
            _ => Disposition::Fatal,
        }
    }
}

/// The columns of an inventory, from `first` on in a row: see [`inventory_at`].
pub(crate) fn columns(dialect: Dialect) -> String {
    format!(
        "i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, {}",
        dialect.double("i.allocation_ratio")
    )
}

/// Reads the columns of [`columns`].
pub(crate) fn inventory_at(row: &Row, first: usize) -> Result<InventoryRecord, SqlError> {
    Ok(InventoryRecord {
        total: row.int(first)?,
        reserved: row.int(first + 1)?,
        min_unit: row.int(first + 2)?,
        max_unit: row.int(first + 3)?,
        step_size: row.int(first + 4)?,
        allocation_ratio: row.double(first + 5)?,
    })
}

/// The inventories of a provider in the order of creation.
pub(crate) async fn of_provider(
    tx: &mut Transaction,
    provider: i64,
) -> Result<Vec<InventoryRow>, SqlError> {
    let sql = format!(
        "SELECT i.resource_class_id, c.name, COALESCE(i.updated_at, i.created_at), {} \
         FROM inventories i JOIN resource_classes c ON c.id = i.resource_class_id \
         WHERE i.resource_provider_id = ? ORDER BY i.id",
        columns(tx.dialect())
    );
    let rows = tx.rows(Statement::new(sql).bind(provider)).await?;
    rows.iter()
        .map(|row| {
            Ok(InventoryRow {
                class_id: row.int(0)?,
                class: row.text(1)?,
                modified: moment(row, 2)?.unwrap_or_else(SqlTimestamp::now),
                inventory: inventory_at(row, 3)?,
            })
        })
        .collect()
}

/// Writes new records for one provider.
pub(crate) async fn insert(
    tx: &mut Transaction,
    records: &[(i64, i64, InventoryRecord)],
) -> Result<(), SqlError> {
    let rows: Vec<[Value; 9]> = records
        .iter()
        .map(|(provider, class, inventory)| {
            [
                now(),
                Value::from(*provider),
                Value::from(*class),
                Value::from(inventory.total),
                Value::from(inventory.reserved),
                Value::from(inventory.min_unit),
                Value::from(inventory.max_unit),
                Value::from(inventory.step_size),
                Value::from(inventory.allocation_ratio),
            ]
        })
        .collect();
    let head = "INSERT INTO inventories (created_at, resource_provider_id, resource_class_id, \
                total, reserved, min_unit, max_unit, step_size, allocation_ratio) VALUES";
    tx.insert_rows(head, rows, "").await?;
    Ok(())
}

/// Updates one record; false if it does not exist.
pub(crate) async fn update(
    tx: &mut Transaction,
    provider: i64,
    class: i64,
    inventory: &InventoryRecord,
) -> Result<bool, SqlError> {
    let sql = "UPDATE inventories SET updated_at = ?, total = ?, reserved = ?, min_unit = ?, \
               max_unit = ?, step_size = ?, allocation_ratio = ? \
               WHERE resource_provider_id = ? AND resource_class_id = ?";
    let statement = Statement::new(sql)
        .bind(now())
        .bind(inventory.total)
        .bind(inventory.reserved)
        .bind(inventory.min_unit)
        .bind(inventory.max_unit)
        .bind(inventory.step_size)
        .bind(inventory.allocation_ratio)
        .bind(provider)
        .bind(class);
    Ok(tx.execute(statement).await?.rows_affected == 1)
}

/// Removes records, used or not: the caller has checked.
pub(crate) async fn delete(
    tx: &mut Transaction,
    provider: i64,
    classes: &[i64],
) -> Result<(), SqlError> {
    let head = Statement::new(
        "DELETE FROM inventories WHERE resource_provider_id = ? AND resource_class_id IN",
    );
    tx.execute_in(&head.bind(provider), classes).await?;
    Ok(())
}

async fn refuse_used(
    tx: &mut Transaction,
    provider: &ProviderRow,
    classes: &[i64],
) -> Result<(), InventoryTableError> {
    let head = Statement::new(
        "SELECT c.name FROM allocations a \
         JOIN resource_classes c ON c.id = a.resource_class_id \
         WHERE a.resource_provider_id = ? AND a.resource_class_id IN",
    );
    let order = "GROUP BY c.id, c.name ORDER BY c.id";
    let rows = tx.rows_in(&head.bind(provider.id), classes, order).await?;
    let used: Result<Vec<String>, SqlError> = rows.iter().map(|row| row.text(0)).collect();
    let used = used?;
    if used.is_empty() {
        return Ok(());
    }
    Err(InventoryTableError::InUse {
        classes: used.join(", "),
        provider: provider.uuid.clone(),
    })
}

async fn raise(
    tx: &mut Transaction,
    provider: &mut ProviderRow,
) -> Result<(), InventoryTableError> {
    if !providers::bump(tx, provider.id, provider.generation).await? {
        return Err(InventoryTableError::ConcurrentUpdate);
    }
    provider.generation += 1;
    Ok(())
}

fn check(
    version: Microversion,
    provider: &ProviderRow,
    class: &str,
    inventory: &InventoryRecord,
) -> Result<(), InventoryTableError> {
    check_reserved(version, inventory).map_err(|reason| InventoryTableError::Reserved {
        class: class.to_owned(),
        provider: provider.uuid.clone(),
        reason,
    })
}

async fn class_id(tx: &mut Transaction, class: &str) -> Result<i64, InventoryTableError> {
    resource_classes::id(tx, class)
        .await?
        .ok_or_else(|| InventoryTableError::NoSuchClass(class.to_owned()))
}

/// Sets all inventories of a provider.
pub(crate) struct SetAll {
    pub(crate) uuid: String,
    /// The generation the caller knows; `None` takes the current one.
    pub(crate) generation: Option<i64>,
    pub(crate) inventories: BTreeMap<String, InventoryRecord>,
    pub(crate) version: Microversion,
}

impl Work for SetAll {
    type Output = ProviderRow;
    type Error = InventoryTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<ProviderRow, InventoryTableError> {
        let mut provider = providers::get(tx, &self.uuid).await?;
        if self
            .generation
            .is_some_and(|known| known != provider.generation)
        {
            return Err(InventoryTableError::Generation);
        }
        for (class, inventory) in &self.inventories {
            check(self.version, &provider, class, inventory)?;
        }
        let named: Vec<String> = self.inventories.keys().cloned().collect();
        resource_classes::keep(tx, &named).await?;
        let wanted = self.by_class_id(tx).await?;
        let present = of_provider(tx, provider.id).await?;
        let dropped: Vec<i64> = present
            .iter()
            .map(|record| record.class_id)
            .filter(|class| !wanted.contains_key(class))
            .collect();
        refuse_used(tx, &provider, &dropped).await?;
        delete(tx, provider.id, &dropped).await?;
        let mut added = Vec::new();
        for (class, inventory) in wanted {
            if present.iter().any(|record| record.class_id == class) {
                update(tx, provider.id, class, &inventory).await?;
            } else {
                added.push((provider.id, class, inventory));
            }
        }
        insert(tx, &added).await?;
        raise(tx, &mut provider).await?;
        Ok(provider)
    }
}

impl SetAll {
    async fn by_class_id(
        &self,
        tx: &mut Transaction,
    ) -> Result<BTreeMap<i64, InventoryRecord>, InventoryTableError> {
        let names: Vec<String> = self.inventories.keys().cloned().collect();
        let ids = resource_classes::ids(tx, &names).await?;
        let mut wanted = BTreeMap::new();
        for (class, inventory) in &self.inventories {
            let id = ids
                .get(class)
                .ok_or_else(|| InventoryTableError::NoSuchClass(class.clone()))?;
            wanted.insert(*id, *inventory);
        }
        Ok(wanted)
    }
}

pub(crate) struct Add {
    pub(crate) uuid: String,
    pub(crate) class: String,
    pub(crate) inventory: InventoryRecord,
    pub(crate) version: Microversion,
}

impl Work for Add {
    type Output = ProviderRow;
    type Error = InventoryTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<ProviderRow, InventoryTableError> {
        let mut provider = providers::get(tx, &self.uuid).await?;
        check(self.version, &provider, &self.class, &self.inventory)?;
        resource_classes::keep(tx, std::slice::from_ref(&self.class)).await?;
        let class = class_id(tx, &self.class).await?;
        let present = of_provider(tx, provider.id).await?;
        if present.iter().any(|record| record.class_id == class) {
            return Err(InventoryTableError::Exists(self.class.clone()));
        }
        insert(tx, &[(provider.id, class, self.inventory)]).await?;
        raise(tx, &mut provider).await?;
        Ok(provider)
    }
}

pub(crate) struct ChangeInventory {
    pub(crate) uuid: String,
    pub(crate) class: String,
    pub(crate) generation: i64,
    pub(crate) inventory: InventoryRecord,
    pub(crate) version: Microversion,
}

impl Work for ChangeInventory {
    type Output = ProviderRow;
    type Error = InventoryTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<ProviderRow, InventoryTableError> {
        let mut provider = providers::get(tx, &self.uuid).await?;
        if self.generation != provider.generation {
            return Err(InventoryTableError::Generation);
        }
        check(self.version, &provider, &self.class, &self.inventory)?;
        let class = class_id(tx, &self.class).await?;
        if !update(tx, provider.id, class, &self.inventory).await? {
            return Err(InventoryTableError::NotFound(self.class.clone()));
        }
        raise(tx, &mut provider).await?;
        Ok(provider)
    }
}

/// Deletes one inventory that is not in use.
pub(crate) struct Remove {
    pub(crate) uuid: String,
    pub(crate) class: String,
}

impl Work for Remove {
    type Output = ();
    type Error = InventoryTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), InventoryTableError> {
        let mut provider = providers::get(tx, &self.uuid).await?;
        let class = class_id(tx, &self.class).await?;
        let present = of_provider(tx, provider.id).await?;
        refuse_used(tx, &provider, &[class]).await?;
        if !present.iter().any(|record| record.class_id == class) {
            return Err(InventoryTableError::NotFound(self.class.clone()));
        }
        delete(tx, provider.id, &[class]).await?;
        raise(tx, &mut provider).await
    }
}

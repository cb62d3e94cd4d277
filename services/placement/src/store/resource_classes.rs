//! Resource classes, standard and custom.

use std::collections::BTreeMap;

use berth_store::{
    Dialect, Disposition, Retryable, SqlError, SqlTimestamp, Statement, Transaction, Work,
};

use super::{moment, now};
use crate::standard::{self, CUSTOM_PREFIX, FIRST_CUSTOM_CLASS_ID};

#[derive(Debug, Clone)]
pub(crate) struct ResourceClassRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) modified: Option<SqlTimestamp>,
}

/// Why a class could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClassError {
    #[error("No such resource class {0}.")]
    NotFound(String),
    #[error("Resource class {0} already exists.")]
    Exists(String),
    #[error("Cannot delete standard resource class {0}.")]
    DeleteStandard(String),
    #[error("Cannot update standard resource class {0}")]
    UpdateStandard(String),
    #[error("Cannot delete resource class {0}. Class is in use in inventory.")]
    InUse(String),
    #[error("the database failed")]
    Sql(#[from] SqlError),
}

impl Retryable for ClassError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry_disposition(error),
            _ => Disposition::Fatal,
        }
    }
}

/// All classes by id.
pub(crate) async fn list(tx: &mut Transaction) -> Result<Vec<ResourceClassRow>, SqlError> {
    let sql = "SELECT id, name, COALESCE(updated_at, created_at) FROM resource_classes ORDER BY id";
    let rows = tx.rows(Statement::new(sql)).await?;
    rows.iter().map(class).collect()
}

fn class(row: &berth_store::Row) -> Result<ResourceClassRow, SqlError> {
    Ok(ResourceClassRow {
        id: row.int(0)?,
        name: row.text(1)?,
        modified: moment(row, 2)?,
    })
}

/// The class with this name.
pub(crate) async fn get(tx: &mut Transaction, name: &str) -> Result<ResourceClassRow, ClassError> {
    let sql = "SELECT id, name, COALESCE(updated_at, created_at) FROM resource_classes \
               WHERE name = ?";
    match tx.row(Statement::new(sql).bind(name)).await? {
        Some(row) => Ok(class(&row)?),
        None => Err(ClassError::NotFound(name.to_owned())),
    }
}

/// The id of a class.
pub(crate) async fn id(tx: &mut Transaction, name: &str) -> Result<Option<i64>, SqlError> {
    let sql = "SELECT id FROM resource_classes WHERE name = ?";
    let row = tx.row(Statement::new(sql).bind(name)).await?;
    row.map(|row| row.int(0)).transpose()
}

/// The ids of those names that are classes.
pub(crate) async fn ids(
    tx: &mut Transaction,
    names: &[String],
) -> Result<BTreeMap<String, i64>, SqlError> {
    let head = Statement::new("SELECT name, id FROM resource_classes WHERE name IN");
    let rows = tx.rows_in(&head, names, "").await?;
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect()
}

/// Locks custom classes until the transaction ends, so that none is deleted while inventories of it are created; no
/// foreign key prevents that. On PostgreSQL a deletion locks the inventories instead ([`Delete`]).
pub(crate) async fn keep(tx: &mut Transaction, names: &[String]) -> Result<(), SqlError> {
    if tx.dialect() == Dialect::MySql {
        let own = names.iter().filter(|name| name.starts_with(CUSTOM_PREFIX));
        let own: Vec<&String> = own.collect();
        let head = Statement::new("SELECT id FROM resource_classes WHERE name IN");
        let end = tx.dialect().for_share();
        tx.rows_in(&head, &own, end).await?;
    }
    Ok(())
}

/// Whether a PUT found or created the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClassEnsured {
    Made,
    Found,
}

/// Creates a custom class if it does not exist.
pub(crate) struct EnsureClass {
    pub(crate) name: String,
}

impl Work for EnsureClass {
    type Output = ClassEnsured;
    type Error = ClassError;

    async fn run(&self, tx: &mut Transaction) -> Result<ClassEnsured, ClassError> {
        if id(tx, &self.name).await?.is_some() {
            return Ok(ClassEnsured::Found);
        }
        let row = tx
            .row(Statement::new("SELECT MAX(id) FROM resource_classes"))
            .await?;
        let highest = match row {
            Some(row) => row.opt_int(0)?.unwrap_or_default(),
            None => 0,
        };
        let next = highest.checked_add(1).ok_or(SqlError::CounterFull {
            counter: "id",
            value: highest,
        })?;
        let id = next.max(FIRST_CUSTOM_CLASS_ID);
        let sql = "INSERT INTO resource_classes (created_at, id, name) VALUES (?, ?, ?)";
        let insert = Statement::new(sql).bind(now()).bind(id).bind(&self.name);
        tx.execute(insert).await?;
        Ok(ClassEnsured::Made)
    }
}

pub(crate) struct RenameClass {
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Work for RenameClass {
    type Output = ();
    type Error = ClassError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ClassError> {
        let class = get(tx, &self.from).await?;
        if class.id < FIRST_CUSTOM_CLASS_ID {
            return Err(ClassError::UpdateStandard(self.from.clone()));
        }
        if self.to != self.from && id(tx, &self.to).await?.is_some() {
            return Err(ClassError::Exists(self.to.clone()));
        }
        let sql = "UPDATE resource_classes SET updated_at = ?, name = ? WHERE id = ?";
        let update = Statement::new(sql)
            .bind(now())
            .bind(&self.to)
            .bind(class.id);
        tx.execute(update).await?;
        Ok(())
    }
}

pub(crate) struct DeleteClass {
    pub(crate) name: String,
}

impl Work for DeleteClass {
    type Output = ();
    type Error = ClassError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ClassError> {
        match tx.dialect() {
            Dialect::Sqlite => {}
            // Before the first read, so that it sees all inventories.
            Dialect::Postgres => tx.script("LOCK TABLE inventories IN SHARE MODE").await?,
            Dialect::MySql => {
                let sql = "SELECT id FROM resource_classes WHERE name = ? FOR UPDATE";
                tx.row(Statement::new(sql).bind(&self.name)).await?;
            }
        }
        let class = get(tx, &self.name).await?;
        if class.id < FIRST_CUSTOM_CLASS_ID {
            return Err(ClassError::DeleteStandard(self.name.clone()));
        }
        let used = "SELECT 1 FROM inventories WHERE resource_class_id = ? LIMIT 1";
        if tx.row(Statement::new(used).bind(class.id)).await?.is_some() {
            return Err(ClassError::InUse(self.name.clone()));
        }
        let sql = "DELETE FROM resource_classes WHERE id = ?";
        tx.execute(Statement::new(sql).bind(class.id)).await?;
        Ok(())
    }
}

/// Whether the name is a standard one.
pub(crate) fn is_standard(name: &str) -> bool {
    !name.starts_with(CUSTOM_PREFIX) && standard::resource_classes().any(|(_, known)| known == name)
}

//! Attributes of deployables: those that agents report, and those that operators add.

use berth_http::request_id::random_uuid;
use berth_store::{Disposition, Retryable, Row, SqlError, Statement, Transaction, Value, Work};
use berth_wire::accelerator::{AttributeBody, CreateAttribute};
use uuid::Uuid;

use super::{ReadError, moment, now, typed};

const SELECT: &str =
    "SELECT uuid, deployable_id, name, value, created_at, updated_at FROM attributes";

fn attribute(row: &Row) -> Result<AttributeBody, ReadError> {
    Ok(AttributeBody {
        uuid: typed(&row.text(0)?, "attributes", "uuid")?,
        deployable_id: row.int(1)?,
        key: row.text(2)?,
        value: row.text(3)?,
        created_at: moment(row, 4)?,
        updated_at: moment(row, 5)?,
        links: Vec::new(),
    })
}

/// The attributes of one deployable, or of all; of one key, or of all.
pub(crate) async fn list(
    tx: &mut Transaction,
    deployable: Option<i64>,
    key: Option<&str>,
) -> Result<Vec<AttributeBody>, ReadError> {
    let mut sql = format!("{SELECT} WHERE 1 = 1");
    let mut values: Vec<Value> = Vec::new();
    if let Some(id) = deployable {
        sql.push_str(" AND deployable_id = ?");
        values.push(id.into());
    }
    if let Some(key) = key {
        sql.push_str(" AND name = ?");
        values.push(key.into());
    }
    sql.push_str(" ORDER BY id");
    let rows = tx.rows(Statement::new(sql).bind_all(values)).await?;
    rows.iter().map(attribute).collect()
}

pub(crate) async fn get(tx: &mut Transaction, uuid: Uuid) -> Result<AttributeBody, AttributeError> {
    let statement = Statement::new(format!("{SELECT} WHERE uuid = ?")).bind(uuid.to_string());
    match tx.row(statement).await? {
        Some(row) => Ok(attribute(&row)?),
        None => Err(AttributeError::NotFound(uuid)),
    }
}

/// Why an attribute could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttributeError {
    #[error("Attribute not found with uuid={0}")]
    NotFound(Uuid),
    #[error("Deployable not found with id={0}")]
    NoDeployable(i64),
    #[error("Attribute {0} is reported by the device's host and cannot be removed")]
    Reported(String),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<SqlError> for AttributeError {
    fn from(error: SqlError) -> Self {
        Self::Read(error.into())
    }
}

impl Retryable for AttributeError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Read(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// Who says an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Host,
    Operator,
}

/// Writes one attribute of a deployable.
pub(crate) async fn insert(
    tx: &mut Transaction,
    deployable: i64,
    (key, value): (&str, &str),
    origin: Origin,
) -> Result<Uuid, SqlError> {
    let uuid = random_uuid();
    let sql = "INSERT INTO attributes (uuid, deployable_id, name, value, reported, created_at) \
               VALUES (?, ?, ?, ?, ?, ?)";
    let insert = Statement::new(sql)
        .bind(uuid.to_string())
        .bind(deployable)
        .bind(key)
        .bind(value)
        .bind(match origin {
            Origin::Host => 1,
            Origin::Operator => 0,
        })
        .bind(now());
    tx.execute(insert).await?;
    Ok(uuid)
}

pub(crate) struct Create(pub(crate) CreateAttribute);

impl Work for Create {
    type Output = AttributeBody;
    type Error = AttributeError;

    async fn run(&self, tx: &mut Transaction) -> Result<AttributeBody, AttributeError> {
        let Self(wanted) = self;
        let sql = "SELECT 1 FROM deployables WHERE id = ?";
        let there = tx
            .row(Statement::new(sql).bind(wanted.deployable_id))
            .await?;
        if there.is_none() {
            return Err(AttributeError::NoDeployable(wanted.deployable_id));
        }
        let pair = (wanted.key.as_str(), wanted.value.as_str());
        let uuid = insert(tx, wanted.deployable_id, pair, Origin::Operator).await?;
        get(tx, uuid).await
    }
}

/// Removes an operator's attribute.
pub(crate) struct Delete(pub(crate) Uuid);

impl Work for Delete {
    type Output = ();
    type Error = AttributeError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), AttributeError> {
        let found = get(tx, self.0).await?;
        let sql = "DELETE FROM attributes WHERE uuid = ? AND reported = 0";
        let delete = Statement::new(sql).bind(self.0.to_string());
        match tx.execute(delete).await?.rows_affected {
            0 => Err(AttributeError::Reported(found.key)),
            _ => Ok(()),
        }
    }
}

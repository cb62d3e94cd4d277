//! Attributes of deployables, reported by agents or added by operators.

use berth_http::request_id::random_uuid;
use berth_store::{Disposition, Retryable, Row, SqlError, Statement, Transaction, Value, Work};
use berth_wire::accelerator::{AttributeBody, CreateAttribute};
use uuid::Uuid;

use super::{AcceleratorTableError, moment, now, typed};

const SELECT: &str =
    "SELECT uuid, deployable_id, name, value, created_at, updated_at FROM attributes";

fn attribute(row: &Row) -> Result<AttributeBody, AcceleratorTableError> {
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
) -> Result<Vec<AttributeBody>, AcceleratorTableError> {
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

pub(crate) async fn get(
    tx: &mut Transaction,
    uuid: Uuid,
) -> Result<AttributeBody, DeployableAttributeError> {
    let statement = Statement::new(format!("{SELECT} WHERE uuid = ?")).bind(uuid.to_string());
    match tx.row(statement).await? {
        Some(row) => Ok(attribute(&row)?),
        None => Err(DeployableAttributeError::NotFound(uuid)),
    }
}

/// Why an attribute could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeployableAttributeError {
    #[error("Attribute not found with uuid={0}")]
    NotFound(Uuid),
    #[error("Deployable not found with id={0}")]
    NoDeployable(i64),
    #[error("Attribute {0} is reported by the device's host and cannot be removed")]
    Reported(String),
    #[error(transparent)]
    Read(#[from] AcceleratorTableError),
}

impl From<SqlError> for DeployableAttributeError {
    fn from(error: SqlError) -> Self {
        Self::Read(error.into())
    }
}

impl Retryable for DeployableAttributeError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Read(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// The source of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttributeSource {
    Host,
    Operator,
}

/// Writes one attribute of a deployable.
pub(crate) async fn insert(
    tx: &mut Transaction,
    deployable: i64,
    (key, value): (&str, &str),
    origin: AttributeSource,
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
            AttributeSource::Host => 1,
            AttributeSource::Operator => 0,
        })
        .bind(now());
    tx.execute(insert).await?;
    Ok(uuid)
}

pub(crate) struct InsertAttribute(pub(crate) CreateAttribute);

impl Work for InsertAttribute {
    type Output = AttributeBody;
    type Error = DeployableAttributeError;

    async fn run(&self, tx: &mut Transaction) -> Result<AttributeBody, DeployableAttributeError> {
        let Self(wanted) = self;
        let sql = "SELECT 1 FROM deployables WHERE id = ?";
        let there = tx
            .row(Statement::new(sql).bind(wanted.deployable_id))
            .await?;
        if there.is_none() {
            return Err(DeployableAttributeError::NoDeployable(wanted.deployable_id));
        }
        let pair = (wanted.key.as_str(), wanted.value.as_str());
        let uuid = insert(tx, wanted.deployable_id, pair, AttributeSource::Operator).await?;
        get(tx, uuid).await
    }
}

/// Removes an operator's attribute.
pub(crate) struct DeleteAttribute(pub(crate) Uuid);

impl Work for DeleteAttribute {
    type Output = ();
    type Error = DeployableAttributeError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), DeployableAttributeError> {
        let found = get(tx, self.0).await?;
        let sql = "DELETE FROM attributes WHERE uuid = ? AND reported = 0";
        let delete = Statement::new(sql).bind(self.0.to_string());
        match tx.execute(delete).await?.rows_affected {
            0 => Err(DeployableAttributeError::Reported(found.key)),
            _ => Ok(()),
        }
    }
}

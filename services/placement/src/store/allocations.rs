//! What consumers hold: reads, and the removal of all a consumer holds. Writing is in `replace`.

use berth_http::Timestamp;
use berth_store::{Disposition, Retryable, SqlError, SqlStore, Statement, Transaction, Work};

use super::moment;

/// One allocation of a consumer.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) provider_uuid: String,
    pub(crate) provider_generation: i64,
    pub(crate) class: String,
    pub(crate) used: i64,
    pub(crate) modified: Option<Timestamp>,
}

/// A consumer with what it holds.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    pub(crate) project: String,
    pub(crate) user: String,
    pub(crate) generation: i64,
    /// `None`: a consumer without a type.
    pub(crate) consumer_type: Option<String>,
    pub(crate) held: Vec<Held>,
}

/// What a consumer holds; `None` when it holds nothing.
pub(crate) async fn of_consumer(
    store: &SqlStore,
    uuid: &str,
) -> Result<Option<Consumer>, SqlError> {
    let sql = "SELECT rp.uuid, rp.generation, c.name, a.used, \
               COALESCE(a.updated_at, a.created_at), p.external_id, u.external_id, \
               k.generation, t.name \
               FROM allocations a \
               JOIN resource_providers rp ON rp.id = a.resource_provider_id \
               JOIN resource_classes c ON c.id = a.resource_class_id \
               JOIN consumers k ON k.uuid = a.consumer_id \
               JOIN projects p ON p.id = k.project_id \
               JOIN users u ON u.id = k.user_id \
               LEFT JOIN consumer_types t ON t.id = k.consumer_type_id \
               WHERE a.consumer_id = ? ORDER BY a.id";
    let rows = store.rows(Statement::new(sql).bind(uuid)).await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let mut consumer = Consumer {
        project: first.text(5)?,
        user: first.text(6)?,
        generation: first.int(7)?,
        consumer_type: first.opt_text(8)?,
        held: Vec::with_capacity(rows.len()),
    };
    for row in &rows {
        consumer.held.push(Held {
            provider_uuid: row.text(0)?,
            provider_generation: row.opt_int(1)?.unwrap_or_default(),
            class: row.text(2)?,
            used: row.int(3)?,
            modified: moment(row, 4)?,
        });
    }
    Ok(Some(consumer))
}

/// One allocation at a provider.
#[derive(Debug, Clone)]
pub(crate) struct Holding {
    pub(crate) consumer_uuid: String,
    pub(crate) consumer_generation: i64,
    pub(crate) class: String,
    pub(crate) used: i64,
    pub(crate) modified: Option<Timestamp>,
}

/// Who holds what of a provider.
pub(crate) async fn of_provider(
    tx: &mut Transaction,
    provider: i64,
) -> Result<Vec<Holding>, SqlError> {
    let sql = "SELECT k.uuid, k.generation, c.name, a.used, COALESCE(a.updated_at, a.created_at) \
               FROM allocations a \
               JOIN consumers k ON k.uuid = a.consumer_id \
               JOIN resource_classes c ON c.id = a.resource_class_id \
               WHERE a.resource_provider_id = ? ORDER BY a.id";
    let rows = tx.rows(Statement::new(sql).bind(provider)).await?;
    rows.iter()
        .map(|row| {
            Ok(Holding {
                consumer_uuid: row.text(0)?,
                consumer_generation: row.int(1)?,
                class: row.text(2)?,
                used: row.int(3)?,
                modified: moment(row, 4)?,
            })
        })
        .collect()
}

/// Why a consumer's allocations could not be removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error("No allocations for consumer '{0}'")]
    NotFound(String),
    #[error("the database failed")]
    Sql(#[from] SqlError),
}

impl Retryable for ReleaseError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry(error),
            Self::NotFound(_) => Disposition::Fatal,
        }
    }
}

/// Removes a consumer with all it holds.
pub(crate) struct Release {
    pub(crate) consumer: String,
}

impl Work for Release {
    type Output = ();
    type Error = ReleaseError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ReleaseError> {
        let sql = "DELETE FROM allocations WHERE consumer_id = ?";
        let done = tx.execute(Statement::new(sql).bind(&self.consumer)).await?;
        if done.rows_affected == 0 {
            return Err(ReleaseError::NotFound(self.consumer.clone()));
        }
        let sql = "DELETE FROM consumers WHERE uuid = ?";
        tx.execute(Statement::new(sql).bind(&self.consumer)).await?;
        Ok(())
    }
}

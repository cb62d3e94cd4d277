//! Allocations of consumers: reads, and the removal of all allocations of a consumer. Writing is in `replace`.

mod together;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_store::{
    Disposition, Retryable, SqlError, SqlStore, SqlTimestamp, Statement, Transaction, Work,
};

use super::providers::{self, HostMismatch};
use super::{consumers, packed_moment};
pub(crate) use together::ConsumerReader;

/// One allocation of a consumer.
#[derive(Debug, Clone)]
pub(crate) struct HeldAllocation {
    pub(crate) provider_uuid: String,
    pub(crate) provider_generation: i64,
    pub(crate) class: String,
    pub(crate) used: i64,
    pub(crate) modified: Option<SqlTimestamp>,
}

/// A consumer with its allocations.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    pub(crate) project: String,
    pub(crate) user: String,
    pub(crate) generation: i64,
    /// `None`: a consumer without a type.
    pub(crate) consumer_type: Option<String>,
    pub(crate) held: Vec<HeldAllocation>,
}

/// The allocations of consumers by UUID; consumers without any are left out.
async fn of_consumers(
    store: &SqlStore,
    uuids: &[&str],
) -> Result<BTreeMap<String, Arc<Consumer>>, SqlError> {
    let columns = "a.consumer_id, rp.uuid, rp.generation, c.name, a.used, \
                   COALESCE(a.updated_at, a.created_at), p.external_id, u.external_id, \
                   k.generation, t.name";
    let head = Statement::recurring(format!(
        "SELECT {} FROM allocations a \
         JOIN resource_providers rp ON rp.id = a.resource_provider_id \
         JOIN resource_classes c ON c.id = a.resource_class_id \
         JOIN consumers k ON k.uuid = a.consumer_id \
         JOIN projects p ON p.id = k.project_id \
         JOIN users u ON u.id = k.user_id \
         LEFT JOIN consumer_types t ON t.id = k.consumer_type_id \
         WHERE a.consumer_id IN",
        store.dialect().packed(columns)
    ));
    let mut consumers: BTreeMap<String, Consumer> = BTreeMap::new();
    for rows in store.rows_in(&head, uuids, "").await? {
        for row in rows.unpack::<(_, _, Option<i64>, _, _, Option<String>, _, _, _, _)>(0)? {
            let (uuid, provider_uuid, provider_generation, class, used, modified, ..) = row;
            let (.., project, user, generation, consumer_type) = row;
            let consumer = consumers.entry(uuid).or_insert_with(|| Consumer {
                project,
                user,
                generation,
                consumer_type,
                held: Vec::new(),
            });
            consumer.held.push(HeldAllocation {
                provider_uuid,
                provider_generation: provider_generation.unwrap_or_default(),
                class,
                used,
                modified: packed_moment(modified.as_deref()),
            });
        }
    }
    let shared = consumers.into_iter();
    Ok(shared.map(|(uuid, one)| (uuid, Arc::new(one))).collect())
}

/// One allocation at a provider.
#[derive(Debug, Clone)]
pub(crate) struct ProviderAllocation {
    pub(crate) consumer_uuid: String,
    pub(crate) consumer_generation: i64,
    pub(crate) class: String,
    pub(crate) used: i64,
    pub(crate) modified: Option<SqlTimestamp>,
}

/// The allocations from a provider.
pub(crate) async fn of_provider(
    tx: &mut Transaction,
    provider: i64,
) -> Result<Vec<ProviderAllocation>, SqlError> {
    let columns = "k.uuid, k.generation, c.name, a.used, COALESCE(a.updated_at, a.created_at)";
    let sql = format!(
        "SELECT {} FROM allocations a \
         JOIN consumers k ON k.uuid = a.consumer_id \
         JOIN resource_classes c ON c.id = a.resource_class_id \
         WHERE a.resource_provider_id = ?",
        tx.dialect().packed(columns)
    );
    let mut holdings = Vec::new();
    for rows in tx.rows(Statement::recurring(sql).bind(provider)).await? {
        for row in rows.unpack::<(_, _, _, _, Option<String>)>(0)? {
            let (consumer_uuid, consumer_generation, class, used, modified) = row;
            holdings.push(ProviderAllocation {
                consumer_uuid,
                consumer_generation,
                class,
                used,
                modified: packed_moment(modified.as_deref()),
            });
        }
    }
    Ok(holdings)
}

/// Why a consumer's allocations could not be removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error("No allocations for consumer '{0}'")]
    NotFound(String),
    #[error(transparent)]
    OtherHost(HostMismatch),
    #[error("the database failed")]
    Sql(#[from] SqlError),
}

impl Retryable for ReleaseError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry_disposition(error),
            Self::NotFound(_) | Self::OtherHost(_) => Disposition::Fatal,
        }
    }
}

/// Deletes a consumer with all its allocations.
pub(crate) struct Release {
    pub(crate) consumer: String,
    /// The host whose account deletes. It deletes only what is on its own providers.
    pub(crate) only_host: Option<String>,
}

impl Work for Release {
    /// The providers that it had allocations from.
    type Output = Vec<i64>;
    type Error = ReleaseError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<i64>, ReleaseError> {
        consumers::hold(tx, &self.consumer).await?;
        let sql = "SELECT DISTINCT resource_provider_id FROM allocations WHERE consumer_id = ?";
        let rows = tx.rows(Statement::new(sql).bind(&self.consumer)).await?;
        let providers: Vec<i64> = rows
            .iter()
            .map(|row| row.int(0))
            .collect::<Result<_, _>>()?;
        if let Some(host) = &self.only_host {
            let mut others = providers::host_mismatches(tx, &providers, host).await?;
            if let Some((_, mismatch)) = others.pop_first() {
                return Err(ReleaseError::OtherHost(mismatch));
            }
        }
        let sql = "DELETE FROM allocations WHERE consumer_id = ?";
        let done = tx.execute(Statement::new(sql).bind(&self.consumer)).await?;
        if done.rows_affected == 0 {
            return Err(ReleaseError::NotFound(self.consumer.clone()));
        }
        let sql = "DELETE FROM consumers WHERE uuid = ?";
        tx.execute(Statement::new(sql).bind(&self.consumer)).await?;
        Ok(providers)
    }
}

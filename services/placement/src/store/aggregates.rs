//! Aggregates: groups of providers, identified by UUID only.

use std::collections::BTreeMap;

use berth_store::{Disposition, Retryable, SqlError, Statement, Transaction, Value, Work};

use super::now;
use super::providers::{self, ProviderError, ProviderRow};

/// Why aggregates could not be set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AggregateError {
    #[error("the generation is not the current one")]
    Generation,
    #[error(
        "The account of host {host} may put no resource provider into an aggregate. An operator or the compute API must put \
         {provider} into {aggregates}."
    )]
    JoinByHost {
        host: String,
        provider: String,
        aggregates: String,
    },
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error("the database failed")]
    Sql(#[from] SqlError),
}

impl Retryable for AggregateError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry_disposition(error),
            Self::Provider(error) => error.disposition(),
            Self::Generation | Self::JoinByHost { .. } => Disposition::Fatal,
        }
    }
}

/// The aggregates of a provider, id by uuid.
pub(crate) async fn of_provider(
    tx: &mut Transaction,
    provider: i64,
) -> Result<BTreeMap<String, i64>, SqlError> {
    let sql = "SELECT a.uuid, a.id FROM resource_provider_aggregates ra \
               JOIN placement_aggregates a ON a.id = ra.aggregate_id \
               WHERE ra.resource_provider_id = ?";
    let rows = tx.rows(Statement::new(sql).bind(provider)).await?;
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect()
}

/// Sets the aggregates of a provider.
pub(crate) struct SetProviderAggregates {
    pub(crate) uuid: String,
    /// The generation that the caller knows. Before 1.19 there is none, and it is not raised.
    pub(crate) generation: Option<i64>,
    pub(crate) aggregates: Vec<String>,
    /// The host whose account writes. Its providers may keep and leave aggregates, but join none.
    pub(crate) only_host: Option<String>,
}

impl Work for SetProviderAggregates {
    type Output = ProviderRow;
    type Error = AggregateError;

    async fn run(&self, tx: &mut Transaction) -> Result<ProviderRow, AggregateError> {
        // Before 1.19 no generation protects against concurrent writers.
        providers::hold(tx, &self.uuid).await?;
        let mut provider = providers::get(tx, &self.uuid).await?;
        if self
            .generation
            .is_some_and(|known| known != provider.generation)
        {
            return Err(AggregateError::Generation);
        }
        let present = of_provider(tx, provider.id).await?;
        let dropped: Vec<i64> = present
            .iter()
            .filter(|(uuid, _)| !self.aggregates.contains(uuid))
            .map(|(_, id)| *id)
            .collect();
        let added: Vec<&String> = self
            .aggregates
            .iter()
            .filter(|uuid| !present.contains_key(*uuid))
            .collect();
        if let Some(host) = &self.only_host
            && !added.is_empty()
        {
            let joined: Vec<&str> = added.iter().map(|uuid| uuid.as_str()).collect();
            return Err(AggregateError::JoinByHost {
                host: host.clone(),
                provider: provider.name,
                aggregates: joined.join(", "),
            });
        }
        let head = Statement::new(
            "DELETE FROM resource_provider_aggregates \
             WHERE resource_provider_id = ? AND aggregate_id IN",
        );
        tx.execute_in(&head.bind(provider.id), &dropped).await?;
        join(tx, provider.id, &added).await?;
        if self.generation.is_some() {
            if !providers::bump(tx, provider.id, provider.generation).await? {
                return Err(AggregateError::Generation);
            }
            provider.generation += 1;
        }
        Ok(provider)
    }
}

async fn join(tx: &mut Transaction, provider: i64, uuids: &[&String]) -> Result<(), SqlError> {
    let keys: Vec<String> = uuids.iter().map(|uuid| (*uuid).clone()).collect();
    let known = known(tx, &keys).await?;
    let missing: Vec<[Value; 2]> = keys
        .iter()
        .filter(|uuid| !known.contains_key(*uuid))
        .map(|uuid| [now(), Value::from(uuid)])
        .collect();
    let head = "INSERT INTO placement_aggregates (created_at, uuid) VALUES";
    let ids = if missing.is_empty() {
        known
    } else {
        tx.insert_rows(head, missing, "").await?;
        self::known(tx, &keys).await?
    };
    let rows = ids
        .into_values()
        .map(|id| [now(), Value::from(provider), Value::from(id)])
        .collect();
    let head = "INSERT INTO resource_provider_aggregates \
                (created_at, resource_provider_id, aggregate_id) VALUES";
    tx.insert_rows(head, rows, "").await?;
    Ok(())
}

async fn known(tx: &mut Transaction, uuids: &[String]) -> Result<BTreeMap<String, i64>, SqlError> {
    let head = Statement::new("SELECT uuid, id FROM placement_aggregates WHERE uuid IN");
    let rows = tx.rows_in(&head, uuids, "").await?;
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect()
}

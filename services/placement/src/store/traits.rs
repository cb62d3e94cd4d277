//! Traits, and their assignment to providers.

use std::collections::BTreeMap;

use berth_store::{
    Disposition, Retryable, Row, SqlError, SqlTimestamp, Statement, Transaction, Value, Work,
};

use super::providers::{self, ProviderError, ProviderRow};
use super::{moment, now};
use crate::candidates::snapshot::SHARES;
use crate::standard::CUSTOM_PREFIX;

#[derive(Debug, Clone)]
pub(crate) struct TraitRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) modified: Option<SqlTimestamp>,
}

/// Why a trait could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraitTableError {
    #[error("No such trait(s): {0}.")]
    NotFound(String),
    #[error("Cannot delete standard trait {0}.")]
    DeleteStandard(String),
    #[error("The trait {0} is in use by a resource provider.")]
    InUse(String),
    #[error("No such trait {0}")]
    Unknown(String),
    #[error("the generation is not the current one")]
    Generation,
    #[error(
        "The account of host {host} may not set the trait MISC_SHARES_VIA_AGGREGATE. An operator must set it on {provider}."
    )]
    SharesByHost { host: String, provider: String },
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error("the database failed")]
    Sql(#[from] SqlError),
}

impl Retryable for TraitTableError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry_disposition(error),
            Self::Provider(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// The filters of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct TraitFilters {
    pub(crate) names: Option<Vec<String>>,
    pub(crate) prefix: Option<String>,
    pub(crate) associated: Option<TraitAssociation>,
}

/// Whether some provider has the trait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraitAssociation {
    Yes,
    No,
}

fn one(row: &Row) -> Result<TraitRow, SqlError> {
    Ok(TraitRow {
        id: row.int(0)?,
        name: row.text(1)?,
        modified: moment(row, 2)?,
    })
}

/// The traits that satisfy the filters, by id.
pub(crate) async fn list(
    tx: &mut Transaction,
    filters: &TraitFilters,
) -> Result<Vec<TraitRow>, SqlError> {
    let mut sql =
        "SELECT t.id, t.name, COALESCE(t.updated_at, t.created_at) FROM traits t WHERE 1 = 1"
            .to_owned();
    let mut values: Vec<Value> = Vec::new();
    if let Some(names) = &filters.names {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let marks = berth_store::sql::placeholders(names.len());
        sql.push_str(&format!(" AND t.name IN ({marks})"));
        values.extend(names.iter().map(Value::from));
    }
    if let Some(prefix) = &filters.prefix {
        sql.push_str(&format!(" AND {}", tx.dialect().begins_with("t.name")));
        values.push(Value::from(prefix));
    }
    let some_provider = "EXISTS (SELECT 1 FROM resource_provider_traits WHERE trait_id = t.id)";
    match filters.associated {
        None => {}
        Some(TraitAssociation::Yes) => sql.push_str(&format!(" AND {some_provider}")),
        Some(TraitAssociation::No) => sql.push_str(&format!(" AND NOT {some_provider}")),
    }
    sql.push_str(" ORDER BY t.id");
    let rows = tx.rows(Statement::new(sql).bind_all(values)).await?;
    rows.iter().map(one).collect()
}

/// The trait with this name.
pub(crate) async fn get(tx: &mut Transaction, name: &str) -> Result<TraitRow, TraitTableError> {
    let sql = "SELECT id, name, COALESCE(updated_at, created_at) FROM traits WHERE name = ?";
    match tx.row(Statement::new(sql).bind(name)).await? {
        Some(row) => Ok(one(&row)?),
        None => Err(TraitTableError::NotFound(name.to_owned())),
    }
}

/// The ids of those names that are traits.
pub(crate) async fn ids(
    tx: &mut Transaction,
    names: &[String],
) -> Result<BTreeMap<String, i64>, SqlError> {
    let head = Statement::new("SELECT name, id FROM traits WHERE name IN");
    let rows = tx.rows_in(&head, names, "").await?;
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect()
}

/// The traits of a provider.
pub(crate) async fn of_provider(
    tx: &mut Transaction,
    provider: i64,
) -> Result<Vec<TraitRow>, SqlError> {
    let sql = "SELECT t.id, t.name, COALESCE(t.updated_at, t.created_at) \
               FROM resource_provider_traits rt JOIN traits t ON t.id = rt.trait_id \
               WHERE rt.resource_provider_id = ? ORDER BY t.id";
    let rows = tx.rows(Statement::new(sql).bind(provider)).await?;
    rows.iter().map(one).collect()
}

/// Whether a PUT found or created the trait.
pub(crate) enum TraitEnsured {
    Made(TraitRow),
    Found(TraitRow),
}

/// Creates a custom trait if it does not exist.
pub(crate) struct EnsureTrait {
    pub(crate) name: String,
}

impl Work for EnsureTrait {
    type Output = TraitEnsured;
    type Error = TraitTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<TraitEnsured, TraitTableError> {
        match get(tx, &self.name).await {
            Ok(found) => return Ok(TraitEnsured::Found(found)),
            Err(TraitTableError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let sql = "INSERT INTO traits (created_at, name) VALUES (?, ?)";
        tx.execute(Statement::new(sql).bind(now()).bind(&self.name))
            .await?;
        Ok(TraitEnsured::Made(get(tx, &self.name).await?))
    }
}

pub(crate) struct DeleteTrait {
    pub(crate) name: String,
}

impl Work for DeleteTrait {
    type Output = ();
    type Error = TraitTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), TraitTableError> {
        let found = get(tx, &self.name).await?;
        if !self.name.starts_with(CUSTOM_PREFIX) {
            return Err(TraitTableError::DeleteStandard(self.name.clone()));
        }
        let used = "SELECT 1 FROM resource_provider_traits WHERE trait_id = ? LIMIT 1";
        if tx.row(Statement::new(used).bind(found.id)).await?.is_some() {
            return Err(TraitTableError::InUse(self.name.clone()));
        }
        let sql = "DELETE FROM traits WHERE id = ?";
        tx.execute(Statement::new(sql).bind(found.id)).await?;
        Ok(())
    }
}

/// Sets the traits of a provider.
pub(crate) struct SetProviderTraits {
    pub(crate) uuid: String,
    /// The generation the caller knows; `None` takes the current one.
    pub(crate) generation: Option<i64>,
    pub(crate) names: Vec<String>,
    /// The host whose account writes. It may not offer the inventory of its providers to other hosts.
    pub(crate) only_host: Option<String>,
}

impl Work for SetProviderTraits {
    type Output = (ProviderRow, Vec<TraitRow>);
    type Error = TraitTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<Self::Output, TraitTableError> {
        let mut provider = providers::get(tx, &self.uuid).await?;
        if self
            .generation
            .is_some_and(|known| known != provider.generation)
        {
            return Err(TraitTableError::Generation);
        }
        let filters = TraitFilters {
            names: Some(self.names.clone()),
            ..TraitFilters::default()
        };
        let wanted = list(tx, &filters).await?;
        self.refuse_unknown(&wanted)?;
        let present = of_provider(tx, provider.id).await?;
        let lacks = |of: &[TraitRow], id: i64| !of.iter().any(|known| known.id == id);
        let shares = |known: &TraitRow| known.name == SHARES && lacks(&present, known.id);
        if let Some(host) = &self.only_host
            && wanted.iter().any(shares)
        {
            return Err(TraitTableError::SharesByHost {
                host: host.clone(),
                provider: provider.name,
            });
        }
        let dropped: Vec<i64> = present
            .iter()
            .map(|known| known.id)
            .filter(|id| lacks(&wanted, *id))
            .collect();
        let added: Vec<i64> = wanted
            .iter()
            .map(|known| known.id)
            .filter(|id| lacks(&present, *id))
            .collect();
        if !dropped.is_empty() || !added.is_empty() {
            associate(tx, provider.id, &dropped, &added).await?;
            if !providers::bump(tx, provider.id, provider.generation).await? {
                return Err(TraitTableError::Generation);
            }
            provider.generation += 1;
        }
        Ok((provider, wanted))
    }
}

impl SetProviderTraits {
    fn refuse_unknown(&self, known: &[TraitRow]) -> Result<(), TraitTableError> {
        let unknown: Vec<&str> = self
            .names
            .iter()
            .map(String::as_str)
            .filter(|name| !known.iter().any(|known| known.name == *name))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(TraitTableError::Unknown(unknown.join(", ")))
    }
}

async fn associate(
    tx: &mut Transaction,
    provider: i64,
    dropped: &[i64],
    added: &[i64],
) -> Result<(), SqlError> {
    let head = Statement::new(
        "DELETE FROM resource_provider_traits WHERE resource_provider_id = ? AND trait_id IN",
    );
    tx.execute_in(&head.bind(provider), dropped).await?;
    let rows = added
        .iter()
        .map(|id| [now(), Value::from(*id), Value::from(provider)])
        .collect();
    let head = "INSERT INTO resource_provider_traits \
                (created_at, trait_id, resource_provider_id) VALUES";
    tx.insert_rows(head, rows, "").await?;
    Ok(())
}

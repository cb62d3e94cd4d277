//! Resource providers. Their position in the tree is handled by [`place`].

mod place;

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{
    Dialect, Disposition, Retryable, SqlError, SqlTimestamp, Statement, Transaction, Work,
};

use super::{moment, now, resource_classes, traits};
use crate::filters::ProviderFilters;

use place::HeldTrees;
pub(crate) use place::ReparentingRule;

/// A row with what it refers to.
#[derive(Debug, Clone)]
pub(crate) struct ProviderRow {
    pub(crate) id: i64,
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) generation: i64,
    pub(crate) root_uuid: String,
    pub(crate) parent_uuid: Option<String>,
    pub(crate) modified: SqlTimestamp,
}

/// Why a provider could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    #[error("No resource provider with uuid {0} found")]
    NotFound(String),
    #[error("{0}")]
    Duplicate(String),
    #[error("Object action create failed because: {0}")]
    Create(&'static str),
    #[error("Object action update failed because: {0}")]
    Update(&'static str),
    #[error("Resource provider has allocations.")]
    InUse,
    #[error("It has child resource providers.")]
    HasChildren,
    #[error("another writer moved it to another tree")]
    Moved,
    #[error("No such trait(s): {0}.")]
    NoSuchTrait(String),
    #[error("No such resource class {0}.")]
    NoSuchClass(String),
    #[error("the database failed")]
    Sql(#[from] SqlError),
}

impl Retryable for ProviderError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry_disposition(error),
            Self::Moved => Disposition::Retry,
            _ => Disposition::Fatal,
        }
    }
}

const SELECT: &str = "SELECT rp.id, rp.uuid, rp.name, rp.generation, root.uuid, parent.uuid, \
     COALESCE(rp.updated_at, rp.created_at) \
     FROM resource_providers rp \
     JOIN resource_providers root ON rp.root_provider_id = root.id \
     LEFT JOIN resource_providers parent ON rp.parent_provider_id = parent.id";

const SELECT_ONE: &str = "SELECT rp.id, rp.uuid, rp.name, rp.generation, root.uuid, parent.uuid, \
     COALESCE(rp.updated_at, rp.created_at) \
     FROM resource_providers rp \
     JOIN resource_providers root ON rp.root_provider_id = root.id \
     LEFT JOIN resource_providers parent ON rp.parent_provider_id = parent.id \
     WHERE rp.uuid = ?";

fn provider(row: &berth_store::Row) -> Result<ProviderRow, SqlError> {
    Ok(ProviderRow {
        id: row.int(0)?,
        uuid: row.text(1)?,
        name: row.opt_text(2)?.unwrap_or_default(),
        generation: row.opt_int(3)?.unwrap_or_default(),
        root_uuid: row.text(4)?,
        parent_uuid: row.opt_text(5)?,
        modified: moment(row, 6)?.unwrap_or_else(SqlTimestamp::now),
    })
}

/// The provider with this uuid.
pub(crate) async fn find(
    tx: &mut Transaction,
    uuid: &str,
) -> Result<Option<ProviderRow>, SqlError> {
    let row = tx.row(Statement::new(SELECT_ONE).bind(uuid)).await?;
    row.as_ref().map(provider).transpose()
}

/// The provider with this uuid, or [`ProviderError::NotFound`].
pub(crate) async fn get(tx: &mut Transaction, uuid: &str) -> Result<ProviderRow, ProviderError> {
    find(tx, uuid)
        .await?
        .ok_or_else(|| ProviderError::NotFound(uuid.to_owned()))
}

/// A provider that the account of a host may not change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "The account of host {host} may change only the providers of its own tree and allocations on them. Resource provider \
     {provider} is in the tree of {root}."
)]
pub(crate) struct HostMismatch {
    pub(crate) host: String,
    /// The UUID of the provider; for a new one its name.
    pub(crate) provider: String,
    /// The name of the root of its tree.
    pub(crate) root: String,
}

/// Why the account of the host may not change the provider; `None` if it may, and for a missing provider.
pub(crate) async fn host_mismatch(
    tx: &mut Transaction,
    uuid: &str,
    host: &str,
) -> Result<Option<HostMismatch>, SqlError> {
    let sql = "SELECT root.name FROM resource_providers rp \
               JOIN resource_providers root ON rp.root_provider_id = root.id WHERE rp.uuid = ?";
    let row = tx.row(Statement::new(sql).bind(uuid)).await?;
    let root = match row {
        None => return Ok(None),
        Some(row) => row.opt_text(0)?.unwrap_or_default(),
    };
    Ok((root != host).then(|| HostMismatch {
        host: host.to_owned(),
        provider: uuid.to_owned(),
        root,
    }))
}

/// Which of these providers are outside the tree of the host.
pub(crate) async fn host_mismatches(
    tx: &mut Transaction,
    ids: &[i64],
    host: &str,
) -> Result<BTreeMap<i64, HostMismatch>, SqlError> {
    let head = Statement::new(
        "SELECT rp.id, rp.uuid, root.name FROM resource_providers rp \
         JOIN resource_providers root ON rp.root_provider_id = root.id WHERE rp.id IN",
    );
    let mut mismatches = BTreeMap::new();
    for row in tx.rows_in(&head, ids, "").await? {
        let root = row.opt_text(2)?.unwrap_or_default();
        if root != host {
            let mismatch = HostMismatch {
                host: host.to_owned(),
                provider: row.text(1)?,
                root,
            };
            mismatches.insert(row.int(0)?, mismatch);
        }
    }
    Ok(mismatches)
}

/// Locks the provider until the transaction ends: no other transaction can change it, delete it, or change what is
/// checked against it. It must be the first statement of a transaction, so that later reads are current. It changes the
/// row, because PostgreSQL would otherwise not tell a waiting transaction that its snapshot is outdated.
pub(crate) async fn hold(tx: &mut Transaction, uuid: &str) -> Result<(), SqlError> {
    if tx.dialect() != Dialect::Sqlite {
        let sql = "UPDATE resource_providers SET generation = generation WHERE uuid = ?";
        tx.execute(Statement::new(sql).bind(uuid)).await?;
    }
    Ok(())
}

/// Raises the generation if it is unchanged since the read; false after a concurrent write.
pub(crate) async fn bump(tx: &mut Transaction, id: i64, generation: i64) -> Result<bool, SqlError> {
    let sql = "UPDATE resource_providers SET updated_at = ?, generation = ? \
               WHERE id = ? AND COALESCE(generation, 0) = ?";
    let statement = Statement::new(sql)
        .bind(now())
        .bind(super::generation_after(generation, 1)?)
        .bind(id)
        .bind(generation);
    Ok(tx.execute(statement).await?.rows_affected == 1)
}

/// All providers that satisfy the filters, oldest first.
pub(crate) async fn list(
    tx: &mut Transaction,
    filters: &ProviderFilters,
) -> Result<Vec<ProviderRow>, ProviderError> {
    let mut found = Conditions::default();
    if let Some(name) = &filters.name {
        found.add("rp.name = ?", [name.as_str()]);
    }
    if let Some(uuid) = &filters.uuid {
        found.add("rp.uuid = ?", [uuid.as_str()]);
    }
    if let Some(uuid) = &filters.in_tree {
        let root = "rp.root_provider_id = \
                    (SELECT root_provider_id FROM resource_providers WHERE uuid = ?)";
        found.add(root, [uuid.as_str()]);
    }
    trait_conditions(tx, filters, &mut found).await?;
    aggregate_conditions(filters, &mut found);
    resource_conditions(tx, filters, &mut found).await?;
    let mut chunks = found.0.chunks(AT_ONCE).map(Chunk);
    let first = chunks.next().unwrap_or(Chunk(&[]));
    let rows = tx.rows(first.statement(SELECT)).await?;
    let providers: Result<Vec<ProviderRow>, SqlError> = rows.iter().map(provider).collect();
    let mut providers = providers?;
    for chunk in chunks {
        let select = "SELECT rp.id FROM resource_providers rp";
        let rows = tx.rows(chunk.statement(select)).await?;
        let ids: Result<BTreeSet<i64>, SqlError> = rows.iter().map(|row| row.int(0)).collect();
        let ids = ids?;
        providers.retain(|provider| ids.contains(&provider.id));
    }
    Ok(providers)
}

/// The maximum number of conditions in one statement. Servers turn each into a join, and optimising dozens of
/// joins takes them forever.
const AT_ONCE: usize = 6;

/// The conditions on a provider `rp`, with their values.
#[derive(Default)]
struct Conditions(Vec<(String, Vec<berth_store::Value>)>);

impl Conditions {
    fn add<V: Into<berth_store::Value>>(
        &mut self,
        sql: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) {
        let values = values.into_iter().map(Into::into).collect();
        self.0.push((sql.into(), values));
    }
}

/// Conditions of one statement.
struct Chunk<'a>(&'a [(String, Vec<berth_store::Value>)]);

impl Chunk<'_> {
    fn statement(&self, select: &str) -> Statement {
        let mut sql = select.to_owned();
        for (index, (condition, _)) in self.0.iter().enumerate() {
            sql.push_str(if index == 0 { " WHERE " } else { " AND " });
            sql.push_str(condition);
        }
        sql.push_str(" ORDER BY rp.id");
        let values = self.0.iter().flat_map(|(_, values)| values.iter().cloned());
        Statement::new(sql).bind_all(values)
    }
}

async fn trait_conditions(
    tx: &mut Transaction,
    filters: &ProviderFilters,
    found: &mut Conditions,
) -> Result<(), ProviderError> {
    let having = |negation: &str, count: usize| {
        format!(
            "rp.id {negation} IN (SELECT resource_provider_id FROM resource_provider_traits \
             WHERE trait_id IN ({}))",
            berth_store::sql::placeholders(count)
        )
    };
    for any_of in &filters.required {
        let ids = trait_ids(tx, any_of).await?;
        found.add(having("", ids.len()), ids);
    }
    if !filters.forbidden_traits.is_empty() {
        let ids = trait_ids(tx, &filters.forbidden_traits).await?;
        found.add(having("NOT", ids.len()), ids);
    }
    Ok(())
}

async fn trait_ids(
    tx: &mut Transaction,
    names: &BTreeSet<String>,
) -> Result<Vec<i64>, ProviderError> {
    let names: Vec<String> = names.iter().cloned().collect();
    let known = traits::ids(tx, &names).await?;
    match names.iter().find(|name| !known.contains_key(*name)) {
        Some(missing) => Err(ProviderError::NoSuchTrait(missing.clone())),
        None => Ok(known.into_values().collect()),
    }
}

fn aggregate_conditions(filters: &ProviderFilters, found: &mut Conditions) {
    let member = |negation: &str, count: usize| {
        format!(
            "rp.id {negation} IN (SELECT ra.resource_provider_id \
             FROM resource_provider_aggregates ra \
             JOIN placement_aggregates a ON a.id = ra.aggregate_id \
             WHERE a.uuid IN ({}))",
            berth_store::sql::placeholders(count)
        )
    };
    for any_of in &filters.member_of {
        found.add(member("", any_of.len()), any_of);
    }
    let forbidden = &filters.forbidden_aggregates;
    if !forbidden.is_empty() {
        found.add(member("NOT", forbidden.len()), forbidden);
    }
}

async fn resource_conditions(
    tx: &mut Transaction,
    filters: &ProviderFilters,
    found: &mut Conditions,
) -> Result<(), ProviderError> {
    for (class, amount) in &filters.resources {
        let id = resource_classes::id(tx, class)
            .await?
            .ok_or_else(|| ProviderError::NoSuchClass(class.clone()))?;
        let ratio = tx.dialect().double("i.allocation_ratio");
        let room = format!(
            "rp.id IN (SELECT i.resource_provider_id FROM inventories i \
             LEFT JOIN (SELECT resource_provider_id, SUM(used) AS used FROM allocations \
             WHERE resource_class_id = ? GROUP BY resource_provider_id) u \
             ON u.resource_provider_id = i.resource_provider_id \
             WHERE i.resource_class_id = ? \
             AND COALESCE(u.used, 0) + ? <= (i.total - i.reserved) * {ratio} \
             AND i.min_unit <= ? AND i.max_unit >= ? AND ? % i.step_size = 0)"
        );
        found.add(room, [id, id, *amount, *amount, *amount, *amount]);
    }
    Ok(())
}

pub(crate) struct CreateProvider {
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) parent: Option<String>,
}

impl Work for CreateProvider {
    type Output = ProviderRow;
    type Error = ProviderError;

    async fn run(&self, tx: &mut Transaction) -> Result<ProviderRow, ProviderError> {
        let parent = match &self.parent {
            None => None,
            Some(uuid) if *uuid == self.uuid => {
                return Err(ProviderError::Create(
                    "parent provider UUID cannot be same as UUID. Please set parent provider \
                     UUID to None if there is no parent.",
                ));
            }
            Some(uuid) => {
                let held = HeldTrees::of(tx, &[uuid]).await?;
                Some(held.parent(tx, uuid).await?)
            }
        };
        refuse_duplicates(tx, &self.uuid, &self.name).await?;
        let sql = "INSERT INTO resource_providers \
                   (created_at, uuid, name, generation, root_provider_id, parent_provider_id) \
                   VALUES (?, ?, ?, 0, ?, ?)";
        let statement = Statement::new(sql)
            .bind(now())
            .bind(&self.uuid)
            .bind(&self.name)
            .bind(parent.as_ref().map(|parent| parent.root))
            .bind(parent.as_ref().map(|parent| parent.id));
        let id = tx.insert(statement, "id").await?;
        if parent.is_none() {
            let sql = "UPDATE resource_providers SET root_provider_id = ? WHERE id = ?";
            tx.execute(Statement::new(sql).bind(id).bind(id)).await?;
        }
        get(tx, &self.uuid).await
    }
}

async fn refuse_duplicates(
    tx: &mut Transaction,
    uuid: &str,
    name: &str,
) -> Result<(), ProviderError> {
    let sql = "SELECT uuid, name FROM resource_providers WHERE uuid = ? OR name = ?";
    let rows = tx.rows(Statement::new(sql).bind(uuid).bind(name)).await?;
    let mut duplicates = Vec::new();
    for row in &rows {
        let is_uuids = row.text(0)?.eq_ignore_ascii_case(uuid);
        // MySQL treats names that differ in case or accents as equal: a row that does not match by UUID matches by
        // name.
        if !is_uuids || row.opt_text(1)?.as_deref() == Some(name) {
            duplicates.push(format!("name: {name}"));
        }
        if is_uuids {
            duplicates.push(format!("uuid: {uuid}"));
        }
    }
    // If both are taken the UUID is reported, like in the Python service.
    match duplicates.pop() {
        None => Ok(()),
        Some(duplicate) => Err(ProviderError::Duplicate(duplicate)),
    }
}

/// Renames a provider and sets its parent.
pub(crate) struct UpdateProvider {
    pub(crate) uuid: String,
    pub(crate) name: String,
    /// `None`: keep the parent.
    pub(crate) parent: Option<Option<String>>,
    pub(crate) reparenting: ReparentingRule,
}

impl Work for UpdateProvider {
    type Output = ProviderRow;
    type Error = ProviderError;

    async fn run(&self, tx: &mut Transaction) -> Result<ProviderRow, ProviderError> {
        let held = match &self.parent {
            None => None,
            Some(parent) => {
                let mut uuids = vec![self.uuid.as_str()];
                uuids.extend(parent.as_deref());
                Some(HeldTrees::of(tx, &uuids).await?)
            }
        };
        hold(tx, &self.uuid).await?;
        let provider = get(tx, &self.uuid).await?;
        if let (Some(held), Some(parent)) = (&held, &self.parent) {
            let parent = parent.as_deref();
            place::set_parent(tx, held, &self.uuid, parent, self.reparenting).await?;
        }
        let sql = "SELECT 1 FROM resource_providers WHERE name = ? AND id <> ?";
        let taken = Statement::new(sql).bind(&self.name).bind(provider.id);
        if tx.row(taken).await?.is_some() {
            return Err(ProviderError::Duplicate(self.name.clone()));
        }
        let sql = "UPDATE resource_providers SET updated_at = ?, name = ? WHERE id = ?";
        let rename = Statement::new(sql)
            .bind(now())
            .bind(&self.name)
            .bind(provider.id);
        tx.execute(rename).await?;
        get(tx, &self.uuid).await
    }
}

/// Removes a provider with its inventories, traits and aggregates.
pub(crate) struct DeleteProvider {
    pub(crate) uuid: String,
}

impl Work for DeleteProvider {
    type Output = ();
    type Error = ProviderError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ProviderError> {
        hold(tx, &self.uuid).await?;
        let id = get(tx, &self.uuid).await?.id;
        let children = "SELECT 1 FROM resource_providers WHERE parent_provider_id = ? LIMIT 1";
        if tx.row(Statement::new(children).bind(id)).await?.is_some() {
            return Err(ProviderError::HasChildren);
        }
        let users = "SELECT 1 FROM allocations WHERE resource_provider_id = ? LIMIT 1";
        if tx.row(Statement::new(users).bind(id)).await?.is_some() {
            return Err(ProviderError::InUse);
        }
        for sql in [
            "DELETE FROM inventories WHERE resource_provider_id = ?",
            "DELETE FROM resource_provider_aggregates WHERE resource_provider_id = ?",
            "DELETE FROM resource_provider_traits WHERE resource_provider_id = ?",
            "UPDATE resource_providers SET root_provider_id = NULL WHERE id = ?",
            "DELETE FROM resource_providers WHERE id = ?",
        ] {
            tx.execute(Statement::new(sql).bind(id)).await?;
        }
        Ok(())
    }
}

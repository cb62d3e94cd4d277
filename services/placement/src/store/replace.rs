//! The write of allocations: PUT and POST /allocations, and POST /reshaper.
//!
//! One transaction for everything. It reads all that is named in a few statements, decides in
//! memory (`ledger`), and writes what differs (`changes`) in batches. Projects, users, types and consumers are made in it
//! too, so a refused call leaves no row behind.

mod changes;
mod read;

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{Disposition, Retryable, SqlError, Statement, Transaction, Value, Work};

use super::consumers::{self, Owner, Registry};
use super::{inventories, now};
use crate::inventory::Inventory;
use crate::ledger::{ClassId, Ledger, ProviderId};
use changes::Changes;
use read::Read;

/// The generation of a consumer that a caller expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedGeneration {
    /// Before 1.28: any.
    Any,
    /// The consumer must not be there.
    Absent,
    /// The consumer must be at this generation.
    At(i64),
}

/// One consumer and all it is to hold.
#[derive(Debug, Clone)]
pub(crate) struct Wanting {
    pub(crate) consumer: String,
    pub(crate) project: String,
    pub(crate) user: String,
    pub(crate) generation: ExpectedGeneration,
    /// `None`: leave the type as it is.
    pub(crate) consumer_type: Option<String>,
    /// Provider uuid, then class and amount. Empty: the consumer gives all back.
    pub(crate) allocations: Vec<(String, Vec<(String, i64)>)>,
}

/// One provider and all it is to have.
#[derive(Debug, Clone)]
pub(crate) struct Reshaped {
    pub(crate) provider: String,
    pub(crate) generation: i64,
    pub(crate) inventories: BTreeMap<String, Inventory>,
}

/// Replaces the allocations of the named consumers, and the inventories of the named providers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replace {
    /// Empty in a claim.
    pub(crate) providers: Vec<Reshaped>,
    pub(crate) consumers: Vec<Wanting>,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error(
        "Resource provider {0} in inventories not found: No resource provider with uuid {0} found"
    )]
    NoSuchInventoryProvider(String),
    #[error(
        "resource provider generation conflict for provider {provider}: actual: {actual}, given: {given}"
    )]
    ProviderGeneration {
        provider: String,
        actual: i64,
        given: i64,
    },
    #[error("consumer generation conflict - expected {expected} but got {got}")]
    ConsumerGeneration { expected: String, got: String },
    #[error("Allocation for resource provider '{0}' that does not exist.")]
    NoSuchProvider(String),
    #[error("No such resource class {0}.")]
    NoSuchClass(String),
    #[error("Inventory for '{classes}' on resource provider '{provider}' invalid.")]
    NoInventory { classes: String, provider: String },
    #[error(
        "Unable to create allocation for '{class}' on resource provider '{provider}'. The requested amount would violate inventory constraints."
    )]
    Constraints { class: String, provider: String },
    #[error(
        "Unable to create allocation for '{class}' on resource provider '{provider}'. The requested amount would exceed the capacity."
    )]
    Capacity { class: String, provider: String },
    #[error("Inventory for '{classes}' on resource provider '{provider}' in use.")]
    InUse { classes: String, provider: String },
    #[error(
        "Another thread concurrently updated the resource provider data. Please retry your update"
    )]
    ConcurrentUpdate,
    #[error("the database failed")]
    Sql(#[from] SqlError),
}

impl Retryable for ReplaceError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry(error),
            // The whole transaction again, reads included: never a second look inside it.
            Self::ConcurrentUpdate => Disposition::Retry,
            _ => Disposition::Fatal,
        }
    }
}

impl Work for Replace {
    /// The providers that inventories or allocations were read of: no other can have been touched.
    type Output = Vec<ProviderId>;
    type Error = ReplaceError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<ProviderId>, ReplaceError> {
        let read = self.read(tx).await?;
        let ledger = self.ledger(tx, &read).await?;
        if let Err(refusal) = ledger.check() {
            return Err(read.explain(tx, &ledger, refusal).await?);
        }
        self.write_consumers(tx, &read).await?;
        self.write_allocations(tx, &read, &ledger).await?;
        write_inventories(tx, &ledger).await?;
        self.raise_providers(tx, &read, &ledger).await?;
        Ok(read.touched().into_iter().collect())
    }
}

impl Replace {
    async fn write_consumers(&self, tx: &mut Transaction, read: &Read) -> Result<(), ReplaceError> {
        let staying = || {
            self.consumers
                .iter()
                .filter(|one| !one.allocations.is_empty())
        };
        let names = |pick: fn(&Wanting) -> Option<&String>| {
            staying().filter_map(pick).cloned().collect::<BTreeSet<_>>()
        };
        let projects = names(|one| Some(&one.project));
        let projects = consumers::ensure(tx, Registry::Projects, &projects).await?;
        let users = names(|one| Some(&one.user));
        let users = consumers::ensure(tx, Registry::Users, &users).await?;
        let types = names(|one| one.consumer_type.as_ref());
        let types = consumers::ensure(tx, Registry::ConsumerTypes, &types).await?;
        let (mut made, mut changed) = (Vec::new(), Vec::new());
        for wanting in staying() {
            let row = read.consumers.get(&wanting.consumer);
            let id = |of: &BTreeMap<String, i64>, name: &String| {
                of.get(name).copied().ok_or(ReplaceError::ConcurrentUpdate)
            };
            let owner = Owner {
                project: id(&projects, &wanting.project)?,
                user: id(&users, &wanting.user)?,
                consumer_type: match &wanting.consumer_type {
                    Some(name) => Some(id(&types, name)?),
                    None => row.and_then(|row| row.owner.consumer_type),
                },
            };
            match row {
                None => made.push((wanting.consumer.as_str(), owner)),
                Some(row) => changed.push((*row, owner)),
            }
        }
        consumers::insert(tx, &made).await?;
        if !consumers::update(tx, &changed).await? {
            return Err(ReplaceError::ConcurrentUpdate);
        }
        Ok(())
    }

    async fn write_allocations(
        &self,
        tx: &mut Transaction,
        read: &Read,
        ledger: &Ledger,
    ) -> Result<(), ReplaceError> {
        let changes = self.changes(read, ledger);
        for (provider, ids) in &changes.moved {
            let head = Statement::new(
                "UPDATE allocations SET updated_at = ?, resource_provider_id = ? WHERE id IN",
            );
            let head = head.bind(now()).bind(*provider);
            all_of(ids, tx.execute_in(&head, ids).await?)?;
        }
        let head = Statement::new("DELETE FROM allocations WHERE id IN");
        let gone = tx.execute_in(&head, &changes.dropped).await?;
        all_of(&changes.dropped, gone)?;
        let created_at = now();
        let rows = changes.added.iter().map(|(consumer, wanted)| {
            [
                created_at.clone(),
                Value::from(wanted.slot.0),
                Value::from(*consumer),
                Value::from(wanted.slot.1),
                Value::from(wanted.amount),
            ]
        });
        let head = "INSERT INTO allocations \
                    (created_at, resource_provider_id, consumer_id, resource_class_id, used) VALUES";
        tx.insert_rows(head, rows.collect(), "").await?;
        let gone: Vec<i64> = self
            .consumers
            .iter()
            .filter(|wanting| wanting.allocations.is_empty())
            .filter_map(|wanting| read.consumers.get(&wanting.consumer))
            .map(|row| row.id)
            .collect();
        Ok(consumers::delete(tx, &gone).await?)
    }

    fn changes(&self, read: &Read, ledger: &Ledger) -> Changes<'_> {
        let mut changes = Changes::default();
        // `wanted` was made from the consumers in this same order.
        let mut wanted = ledger.wanted.as_slice();
        for wanting in &self.consumers {
            let (own, rest) = wanted.split_at(wanting.classes().count());
            changes.add(&wanting.consumer, read.held_by(&wanting.consumer), own);
            wanted = rest;
        }
        changes
    }

    /// Raises the generation of every touched provider, by as much as OpenStack's service does:
    /// once for allocations, once for an interim and once for the final inventories.
    async fn raise_providers(
        &self,
        tx: &mut Transaction,
        read: &Read,
        ledger: &Ledger,
    ) -> Result<(), ReplaceError> {
        let mut steps: BTreeMap<ProviderId, i64> = BTreeMap::new();
        for (provider, inventories) in &ledger.reshaped {
            steps.insert(*provider, if inventories.is_empty() { 1 } else { 2 });
        }
        let allocated: BTreeSet<ProviderId> = ledger
            .wanted
            .iter()
            .map(|wanted| wanted.slot.0)
            .chain(read.emptied.keys().copied())
            .collect();
        for provider in allocated {
            *steps.entry(provider).or_default() += 1;
        }
        let mut generations = read.emptied.clone();
        generations.extend(read.providers.values().copied());
        let mut alike: BTreeMap<(i64, i64), Vec<ProviderId>> = BTreeMap::new();
        for (provider, step) in steps {
            let generation = generations.get(&provider).copied().unwrap_or_default();
            alike.entry((generation, step)).or_default().push(provider);
        }
        for ((generation, step), ids) in alike {
            let head = Statement::new(
                "UPDATE resource_providers SET updated_at = ?, generation = ? \
                 WHERE generation = ? AND id IN",
            )
            .bind(now())
            .bind(super::raised(generation, step)?)
            .bind(generation);
            all_of(&ids, tx.execute_in(&head, &ids).await?)?;
        }
        Ok(())
    }
}

/// Whether a statement found all its rows as they were read.
fn all_of(ids: &[i64], found: u64) -> Result<(), ReplaceError> {
    if u64::try_from(ids.len()) == Ok(found) {
        Ok(())
    } else {
        Err(ReplaceError::ConcurrentUpdate)
    }
}

impl Wanting {
    fn classes(&self) -> impl Iterator<Item = &String> {
        self.allocations
            .iter()
            .flat_map(|(_, resources)| resources.iter().map(|(class, _)| class))
    }
}

async fn write_inventories(tx: &mut Transaction, ledger: &Ledger) -> Result<(), SqlError> {
    let mut added = Vec::new();
    for (provider, wanted) in &ledger.reshaped {
        let present = |class: ClassId| ledger.inventories.get(&(*provider, class));
        let dropped: Vec<ClassId> = ledger
            .inventories
            .range((*provider, ClassId::MIN)..=(*provider, ClassId::MAX))
            .map(|((_, class), _)| *class)
            .filter(|class| !wanted.contains_key(class))
            .collect();
        inventories::delete(tx, *provider, &dropped).await?;
        for (class, inventory) in wanted {
            match present(*class) {
                None => added.push((*provider, *class, *inventory)),
                Some(same) if same == inventory => {}
                Some(_) => {
                    inventories::update(tx, *provider, *class, inventory).await?;
                }
            }
        }
    }
    inventories::insert(tx, &added).await
}

//! Writes accepted allocations in batches.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{SqlError, Statement, Transaction, Value};

use super::changes::AllocationChanges;
use super::read::NamedObjects;
use super::{DesiredAllocations, Replace, ReplaceError};
use crate::ledger::{AllocationLedger, ClassId, ProviderId, RequestedAmount};
use crate::store::consumers::{self, ConsumerOwner, ConsumerRow, NameTable};
use crate::store::{generation_after, inventories, now};

#[derive(Debug, Default)]
pub(super) struct AcceptedWrites<'a> {
    consumers: Vec<&'a DesiredAllocations>,
    /// Their desired allocations, in the same order.
    wanted: Vec<RequestedAmount>,
    /// How often the generation of each provider is raised. Like OpenStack's service: once for allocations, once for
    /// interim and once for final inventories.
    steps: BTreeMap<ProviderId, i64>,
}

impl<'a> AcceptedWrites<'a> {
    /// Adds a write that the ledger accepted.
    pub(super) fn add(
        &mut self,
        replace: &'a Replace,
        read: &NamedObjects,
        ledger: &AllocationLedger,
    ) {
        self.consumers.extend(&replace.consumers);
        self.wanted.extend(&ledger.wanted);
        for (provider, inventories) in &ledger.reshaped {
            *self.steps.entry(*provider).or_default() += if inventories.is_empty() { 1 } else { 2 };
        }
        let gives_all_back = |desired: &&DesiredAllocations| desired.allocations.is_empty();
        let emptied = replace.consumers.iter().filter(gives_all_back);
        let emptied = emptied.flat_map(|desired| read.held_by(&desired.consumer));
        let wanted = ledger.wanted.iter().map(|wanted| wanted.slot.0);
        let allocated: BTreeSet<ProviderId> = wanted.chain(emptied.map(|row| row.slot.0)).collect();
        for provider in allocated {
            *self.steps.entry(provider).or_default() += 1;
        }
    }

    /// The providers with possibly changed inventories or allocations.
    pub(super) fn touched(&self, read: &NamedObjects) -> Vec<ProviderId> {
        let held = self.consumers.iter().map(|it| read.held_by(&it.consumer));
        let held = held.flatten().map(|row| row.slot.0);
        let all: BTreeSet<ProviderId> = held.chain(self.steps.keys().copied()).collect();
        all.into_iter().collect()
    }

    /// Writes everything. The inventories are those of the ledger's reshape.
    pub(super) async fn write(
        &self,
        tx: &mut Transaction,
        read: &NamedObjects,
        ledger: &AllocationLedger,
    ) -> Result<(), ReplaceError> {
        self.write_consumers(tx, read).await?;
        self.write_allocations(tx, read).await?;
        write_inventories(tx, ledger).await?;
        self.raise_providers(tx, read).await
    }

    fn staying(&self) -> impl Iterator<Item = &'a DesiredAllocations> {
        let all = self.consumers.iter().copied();
        all.filter(|desired| !desired.allocations.is_empty())
    }

    async fn write_consumers(
        &self,
        tx: &mut Transaction,
        read: &NamedObjects,
    ) -> Result<(), ReplaceError> {
        let names = |pick: fn(&DesiredAllocations) -> Option<&String>| {
            self.staying()
                .filter_map(pick)
                .cloned()
                .collect::<BTreeSet<_>>()
        };
        let projects = names(|one| Some(&one.project));
        let projects = consumers::ensure(tx, NameTable::Projects, &projects).await?;
        let users = names(|one| Some(&one.user));
        let users = consumers::ensure(tx, NameTable::Users, &users).await?;
        let types = names(|one| one.consumer_type.as_ref());
        let types = consumers::ensure(tx, NameTable::ConsumerTypes, &types).await?;
        let (mut made, mut changed) = (Vec::new(), Vec::new());
        for desired in self.staying() {
            let row = read.consumers.get(&desired.consumer);
            let id = |of: &BTreeMap<String, i64>, name: &String| {
                of.get(name).copied().ok_or(ReplaceError::ConcurrentUpdate)
            };
            let owner = ConsumerOwner {
                project: id(&projects, &desired.project)?,
                user: id(&users, &desired.user)?,
                consumer_type: match &desired.consumer_type {
                    Some(name) => Some(id(&types, name)?),
                    None => row.and_then(|row| row.owner.consumer_type),
                },
            };
            match row {
                None => made.push((desired.consumer.as_str(), owner)),
                Some(row) => changed.push((*row, owner)),
            }
        }
        consumers::insert(tx, &made).await?;
        let going = self.consumers.iter();
        let going = going.filter(|desired| desired.allocations.is_empty());
        let going: Vec<ConsumerRow> = going
            .filter_map(|desired| read.consumers.get(&desired.consumer).copied())
            .collect();
        // Consumers first: this locks them before their allocations change.
        if !consumers::update(tx, &changed).await? || !consumers::delete(tx, &going).await? {
            return Err(ReplaceError::ConcurrentUpdate);
        }
        Ok(())
    }

    async fn write_allocations(
        &self,
        tx: &mut Transaction,
        read: &NamedObjects,
    ) -> Result<(), ReplaceError> {
        let changes = self.changes(read);
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
        Ok(())
    }

    fn changes(&self, read: &NamedObjects) -> AllocationChanges<'a> {
        let mut changes = AllocationChanges::default();
        let mut wanted = self.wanted.as_slice();
        for desired in &self.consumers {
            let (own, rest) = wanted.split_at(desired.classes().count());
            changes.add(&desired.consumer, read.held_by(&desired.consumer), own);
            wanted = rest;
        }
        changes
    }

    async fn raise_providers(
        &self,
        tx: &mut Transaction,
        read: &NamedObjects,
    ) -> Result<(), ReplaceError> {
        let mut generations = read.emptied.clone();
        generations.extend(read.providers.values().copied());
        let mut alike: BTreeMap<(i64, i64), Vec<ProviderId>> = BTreeMap::new();
        for (provider, step) in &self.steps {
            let generation = generations.get(provider).copied().unwrap_or_default();
            alike
                .entry((generation, *step))
                .or_default()
                .push(*provider);
        }
        for ((generation, step), ids) in alike {
            let head = Statement::new(
                "UPDATE resource_providers SET updated_at = ?, generation = ? \
                 WHERE COALESCE(generation, 0) = ? AND id IN",
            )
            .bind(now())
            .bind(generation_after(generation, step)?)
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

async fn write_inventories(
    tx: &mut Transaction,
    ledger: &AllocationLedger,
) -> Result<(), SqlError> {
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

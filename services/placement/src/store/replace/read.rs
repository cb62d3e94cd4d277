//! Reads everything that a write of allocations needs to decide, in a few statements.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{Row, SqlError, Statement, Transaction};

use super::changes::HeldRow;
use super::{DesiredAllocations, ExpectedGeneration, Replace, ReplaceError};
use crate::inventory::InventoryRecord;
use crate::ledger::{
    AllocationLedger, ClassId, LedgerRefusal, ProviderClass, ProviderId, RequestedAmount,
};
use crate::store::consumers::{self, ConsumerRow};
use crate::store::providers::{self, HostMismatch};
use crate::store::{inventories, resource_classes};

/// The named rows as they are.
pub(super) struct NamedObjects {
    pub(super) providers: BTreeMap<String, (ProviderId, i64)>,
    classes: BTreeMap<String, ClassId>,
    pub(super) consumers: BTreeMap<String, ConsumerRow>,
    /// The rows of the named consumers.
    held: BTreeMap<String, Vec<HeldRow>>,
    /// Generations of providers that are touched only because a consumer gives all back.
    pub(super) emptied: BTreeMap<ProviderId, i64>,
}

impl NamedObjects {
    /// Reads all named objects, and builds a ledger from them.
    pub(super) async fn of(
        tx: &mut Transaction,
        replaces: &[&Replace],
    ) -> Result<(Self, AllocationLedger), SqlError> {
        let providers = read_providers(tx, replaces).await?;
        let consumers = replaces.iter().flat_map(|it| &it.consumers);
        let uuids: Vec<String> = consumers.map(|one| one.consumer.clone()).collect();
        let consumers = consumers::find(tx, &uuids).await?;
        let classes = read_classes(tx, replaces).await?;
        let existing: Vec<String> = consumers.keys().cloned().collect();
        let held = read_held(tx, &existing).await?;
        let emptied = read_emptied(tx, replaces, &held).await?;
        let touched: Vec<ProviderId> = providers.values().map(|(id, _)| *id).collect();
        let ledger = AllocationLedger {
            inventories: read_inventories(tx, &touched).await?,
            usage: read_usage(tx, &touched).await?,
            ..AllocationLedger::default()
        };
        let read = Self {
            providers,
            classes,
            consumers,
            held,
            emptied,
        };
        Ok((read, ledger))
    }
}

impl Replace {
    /// Adds a write to the ledger, if everything it names exists with the given generations. Pure.
    pub(super) fn enter(
        &self,
        read: &NamedObjects,
        ledger: &mut AllocationLedger,
    ) -> Result<(), ReplaceError> {
        self.check_providers(&read.providers)?;
        self.check_consumers(&read.consumers)?;
        for desired in &self.consumers {
            for (provider, _) in &desired.allocations {
                if !read.providers.contains_key(provider) {
                    return Err(ReplaceError::NoSuchProvider(provider.clone()));
                }
            }
        }
        if let Some(missing) = self
            .classes()
            .find(|name| !read.classes.contains_key(*name))
        {
            return Err(ReplaceError::NoSuchClass(missing.clone()));
        }
        ledger.released = read.released(&self.consumers);
        ledger.reshaped.clear();
        ledger.wanted.clear();
        for reshaped in &self.providers {
            let inventories = reshaped
                .inventories
                .iter()
                .map(|(class, inventory)| (read.class(class), *inventory));
            let provider = read.provider(&reshaped.provider);
            ledger.reshaped.insert(provider, inventories.collect());
        }
        for desired in &self.consumers {
            for (provider, resources) in &desired.allocations {
                for (class, amount) in resources {
                    ledger.wanted.push(RequestedAmount {
                        slot: (read.provider(provider), read.class(class)),
                        amount: *amount,
                    });
                }
            }
        }
        Ok(())
    }

    /// The resource classes that it names.
    fn classes(&self) -> impl Iterator<Item = &String> {
        let inventories = self.providers.iter().map(|it| &it.inventories);
        let all: BTreeSet<&String> = inventories
            .flat_map(BTreeMap::keys)
            .chain(self.consumers.iter().flat_map(DesiredAllocations::classes))
            .collect();
        all.into_iter()
    }

    fn check_providers(
        &self,
        known: &BTreeMap<String, (ProviderId, i64)>,
    ) -> Result<(), ReplaceError> {
        for reshaped in &self.providers {
            let provider = &reshaped.provider;
            let (_, actual) = known
                .get(provider)
                .ok_or_else(|| ReplaceError::NoSuchInventoryProvider(provider.clone()))?;
            if *actual != reshaped.generation {
                return Err(ReplaceError::ProviderGeneration {
                    provider: provider.clone(),
                    actual: *actual,
                    given: reshaped.generation,
                });
            }
        }
        Ok(())
    }

    fn check_consumers(&self, known: &BTreeMap<String, ConsumerRow>) -> Result<(), ReplaceError> {
        for desired in &self.consumers {
            let actual = known.get(&desired.consumer).map(|row| row.generation);
            if !desired.generation.admits(actual) {
                let got = match desired.generation {
                    ExpectedGeneration::At(given) => given.to_string(),
                    ExpectedGeneration::Any | ExpectedGeneration::Absent => "None".to_owned(),
                };
                let expected = actual.map_or("null".to_owned(), |actual| actual.to_string());
                return Err(ReplaceError::ConsumerGeneration { expected, got });
            }
        }
        Ok(())
    }
}

impl NamedObjects {
    /// The id of a provider that was checked to be there.
    fn provider(&self, uuid: &str) -> ProviderId {
        self.providers
            .get(uuid)
            .map(|(id, _)| *id)
            .unwrap_or_default()
    }

    /// The current allocations of a named consumer.
    pub(super) fn held_by(&self, consumer: &str) -> &[HeldRow] {
        self.held.get(consumer).map_or(&[], Vec::as_slice)
    }

    /// The sum of the current allocations of these consumers.
    fn released(&self, consumers: &[DesiredAllocations]) -> BTreeMap<ProviderClass, i64> {
        let mut released = BTreeMap::new();
        let held = consumers.iter().map(|it| self.held_by(&it.consumer));
        for row in held.flatten() {
            let sum: &mut i64 = released.entry(row.slot).or_default();
            *sum = sum.saturating_add(row.used);
        }
        released
    }

    /// Why the account of a host may not make this change; `None` if it may.
    pub(super) async fn host_refusal(
        &self,
        tx: &mut Transaction,
        replace: &Replace,
    ) -> Result<Option<ReplaceError>, SqlError> {
        let Some(host) = &replace.only_host else {
            return Ok(None);
        };
        if let Some(mismatch) = self.host_mismatch(tx, replace, host).await? {
            return Ok(Some(ReplaceError::OtherHost(mismatch)));
        }
        let changed = self.changed_owner(tx, replace).await?;
        Ok(changed.map(|consumer| ReplaceError::OwnerByHost {
            host: host.clone(),
            consumer,
        }))
    }

    /// The first consumer that would get another project or user. A consumer that is not at the expected generation does
    /// not count: the write is refused as a conflict, and its writer reads the consumer again.
    async fn changed_owner(
        &self,
        tx: &mut Transaction,
        replace: &Replace,
    ) -> Result<Option<String>, SqlError> {
        let staying = replace.consumers.iter();
        let staying = staying.filter(|desired| !desired.allocations.is_empty());
        let staying: Vec<(i64, &DesiredAllocations)> = staying
            .filter_map(|desired| {
                let row = self.consumers.get(&desired.consumer)?;
                let is_expected = desired.generation.admits(Some(row.generation));
                is_expected.then_some((row.id, desired))
            })
            .collect();
        let ids: Vec<i64> = staying.iter().map(|(id, _)| *id).collect();
        let owners = consumers::owner_names(tx, &ids).await?;
        for (id, desired) in staying {
            let stays = owners.get(&id).is_some_and(|(project, user)| {
                *project == desired.project && *user == desired.user
            });
            if !stays {
                return Ok(Some(desired.consumer.clone()));
            }
        }
        Ok(None)
    }

    /// What the change does outside the tree of the host. What a consumer holds there must stay as it is, and a consumer
    /// that holds nothing in the tree is another host's.
    async fn host_mismatch(
        &self,
        tx: &mut Transaction,
        replace: &Replace,
        host: &str,
    ) -> Result<Option<HostMismatch>, SqlError> {
        let held = replace
            .consumers
            .iter()
            .map(|it| self.held_by(&it.consumer));
        let held = held.flatten().map(|row| row.slot.0);
        let named = self.providers.values().map(|(id, _)| *id);
        let ids: BTreeSet<ProviderId> = held.chain(named).collect();
        let ids: Vec<ProviderId> = ids.into_iter().collect();
        let mut others = providers::host_mismatches(tx, &ids, host).await?;
        for reshaped in &replace.providers {
            if let Some(mismatch) = others.remove(&self.provider(&reshaped.provider)) {
                return Ok(Some(mismatch));
            }
        }
        for desired in &replace.consumers {
            let held = self.held_by(&desired.consumer);
            let kept: BTreeMap<ProviderClass, i64> = held
                .iter()
                .filter(|row| others.contains_key(&row.slot.0))
                .map(|row| (row.slot, row.used))
                .collect();
            let wanted: BTreeMap<ProviderClass, i64> = desired
                .allocations
                .iter()
                .map(|(provider, resources)| (self.provider(provider), resources))
                .filter(|(provider, _)| others.contains_key(provider))
                .flat_map(|(provider, resources)| {
                    let slots = resources.iter();
                    slots.map(move |(class, used)| ((provider, self.class(class)), *used))
                })
                .collect();
            let is_of_others = !held.is_empty() && kept.len() == held.len();
            let slot = kept.keys().chain(wanted.keys()).next();
            if let Some((provider, _)) = slot.filter(|_| is_of_others || kept != wanted) {
                return Ok(others.remove(provider));
            }
        }
        Ok(None)
    }

    /// The id of a class that was checked to be there.
    fn class(&self, name: &str) -> ClassId {
        self.classes.get(name).copied().unwrap_or_default()
    }

    /// The refusal with names for ids.
    pub(super) async fn explain(
        &self,
        tx: &mut Transaction,
        ledger: &AllocationLedger,
        refusal: LedgerRefusal,
    ) -> Result<ReplaceError, SqlError> {
        let (provider, classes) = match &refusal {
            LedgerRefusal::NoInventoryAtAll(provider) => {
                let wanted = ledger.wanted.iter().map(|wanted| wanted.slot.1);
                (*provider, wanted.collect::<BTreeSet<_>>())
            }
            LedgerRefusal::NoInventory(slot)
            | LedgerRefusal::Constraints(slot)
            | LedgerRefusal::Capacity(slot) => (slot.0, BTreeSet::from([slot.1])),
            LedgerRefusal::InUse(provider, classes) => {
                (*provider, classes.iter().copied().collect())
            }
        };
        let provider = self.provider_uuid(provider);
        let classes = class_names(tx, classes).await?;
        Ok(match refusal {
            LedgerRefusal::NoInventoryAtAll(_) | LedgerRefusal::NoInventory(_) => {
                ReplaceError::NoInventory { classes, provider }
            }
            LedgerRefusal::Constraints(_) => ReplaceError::Constraints {
                class: classes,
                provider,
            },
            LedgerRefusal::Capacity(_) => ReplaceError::Capacity {
                class: classes,
                provider,
            },
            LedgerRefusal::InUse(..) => ReplaceError::InUse { classes, provider },
        })
    }

    fn provider_uuid(&self, id: ProviderId) -> String {
        let known = self.providers.iter().find(|(_, (known, _))| *known == id);
        known.map(|(uuid, _)| uuid.clone()).unwrap_or_default()
    }
}

async fn read_providers(
    tx: &mut Transaction,
    replaces: &[&Replace],
) -> Result<BTreeMap<String, (ProviderId, i64)>, SqlError> {
    let named = replaces.iter().flat_map(|it| {
        let reshaped = it.providers.iter().map(|reshaped| &reshaped.provider);
        let wanted = it.consumers.iter().flat_map(|it| &it.allocations);
        reshaped.chain(wanted.map(|(uuid, _)| uuid))
    });
    let named: BTreeSet<&String> = named.collect();
    let keys: Vec<String> = named.into_iter().cloned().collect();
    let head = Statement::new("SELECT uuid, id, generation FROM resource_providers WHERE uuid IN");
    let rows = tx.rows_in(&head, &keys, "").await?;
    rows.iter()
        .map(|row| {
            let generation = row.opt_int(2)?.unwrap_or_default();
            Ok((row.text(0)?, (row.int(1)?, generation)))
        })
        .collect()
}

/// The ids of the named classes. Those of a reshape are locked against deletion.
async fn read_classes(
    tx: &mut Transaction,
    replaces: &[&Replace],
) -> Result<BTreeMap<String, ClassId>, SqlError> {
    let named: BTreeSet<&String> = replaces.iter().flat_map(|it| it.classes()).collect();
    let keys: Vec<String> = named.into_iter().cloned().collect();
    if replaces.iter().any(|it| !it.providers.is_empty()) {
        resource_classes::keep(tx, &keys).await?;
    }
    resource_classes::ids(tx, &keys).await
}

/// The generations of providers that consumers release completely.
async fn read_emptied(
    tx: &mut Transaction,
    replaces: &[&Replace],
    held: &BTreeMap<String, Vec<HeldRow>>,
) -> Result<BTreeMap<ProviderId, i64>, SqlError> {
    let giving_back = replaces
        .iter()
        .flat_map(|it| &it.consumers)
        .filter(|desired| desired.allocations.is_empty())
        .filter_map(|desired| held.get(&desired.consumer));
    let emptied: BTreeSet<ProviderId> = giving_back.flatten().map(|row| row.slot.0).collect();
    let emptied: Vec<ProviderId> = emptied.into_iter().collect();
    let head = Statement::new("SELECT id, generation FROM resource_providers WHERE id IN");
    let rows = tx.rows_in(&head, &emptied, "").await?;
    rows.iter()
        .map(|row| Ok((row.int(0)?, row.opt_int(1)?.unwrap_or_default())))
        .collect()
}

async fn class_names(tx: &mut Transaction, ids: BTreeSet<ClassId>) -> Result<String, SqlError> {
    let ids: Vec<ClassId> = ids.into_iter().collect();
    let head = Statement::new("SELECT name FROM resource_classes WHERE id IN");
    let rows = tx.rows_in(&head, &ids, "ORDER BY id").await?;
    let names: Result<Vec<String>, SqlError> = rows.iter().map(|row| row.text(0)).collect();
    Ok(names?.join(", "))
}

async fn read_held(
    tx: &mut Transaction,
    consumers: &[String],
) -> Result<BTreeMap<String, Vec<HeldRow>>, SqlError> {
    let columns = "consumer_id, id, resource_provider_id, resource_class_id, used";
    let packed = tx.dialect().packed(columns);
    let head = Statement::recurring(format!(
        "SELECT {packed} FROM allocations WHERE consumer_id IN"
    ));
    let mut held: BTreeMap<String, Vec<HeldRow>> = BTreeMap::new();
    for rows in tx.rows_in(&head, consumers, "").await? {
        for (consumer, id, provider, class, used) in rows.unpack::<(String, _, _, _, _)>(0)? {
            held.entry(consumer).or_default().push(HeldRow {
                id,
                slot: (provider, class),
                used,
            });
        }
    }
    Ok(held)
}

async fn read_inventories(
    tx: &mut Transaction,
    providers: &[ProviderId],
) -> Result<BTreeMap<ProviderClass, InventoryRecord>, SqlError> {
    let sql = format!(
        "SELECT i.resource_provider_id, i.resource_class_id, {} FROM inventories i \
         WHERE i.resource_provider_id IN",
        inventories::columns(tx.dialect())
    );
    let head = Statement::recurring(sql);
    let rows = tx.rows_in(&head, providers, "").await?;
    let inventory = |row: &Row| {
        let slot = (row.int(0)?, row.int(1)?);
        Ok((slot, inventories::inventory_at(row, 2)?))
    };
    rows.iter().map(inventory).collect()
}

async fn read_usage(
    tx: &mut Transaction,
    providers: &[ProviderId],
) -> Result<BTreeMap<ProviderClass, i64>, SqlError> {
    let head = Statement::new(
        "SELECT resource_provider_id, resource_class_id, SUM(used) FROM allocations \
         WHERE resource_provider_id IN",
    );
    let tail = "GROUP BY resource_provider_id, resource_class_id";
    let rows = tx.rows_in(&head, providers, tail).await?;
    let used = |row: &Row| Ok(((row.int(0)?, row.int(1)?), row.int(2)?));
    rows.iter().map(used).collect()
}

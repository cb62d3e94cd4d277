//! Reads Placement's rows by SQL, beneath its API. The built-in and the real service share OpenStack's schema, so the
//! rows are the same. Tests compare these values, and the audit checks them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_invariants::{self as invariants, PlacementSnapshot};
use berth_model::{
    AllocationRatio, Generation, Inventory, Provider, ProviderName, ProviderTree, ProviderUuid,
};
use berth_store::{SqlStore, Statement, Transaction};
use serde::Serialize;

use crate::peer::RealPlacement;

/// A database that Placement's rows can be read from.
pub enum Rows<'a> {
    BuiltIn(&'a SqlStore),
    Real(&'a RealPlacement),
}

/// All that Placement holds, by name where there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PlacementRows {
    pub providers: BTreeMap<String, ProviderRow>,
    /// By UUID; a consumer with allocations but without a row has no generation.
    pub consumers: BTreeMap<String, ConsumerRow>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProviderRow {
    pub uuid: String,
    pub parent: Option<String>,
    pub root: String,
    pub generation: i64,
    /// By class: `total reserved min_unit max_unit step_size allocation_ratio`.
    pub inventories: BTreeMap<String, String>,
    pub traits: BTreeSet<String>,
    pub aggregates: BTreeSet<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ConsumerRow {
    pub project: String,
    pub user: String,
    /// Its type; empty where none was given.
    pub kind: String,
    pub generation: Option<i64>,
    /// By `PROVIDER CLASS`.
    pub holds: BTreeMap<String, u64>,
}

const PROVIDERS: &str = "SELECT p.name, p.uuid, coalesce(up.name, ''), coalesce(r.name, ''), \
    coalesce(p.generation, 0) || '' FROM resource_providers p \
    LEFT JOIN resource_providers up ON up.id = p.parent_provider_id \
    LEFT JOIN resource_providers r ON r.id = p.root_provider_id";
const INVENTORIES: &str = "SELECT p.name, c.name, i.total || ' ' || i.reserved || ' ' || i.min_unit || ' ' || \
    i.max_unit || ' ' || i.step_size || ' ' || round(i.allocation_ratio, 4) \
    FROM inventories i JOIN resource_providers p ON p.id = i.resource_provider_id \
    JOIN resource_classes c ON c.id = i.resource_class_id";
const TRAITS: &str = "SELECT p.name, t.name FROM resource_provider_traits pt \
    JOIN resource_providers p ON p.id = pt.resource_provider_id JOIN traits t ON t.id = pt.trait_id";
const AGGREGATES: &str = "SELECT p.name, a.uuid FROM resource_provider_aggregates pa \
    JOIN resource_providers p ON p.id = pa.resource_provider_id \
    JOIN placement_aggregates a ON a.id = pa.aggregate_id";
const CONSUMERS: &str = "SELECT c.uuid, coalesce(j.external_id, ''), coalesce(u.external_id, ''), \
    coalesce(t.name, ''), c.generation || '' FROM consumers c LEFT JOIN projects j ON j.id = c.project_id \
    LEFT JOIN users u ON u.id = c.user_id LEFT JOIN consumer_types t ON t.id = c.consumer_type_id";
const ALLOCATIONS: &str = "SELECT a.consumer_id, coalesce(p.name, '?'), coalesce(c.name, '?'), sum(a.used) || '' \
    FROM allocations a LEFT JOIN resource_providers p ON p.id = a.resource_provider_id \
    LEFT JOIN resource_classes c ON c.id = a.resource_class_id GROUP BY 1, 2, 3";

impl Rows<'_> {
    async fn query<const N: usize>(
        &self,
        reading: &mut Option<Transaction>,
        sql: &'static str,
    ) -> Vec<[String; N]> {
        let cells = |row: Vec<String>| -> [String; N] {
            row.try_into().expect("as many columns as were asked for")
        };
        match self {
            Rows::BuiltIn(_) => {
                let reading = reading.as_mut().expect("begun by the caller");
                let rows = reading
                    .rows(Statement::new(sql))
                    .await
                    .expect("the schema is Placement's");
                let cell = |row: &berth_store::Row, at| row.text(at).expect("text");
                rows.iter()
                    .map(|row| cells((0..N).map(|at| cell(row, at)).collect()))
                    .collect()
            }
            Rows::Real(placement) => {
                let rows = placement.query(sql).expect("the database can be read");
                rows.into_iter().map(cells).collect()
            }
        }
    }

    /// Everything.
    ///
    /// # Panics
    /// The database cannot be read.
    pub async fn all(&self) -> PlacementRows {
        let mut all = PlacementRows::default();
        // One transaction: the rows are those of one moment.
        let mut reading = match self {
            Rows::BuiltIn(store) => Some(store.read().await.expect("the database can be read")),
            Rows::Real(_) => None,
        };
        let reading = &mut reading;
        for [name, uuid, parent, root, generation] in self.query(reading, PROVIDERS).await {
            let provider = all.providers.entry(name).or_default();
            provider.uuid = uuid;
            provider.parent = Some(parent).filter(|parent| !parent.is_empty());
            provider.root = root;
            provider.generation = generation.parse().unwrap_or_default();
        }
        for [name, class, inventory] in self.query(reading, INVENTORIES).await {
            let provider = all.providers.entry(name).or_default();
            provider.inventories.insert(class, inventory);
        }
        for [name, held] in self.query(reading, TRAITS).await {
            all.providers.entry(name).or_default().traits.insert(held);
        }
        for [name, uuid] in self.query(reading, AGGREGATES).await {
            let provider = all.providers.entry(name).or_default();
            provider.aggregates.insert(uuid);
        }
        for [uuid, project, user, kind, generation] in self.query(reading, CONSUMERS).await {
            let consumer = all.consumers.entry(uuid).or_default();
            (consumer.project, consumer.user, consumer.kind) = (project, user, kind);
            consumer.generation = generation.parse().ok();
        }
        for [consumer, provider, class, used] in self.query(reading, ALLOCATIONS).await {
            let consumer = all.consumers.entry(consumer).or_default();
            let used = used.parse().expect("a number");
            consumer.holds.insert(format!("{provider} {class}"), used);
        }
        all
    }
}

impl PlacementRows {
    /// The same without what differs between two runs that did the same: generations, and UUIDs that were made up.
    #[must_use]
    pub fn essence(&self) -> Self {
        let mut essence = self.clone();
        for provider in essence.providers.values_mut() {
            provider.uuid.clear();
            provider.generation = 0;
        }
        for consumer in essence.consumers.values_mut() {
            consumer.generation = consumer.generation.map(|_| 0);
        }
        essence
    }

    /// What a consumer holds.
    #[must_use]
    pub fn held_by(&self, consumer: berth_model::ConsumerUuid) -> BTreeMap<String, u64> {
        let row = self.consumers.get(&consumer.to_string());
        row.map(|row| row.holds.clone()).unwrap_or_default()
    }

    /// What of the two differs, a line each; empty where nothing does.
    #[must_use]
    pub fn difference(&self, other: &Self) -> String {
        let [here, there] = [self, other].map(ToString::to_string);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let (here, there) = (lines(&here), lines(&there));
        let gone = here.difference(&there).map(|line| format!("- {line}\n"));
        let new = there.difference(&here).map(|line| format!("+ {line}\n"));
        gone.chain(new).collect()
    }
}

impl fmt::Display for PlacementRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, row) in &self.providers {
            let parent = row.parent.as_deref().unwrap_or("-");
            writeln!(f, "{name}: {} below {parent} of {}", row.uuid, row.root)?;
            writeln!(f, "{name}: generation {}", row.generation)?;
            for (class, inventory) in &row.inventories {
                writeln!(f, "{name}: {class} {inventory}")?;
            }
            for held in row.traits.iter().chain(&row.aggregates) {
                writeln!(f, "{name}: {held}")?;
            }
        }
        for (uuid, row) in &self.consumers {
            let (project, user, kind) = (&row.project, &row.user, &row.kind);
            let generation = row.generation;
            writeln!(
                f,
                "{uuid}: {project} {user} {kind} generation {generation:?}"
            )?;
            for (place, used) in &row.holds {
                writeln!(f, "{uuid}: {used} {place}")?;
            }
        }
        Ok(())
    }
}

impl From<&PlacementRows> for PlacementSnapshot {
    /// As the audit takes it. A row that makes no sense there (a UUID that is none) is left out: the schema forbids it.
    fn from(rows: &PlacementRows) -> Self {
        let uuid = |name: &str| rows.providers.get(name)?.uuid.parse::<ProviderUuid>().ok();
        let provider = |(name, row): (&String, &ProviderRow)| {
            let audited = invariants::ProviderRow {
                name: name.clone(),
                parent: row.parent.as_deref().and_then(uuid),
                root: uuid(&row.root)?,
                generation: Generation::answered(row.generation),
                inventories: row
                    .inventories
                    .iter()
                    .filter_map(|(class, text)| Some((class.parse().ok()?, inventory(text)?)))
                    .collect(),
                traits: row
                    .traits
                    .iter()
                    .filter_map(|held| held.parse().ok())
                    .collect(),
                aggregates: row
                    .aggregates
                    .iter()
                    .filter_map(|uuid| uuid.parse().ok())
                    .collect(),
            };
            Some((uuid(name)?, audited))
        };
        let consumer = |(consumer, row): (&String, &ConsumerRow)| {
            let place = |(place, amount): (&String, &u64)| {
                let (provider, class) = place.rsplit_once(' ')?;
                Some(((uuid(provider)?, class.parse().ok()?), *amount))
            };
            let audited = invariants::ConsumerRow {
                project_id: row.project.clone(),
                user_id: row.user.clone(),
                allocated: row.holds.iter().filter_map(place).collect(),
            };
            Some((consumer.parse().ok()?, audited))
        };
        Self {
            providers: rows.providers.iter().filter_map(provider).collect(),
            consumers: rows.consumers.iter().filter_map(consumer).collect(),
        }
    }
}

fn inventory(text: &str) -> Option<Inventory> {
    let mut words = text.split(' ');
    let mut number = || words.next()?.parse::<u32>().ok();
    let [total, reserved, min_unit, max_unit, step_size] =
        [number()?, number()?, number()?, number()?, number()?];
    let allocation_ratio = AllocationRatio::new(words.next()?.parse().ok()?).ok()?;
    Some(Inventory {
        total,
        reserved,
        min_unit,
        max_unit,
        step_size,
        allocation_ratio,
    })
}

/// The rows of a node's tree in Placement as a tree; none where it has none, or where they make none.
#[must_use]
pub fn tree_of(world: &PlacementSnapshot, node: &str) -> Option<ProviderTree> {
    let root = world.root_named(node)?;
    let ours = world
        .providers
        .iter()
        .filter(|(uuid, _)| world.top(**uuid) == Some(root));
    let providers = ours.map(|(uuid, row)| {
        let name = ProviderName::new(&row.name).ok()?;
        let mut provider = match row.parent {
            None => Provider::root(*uuid, name),
            Some(parent) => Provider::child(*uuid, name, parent),
        };
        provider.inventories.clone_from(&row.inventories);
        provider.traits.clone_from(&row.traits);
        provider.aggregates.clone_from(&row.aggregates);
        Some(provider)
    });
    ProviderTree::from_providers(root, providers.collect::<Option<Vec<_>>>()?).ok()
}

//! The rows of Placement, right or wrong. Unlike a [`berth_model::ProviderTree`], they may contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AggregateUuid, ConsumerUuid, Generation, Inventory, ProviderUuid, ResourceClass, Trait, Usages,
};

/// The rows that invariants need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementSnapshot {
    pub providers: BTreeMap<ProviderUuid, ProviderRow>,
    pub consumers: BTreeMap<ConsumerUuid, ConsumerRow>,
}

/// A provider with its inventories, traits and aggregates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRow {
    pub name: String,
    /// `None` for a root.
    pub parent: Option<ProviderUuid>,
    /// The root in its row.
    pub root: ProviderUuid,
    pub generation: Generation,
    pub inventories: BTreeMap<ResourceClass, Inventory>,
    pub traits: BTreeSet<Trait>,
    pub aggregates: BTreeSet<AggregateUuid>,
}

/// The allocations of a consumer: amounts by provider and class.
pub type AllocatedAmounts = BTreeMap<(ProviderUuid, ResourceClass), u64>;

/// A consumer with its allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerRow {
    pub project_id: String,
    pub user_id: String,
    pub allocated: AllocatedAmounts,
}

impl PlacementSnapshot {
    /// The sum of all allocations by provider and class.
    #[must_use]
    pub fn usages(&self) -> Usages {
        let mut usages = Usages::new();
        for (place, amount) in self.consumers.values().flat_map(|row| &row.allocated) {
            let sum: &mut u64 = usages.entry(place.clone()).or_insert(0);
            *sum = sum.saturating_add(*amount);
        }
        usages
    }

    #[must_use]
    pub fn inventory(&self, provider: ProviderUuid, class: &ResourceClass) -> Option<&Inventory> {
        self.providers.get(&provider)?.inventories.get(class)
    }

    /// The name of a provider, or its UUID if it has no row.
    #[must_use]
    pub fn name(&self, provider: ProviderUuid) -> String {
        let row = self.providers.get(&provider);
        row.map_or_else(|| provider.to_string(), |row| row.name.clone())
    }

    /// The topmost ancestor; `None` if the chain of parents is broken or a cycle.
    #[must_use]
    pub fn top(&self, provider: ProviderUuid) -> Option<ProviderUuid> {
        let mut here = provider;
        for _ in 0..=self.providers.len() {
            match self.providers.get(&here)?.parent {
                Some(parent) => here = parent,
                None => return Some(here),
            }
        }
        None
    }

    /// The root provider of this name.
    #[must_use]
    pub fn root_named(&self, name: &str) -> Option<ProviderUuid> {
        let mut rows = self.providers.iter();
        rows.find(|(_, row)| row.parent.is_none() && row.name == name)
            .map(|(uuid, _)| *uuid)
    }

    /// The same rows with all generations set to 0.
    pub(crate) fn without_generations(&self) -> PlacementSnapshot {
        let mut same = self.clone();
        for row in same.providers.values_mut() {
            row.generation = Generation::answered(0);
        }
        same
    }
}

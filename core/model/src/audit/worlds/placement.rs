//! Placement as rows: what its tables say, right or wrong. Unlike a [`crate::ProviderTree`] it can hold any nonsense.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    AggregateUuid, ConsumerUuid, Generation, Inventory, ProviderUuid, ResourceClass, Trait, Usages,
};

/// All rows that matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementWorld {
    /// The providers.
    pub providers: BTreeMap<ProviderUuid, ProviderRow>,
    /// The consumers.
    pub consumers: BTreeMap<ConsumerUuid, ConsumerRow>,
}

/// A provider's row and what hangs on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRow {
    /// Its name.
    pub name: String,
    /// Its parent, none for a root.
    pub parent: Option<ProviderUuid>,
    /// The root that Placement says it has.
    pub root: ProviderUuid,
    /// Its generation.
    pub generation: Generation,
    /// Its inventories.
    pub inventories: BTreeMap<ResourceClass, Inventory>,
    /// Its traits.
    pub traits: BTreeSet<Trait>,
    /// Its aggregates.
    pub aggregates: BTreeSet<AggregateUuid>,
}

/// What a consumer holds: amounts by provider and class.
pub type Allocated = BTreeMap<(ProviderUuid, ResourceClass), u64>;

/// A consumer's row and its allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerRow {
    /// Its project.
    pub project_id: String,
    /// Its user.
    pub user_id: String,
    /// What it holds.
    pub allocated: Allocated,
}

impl PlacementWorld {
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

    /// One class's inventory.
    #[must_use]
    pub fn inventory(&self, provider: ProviderUuid, class: &ResourceClass) -> Option<&Inventory> {
        self.providers.get(&provider)?.inventories.get(class)
    }

    /// A provider's name, or its UUID where it has no row.
    #[must_use]
    pub fn name(&self, provider: ProviderUuid) -> String {
        let row = self.providers.get(&provider);
        row.map_or_else(|| provider.to_string(), |row| row.name.clone())
    }

    /// The top of the parents' chain; none where it is broken or a ring.
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

    /// Everything that rows say, without the generations that writes move.
    pub(in crate::audit) fn without_generations(&self) -> PlacementWorld {
        let mut same = self.clone();
        for row in same.providers.values_mut() {
            row.generation = Generation::answered(0);
        }
        same
    }
}

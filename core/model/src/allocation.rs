//! Allocations: the amounts that consumers use of providers.

use std::collections::BTreeMap;

use crate::{ConsumerUuid, Generation, ProviderUuid, ResourceClass, Usages};

/// One consumer's amount of one class on one provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocation {
    /// The consumer: an instance or a migration.
    pub consumer: ConsumerUuid,
    /// The provider of the inventory.
    pub provider: ProviderUuid,
    /// The class of the inventory.
    pub class: ResourceClass,
    /// The amount in the class's unit, at least 1.
    pub amount: u64,
}

/// All allocations of one consumer, also those on other hosts and on sharing providers. Placement replaces the allocations of a consumer
/// as a whole, so none may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerAllocations {
    /// The project that owns the consumer.
    pub project_id: String,
    /// The user who created the consumer.
    pub user_id: String,
    /// The generation as Placement returned it; `None` if the consumer does not exist yet.
    pub generation: Option<Generation>,
    /// The amounts by provider and class.
    pub resources: BTreeMap<(ProviderUuid, ResourceClass), u64>,
}

/// The allocations of every consumer that has any on a provider tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allocations {
    consumers: BTreeMap<ConsumerUuid, ConsumerAllocations>,
}

impl Allocations {
    /// An empty set of allocations.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds or replaces the allocations of one consumer.
    pub fn insert(&mut self, consumer: ConsumerUuid, allocations: ConsumerAllocations) {
        self.consumers.insert(consumer, allocations);
    }

    /// The allocations of one consumer.
    #[must_use]
    pub fn of(&self, consumer: &ConsumerUuid) -> Option<&ConsumerAllocations> {
        self.consumers.get(consumer)
    }

    /// The allocations of one consumer, mutably.
    pub(crate) fn of_mut(&mut self, consumer: &ConsumerUuid) -> Option<&mut ConsumerAllocations> {
        self.consumers.get_mut(consumer)
    }

    /// All consumers, ordered by UUID.
    pub fn consumers(&self) -> impl Iterator<Item = (&ConsumerUuid, &ConsumerAllocations)> {
        self.consumers.iter()
    }

    /// The number of consumers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.consumers.len()
    }

    /// Whether there are no consumers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.consumers.is_empty()
    }

    /// Every single allocation, ordered by consumer, provider and class.
    pub fn iter(&self) -> impl Iterator<Item = Allocation> {
        self.consumers.iter().flat_map(|(consumer, held)| {
            held.resources
                .iter()
                .map(|((provider, class), amount)| Allocation {
                    consumer: *consumer,
                    provider: *provider,
                    class: class.clone(),
                    amount: *amount,
                })
        })
    }

    /// The sum of all amounts by provider and class.
    #[must_use]
    pub fn usages(&self) -> Usages {
        let mut usages = Usages::new();
        for held in self.consumers.values() {
            for (place, amount) in &held.resources {
                let sum = usages.entry(place.clone()).or_insert(0);
                *sum = sum.saturating_add(*amount);
            }
        }
        usages
    }
}

impl FromIterator<(ConsumerUuid, ConsumerAllocations)> for Allocations {
    fn from_iter<I: IntoIterator<Item = (ConsumerUuid, ConsumerAllocations)>>(iter: I) -> Self {
        Self {
            consumers: iter.into_iter().collect(),
        }
    }
}

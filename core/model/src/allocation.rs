//! Allocations: what consumers hold.

use std::collections::BTreeMap;

use crate::{ConsumerUuid, Generation, ProviderUuid, ResourceClass, Usages};

/// One consumer's amount of one class on one provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocation {
    /// Who holds it: an instance or a migration.
    pub consumer: ConsumerUuid,
    /// Where.
    pub provider: ProviderUuid,
    /// Of what.
    pub class: ResourceClass,
    /// How much, in the class's unit, at least 1.
    pub amount: u64,
}

/// All that one consumer holds, on whichever provider: also other hosts' and sharing providers'. Placement replaces a
/// consumer's allocations as a whole, so none of it may be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerAllocations {
    /// The project that pays.
    pub project_id: String,
    /// The user who asked.
    pub user_id: String,
    /// The consumer's generation as answered; none while the consumer does not exist yet.
    pub generation: Option<Generation>,
    /// The amounts by provider and class.
    pub resources: BTreeMap<(ProviderUuid, ResourceClass), u64>,
}

/// The allocations of every consumer that holds anything on the tree in question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allocations {
    consumers: BTreeMap<ConsumerUuid, ConsumerAllocations>,
}

impl Allocations {
    /// No allocations.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds or replaces one consumer's.
    pub fn insert(&mut self, consumer: ConsumerUuid, allocations: ConsumerAllocations) {
        self.consumers.insert(consumer, allocations);
    }

    /// One consumer's.
    #[must_use]
    pub fn of(&self, consumer: &ConsumerUuid) -> Option<&ConsumerAllocations> {
        self.consumers.get(consumer)
    }

    /// One consumer's, to be changed.
    pub(crate) fn of_mut(&mut self, consumer: &ConsumerUuid) -> Option<&mut ConsumerAllocations> {
        self.consumers.get_mut(consumer)
    }

    /// Consumers in the order of their UUIDs.
    pub fn consumers(&self) -> impl Iterator<Item = (&ConsumerUuid, &ConsumerAllocations)> {
        self.consumers.iter()
    }

    /// How many consumers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.consumers.len()
    }

    /// Whether nobody holds anything.
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

//! The requests of the writers and their answers; pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one consumer is to hold of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesiredAllocation {
    /// Who, by a number that is the contest's own.
    pub consumer: u32,
    /// How much of it; 0: it gives all back.
    pub units: u64,
    /// The consumer's generation as the writer knows it; none for a new consumer.
    pub generation: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContestCall {
    /// PUT /allocations/{consumer}, or POST /allocations for several.
    Write(Vec<DesiredAllocation>),
    Release(u32),
    Read,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContestAnswer {
    Done,
    /// 409: it would exceed the capacity.
    Full,
    /// 409: another writer was first.
    Conflict,
    /// 404: the consumer holds nothing.
    NotThere,
    /// 200: what consumers hold, at this generation of the provider.
    Seen {
        generation: i64,
        held: BTreeMap<u32, u64>,
    },
    /// Anything else; it may have been done or not.
    Failed(u16),
}

/// A request with its answer. Moments are numbers that grow from one moment to the next over all writers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Who asked; one asks for one thing at a time.
    pub writer: u32,
    /// Which of the services, by its place in the list.
    pub service: u32,
    pub call: ContestCall,
    /// Before it was sent.
    pub asked: u64,
    /// The time and the answer; none if the writer did not wait or no answer arrived.
    pub answered: Option<(u64, ContestAnswer)>,
}

impl Event {
    /// The answer, where one came.
    #[must_use]
    pub fn answer(&self) -> Option<&ContestAnswer> {
        self.answered.as_ref().map(|(_, answer)| answer)
    }

    /// The time after which the request cannot change anything.
    #[must_use]
    pub fn over(&self) -> u64 {
        match &self.answered {
            None | Some((_, ContestAnswer::Failed(_))) => u64::MAX,
            Some((moment, _)) => *moment,
        }
    }

    /// Whether its outcome is unknown.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self.answer(), None | Some(ContestAnswer::Failed(_)))
    }

    /// Whether it was asked when the other was over.
    #[must_use]
    pub fn is_after(&self, other: &Event) -> bool {
        self.asked > other.over()
    }
}

/// All of a contest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContestHistory {
    pub capacity: u64,
    /// The provider's generation before the first request.
    pub generation: i64,
    pub events: Vec<Event>,
}

/// What consumers hold, by the rules of one provider: nothing of databases and of HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct AllocationModel {
    /// Units and generation of each consumer that holds some.
    pub held: BTreeMap<u32, (u64, i64)>,
}

impl AllocationModel {
    /// Units that are held.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.held.values().map(|(units, _)| units).sum()
    }

    #[must_use]
    pub fn units(&self) -> BTreeMap<u32, u64> {
        let held = self.held.iter();
        held.map(|(consumer, (units, _))| (*consumer, *units))
            .collect()
    }

    /// Whether the writer knows each consumer's generation.
    #[must_use]
    pub fn is_current(&self, wants: &[DesiredAllocation]) -> bool {
        let known = |want: &DesiredAllocation| self.held.get(&want.consumer).map(|(_, it)| *it);
        wants.iter().all(|want| known(want) == want.generation)
    }

    /// As it is after the write, whatever that comes to.
    #[must_use]
    pub fn after(&self, wants: &[DesiredAllocation]) -> Self {
        let mut held = self.held.clone();
        for want in wants {
            let generation = held.remove(&want.consumer).map_or(0, |(_, it)| it);
            if want.units > 0 {
                held.insert(want.consumer, (want.units, generation + 1));
            }
        }
        Self { held }
    }

    /// Whether there is room for the write, or it asks for no more than was held.
    #[must_use]
    pub fn admits(&self, wants: &[DesiredAllocation], capacity: u64) -> bool {
        let after = self.after(wants).used();
        after <= capacity || after <= self.used()
    }
}

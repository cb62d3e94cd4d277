//! What happened on the way: requests and their answers, reshapes, journeys, loops, exits, texts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Allocated, PlacementWorld};
use crate::{
    AggregateUuid, ConsumerUuid, Generation, Inventory, ProviderUuid, ResourceClass, Trait,
};

/// The histories of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histories {
    /// What Placement had when the run began; none where nobody looked.
    pub began: Option<PlacementWorld>,
    /// The writes that were sent to Placement, by anybody, in the order of their answers.
    pub requests: Vec<Request>,
    /// Generations in the order in which they were seen.
    pub generations: Vec<(ProviderUuid, Generation)>,
    /// The reshapes that Placement took.
    pub reshapes: Vec<Reshape>,
    /// The reshapes that were refused.
    pub refusals: Vec<Refusal>,
    /// The journeys.
    pub journeys: Vec<JourneyRow>,
    /// The loops' passes, in order.
    pub passes: Vec<Pass>,
    /// How often a loop may do what; none where time was not virtual.
    pub limits: Option<Limits>,
    /// How processes ended.
    pub exits: Vec<Exit>,
    /// Everything that was written for people or machines to read: logs, journals, metrics, error bodies, reports.
    pub texts: Vec<Text>,
    /// Secrets that were planted.
    pub secrets: Vec<String>,
}

/// One write to Placement. What it says takes effect as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Who sent it: an agent's owner token, or a word for anybody else.
    pub sender: String,
    /// The node the sender claims to be the agent of; none for anybody else.
    pub node: Option<String>,
    /// What it says.
    pub facts: Vec<Fact>,
    /// The generations it was based on.
    pub based_on: BTreeMap<ProviderUuid, Generation>,
    /// How it was answered.
    pub answer: Answer,
}

/// What a write says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// There is such a provider.
    Provider {
        /// Its UUID.
        uuid: ProviderUuid,
        /// Its name.
        name: String,
        /// Its parent.
        parent: Option<ProviderUuid>,
    },
    /// There is no such provider.
    NoProvider(ProviderUuid),
    /// These are all of its inventories.
    Inventories(ProviderUuid, BTreeMap<ResourceClass, Inventory>),
    /// These are all of its traits.
    Traits(ProviderUuid, BTreeSet<Trait>),
    /// These are all of its aggregates.
    Aggregates(ProviderUuid, BTreeSet<AggregateUuid>),
    /// This is all the consumer holds; nothing, if empty.
    Allocations(ConsumerUuid, Allocated),
}

/// How a write was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Acknowledged,
    /// It is not done.
    Refused,
    /// Nobody knows: the answer was lost.
    Unknown,
}

/// A reshape that Placement took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reshape {
    /// The root of the tree that was reshaped.
    pub root: ProviderUuid,
    /// Placement just before.
    pub before: PlacementWorld,
    /// Placement just afterwards.
    pub after: PlacementWorld,
    /// Classes that count as one: a renamed class with its new name, a class with its parts.
    pub one_class: Vec<BTreeSet<ResourceClass>>,
}

/// A reshape that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Placement before the journey.
    pub before: PlacementWorld,
    /// Placement after it.
    pub after: PlacementWorld,
}

/// A journey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JourneyRow {
    /// Which.
    pub name: String,
    /// How it ended.
    pub end: JourneyEnd,
}

/// How a journey ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JourneyEnd {
    /// Not yet.
    Open,
    /// As if nothing had happened.
    Done,
    /// To a clean slate.
    Undone,
    /// Something is held, for this reason.
    Held(String),
    /// Nothing was changed, for this reason.
    Refused(String),
}

/// One pass of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Whose loop, and which process: passes of one life of one loop share the word.
    pub loop_name: String,
    /// When it began.
    pub began: Duration,
    /// When it ended.
    pub ended: Duration,
    /// How.
    pub end: PassEnd,
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassEnd {
    /// Well.
    Settled,
    /// To be tried again.
    Failed,
}

/// How often a loop may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one journey in any minute.
    pub requests_per_minute: usize,
    /// The longest pause after a failed pass, jitter included.
    pub longest_pause: Duration,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By a signal that the harness sent.
    Killed,
    /// By a signal that nobody sent.
    Signal(i32),
}

/// Something that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Where.
    pub source: String,
    /// What.
    pub text: String,
}

//! The events of a run: writes to Placement and their answers, reshapes, tasks, passes of loops, exits, output.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{AllocatedAmounts, PlacementSnapshot};
use berth_model::{
    AggregateUuid, ConsumerUuid, Generation, Inventory, ProviderUuid, ResourceClass, Trait,
};

/// The histories of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histories {
    /// Placement when the run began; `None` if it was not read.
    pub began: Option<PlacementSnapshot>,
    /// The writes sent to Placement by all senders, in the order of their answers.
    pub requests: Vec<PlacementWrite>,
    /// Generations in the order in which they were observed.
    pub generations: Vec<(ProviderUuid, Generation)>,
    /// The reshapes that Placement accepted.
    pub reshapes: Vec<Reshape>,
    /// The reshapes that were refused.
    pub refusals: Vec<RefusedReshape>,
    pub tasks: Vec<TaskRecord>,
    /// The passes of all loops, in order.
    pub passes: Vec<Pass>,
    /// The limits of loops; `None` if time was not virtual.
    pub limits: Option<LoopLimits>,
    /// The exits of processes.
    pub exits: Vec<Exit>,
    /// Everything that was written: logs, journals, metrics, error bodies, reports.
    pub texts: Vec<OutputText>,
    /// Secrets that the harness planted; no text may contain them.
    pub secrets: Vec<String>,
}

/// One write to Placement. Its facts take effect all together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementWrite {
    /// The sender: the owner token of an agent, or another name.
    pub sender: String,
    /// The node of the agent that the sender claims to be, if any.
    pub node: Option<String>,
    pub facts: Vec<Fact>,
    /// The provider generations in the request.
    pub based_on: BTreeMap<ProviderUuid, Generation>,
    pub answer: Answer,
}

/// One statement of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    Provider {
        uuid: ProviderUuid,
        name: String,
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
    Allocations(ConsumerUuid, AllocatedAmounts),
}

/// How a write was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Acknowledged,
    /// It is not done.
    Refused,
    /// The outcome is unknown, because the answer was lost.
    Unknown,
}

/// A reshape that Placement took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reshape {
    /// The root of the tree that was reshaped.
    pub root: ProviderUuid,
    pub before: PlacementSnapshot,
    /// Placement directly after it.
    pub after: PlacementSnapshot,
    /// Classes that count as one: a class with its new name, or with its parts.
    pub one_class: Vec<BTreeSet<ResourceClass>>,
}

/// A reshape that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedReshape {
    /// Placement before the task.
    pub before: PlacementSnapshot,
    pub after: PlacementSnapshot,
}

/// A task, such as a startup or a tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRecord {
    pub name: String,
    pub end: TaskOutcome,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// It has not ended.
    Open,
    /// Finished as without a fault.
    Done,
    Undone,
    /// Some inventory is held, for this reason.
    Held(String),
    /// Nothing was changed, for this reason.
    Refused(String),
}

/// One pass of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// The loop and its process: the passes of one loop in one process have the same name.
    pub loop_name: String,
    pub began: Duration,
    pub ended: Duration,
    pub end: PassOutcome,
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassOutcome {
    Settled,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopLimits {
    /// Requests of one task in any minute.
    pub requests_per_minute: usize,
    /// The longest pause after a failed pass, jitter included.
    pub longest_pause: Duration,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// By a signal that the harness sent.
    Killed,
    /// By a signal that the harness did not send.
    Signal(i32),
}

/// A text that the run wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputText {
    pub source: String,
    pub text: String,
}

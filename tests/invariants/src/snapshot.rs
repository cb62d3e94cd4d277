//! The snapshot that invariants are checked on: the state of each part of the system, each from its own source.

mod accelerators;
mod history;
mod placement;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_model::{ConsumerUuid, ProviderTree, ProviderUuid, ResourceClass};

pub use accelerators::{AcceleratorSnapshot, ArqRow};
pub use history::{
    Answer, Exit, Fact, Histories, LoopLimits, OutputText, Pass, PassOutcome, PlacementWrite,
    RefusedReshape, Reshape, TaskOutcome, TaskRecord,
};
pub use placement::{AllocatedAmounts, ConsumerRow, PlacementSnapshot, ProviderRow};

/// The state of the whole system. What the caller does not know stays empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemSnapshot {
    /// The rows of Placement.
    pub placement: PlacementSnapshot,
    /// The guests on the hypervisors, by consumer UUID.
    pub guests: BTreeMap<ConsumerUuid, Guest>,
    /// The rows of the accelerator service; `None` if they were not read.
    pub accelerators: Option<AcceleratorSnapshot>,
    /// The guests that each API lists, by the name of the API.
    pub listed_by_api: BTreeMap<String, BTreeSet<ConsumerUuid>>,
    /// The server groups, by name.
    pub groups: BTreeMap<String, ServerGroup>,
    /// The devices of the kernels.
    pub devices: Vec<Device>,
    /// The guests that used each device since its last verified reset.
    pub users_since_reset: BTreeMap<String, BTreeSet<ConsumerUuid>>,
    /// The agents' state files.
    pub journals: Vec<Journal>,
    /// The effects, in order.
    pub trace: Vec<Step>,
    /// The events of the run.
    pub histories: Histories,
    /// The desired provider tree of each node, by the name of its root provider.
    pub desired: BTreeMap<String, ProviderTree>,
    /// What the agents report as held or orphaned.
    pub reported: AgentReport,
    /// The effects of further ticks after everything settled, one list per tick; `None` if no further ticks were run.
    pub quiet_ticks: Option<Vec<Vec<Step>>>,
}

/// A guest on a hypervisor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guest {
    pub node: String,
    /// The consumers of its migrations in progress.
    pub migrations: BTreeSet<ConsumerUuid>,
    /// The devices in its definition.
    pub devices: BTreeSet<String>,
}

/// A server group in the database of hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerGroup {
    /// How many members one node may have; `None` without a limit.
    pub most_on_a_node: Option<usize>,
    /// The node of each member.
    pub members: BTreeMap<ConsumerUuid, String>,
    /// The guests that were requested with this group, including those that do not exist.
    pub requested: BTreeSet<ConsumerUuid>,
}

/// A device of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// PCI address, or UUID of a mediated device.
    pub name: String,
    /// The guests that have it open, as far as known.
    pub owners: BTreeSet<ConsumerUuid>,
}

/// A journal of unfinished work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    pub name: String,
    /// Entries without an end, as text.
    pub open: Vec<String>,
}

/// What the agents report to their operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// Inventories that are held.
    pub held: BTreeSet<(ProviderUuid, ResourceClass)>,
    /// Consumers without a guest.
    pub orphans: BTreeSet<ConsumerUuid>,
    /// Devices in quarantine with a reason.
    pub quarantined: BTreeSet<String>,
}

/// The boundary that an effect crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepBoundary {
    Http,
    Driver,
    Sysfs,
    /// A state file or a database.
    Store,
}

/// Whether an effect can have changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepKind {
    Read,
    Write,
}

/// One effect of the trace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// The time of the harness since the run began.
    pub at: Duration,
    pub task: String,
    pub boundary: StepBoundary,
    pub kind: StepKind,
    pub operation: String,
}

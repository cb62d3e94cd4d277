//! What is judged: the worlds as they were seen.

mod accelerators;
mod history;
mod placement;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{ConsumerUuid, ProviderTree, ProviderUuid, ResourceClass};

pub use accelerators::{AcceleratorWorld, ArqRow};
pub use history::{
    Answer, Exit, Fact, Histories, JourneyEnd, JourneyRow, Limits, Pass, PassEnd, Refusal, Request,
    Reshape, Text,
};
pub use placement::{Allocated, ConsumerRow, PlacementWorld, ProviderRow};

/// Everything that is known, each from its own source. What is not known stays empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Worlds {
    /// What Placement has now.
    pub placement: PlacementWorld,
    /// The guests there are, by the UUID that is their consumer's.
    pub guests: BTreeMap<ConsumerUuid, Guest>,
    /// What the accelerator service has; none where nobody asked it.
    pub accelerators: Option<AcceleratorWorld>,
    /// The guests that each API says are there, by the API's name.
    pub told: BTreeMap<String, BTreeSet<ConsumerUuid>>,
    /// The server groups, by name.
    pub groups: BTreeMap<String, ServerGroup>,
    /// The devices there are.
    pub devices: Vec<Device>,
    /// Who has used each device since its last verified reset.
    pub used: BTreeMap<String, BTreeSet<ConsumerUuid>>,
    /// The agents' state files.
    pub journals: Vec<Journal>,
    /// What crossed the seams, in order.
    pub trace: Vec<Step>,
    /// What was asked, answered and said in the course of the run.
    pub histories: Histories,
    /// What the driver wants, by node: the name of the node's root provider.
    pub desired: BTreeMap<String, ProviderTree>,
    /// What the agents report as held or orphaned.
    pub reported: Reported,
    /// The crossings of further ticks after everything settled, one list per tick; none where that was not tried.
    pub quiet_ticks: Option<Vec<Vec<Step>>>,
}

/// A guest as the hypervisor has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guest {
    /// The node it is on.
    pub node: String,
    /// Other consumers that stand for it: the migrations under way.
    pub also: BTreeSet<ConsumerUuid>,
    /// The devices its definition names.
    pub devices: BTreeSet<String>,
}

/// A server group as the scheduler keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerGroup {
    /// So many of its members may be on one node; none where any number may.
    pub most_on_a_node: Option<usize>,
    /// The node that each member has its place on.
    pub members: BTreeMap<ConsumerUuid, String>,
    /// The guests that were asked for with it, those that are not there included.
    pub wanted: BTreeSet<ConsumerUuid>,
}

/// A device as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its address, or its UUID for a mediated one.
    pub name: String,
    /// Who has it open, as far as that is known.
    pub owners: BTreeSet<ConsumerUuid>,
}

/// One file of an agent's state directory that notes what is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Whose, and which.
    pub name: String,
    /// Intents without an end, in words.
    pub open: Vec<String>,
}

/// What an agent tells its operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reported {
    /// Inventories that only hold units without a home.
    pub held: BTreeSet<(ProviderUuid, ResourceClass)>,
    /// Consumers without a guest.
    pub orphans: BTreeSet<ConsumerUuid>,
    /// Devices that are set aside, for a reason that is told.
    pub quarantined: BTreeSet<String>,
}

/// Where a crossing left the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepSeam {
    /// A request to a service.
    Http,
    /// A call of the virt driver.
    Driver,
    /// sysfs.
    Sysfs,
    /// A state file or a database.
    Store,
}

/// Whether a crossing looked or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepEffect {
    /// It only looked.
    Read,
    /// It may have changed something.
    Write,
}

/// One crossing of a seam.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// The harness's time since the run began.
    pub at: Duration,
    /// Whose crossing.
    pub journey: String,
    /// Where.
    pub seam: StepSeam,
    /// Whether it looked or changed.
    pub effect: StepEffect,
    /// What was done.
    pub operation: String,
}

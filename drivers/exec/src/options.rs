//! What the composition root tells the driver.

use std::path::PathBuf;
use std::time::Duration;

use berth_model::NodeName;
use berth_virt::{CpuSet, PciInPlacement, ResourceModel};

use crate::backoff::Backoff;
use crate::protocol::Method;

/// The child's program, and what is the configuration's to say and not the child's.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// The program; it is started without arguments.
    pub program: PathBuf,
    /// A directory of the child's own, which is its working directory too. It is made where it is not there.
    pub state_path: PathBuf,
    /// `host`: the node's name where the operator chose one.
    pub host: Option<NodeName>,
    /// `[compute] cpu_shared_set`, for nodes of which the child does not say.
    pub cpu_shared_set: Option<CpuSet>,
    /// `[compute] cpu_dedicated_set`, for nodes of which the child does not say.
    pub cpu_dedicated_set: Option<CpuSet>,
    /// How resources are modelled in Placement.
    pub model: ResourceModel,
    /// Whether Placement is told of the compute service's devices.
    pub pci: PciInPlacement,
    /// How long each call may take.
    pub deadlines: Deadlines,
    /// When a child that ended is started again.
    pub backoff: Backoff,
}

impl ExecOptions {
    /// This program, with nothing configured.
    #[must_use]
    pub fn new(program: PathBuf, state_path: PathBuf) -> Self {
        Self {
            program,
            state_path,
            host: None,
            cpu_shared_set: None,
            cpu_dedicated_set: None,
            model: ResourceModel::default(),
            pci: PciInPlacement::default(),
            deadlines: Deadlines::default(),
            backoff: Backoff::default(),
        }
    }
}

/// How long the child may take for each call, from when it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deadlines {
    /// Each method's own, as documented.
    #[default]
    PerMethod,
    /// The same for all.
    Each(Duration),
}

impl Deadlines {
    /// A method's deadline. A guest's grace to stop is added to it by the caller.
    #[must_use]
    pub fn of(self, method: Method) -> Duration {
        match self {
            Deadlines::PerMethod => method.deadline(),
            Deadlines::Each(limit) => limit,
        }
    }
}

//! Options of the driver, set by the composition root.

use std::path::PathBuf;
use std::time::Duration;

use berth_model::NodeName;
use berth_virt::{CpuSet, PciInPlacement, ResourceModel};

use crate::backoff::Backoff;
use crate::protocol::Method;

/// The child's program, and the settings that come from the configuration rather than from the child.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// The program, started without arguments.
    pub program: PathBuf,
    /// The child's own directory and working directory. Created if it does not exist.
    pub state_path: PathBuf,
    /// `host`: the node's name, if configured.
    pub host: Option<NodeName>,
    /// `[compute] cpu_shared_set`, for nodes whose shared CPUs the child does not report.
    pub cpu_shared_set: Option<CpuSet>,
    /// `[compute] cpu_dedicated_set`, for nodes whose dedicated CPUs the child does not report.
    pub cpu_dedicated_set: Option<CpuSet>,
    /// How resources are modelled in Placement.
    pub model: ResourceModel,
    /// Whether the compute service's devices are reported to Placement.
    pub pci: PciInPlacement,
    /// The deadlines of calls.
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

/// How long the child may take to answer a call after it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deadlines {
    /// The documented deadline of each method.
    #[default]
    PerMethod,
    /// The same deadline for all methods.
    Each(Duration),
}

impl Deadlines {
    /// The method's deadline. The caller adds a guest's grace period to it.
    #[must_use]
    pub fn of(self, method: Method) -> Duration {
        match self {
            Deadlines::PerMethod => method.deadline(),
            Deadlines::Each(limit) => limit,
        }
    }
}

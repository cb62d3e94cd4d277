//! What instances of this agent are created with.

use std::sync::Arc;

use berth_agent_devices::DeviceConditions;
use berth_agent_images::InstancesPath;
use berth_model::{NodeName, ProviderTree};
use berth_virt::guest_spec::{CpuModel, HostPath};

/// Placement's tree of a node, as the agent last knew it; none before the node was reported.
pub type TreeOf = Arc<dyn Fn(&NodeName) -> Option<Arc<ProviderTree>> + Send + Sync>;

/// What guests are built with.
#[derive(Clone)]
pub struct Building {
    /// The same for all guests of this agent.
    pub options: BuildOptions,
    pub trees: TreeOf,
    /// What is known of devices beside what the driver sees; none where nobody keeps it.
    pub conditions: Option<Arc<dyn DeviceConditions>>,
}

/// What is the same for all guests of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    /// `instances_path`.
    pub instances: InstancesPath,
    /// `[libvirt] cpu_mode` and `cpu_models`.
    pub cpu_model: CpuModel,
    /// The folders that kernels of guests may lie in; none: no guest names a kernel of the host.
    pub kernel_directories: Vec<HostPath>,
}

//! The options and dependencies for creating instances.

use std::sync::Arc;

use berth_agent_devices::DeviceConditions;
use berth_agent_images::InstancesPath;
use berth_model::{NodeName, ProviderTree};
use berth_virt::guest_spec::{CpuModel, HostPath};

/// Looks up a node's provider tree as last seen in Placement; `None` before the node was reported.
pub type TreeLookup = Arc<dyn Fn(&NodeName) -> Option<Arc<ProviderTree>> + Send + Sync>;

/// The dependencies of [`Guests::build`](crate::Guests::build).
#[derive(Clone)]
pub struct BuildContext {
    pub options: BuildOptions,
    pub provider_trees: TreeLookup,
    /// Conditions of devices that the driver does not see, such as quarantines; `None` if no device manager runs.
    pub device_conditions: Option<Arc<dyn DeviceConditions>>,
}

/// Options that apply to all instances of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    /// The value of the option `instances_path`.
    pub instances: InstancesPath,
    /// The options `[libvirt] cpu_mode` and `cpu_models`.
    pub cpu_model: CpuModel,
    /// The folders for guests' kernels. If empty, no guest may boot from a kernel of the host.
    pub kernel_directories: Vec<HostPath>,
}

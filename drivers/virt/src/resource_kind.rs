//! Maps resource classes to the parts of a node that they count. The class alone does not tell: mediated devices may
//! have VGPU or any CUSTOM_ class.

use berth_model::ResourceClass;

use crate::{NodeView, OfferedMdevs};

/// What the units of a class are, as far as it affects moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResourceKind {
    /// Mediated devices of physical GPUs.
    Mdev,
    /// CPUs, shared or dedicated.
    Cpu,
    /// Memory, reported as MEMORY_MB in MiB.
    Memory,
    /// Virtual functions of network cards.
    Function,
}

impl ResourceKind {
    /// The kind of a class on this node; none for classes that never change their place by themselves.
    pub(crate) fn of(seen: &NodeView, class: &ResourceClass) -> Option<Self> {
        if [ResourceClass::VCPU, ResourceClass::PCPU].contains(class) {
            Some(ResourceKind::Cpu)
        } else if *class == ResourceClass::MEMORY_MB {
            Some(ResourceKind::Memory)
        } else if *class == ResourceClass::VGPU
            || offered(seen).any(|offered| offered.class == *class)
        {
            Some(ResourceKind::Mdev)
        } else if *class == ResourceClass::SRIOV_NET_VF
            || seen.functions.iter().any(|card| card.class == *class)
        {
            Some(ResourceKind::Function)
        } else {
            None
        }
    }
}

/// The mediated devices offered by the node's GPUs.
pub(crate) fn offered(seen: &NodeView) -> impl Iterator<Item = &OfferedMdevs> {
    seen.gpus
        .iter()
        .filter_map(|gpu| gpu.offered.as_ref())
        .filter(|offered| offered.total > 0)
}

//! How a machine's resources are modelled in Placement. An upgrade changes one of these values; the difference to the
//! tree in Placement is then a reshape.

/// The provider of virtual GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VgpuModel {
    /// All of them on the root provider (Nova before Stein).
    Root,
    /// A child provider per physical GPU.
    #[default]
    PerGpu,
}

/// The provider of CPUs, memory and network functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NumaModel {
    /// On the root provider (as Nova does).
    #[default]
    Flat,
    /// On a child provider for each NUMA cell.
    Cells,
}

/// The class of dedicated CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PcpuModel {
    /// As VCPU, together with the shared ones (Nova before Train).
    Vcpu,
    /// As PCPU, apart from the shared ones (Nova since Train).
    #[default]
    Pcpu,
}

/// The model of each resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceModel {
    /// Which provider has the virtual GPUs.
    pub vgpu: VgpuModel,
    /// CPUs, memory and network functions.
    pub numa: NumaModel,
    /// Which class the dedicated CPUs have.
    pub pcpu: PcpuModel,
}

impl ResourceModel {
    /// All models, for conformance checks and tests.
    pub fn all() -> impl Iterator<Item = Self> {
        [VgpuModel::Root, VgpuModel::PerGpu]
            .into_iter()
            .flat_map(|vgpu| [NumaModel::Flat, NumaModel::Cells].map(|numa| (vgpu, numa)))
            .flat_map(|(vgpu, numa)| {
                [PcpuModel::Vcpu, PcpuModel::Pcpu].map(|pcpu| Self { vgpu, numa, pcpu })
            })
    }
}

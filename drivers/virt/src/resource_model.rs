//! How a machine's resources are modelled in Placement. An upgrade changes one of these values; the difference to the
//! tree in Placement is then a reshape.

use berth_options::{choices, options};

choices! {
    /// The provider of virtual GPUs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum VgpuModel {
        /// All of them on the root provider (Nova before Stein).
        Root = "root",
        /// A child provider per physical GPU.
        #[default]
        PerGpu = "per-gpu",
    }
}

choices! {
    /// The provider of CPUs, memory and network functions.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum NumaModel {
        /// On the root provider (as Nova does).
        #[default]
        Flat = "flat",
        /// On a child provider for each NUMA cell.
        Cells = "cells",
    }
}

choices! {
    /// The class of dedicated CPUs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum PcpuModel {
        /// As VCPU, together with the shared ones (Nova before Train).
        Vcpu = "vcpu",
        /// As PCPU, apart from the shared ones (Nova since Train).
        #[default]
        Pcpu = "pcpu",
    }
}

options! {
    /// How this host is modelled in Placement. A changed value causes a reshape at the next start.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ResourceModel in "model" {
        /// The provider of VGPU: `root` (one flat inventory) or `per-gpu` (a child provider for each physical GPU).
        pub vgpu: VgpuModel = VgpuModel::PerGpu;
        /// The provider of CPUs and memory: `flat` (root) or `cells` (a child provider for each NUMA cell).
        pub numa: NumaModel = NumaModel::Flat;
        /// What the CPUs of `cpu_dedicated_set` are reported as: `vcpu` (Nova before Train) or `pcpu`.
        pub pcpu: PcpuModel = PcpuModel::Pcpu;
    }
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

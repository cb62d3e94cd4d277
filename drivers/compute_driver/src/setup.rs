//! The options that all drivers get.

use std::path::{Path, PathBuf};

use berth_hook::Hook;
use berth_libvirt::MdevTypes;
use berth_model::NodeName;
use berth_options::CheckedValues;
use berth_sysfs::AllowList;
use berth_virt::{CpuSet, ResourceModel};

/// The common options of all drivers; a driver's own options are in `values`.
#[derive(Debug, Clone)]
pub struct DriverSetup<'a> {
    /// All options that are set. Each driver reads its own section.
    pub values: &'a CheckedValues,
    /// `host`: the node's name, if configured.
    pub host: Option<NodeName>,
    pub state_path: &'a Path,
    pub instances_path: PathBuf,
    /// `[compute] cpu_shared_set`.
    pub cpu_shared_set: Option<CpuSet>,
    /// `[compute] cpu_dedicated_set`.
    pub cpu_dedicated_set: Option<CpuSet>,
    /// `[model]`.
    pub model: ResourceModel,
    /// `[devices] enabled_mdev_types` and the `[mdev_TYPE]` sections.
    pub mdev_types: MdevTypes,
    /// `[pci] device_spec`.
    pub pci_devices: AllowList,
    /// `[pci] report_in_placement`.
    pub report_pci_in_placement: bool,
    /// `[accelerators] device_spec`.
    pub accelerator_devices: AllowList,
    /// `[accelerators] reset_hook`.
    pub reset_hook: Option<Hook>,
}

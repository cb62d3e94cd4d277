//! The fake virt driver: a machine described by one TOML file.
//!
//! Tests, demos and soak runs use it instead of a hypervisor; `berth up --machine FILE` starts with it. The file is
//! read again at each observation, so editing it changes the machine: a guest stops, a GPU is removed, or the resource
//! model changes as in an upgrade (`[model]`). [`Machine`] is the same description as a value, for tests that build
//! their own.
//!
//! The driver can also create guests on the machine, and prepare and reset its devices. It stores those in a separate
//! guest book (`FILE.guests`; in memory for a machine in memory) and never writes the machine file, which belongs to
//! its author.
//!
//! # The machine file
//!
//! Unknown keys are refused with the nearest known one. All amounts are integers up to 2^31 - 1. Keys marked * are
//! required.
//!
//! | table | keys |
//! |---|---|
//! | `[model]`, also `[node.model]` for one node | `vgpu` = "root" or "per-gpu", `numa` = "flat" or "cells", `pcpu` = "vcpu" or "pcpu" |
//! | `[hypervisor]` | `kind`, `version`, `hostname` |
//! | `[[node]]`* | `name`*, `uuid` (of the root provider, if the hypervisor determines it), `memory_mib`*, `disk`* (GiB, "shared" or "none"), `traits`, `report_pci_in_placement` (default: true if it has devices of the compute service), `cpus`* = { `online`*, `shared`, `dedicated` } in the syntax of `cpu_shared_set` |
//! | `[[node.cell]]` | `id`*, `cpus`*, `memory_mib`*, `siblings` (the CPUs of each core, as ["0,8", "1,9"]; a CPU without an entry is a core of its own), `huge_pages` = { size in KiB = number }, `small_page_kib` (4), `socket` |
//! | `[[node.gpu]]` | `address`*, `numa`, `types`* = { type = maximum number }, `enabled` (one of the types; if missing, the GPU is not configured), `class` (VGPU) |
//! | `[[node.nic]]` | `address`*, `numa`, `class` (SRIOV_NET_VF), `functions`* (addresses) |
//! | `[[node.device]]` | `address`*, `vendor`* and `product`* (four hexadecimal digits), `owner` = "accelerator" or "compute", `type` = "GPU", "FPGA", "AICHIP", "NIC", "QAT", "SSD" or "PCI", `model`, `numa`, `link_group`, `physical_network`, `class` (Cyborg's for the type, VGPU for mdevs, CUSTOM_PCI_VVVV_PPPP for compute), `traits`, `functions` (virtual functions offered instead of the device), `mdevs` = { `type`*, `count`* } (mediated devices offered instead), `together` (one guest gets all of them), `one_time_use`, `health` = "ok", or the reason why it may not be given out: "aer", "link", "driver", "iommu-group", "config-space", "vendor", "quarantined", "disabled", "reset-failed", "vanished" |
//! | `[[node.custom]]` | `class`*, `formerly` (former names; may include the current one), `total`* |
//! | `[[node.fault]]` | `device`* (the address of a function or of its physical function), `is`* = "hosts-own", "prepare-fails", "config-space-dead", "reset-fails" or "reset-hangs" |
//! | `[[node.guest]]` | `uuid`*, `name`, `power` = "running" or "shut off", `vcpus`*, `memory_mib`*, `disk_gib`, `cpu_policy` = "shared", "dedicated" or "mixed" with `dedicated_vcpus`, `cells` = [{ `id`*, `vcpus`*, `memory_mib`* }], `mdevs` = [{ `uuid`*, `gpu` }], `functions` (addresses), `customs` = { class = amount }, `migration` = { `consumer`*, `known` } |

mod book_lines;
mod device_assignment;
mod driver;
mod guest_file;
mod guests;
mod initial;
mod machine;
mod observation_cache;
mod observe;
mod options;
mod problem;
mod read;
mod shipped;
mod watch;
mod write;

pub use driver::FakeDriver;
pub use initial::{initial_allocations, initial_tree};
pub use machine::{
    DeviceFault, Faults, Gpu, GpuHost, Machine, MachineGuest, MachineNode, Migration,
    MigrationSight,
};
pub use options::FakeSection;
pub use problem::MachineError;
pub use shipped::machines;

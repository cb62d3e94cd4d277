//! The fake virt driver: a machine described by one TOML file.
//!
//! Tests, demos and soak runs use it in the place of a hypervisor; `berth up --machine FILE` starts on it. The file is read
//! again on each look, so editing it is changing the machine: a guest that stops, a GPU that is gone, or the one word in
//! `[model]` that makes an upgrade. [`Machine`] is the same as a value, for tests that build theirs.
//!
//! Guests can be made on it, too, and its devices be made ready and reset. Those stand in a book of their own beside the machine file (`FILE.guests`, or in memory for
//! a machine in memory), never in the machine file, which is its author's.
//!
//! # The machine file
//!
//! Unknown keys are refused with the nearest known one; all amounts are whole numbers up to 2^31 - 1. Keys marked * must be
//! there.
//!
//! | table | keys |
//! |---|---|
//! | `[model]`, also `[node.model]` for one node | `vgpu` = "root" or "per-gpu", `numa` = "flat" or "cells", `pcpu` = "vcpu" or "pcpu" |
//! | `[hypervisor]` | `kind`, `version`, `hostname` |
//! | `[[node]]`* | `name`*, `uuid` (its root provider's, where the hypervisor knows one), `memory_mib`*, `disk`* (GiB, "shared" or "none"), `traits`, `report_pci_in_placement` (true where it has devices of the compute service), `cpus`* = { `online`*, `shared`, `dedicated` } in the grammar of `cpu_shared_set` |
//! | `[[node.cell]]` | `id`*, `cpus`*, `memory_mib`* |
//! | `[[node.gpu]]` | `address`*, `numa`, `types`* = { type = how many there can be }, `enabled` (one of the types; without it the GPU is not configured), `class` (VGPU) |
//! | `[[node.nic]]` | `address`*, `numa`, `class` (SRIOV_NET_VF), `functions`* (addresses) |
//! | `[[node.device]]` | `address`*, `vendor`* and `product`* (four hexadecimal digits), `owner` = "accelerator" or "compute", `type` = "GPU", "FPGA", "AICHIP", "NIC", "QAT", "SSD" or "PCI", `model`, `numa`, `physical_network`, `class` (Cyborg's for the type, VGPU for mdevs, CUSTOM_PCI_VVVV_PPPP for compute), `traits`, `functions` (virtual functions that are offered in its place), `mdevs` = { `type`*, `count`* } (or mediated devices), `together` (one guest gets all of them), `one_time_use`, `health` = "ok", or why it may not be given out: "aer", "link", "driver", "iommu-group", "config-space", "vendor", "quarantined", "disabled", "reset-failed", "vanished" |
//! | `[[node.custom]]` | `class`*, `formerly` (names it had; its own may be among them), `total`* |
//! | `[[node.fault]]` | `device`* (the address of a function or of the card it is a part of), `is`* = "hosts-own", "prepare-fails", "config-space-dead", "reset-fails" or "reset-hangs" |
//! | `[[node.guest]]` | `uuid`*, `name`, `power` = "running" or "shut off", `vcpus`*, `memory_mib`*, `disk_gib`, `cpu_policy` = "shared", "dedicated" or "mixed" with `dedicated_vcpus`, `cells` = [{ `id`*, `vcpus`*, `memory_mib`* }], `mdevs` = [{ `uuid`*, `gpu` }], `functions` (addresses), `customs` = { class = amount }, `migration` = { `consumer`*, `known` } |

mod book_lines;
mod device_life;
mod driver;
mod guest_file;
mod guests;
mod initial;
mod machine;
mod observe;
mod problem;
mod read;
mod seen;
mod shipped;
mod watch;
mod write;

pub use driver::FakeDriver;
pub use initial::{initial_allocations, initial_tree};
pub use machine::{
    DeviceFault, Faults, Gpu, GpuHost, Guest, Machine, Migration, MigrationSight, Node,
};
pub use problem::{MachineError, Problem};
pub use shipped::machines;

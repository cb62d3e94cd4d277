//! [`NovaComputeNode`]: what the scheduler and the API read about a hypervisor.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::objects::{NovaObjectList, object_type};

object_type! {
    /// The record of a hypervisor. The scheduler ignores a host until `free_ram_mb` and `free_disk_gb` are saved.
    NovaComputeNode = "ComputeNode", Some("ComputeNodeList");
    id: i64;
    uuid / set_uuid: Uuid;
    service_id / set_service_id: Option<i64>;
    host / set_host: Option<&str>;
    hypervisor_hostname / set_hypervisor_hostname: Option<&str>;
    hypervisor_type / set_hypervisor_type: &str;
    hypervisor_version / set_hypervisor_version: i64;
    host_ip / set_host_ip: Option<&str>;
    vcpus / set_vcpus: i64;
    vcpus_used / set_vcpus_used: i64;
    memory_mb / set_memory_mb: i64;
    memory_mb_used / set_memory_mb_used: i64;
    free_ram_mb / set_free_ram_mb: Option<i64>;
    local_gb / set_local_gb: i64;
    local_gb_used / set_local_gb_used: i64;
    free_disk_gb / set_free_disk_gb: Option<i64>;
    disk_available_least / set_disk_available_least: Option<i64>;
    running_vms / set_running_vms: Option<i64>;
    current_workload / set_current_workload: Option<i64>;
    /// JSON in a string: `arch`, `model`, `vendor`, `features`, `topology`.
    cpu_info / set_cpu_info: Option<&str>;
    /// JSON in a string: a list of monitors' values.
    metrics / set_metrics: Option<&str>;
    /// JSON in a string: an object of the type `NUMATopology`.
    numa_topology / set_numa_topology: Option<&str>;
    stats / set_stats: Option<BTreeMap<String, Option<String>>>;
    supported_hv_specs / set_supported_hv_specs: Vec<NovaHvSpec>;
    pci_device_pools / set_pci_device_pools: Option<NovaObjectList<NovaPciDevicePool>>;
    cpu_allocation_ratio / set_cpu_allocation_ratio: f64;
    ram_allocation_ratio / set_ram_allocation_ratio: f64;
    disk_allocation_ratio / set_disk_allocation_ratio: f64;
    mapped: i64;
}

object_type! {
    /// A kind of guests that a hypervisor can run.
    NovaHvSpec = "HVSpec", None;
    arch / set_arch: &str;
    hv_type / set_hv_type: &str;
    vm_mode / set_vm_mode: &str;
}

object_type! {
    /// PCI devices that are equal to the scheduler.
    NovaPciDevicePool = "PciDevicePool", Some("PciDevicePoolList");
    product_id / set_product_id: &str;
    vendor_id / set_vendor_id: &str;
    numa_node / set_numa_node: Option<i64>;
    tags / set_tags: BTreeMap<String, Option<String>>;
    count / set_count: i64;
}

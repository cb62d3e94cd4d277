//! [`NovaInstance`] and [`NovaFlavor`].

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::objects::{
    NovaInfoCache, NovaInstanceFault, NovaInstanceNumaTopology, NovaInstancePciRequests,
    NovaKeyPair, NovaObjectList, NovaPciDevice, object_type,
};
use crate::states::{NovaPowerState, NovaTaskState, NovaVmState};
use crate::time::NovaTime;

object_type! {
    /// An instance: the record of a server.
    NovaInstance = "Instance", Some("InstanceList");
    id: i64;
    uuid: Uuid;
    user_id: Option<&str>;
    project_id: Option<&str>;
    image_ref / set_image_ref: Option<&str>;
    kernel_id / set_kernel_id: Option<&str>;
    ramdisk_id / set_ramdisk_id: Option<&str>;
    hostname: Option<&str>;
    display_name: Option<&str>;
    launch_index: Option<i64>;
    key_name: Option<&str>;
    key_data: Option<&str>;
    /// Base64.
    user_data: Option<&str>;
    reservation_id: Option<&str>;
    availability_zone / set_availability_zone: Option<&str>;
    memory_mb: Option<i64>;
    vcpus: Option<i64>;
    root_gb: Option<i64>;
    ephemeral_gb: Option<i64>;
    host / set_host: Option<&str>;
    node / set_node: Option<&str>;
    compute_id / set_compute_id: Option<i64>;
    launched_on / set_launched_on: Option<&str>;
    vm_state / set_vm_state: Option<NovaVmState>;
    task_state / set_task_state: Option<NovaTaskState>;
    power_state / set_power_state: Option<NovaPowerState>;
    launched_at / set_launched_at: Option<NovaTime>;
    terminated_at / set_terminated_at: Option<NovaTime>;
    progress / set_progress: Option<i64>;
    /// Whether the files of the instance were removed from its host.
    cleaned / set_cleaned: bool;
    hidden: bool;
    deleted: bool;
    os_type: Option<&str>;
    architecture: Option<&str>;
    vm_mode: Option<&str>;
    root_device_name / set_root_device_name: Option<&str>;
    default_ephemeral_device / set_default_ephemeral_device: Option<&str>;
    default_swap_device / set_default_swap_device: Option<&str>;
    /// Empty if no configuration drive was requested.
    config_drive: Option<&str>;
    auto_disk_config: bool;
    access_ip_v4: Option<&str>;
    access_ip_v6: Option<&str>;
    metadata: BTreeMap<String, String>;
    /// Facts of the image and the owner, and the encrypted password.
    system_metadata / set_system_metadata: BTreeMap<String, Option<String>>;
    info_cache / set_info_cache: Option<NovaInfoCache>;
    flavor: NovaFlavor;
    keypairs: NovaObjectList<NovaKeyPair>;
    numa_topology / set_numa_topology: Option<NovaInstanceNumaTopology>;
    pci_requests / set_pci_requests: Option<NovaInstancePciRequests>;
    pci_devices / set_pci_devices: Option<NovaObjectList<NovaPciDevice>>;
    resources / set_resources: Option<NovaObjectList<NovaInstanceResource>>;
    fault: Option<NovaInstanceFault>;
}

impl NovaInstance {
    /// Whether there is a task state, also one that Nova does not have.
    pub(crate) fn is_task_state_set(&self) -> bool {
        let state = self.0.data().get("task_state");
        state.is_some_and(|state| !state.is_null())
    }
}

object_type! {
    /// A flavor.
    NovaFlavor = "Flavor", Some("FlavorList");
    id: i64;
    name: Option<&str>;
    flavorid: &str;
    memory_mb: i64;
    vcpus: i64;
    root_gb: i64;
    ephemeral_gb: i64;
    /// In MiB.
    swap: i64;
    extra_specs: BTreeMap<String, String>;
}

object_type! {
    /// A resource of the host that an instance has, such as a persistent memory namespace.
    NovaInstanceResource = "Resource", Some("ResourceList");
    provider_uuid: Uuid;
    resource_class: &str;
    identifier: &str;
}

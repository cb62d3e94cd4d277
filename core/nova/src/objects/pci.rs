//! PCI devices: what an instance asks for, and the rows of the host's devices.

use std::collections::BTreeMap;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use crate::objects::object_type;
use crate::states::word_field;

/// The state of a PCI device's row.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum NovaPciDeviceStatus {
    Available,
    Claimed,
    Allocated,
    Removed,
    Deleted,
    Unavailable,
    Unclaimable,
}

word_field!(NovaPciDeviceStatus, "a status of PCI devices");

object_type! {
    /// The row of a PCI device of the host. A save with the status `removed` deletes the row.
    NovaPciDevice = "PciDevice", Some("PciDeviceList");
    id: i64;
    uuid / set_uuid: Uuid;
    compute_node_id / set_compute_node_id: Option<i64>;
    address / set_address: &str;
    vendor_id / set_vendor_id: &str;
    product_id / set_product_id: &str;
    /// `type-PCI`, `type-PF`, `type-VF` or `vdpa`.
    dev_type / set_dev_type: &str;
    dev_id / set_dev_id: Option<&str>;
    label / set_label: Option<&str>;
    status / set_status: NovaPciDeviceStatus;
    instance_uuid / set_instance_uuid: Option<&str>;
    request_id / set_request_id: Option<&str>;
    numa_node / set_numa_node: Option<i64>;
    parent_addr / set_parent_addr: Option<&str>;
    extra_info / set_extra_info: BTreeMap<String, String>;
}

object_type! {
    /// The PCI devices that an instance asks for.
    NovaInstancePciRequests = "InstancePCIRequests", None;
    instance_uuid / set_instance_uuid: Uuid;
    requests / set_requests: Vec<NovaInstancePciRequest>;
}

object_type! {
    /// One request for PCI devices: of a flavor's alias, or of a port.
    NovaInstancePciRequest = "InstancePCIRequest", None;
    count / set_count: i64;
    /// Sets of tags; a device has to match one of them.
    spec / set_spec: Vec<BTreeMap<String, Option<String>>>;
    alias_name / set_alias_name: Option<&str>;
    is_new: bool;
    request_id / set_request_id: Option<Uuid>;
    requester_id / set_requester_id: Option<&str>;
    numa_policy / set_numa_policy: Option<&str>;
}

//! What the scheduler was asked and what it selected.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::field::NovaFieldError;
use crate::object::NovaObject;
use crate::objects::{
    NovaFlavor, NovaInstanceNumaTopology, NovaInstancePciRequests, NovaNetworkRequest,
    NovaObjectList, object_type,
};

object_type! {
    /// What the scheduler was asked.
    NovaRequestSpec = "RequestSpec", None;
    id: i64;
    instance_uuid: Uuid;
    project_id: Option<&str>;
    user_id: Option<&str>;
    availability_zone: Option<&str>;
    flavor: NovaFlavor;
    image: Option<NovaObject>;
    numa_topology: Option<NovaInstanceNumaTopology>;
    pci_requests: Option<NovaInstancePciRequests>;
    requested_networks: NovaObjectList<NovaNetworkRequest>;
    scheduler_hints: Option<BTreeMap<String, Vec<String>>>;
    num_instances: i64;
    is_bfv: bool;
    ignore_hosts: Option<Vec<String>>;
    force_hosts: Option<Vec<String>>;
    force_nodes: Option<Vec<String>>;
    limits: Option<NovaSchedulerLimits>;
    /// The server group with its policy.
    instance_group: Option<NovaObject>;
    /// The groups of resources with the providers that the scheduler found for them.
    requested_resources: Option<Vec<NovaObject>>;
}

object_type! {
    /// How much a claim may exceed what the host has.
    NovaSchedulerLimits = "SchedulerLimits", None;
    numa_topology: Option<NovaObject>;
    vcpu: Option<i64>;
    disk_gb: Option<i64>;
    memory_mb: Option<i64>;
}

object_type! {
    /// A host that the scheduler selected. A boot brings its alternates.
    NovaSelection = "Selection", None;
    compute_node_uuid: Uuid;
    service_host: &str;
    nodename: &str;
    cell_uuid: Uuid;
    limits: Option<NovaSchedulerLimits>;
    /// JSON in a string: the body for Placement.
    allocation_request: Option<&str>;
    allocation_request_version: Option<&str>;
    availability_zone: Option<&str>;
}

impl NovaSelection {
    /// The body for Placement, parsed; `None` if there is none.
    pub fn parsed_allocation_request(&self) -> Result<Option<serde_json::Value>, NovaFieldError> {
        let Some(text) = self.allocation_request()? else {
            return Ok(None);
        };
        serde_json::from_str(text)
            .map(Some)
            .map_err(|_| NovaFieldError::Type {
                object: "Selection".to_owned(),
                field: "allocation_request",
                found: "other text",
                expected: "JSON in a string",
            })
    }
}

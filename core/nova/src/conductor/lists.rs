//! Queries for lists of objects.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answer;
use super::api::{ConductorApi, ConductorResult};
use crate::objects::{
    NovaBlockDeviceMapping, NovaComputeNode, NovaInstance, NovaInstanceResource, NovaMigration,
    NovaObjectType, NovaPciDevice, NovaShareMapping, NovaVirtualInterface,
};

impl ConductorApi<'_> {
    fn query<T: NovaObjectType>(
        &self,
        method: &str,
        args: Value,
        kwargs: Value,
    ) -> ConductorResult<Vec<T>> {
        // A type without a list has no entry in the table, so the call fails to be made.
        let list = T::LIST.unwrap_or(T::NAME);
        self.class_action(list, method, args, kwargs, answer::list)
    }

    /// The hypervisors of a host. Without any the answer is the failure `ComputeHostNotFound`.
    pub fn compute_nodes_of_host(&self, host: &str) -> ConductorResult<Vec<NovaComputeNode>> {
        self.query("get_all_by_host", json!([host]), json!({"use_slave": true}))
    }

    pub fn compute_nodes(&self, uuids: &[Uuid]) -> ConductorResult<Vec<NovaComputeNode>> {
        self.query("get_all_by_uuids", json!([texts(uuids)]), json!({}))
    }

    pub fn instances_of_host(
        &self,
        host: &str,
        fields: &[&str],
    ) -> ConductorResult<Vec<NovaInstance>> {
        self.query(
            "get_by_host",
            json!([host]),
            json!({"expected_attrs": fields}),
        )
    }

    pub fn instances_of_node(
        &self,
        host: &str,
        node: &str,
        fields: &[&str],
    ) -> ConductorResult<Vec<NovaInstance>> {
        self.query(
            "get_by_host_and_node",
            json!([host, node]),
            json!({"expected_attrs": fields}),
        )
    }

    pub fn instances_by_filters(
        &self,
        filters: Map<String, Value>,
        fields: &[&str],
    ) -> ConductorResult<Vec<NovaInstance>> {
        self.query(
            "get_by_filters",
            json!([filters]),
            json!({"expected_attrs": fields, "use_slave": true}),
        )
    }

    pub fn migrations_by_filters(
        &self,
        filters: Map<String, Value>,
    ) -> ConductorResult<Vec<NovaMigration>> {
        self.query("get_by_filters", json!([filters]), json!({}))
    }

    pub fn migrations_in_progress_and_error(
        &self,
        host: &str,
        node: &str,
    ) -> ConductorResult<Vec<NovaMigration>> {
        self.query("get_in_progress_and_error", json!([host, node]), json!({}))
    }

    /// The disks of an instance.
    pub fn block_devices(&self, instance: Uuid) -> ConductorResult<Vec<NovaBlockDeviceMapping>> {
        self.query("get_by_instance_uuid", text(instance), json!({}))
    }

    /// The disks of several instances, by instance.
    pub fn block_devices_of(
        &self,
        instances: &[Uuid],
    ) -> ConductorResult<Vec<NovaBlockDeviceMapping>> {
        self.query(
            "get_by_instance_uuids",
            json!([texts(instances)]),
            json!({}),
        )
    }

    pub fn shares(&self, instance: Uuid) -> ConductorResult<Vec<NovaShareMapping>> {
        self.query("get_by_instance_uuid", text(instance), json!({}))
    }

    /// The resources of an instance. An instance without any has none or null.
    pub fn resources(&self, instance: Uuid) -> ConductorResult<Vec<NovaInstanceResource>> {
        self.class_action(
            "ResourceList",
            "get_by_instance_uuid",
            text(instance),
            json!({}),
            answer::list_or_none,
        )
    }

    pub fn virtual_interfaces(&self, instance: Uuid) -> ConductorResult<Vec<NovaVirtualInterface>> {
        self.query("get_by_instance_uuid", text(instance), json!({}))
    }

    /// The PCI devices of a hypervisor, by the number of its record.
    pub fn pci_devices_of_node(&self, compute_node_id: i64) -> ConductorResult<Vec<NovaPciDevice>> {
        self.query("get_by_compute_node", json!([compute_node_id]), json!({}))
    }

    pub fn pci_devices_of_instance(&self, instance: Uuid) -> ConductorResult<Vec<NovaPciDevice>> {
        self.query("get_by_instance_uuid", text(instance), json!({}))
    }
}

pub(super) fn text(uuid: Uuid) -> Value {
    json!([uuid.to_string()])
}

fn texts(uuids: &[Uuid]) -> Vec<String> {
    uuids.iter().map(Uuid::to_string).collect()
}

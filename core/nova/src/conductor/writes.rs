//! Calls that change the records of the cell.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::api::{ConductorApi, ConductorResult};
use super::call::ConductorMethod;
use super::lists::text;
use super::{ObjectUpdates, answer};
use crate::compute::BuildAndRunInstance;
use crate::field::FieldValue;
use crate::objects::{
    NovaBlockDeviceMapping, NovaComputeNode, NovaConsoleAuthToken, NovaInfoCache, NovaInstance,
    NovaInstanceActionEvent, NovaInstanceFault, NovaMigration, NovaObjectType, NovaPciDevice,
    NovaService, NovaVirtualInterface,
};
use crate::release::UnsendableObject;
use crate::states::NovaTaskState;

/// Why what an event stands for failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFailure {
    /// What the user sees.
    pub message: String,
    /// What an administrator sees.
    pub details: String,
}

/// A boot that another host has to do.
#[derive(Debug)]
pub struct Reschedule<'b> {
    /// The boot as it came.
    pub build: &'b BuildAndRunInstance,
    /// The instance as it is now.
    pub instance: &'b NovaInstance,
    /// `filter_properties` of the boot, with the hosts that were tried.
    pub filter_properties: Map<String, Value>,
}

impl ConductorApi<'_> {
    pub fn create_service(&self, service: &NovaService) -> ConductorResult<ObjectUpdates> {
        self.object_action(service, "create", json!([]), json!({}))
    }

    /// A report, or another change of the record.
    pub fn save_service(&self, service: &NovaService) -> ConductorResult<ObjectUpdates> {
        self.object_action(service, "save", json!([]), json!({}))
    }

    pub fn create_compute_node(&self, node: &NovaComputeNode) -> ConductorResult<ObjectUpdates> {
        self.object_action(node, "create", json!([]), json!({}))
    }

    pub fn save_compute_node(&self, node: &NovaComputeNode) -> ConductorResult<ObjectUpdates> {
        self.object_action(node, "save", json!([]), json!({}))
    }

    /// Creates or changes the row of a device, or deletes it: that is what its status `removed` stands for.
    pub fn save_pci_device(&self, device: &NovaPciDevice) -> ConductorResult<ObjectUpdates> {
        self.object_action(device, "save", json!([]), json!({}))
    }

    /// Saves an instance, if it is in one of the expected task states; an empty list expects nothing. Otherwise the answer is the failure
    /// `UnexpectedTaskStateError`, or `UnexpectedDeletingTaskStateError` if the instance is being deleted.
    pub fn save_instance(
        &self,
        instance: &NovaInstance,
        expected: &[Option<NovaTaskState>],
    ) -> ConductorResult<ObjectUpdates> {
        let mut kwargs = Map::new();
        if !expected.is_empty() {
            let expected = expected.iter().map(|state| state.write()).collect();
            kwargs.insert("expected_task_state".to_owned(), expected);
        }
        self.object_action(instance, "save", json!([]), Value::Object(kwargs))
    }

    /// Reads an instance again.
    pub fn refresh_instance(&self, instance: &NovaInstance) -> ConductorResult<ObjectUpdates> {
        let kwargs = json!({"use_slave": false});
        self.object_action(instance, "refresh", json!([]), kwargs)
    }

    /// Marks an instance as deleted.
    pub fn destroy_instance(&self, instance: &NovaInstance) -> ConductorResult<ObjectUpdates> {
        self.object_action(instance, "destroy", json!([]), json!({}))
    }

    /// Forgets what a move or a rebuild prepared.
    pub fn drop_migration_context(
        &self,
        instance: &NovaInstance,
    ) -> ConductorResult<ObjectUpdates> {
        self.object_action(instance, "drop_migration_context", json!([]), json!({}))
    }

    pub fn refresh_info_cache(&self, cache: &NovaInfoCache) -> ConductorResult<ObjectUpdates> {
        self.object_action(cache, "refresh", json!([]), json!({}))
    }

    /// Writes the addresses that the API shows.
    pub fn save_info_cache(&self, cache: &NovaInfoCache) -> ConductorResult<ObjectUpdates> {
        self.object_action(cache, "save", json!([]), json!({}))
    }

    pub fn save_block_device(
        &self,
        device: &NovaBlockDeviceMapping,
    ) -> ConductorResult<ObjectUpdates> {
        self.object_action(device, "save", json!([]), json!({}))
    }

    pub fn destroy_block_device(
        &self,
        device: &NovaBlockDeviceMapping,
    ) -> ConductorResult<ObjectUpdates> {
        self.object_action(device, "destroy", json!([]), json!({}))
    }

    pub fn create_virtual_interface(
        &self,
        interface: &NovaVirtualInterface,
    ) -> ConductorResult<ObjectUpdates> {
        self.object_action(interface, "create", json!([]), json!({}))
    }

    pub fn destroy_virtual_interface(
        &self,
        interface: &NovaVirtualInterface,
    ) -> ConductorResult<ObjectUpdates> {
        self.object_action(interface, "destroy", json!([]), json!({}))
    }

    pub fn delete_virtual_interfaces(&self, instance: Uuid) -> ConductorResult<()> {
        self.class_action(
            NovaVirtualInterface::NAME,
            "delete_by_instance_uuid",
            text(instance),
            json!({}),
            answer::ignored,
        )
    }

    pub fn save_migration(&self, migration: &NovaMigration) -> ConductorResult<ObjectUpdates> {
        self.object_action(migration, "save", json!([]), json!({}))
    }

    pub fn create_fault(&self, fault: &NovaInstanceFault) -> ConductorResult<ObjectUpdates> {
        self.object_action(fault, "create", json!([]), json!({}))
    }

    /// An event of an action begins. The action is found by the ID of the request's context.
    pub fn start_event(&self, instance: Uuid, event: &str, host: &str) -> ConductorResult<()> {
        self.class_action(
            NovaInstanceActionEvent::NAME,
            "event_start",
            json!([instance.to_string(), event]),
            json!({"want_result": false, "host": host}),
            answer::ignored,
        )
    }

    /// An event of an action ended, well or with a failure.
    pub fn finish_event(
        &self,
        instance: Uuid,
        event: &str,
        failure: Option<&EventFailure>,
    ) -> ConductorResult<()> {
        let message = failure.map(|failure| failure.message.as_str());
        let details = failure.map(|failure| failure.details.as_str());
        self.class_action(
            NovaInstanceActionEvent::NAME,
            "event_finish_with_failure",
            json!([instance.to_string(), event]),
            json!({"exc_val": message, "exc_tb": details, "want_result": false}),
            answer::ignored,
        )
    }

    /// Makes the token of a console, which lives for some seconds. The token is what the method returns.
    pub fn authorize_console(
        &self,
        token: &NovaConsoleAuthToken,
        seconds: u32,
    ) -> ConductorResult<ObjectUpdates> {
        self.object_action(token, "authorize", json!([seconds]), json!({}))
    }

    pub fn delete_console_tokens(&self, instance: Uuid) -> ConductorResult<()> {
        self.class_action(
            NovaConsoleAuthToken::NAME,
            "clean_console_auths_for_instance",
            text(instance),
            json!({}),
            answer::ignored,
        )
    }

    pub fn delete_expired_console_tokens(&self) -> ConductorResult<()> {
        self.class_action(
            NovaConsoleAuthToken::NAME,
            "clean_expired_console_auths",
            json!([]),
            json!({}),
            answer::ignored,
        )
    }

    /// Hands a boot on to the next host that the scheduler selected.
    pub fn build_instances(
        &self,
        boot: Reschedule<'_>,
    ) -> Result<super::ConductorCall, UnsendableObject> {
        let instance = boot.instance.clone().into_json();
        let mut args = boot.build.for_another_host();
        args.insert("instances".to_owned(), json!([instance]));
        args.insert(
            "filter_properties".to_owned(),
            Value::Object(boot.filter_properties),
        );
        let request = self.request(ConductorMethod::BuildInstances, args, answer::ignored)?;
        Ok(request.into_call())
    }
}

//! Actions of an instance with their events and faults, and the events that other services send.

use std::collections::BTreeMap;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use crate::objects::object_type;
use crate::states::word_field;
use crate::time::NovaTime;

object_type! {
    /// An action that a user asked for.
    NovaInstanceAction = "InstanceAction", Some("InstanceActionList");
    id: i64;
    action: Option<&str>;
    instance_uuid: Option<Uuid>;
    request_id: Option<&str>;
    start_time: Option<NovaTime>;
    finish_time: Option<NovaTime>;
    message: Option<&str>;
}

object_type! {
    /// What a service did for an action.
    NovaInstanceActionEvent = "InstanceActionEvent", Some("InstanceActionEventList");
    id: i64;
    event: Option<&str>;
    action_id: Option<i64>;
    start_time: Option<NovaTime>;
    finish_time: Option<NovaTime>;
    result: Option<&str>;
    host: Option<&str>;
}

object_type! {
    /// Why an action failed, as the API shows it.
    NovaInstanceFault = "InstanceFault", Some("InstanceFaultList");
    id: i64;
    instance_uuid / set_instance_uuid: Uuid;
    /// A status of HTTP.
    code / set_code: i64;
    message / set_message: Option<&str>;
    details / set_details: Option<&str>;
    host / set_host: Option<&str>;
}

object_type! {
    /// Something that another service says about an instance.
    NovaExternalEvent = "InstanceExternalEvent", None;
    instance_uuid / set_instance_uuid: Uuid;
    name / set_name: NovaEventName;
    status / set_status: NovaEventStatus;
    /// Which port, volume or accelerator request; for `power-update` the state to reach.
    tag / set_tag: Option<&str>;
    data: BTreeMap<String, String>;
}

/// The name of an external event.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum NovaEventName {
    NetworkChanged,
    NetworkVifPlugged,
    NetworkVifUnplugged,
    NetworkVifDeleted,
    VolumeExtended,
    VolumeReimaged,
    PowerUpdate,
    AcceleratorRequestBound,
}

word_field!(NovaEventName, "a name of Nova's external events");

/// How what an external event tells of ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum NovaEventStatus {
    Failed,
    Completed,
    InProgress,
}

word_field!(NovaEventStatus, "a status of Nova's external events");

//! Objects, their fields, times and failures.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use berth_nova::compute::RequestError;
use berth_nova::conductor::{ConductorAnswerError, ConductorApi, NotACall};
use berth_nova::objects::{
    NovaComputeNode, NovaInfoCache, NovaInstance, NovaObjectList, NovaObjectType, NovaPciDevice,
    NovaPciDevicePool, NovaPciDeviceStatus,
};
use berth_nova::{
    ConductorFailure, NovaFieldError, NovaObject, NovaPowerState, NovaTaskState, NovaTime,
    NovaVmState, RemoteFailure, ReplyFailure, UnsendableObject,
};
use serde_json::{Value, json};
use strum::VariantArray;
use uuid::Uuid;

use crate::messages::{map, release, request};

fn instance() -> NovaInstance {
    NovaInstance::from_json(request("stop_instance")["instance"].clone()).unwrap()
}

#[test]
fn a_setter_records_its_field_and_leaves_all_others() {
    let mut instance = instance();
    let before = instance.object().data().clone();
    let changes = instance.object().changes().clone();
    instance.set_vm_state(Some(NovaVmState::Stopped));
    instance.set_task_state(None);
    instance.set_power_state(Some(NovaPowerState::Shutdown));
    let json = instance.clone().into_json();
    assert_eq!(json["nova_object.data"]["vm_state"], "stopped");
    assert_eq!(json["nova_object.data"]["task_state"], Value::Null);
    assert_eq!(json["nova_object.data"]["power_state"], 4);
    for (field, value) in before {
        if !["vm_state", "task_state", "power_state"].contains(&field.as_str()) {
            assert_eq!(json["nova_object.data"][&field], value);
        }
    }
    let new = instance.object().changes() - &changes;
    assert_eq!(
        Vec::from_iter(new),
        ["power_state", "task_state", "vm_state"]
    );
}

#[test]
fn a_field_that_is_not_set_is_no_null() {
    let mut instance = instance();
    assert_eq!(
        instance.pci_devices().unwrap_err().to_string(),
        "the field pci_devices of the object Instance is not set"
    );
    assert!(!instance.object().is_set("pci_devices"));
    instance.set_pci_devices(None);
    assert_eq!(instance.pci_devices(), Ok(None));
    assert_eq!(
        instance.into_json()["nova_object.data"]["pci_devices"],
        Value::Null
    );
}

#[test]
fn a_field_of_another_type_is_named_with_both_types() {
    let mut json = instance().into_json();
    json["nova_object.data"]["vm_state"] = "levitating".into();
    json["nova_object.data"]["launched_at"] = "yesterday".into();
    json["nova_object.data"]["flavor"] = json!(7);
    let instance = NovaInstance::from_json(json).unwrap();
    assert_eq!(
        instance.vm_state().unwrap_err().to_string(),
        "the field vm_state of the object Instance is a string; a vm_state of Nova is right"
    );
    assert_eq!(
        instance.launched_at().unwrap_err().to_string(),
        "the field launched_at of the object Instance is a string; a time such as 2026-11-20T15:31:06Z is right"
    );
    assert_eq!(
        instance.flavor().unwrap_err().to_string(),
        "the field flavor of the object Instance is a number; a Nova object of the type Flavor is right"
    );
}

#[test]
fn updates_of_an_action_are_merged_and_their_remaining_changes_taken_over() {
    let mut instance = instance();
    instance.set_task_state(Some(NovaTaskState::PoweringOff));
    let request = ConductorApi::new(release())
        .save_instance(&instance, &[None])
        .unwrap();
    assert_eq!(
        request.call().args()["kwargs"],
        json!({"expected_task_state": [null]})
    );
    let answer =
        json!([{"updated_at": "2026-11-20T15:40:00Z", "obj_what_changed": ["tags"]}, "result"]);
    let updates = request.answer(answer).unwrap();
    assert_eq!(updates.merge_into(&mut instance), Ok("result".into()));
    assert_eq!(Vec::from_iter(instance.object().changes()), ["tags"]);
    assert_eq!(
        instance.object().data()["updated_at"],
        "2026-11-20T15:40:00Z"
    );

    let before = instance.clone();
    let wrong = json!([{"host": "x", "obj_what_changed": 1}, null]);
    let error = request.answer(wrong).unwrap().merge_into(&mut instance);
    assert_eq!(
        error.unwrap_err().to_string(),
        "the field obj_what_changed of the object Instance is a number; a list of strings is right"
    );
    assert_eq!(instance, before);
    for wrong in [
        json!(null),
        json!([]),
        json!([{}]),
        json!([{}, 1, 2]),
        json!(["x", null]),
    ] {
        assert!(request.answer(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn a_new_hypervisor_has_the_versions_of_the_release_in_all_its_parts() {
    let mut node: NovaComputeNode = release().new_object().unwrap();
    let mut pool: NovaPciDevicePool = release().new_object().unwrap();
    pool.set_vendor_id("10de");
    pool.set_product_id("2330");
    pool.set_numa_node(Some(1));
    pool.set_count(8);
    pool.set_tags(BTreeMap::from([(
        "dev_type".to_owned(),
        Some("type-PCI".to_owned()),
    )]));
    node.set_uuid(Uuid::nil());
    node.set_free_disk_gb(Some(100));
    node.set_cpu_allocation_ratio(4.0);
    let pools = NovaObjectList::new(release(), vec![pool]).unwrap();
    node.set_pci_device_pools(Some(pools));
    let call = ConductorApi::new(release())
        .create_compute_node(&node)
        .unwrap()
        .into_call();
    assert_eq!(call.to_string(), "ComputeNode.create");
    let sent = &call.args()["objinst"];
    assert_eq!(sent["nova_object.version"], "1.19");
    let pools = &sent["nova_object.data"]["pci_device_pools"];
    assert_eq!(pools["nova_object.version"], "1.1");
    assert_eq!(pools["nova_object.changes"], json!(["objects"]));
    let pool = &pools["nova_object.data"]["objects"][0]["nova_object.data"];
    assert_eq!(pool["count"], 8);
    assert_eq!(node.pci_device_pools().unwrap().unwrap().items().len(), 1);
}

#[test]
fn the_row_of_a_pci_device_has_a_status_of_nova() {
    let mut device: NovaPciDevice = release().new_object().unwrap();
    device.set_address("0000:3b:00.0");
    device.set_status(NovaPciDeviceStatus::Allocated);
    assert_eq!(device.status(), Ok(NovaPciDeviceStatus::Allocated));
    let call = ConductorApi::new(release())
        .save_pci_device(&device)
        .unwrap();
    let data = &call.call().args()["objinst"]["nova_object.data"];
    assert_eq!(data["status"], "allocated");
}

#[test]
fn the_addresses_of_an_instance_are_json_in_a_string() {
    let mut cache: NovaInfoCache = release().new_object().unwrap();
    cache.set_interfaces(vec![json!({"id": "port"})]);
    assert_eq!(cache.network_info(), Ok(Some("[{\"id\":\"port\"}]")));
    assert_eq!(cache.interfaces(), Ok(vec![json!({"id": "port"})]));
    cache.set_network_info(None);
    assert_eq!(cache.interfaces(), Ok(Vec::new()));
    cache.set_network_info(Some("{"));
    assert!(cache.interfaces().is_err());
}

#[test]
fn unknown_keys_next_to_and_in_an_object_survive() {
    let json = json!({
        "nova_object.name": "Service", "nova_object.namespace": "nova", "nova_object.version": "1.22",
        "nova_object.data": {"host": "cmp1", "later": {"deep": [1, 2.5, null]}},
        "nova_object.changes": ["host"], "nova_object.signature": "abc",
    });
    let object = NovaObject::from_json(json.clone()).unwrap();
    assert_eq!(object.into_json(), json);
}

#[test]
fn debug_shows_no_values_of_fields() {
    let mut json = instance().into_json();
    json["nova_object.data"]["user_data"] = "geheim".into();
    let instance = NovaInstance::from_json(json).unwrap();
    let call = ConductorApi::new(release())
        .save_instance(&instance, &[])
        .unwrap();
    let shown = format!("{instance:?} {call:?} {}", call.call());
    assert!(!shown.contains("geheim"), "{shown}");
    assert!(
        shown.contains("user_data") && shown.contains("Instance.save"),
        "{shown}"
    );
}

#[test]
fn times_are_whole_seconds_of_utc_in_one_form() {
    let text = "2026-11-20T15:31:06Z";
    let time: NovaTime = text.parse().unwrap();
    assert_eq!(time.to_string(), text);
    assert_eq!(time.unix_seconds(), 1_795_188_666);
    assert_eq!(
        NovaTime::from(UNIX_EPOCH + Duration::from_millis(1_999)).unix_seconds(),
        1
    );
    assert_eq!(
        NovaTime::from(UNIX_EPOCH - Duration::from_secs(5)).unix_seconds(),
        0
    );
    assert_eq!(
        NovaTime::from_unix_seconds(u64::MAX).to_string(),
        "9999-12-31T23:59:59Z"
    );
    for wrong in [
        "",
        "2026-11-20",
        "2026-11-20T15:31:06",
        "2026-11-20 15:31:06Z",
        "2026-13-20T15:31:06Z",
        "2026-11-20T15:31:06.123Z",
    ] {
        assert!(wrong.parse::<NovaTime>().is_err(), "{wrong}");
    }
}

#[test]
fn a_failure_that_we_answer_with_is_read_again_as_the_same() {
    for failure in ReplyFailure::VARIANTS {
        let failure = failure.with_message("Instance x is not running.");
        let text = failure.to_text();
        assert_eq!(RemoteFailure::parse(&text), Ok(failure));
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["args"], json!(["Instance x is not running."]));
    }
    let modules: Vec<_> = [
        ReplyFailure::NotImplementedError,
        ReplyFailure::InstanceNotFound,
        ReplyFailure::NoSuchMethod,
    ]
    .map(ReplyFailure::module)
    .into();
    assert_eq!(
        modules,
        [
            "builtins",
            "nova.exception",
            "oslo_messaging.rpc.dispatcher"
        ]
    );
}

#[test]
fn failures_of_the_conductor_are_told_apart_by_their_class() {
    let of = |class: &str| {
        let text = json!({"class": class, "module": "nova.exception", "message": "m"}).to_string();
        RemoteFailure::parse(&text).unwrap().of_conductor()
    };
    assert_eq!(
        of("UnexpectedTaskStateError"),
        ConductorFailure::UnexpectedTaskState
    );
    assert_eq!(
        of("UnexpectedDeletingTaskStateError_Remote"),
        ConductorFailure::UnexpectedDeletingTaskState
    );
    assert_eq!(of("InstanceNotFound"), ConductorFailure::InstanceNotFound);
    assert_eq!(of("DBError"), ConductorFailure::Other);
    for wrong in ["", "null", "{}", "{\"class\": 1}", "[]", "x"] {
        assert!(RemoteFailure::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn errors_are_small() {
    assert!(size_of::<ConductorAnswerError>() < 128);
    assert!(size_of::<NovaFieldError>() < 128);
    assert!(size_of::<NotACall>() < 128);
    assert!(size_of::<RequestError>() < 128);
    assert!(size_of::<UnsendableObject>() < 128);
}

#[test]
fn a_list_of_another_type_is_refused() {
    let bdms = request("terminate_instance")["bdms"].clone();
    let error = NovaObjectList::<NovaInstance>::from_json(bdms.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the object is of the type BlockDeviceMappingList; InstanceList is right"
    );
    let mut items = map(&bdms);
    items["nova_object.data"] = json!({});
    assert!(NovaObjectList::<NovaInstance>::from_json(Value::Object(items)).is_err());
}

//! Each recorded message is read, and each call of nova-compute is made again.

use std::collections::{BTreeMap, BTreeSet};

use berth_nova::compute::ComputeRequest;
use berth_nova::conductor::{ConductorApi, ConductorCall, ConductorMethod, Reschedule};
use berth_nova::objects::{
    NovaBlockDeviceMapping, NovaComputeNode, NovaInfoCache, NovaInstance, NovaObjectList,
    NovaObjectType, NovaService,
};
use berth_nova::{
    ConductorFailure, FieldValue, NovaObject, NovaTaskState, RemoteFailure, SchedulerNews,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::messages::{map, messages, messages_of, objects_in, ordered, release, request, text};

#[test]
fn every_object_that_was_recorded_is_the_same_after_a_round_trip() {
    let mut kinds = BTreeSet::new();
    for message in messages() {
        for json in objects_in(message) {
            let object = NovaObject::from_json(json.clone()).expect("an object");
            kinds.insert(object.name().to_owned());
            assert_eq!(ordered(&object.into_json()), ordered(json));
        }
    }
    assert!(kinds.len() >= 25, "{kinds:?}");
}

#[test]
fn every_request_that_was_recorded_is_read_as_its_method() {
    let mut methods = BTreeSet::new();
    for message in messages()
        .iter()
        .filter(|message| message["dir"] == "in" && message["method"].is_string())
    {
        let method = text(message, "method");
        let request = ComputeRequest::parse(
            release(),
            message["namespace"].as_str(),
            method,
            text(message, "version"),
            map(&message["args"]),
        )
        .unwrap_or_else(|error| panic!("{method}: {error}"));
        assert!(!matches!(request, ComputeRequest::Unserved(_)), "{method}");
        methods.insert(method.to_owned());
    }
    assert_eq!(methods.len(), 13, "{methods:?}");
}

fn uuid(value: &Value) -> Uuid {
    value.as_str().expect("text").parse().expect("a UUID")
}

fn strings(value: &Value) -> Vec<&str> {
    Vec::read(value).expect("a list of strings")
}

/// Makes the query for one object, or the class action without an answer, that was recorded.
fn class_action(api: ConductorApi<'_>, args: &Value) -> ConductorCall {
    let (class, method) = (text(args, "objname"), text(args, "objmethod"));
    let (given, named) = (&args["args"], &args["kwargs"]);
    let (first, second) = (&given[0], &given[1]);
    let one = || first.as_str().expect("text");
    let two = || second.as_str().expect("text");
    match (class, method) {
        ("Service", "get_minimum_version") => {
            api.minimum_service_version(one()).unwrap().into_call()
        }
        ("Service", "get_by_host_and_binary") => api.service(one(), two()).unwrap().into_call(),
        ("Service", "get_by_compute_host") => api.compute_service(one()).unwrap().into_call(),
        ("ComputeNode", "get_by_uuid") => api.compute_node(uuid(first)).unwrap().into_call(),
        ("Instance", "get_by_uuid") => api
            .instance(uuid(&named["uuid"]), &strings(&named["expected_attrs"]))
            .unwrap()
            .into_call(),
        ("VirtualInterface", "delete_by_instance_uuid") => api
            .delete_virtual_interfaces(uuid(first))
            .unwrap()
            .into_call(),
        ("ConsoleAuthToken", "clean_console_auths_for_instance") => {
            api.delete_console_tokens(uuid(first)).unwrap().into_call()
        }
        ("ConsoleAuthToken", "clean_expired_console_auths") => {
            api.delete_expired_console_tokens().unwrap().into_call()
        }
        ("InstanceActionEvent", "event_start") => {
            let host = named["host"].as_str().expect("text");
            let made = api.start_event(uuid(first), two(), host);
            made.unwrap().into_call()
        }
        ("InstanceActionEvent", "event_finish_with_failure") => {
            let made = api.finish_event(uuid(first), two(), None);
            made.unwrap().into_call()
        }
        _ => list_query(api, args),
    }
}

/// Makes the query for a list that was recorded.
fn list_query(api: ConductorApi<'_>, args: &Value) -> ConductorCall {
    let (class, method) = (text(args, "objname"), text(args, "objmethod"));
    let (given, named) = (&args["args"], &args["kwargs"]);
    let (first, second) = (&given[0], &given[1]);
    let one = || first.as_str().expect("text");
    let two = || second.as_str().expect("text");
    let fields = || strings(&named["expected_attrs"]);
    match (class, method) {
        ("ComputeNodeList", "get_all_by_host") => {
            api.compute_nodes_of_host(one()).unwrap().into_call()
        }
        ("ComputeNodeList", "get_all_by_uuids") => {
            api.compute_nodes(&[uuid(&first[0])]).unwrap().into_call()
        }
        ("InstanceList", "get_by_host") => {
            let made = api.instances_of_host(one(), &fields());
            made.unwrap().into_call()
        }
        ("InstanceList", "get_by_host_and_node") => {
            let made = api.instances_of_node(one(), two(), &fields());
            made.unwrap().into_call()
        }
        ("InstanceList", "get_by_filters") => {
            let made = api.instances_by_filters(map(first), &fields());
            made.unwrap().into_call()
        }
        ("MigrationList", "get_by_filters") => {
            api.migrations_by_filters(map(first)).unwrap().into_call()
        }
        ("MigrationList", "get_in_progress_and_error") => {
            let made = api.migrations_in_progress_and_error(one(), two());
            made.unwrap().into_call()
        }
        ("BlockDeviceMappingList", "get_by_instance_uuid") => {
            api.block_devices(uuid(first)).unwrap().into_call()
        }
        ("ShareMappingList", "get_by_instance_uuid") => {
            api.shares(uuid(first)).unwrap().into_call()
        }
        ("ResourceList", "get_by_instance_uuid") => api.resources(uuid(first)).unwrap().into_call(),
        ("PciDeviceList", "get_by_compute_node") => {
            let made = api.pci_devices_of_node(first.as_i64().expect("a number"));
            made.unwrap().into_call()
        }
        other => panic!("no constructor makes {other:?}"),
    }
}

fn expected(kwargs: &Value) -> Vec<Option<NovaTaskState>> {
    match &kwargs["expected_task_state"] {
        Value::Null => Vec::new(),
        Value::String(word) => vec![Some(word.parse().expect("a task state"))],
        list => Vec::read(list).expect("task states"),
    }
}

/// Makes the object action that was recorded.
fn object_action(api: ConductorApi<'_>, args: &Value) -> ConductorCall {
    let json = || args["objinst"].clone();
    let instance = || NovaInstance::from_json(json()).unwrap();
    let node = || NovaComputeNode::from_json(json()).unwrap();
    let service = || NovaService::from_json(json()).unwrap();
    let cache = || NovaInfoCache::from_json(json()).unwrap();
    let disk = || NovaBlockDeviceMapping::from_json(json()).unwrap();
    let name = args["objinst"]["nova_object.name"].as_str().unwrap();
    let made = match (name, text(args, "objmethod")) {
        ("Instance", "save") => api.save_instance(&instance(), &expected(&args["kwargs"])),
        ("Instance", "destroy") => api.destroy_instance(&instance()),
        ("Instance", "drop_migration_context") => api.drop_migration_context(&instance()),
        ("ComputeNode", "create") => api.create_compute_node(&node()),
        ("ComputeNode", "save") => api.save_compute_node(&node()),
        ("Service", "create") => api.create_service(&service()),
        ("Service", "save") => api.save_service(&service()),
        ("InstanceInfoCache", "refresh") => api.refresh_info_cache(&cache()),
        ("InstanceInfoCache", "save") => api.save_info_cache(&cache()),
        ("BlockDeviceMapping", "save") => api.save_block_device(&disk()),
        other => panic!("no constructor makes {other:?}"),
    };
    made.unwrap().into_call()
}

/// The call of a message that nova-compute sent, made by our constructors.
pub(crate) fn made_again(message: &Value) -> ConductorCall {
    let api = ConductorApi::new(release());
    let args = &message["args"];
    match text(message, "method") {
        "ping" => api.ping(text(args, "arg")).unwrap().into_call(),
        "object_action" => object_action(api, args),
        "object_class_action_versions" => class_action(api, args),
        other => panic!("no constructor makes {other}"),
    }
}

fn keys(value: &Value) -> BTreeSet<String> {
    map(value).into_iter().map(|(key, _)| key).collect()
}

#[test]
fn every_call_that_nova_compute_sent_is_made_again_by_a_constructor() {
    let calls = messages_of("out", "call");
    assert!(calls.len() >= 33, "{}", calls.len());
    for message in calls {
        let call = made_again(message);
        let args = Value::Object(call.args().clone());
        assert_eq!(call.method().name(), text(message, "method"));
        assert_eq!(call.version().to_string(), text(message, "version"));
        assert_eq!(call.method().namespace(), message["namespace"].as_str());
        assert_eq!(keys(&args), keys(&message["args"]), "{call}");
        for key in ["objname", "objmethod", "object_versions", "args", "arg"] {
            assert_eq!(args[key], message["args"][key], "{key} of {call}");
        }
        assert_eq!(
            ordered(&args["objinst"]),
            ordered(&message["args"]["objinst"]),
            "{call}"
        );
        if args["kwargs"].is_object() {
            let named = &message["args"]["kwargs"];
            assert_eq!(keys(&args["kwargs"]), keys(named), "{call}");
        }
    }
}

#[test]
fn a_stored_call_is_the_same_call_when_it_is_restored() {
    for message in messages_of("out", "call") {
        let call = made_again(message);
        let restored =
            ConductorCall::restored(release(), call.method().name(), call.args().clone());
        assert_eq!(restored.as_ref(), Ok(&call));
    }
    let error = ConductorCall::restored(release(), "provider_fw_rule_get_all", Map::new());
    assert_eq!(
        error.unwrap_err().to_string(),
        "nova-conductor has no method \"provider_fw_rule_get_all\" for a compute service"
    );
}

/// The recorded calls by object and method.
fn calls() -> BTreeMap<(String, String), ConductorCall> {
    messages_of("out", "call")
        .iter()
        .filter(|message| message["method"] != "ping")
        .map(|message| {
            let args = &message["args"];
            let object = args["objname"]
                .as_str()
                .or_else(|| args["objinst"]["nova_object.name"].as_str());
            let key = (
                object.unwrap().to_owned(),
                text(args, "objmethod").to_owned(),
            );
            (key, made_again(message))
        })
        .collect()
}

#[test]
fn every_answer_that_was_recorded_is_read() {
    let calls = calls();
    let api = ConductorApi::new(release());
    let (mut merged, mut failed) = (0, 0);
    for message in messages_of("in", "reply") {
        if let Some(failure) = message["failure"].as_str() {
            let failure = RemoteFailure::parse(failure).unwrap();
            assert_eq!(failure.of_conductor(), ConductorFailure::HostNotFound);
            failed += 1;
            continue;
        }
        let result = &message["result"];
        assert_eq!(release().check_sendable(result), Ok(()));
        let object = text(message, "object");
        if message["of"] != "object_action" || object != "Instance" {
            continue;
        }
        let key = (object.to_owned(), text(message, "objmethod").to_owned());
        let json = calls[&key].args()["objinst"].clone();
        let mut instance = NovaInstance::from_json(json).unwrap();
        let request = api.save_instance(&instance, &[]).unwrap();
        let updates = request.answer(result.clone()).unwrap();
        assert_eq!(updates.merge_into(&mut instance), Ok(result[1].clone()));
        for (field, value) in map(&result[0]) {
            if field != "obj_what_changed" {
                assert_eq!(instance.object().data()[&field], value);
            }
        }
        merged += 1;
    }
    assert!(merged >= 3 && failed == 2, "{merged} {failed}");
}

/// A recorded answer that is not null.
fn answer_to(object: &str, method: &str) -> Value {
    messages_of("in", "reply")
        .into_iter()
        .filter(|message| message["object"] == object && message["objmethod"] == method)
        .map(|message| message["result"].clone())
        .find(|result| !result.is_null())
        .unwrap_or_else(|| panic!("an answer to {object}.{method}"))
}

#[test]
fn queries_have_typed_answers() {
    let api = ConductorApi::new(release());

    let minimum = api.minimum_service_version("nova-compute").unwrap();
    let answer = answer_to("Service", "get_minimum_version");
    assert_eq!(minimum.answer(answer), Ok(74));

    let service = api.service("cmp1", "nova-compute").unwrap();
    assert_eq!(service.answer(Value::Null), Ok(None));
    let answer = answer_to("Service", "get_by_compute_host");
    let found = service.answer(answer).unwrap().unwrap();
    assert_eq!(found.host(), Ok(Some("cmp1")));
    assert_eq!(found.version(), Ok(74));

    let nodes = api.compute_nodes_of_host("cmp1").unwrap();
    let answer = answer_to("ComputeNodeList", "get_all_by_host");
    let nodes = nodes.answer(answer).unwrap();
    assert_eq!(nodes[0].hypervisor_hostname(), Ok(Some("cmp1")));
    let kinds = nodes[0].supported_hv_specs().unwrap();
    assert_eq!(kinds[0].arch(), Ok("x86_64"));
    let pools = nodes[0].pci_device_pools().unwrap().unwrap();
    assert_eq!(pools.items(), &[]);

    let disks = api.block_devices(Uuid::nil()).unwrap();
    let answer = answer_to("BlockDeviceMappingList", "get_by_instance_uuid");
    let disks = disks.answer(answer).unwrap();
    assert_eq!(disks[0].source_type(), Ok(Some("image")));
    assert_eq!(disks[0].boot_index(), Ok(Some(0)));

    let resources = api.resources(Uuid::nil()).unwrap();
    assert_eq!(resources.answer(Value::Null), Ok(Vec::new()));
}

#[test]
fn an_answer_of_another_kind_is_refused_with_both_kinds() {
    let api = ConductorApi::new(release());
    let error = |result: Value| {
        let request = api.compute_service("cmp1").unwrap();
        request.answer(result).unwrap_err().to_string()
    };
    assert_eq!(
        error(json!(7)),
        "nova-conductor answered with another object than was asked for: a Nova object is needed here, and there is a number"
    );
    assert_eq!(
        error(answer_to("ComputeNode", "get_by_uuid")),
        "nova-conductor answered with another object than was asked for: the object is of the type ComputeNode; Service is right"
    );
    let minimum = api.minimum_service_version("nova-compute").unwrap();
    assert_eq!(
        minimum.answer(json!("74")).unwrap_err().to_string(),
        "nova-conductor answered a string; an integer is right"
    );
}

#[test]
fn a_boot_that_another_host_has_to_do_keeps_what_it_came_with() {
    const METHOD: &str = "build_and_run_instance";
    let args = request(METHOD);
    let parsed = ComputeRequest::parse(release(), None, METHOD, "6.0", args.clone());
    let Ok(ComputeRequest::BuildAndRunInstance(build)) = parsed else {
        panic!("a boot: {parsed:?}")
    };
    let tried = json!({"retry": {"num_attempts": 2, "hosts": [["cmp1", "cmp1"]], "exc_reason": "no space"}});
    let call = ConductorApi::new(release())
        .build_instances(Reschedule {
            build: &build,
            instance: &build.instance,
            filter_properties: map(&tried),
        })
        .unwrap();
    assert_eq!(call.method(), ConductorMethod::BuildInstances);
    assert_eq!(call.method().namespace(), Some("compute_task"));
    assert!(call.method().is_cast());
    let sent = call.args();
    assert_eq!(sent["filter_properties"], tried);
    for key in [
        "image",
        "admin_password",
        "injected_files",
        "requested_networks",
        "security_groups",
        "request_spec",
    ] {
        assert_eq!(ordered(&sent[key]), ordered(&args[key]), "{key}");
    }
    assert_eq!(ordered(&sent["instances"][0]), ordered(&args["instance"]));
    let hosts = args["host_list"].as_array().cloned().unwrap_or_default();
    assert_eq!(ordered(&sent["host_lists"]), ordered(&json!([hosts])));
    assert!(!format!("{build:?} {call:?}").contains("SECRET"));
}

#[test]
fn news_for_the_schedulers_are_those_of_nova_compute() {
    let fanouts = messages_of("out", "fanout");
    assert_eq!(fanouts.len(), 3);
    for message in fanouts {
        let args = &message["args"];
        let host = text(args, "host_name");
        let news = match text(message, "method") {
            "update_instance_info" => {
                let list = NovaObjectList::<NovaInstance>::from_json(args["instance_info"].clone());
                SchedulerNews::updated(release(), host, list.unwrap().into_items()).unwrap()
            }
            "delete_instance_info" => SchedulerNews::deleted(host, uuid(&args["instance_uuid"])),
            "sync_instance_info" => {
                let uuids: Vec<Uuid> = Vec::read(&args["instance_uuids"]).unwrap();
                SchedulerNews::all(host, &uuids)
            }
            other => panic!("{other}"),
        };
        assert_eq!(news.method(), text(message, "method"));
        assert_eq!(news.version().to_string(), text(message, "version"));
        let sent = Value::Object(news.args().clone());
        assert_eq!(ordered(&sent), ordered(args), "{}", news.method());
    }
}

//! Requests: what a compute service is asked, and what becomes of what it does not serve.

use std::collections::BTreeSet;

use berth_nova::compute::{
    ComputeMethod, ComputeRequest, NovaRebootType, RequestError, UnservedCleanup,
    arguments_to_backport, failure_of_unserved, outcome_of_unserved,
};
use berth_nova::objects::{NovaEventName, NovaInstance, NovaObjectType};
use berth_nova::{NovaTaskState, NovaVmState, ReplyFailure};
use serde_json::{Map, Value, json};
use strum::VariantArray;

use crate::messages::{map, messages, release, request};

fn parse(method: &str, args: Map<String, Value>) -> Result<ComputeRequest, RequestError> {
    ComputeRequest::parse(release(), None, method, "6.0", args)
}

/// The JSON of an instance.
fn instance_json() -> Value {
    request("stop_instance")["instance"].clone()
}

fn instance(vm_state: &str, task_state: Value) -> NovaInstance {
    let mut json = instance_json();
    json["nova_object.data"]["vm_state"] = vm_state.into();
    json["nova_object.data"]["task_state"] = task_state;
    NovaInstance::from_json(json).unwrap()
}

#[test]
fn a_boot_has_typed_arguments() {
    let Ok(ComputeRequest::BuildAndRunInstance(build)) =
        parse("build_and_run_instance", request("build_and_run_instance"))
    else {
        panic!("a boot")
    };
    assert_eq!(build.instance.vm_state(), Ok(Some(NovaVmState::Building)));
    assert_eq!(
        build.instance.task_state(),
        Ok(Some(NovaTaskState::Scheduling))
    );
    assert_eq!(build.instance.flavor().unwrap().name(), Ok(Some("t1")));
    assert_eq!(build.image.name(), Ok(Some("tiny")));
    assert_eq!(build.image.size(), Ok(Some(1_048_576)));
    assert_eq!(build.node.as_deref(), Some("cmp1"));
    let networks = build.requested_networks.as_ref().unwrap();
    assert_eq!(networks.items()[0].network_id(), Ok(Some("none")));
    let spec = build.request_spec.as_ref().unwrap();
    assert_eq!(spec.instance_uuid(), build.instance.uuid());
    assert_eq!(build.security_groups, ["default"]);
}

#[test]
fn a_boot_with_accelerators_brings_their_requests_and_the_alternates() {
    let message = messages()
        .iter()
        .filter(|message| message["method"] == "build_and_run_instance")
        .nth(1)
        .expect("a second boot");
    let Ok(ComputeRequest::BuildAndRunInstance(build)) =
        parse("build_and_run_instance", map(&message["args"]))
    else {
        panic!("a boot")
    };
    assert_eq!(build.accel_uuids.len(), 1);
    let hosts = build.host_list.as_ref().expect("alternates");
    assert_eq!(hosts[0].service_host(), Ok("rs1"));
    let body = hosts[0].parsed_allocation_request().unwrap().unwrap();
    assert!(body["allocations"].is_object());
}

#[test]
fn external_events_have_names_and_instances() {
    let Ok(ComputeRequest::ExternalInstanceEvent { instances, events }) = parse(
        "external_instance_event",
        request("external_instance_event"),
    ) else {
        panic!("events")
    };
    assert_eq!(events[0].name(), Ok(NovaEventName::NetworkChanged));
    assert_eq!(events[0].instance_uuid(), instances[0].uuid());
}

#[test]
fn methods_that_were_not_recorded_are_read_from_their_arguments() {
    let of = |method: &str, more: Value| {
        let mut args = map(&more);
        args.insert("instance".to_owned(), instance_json());
        parse(method, args).unwrap()
    };
    let reboot = of(
        "reboot_instance",
        json!({"block_device_info": null, "reboot_type": "HARD"}),
    );
    assert!(matches!(
        reboot,
        ComputeRequest::RebootInstance {
            reboot_type: NovaRebootType::Hard,
            ..
        }
    ));
    let port = "88a15950-0000-4000-8000-000000000001";
    let attach = of(
        "attach_interface",
        json!({"network_id": null, "port_id": port, "requested_ip": null, "tag": "lan"}),
    );
    assert!(matches!(
        attach,
        ComputeRequest::AttachInterface {
            port_id: Some(_),
            network_id: None,
            tag: Some(_),
            ..
        }
    ));
    let detach = of("detach_interface", json!({"port_id": port}));
    assert!(matches!(detach, ComputeRequest::DetachInterface { .. }));
    let rescue = of(
        "rescue_instance",
        json!({"rescue_password": "geheim", "clean_shutdown": false, "rescue_image_ref": null}),
    );
    assert!(!format!("{rescue:?}").contains("geheim"));
    let ComputeRequest::RescueInstance {
        rescue_password,
        clean_shutdown,
        ..
    } = rescue
    else {
        panic!("a rescue")
    };
    assert_eq!(rescue_password.unwrap().reveal(), "geheim");
    assert!(!clean_shutdown);
    let port = of(
        "validate_console_port",
        json!({"port": 5900, "console_type": "novnc"}),
    );
    assert!(matches!(
        port,
        ComputeRequest::ValidateConsolePort { port: 5900, .. }
    ));
    for (method, kind) in [
        ("get_vnc_console", "novnc"),
        ("get_serial_console", "serial"),
    ] {
        let console = of(method, json!({"console_type": kind}));
        assert!(!matches!(console, ComputeRequest::Unserved(_)), "{method}");
    }
    let enabled = parse("set_host_enabled", map(&json!({"enabled": true})));
    assert_eq!(
        enabled,
        Ok(ComputeRequest::SetHostEnabled { enabled: true })
    );
    let cache = parse("cache_images", map(&json!({"image_ids": ["a", "b"]})));
    assert!(matches!(cache, Ok(ComputeRequest::CacheImages { image_ids }) if image_ids.len() == 2));
}

#[test]
fn twenty_five_methods_are_served_and_all_others_are_unserved_by_name() {
    let mut served = BTreeSet::new();
    for method in ComputeMethod::all() {
        let args = json!({
            "instance": instance_json(), "instances": [], "events": [], "image": {}, "recreate": false, "enabled": true,
            "image_ids": [], "reboot_type": "SOFT", "console_type": "novnc", "port": 1,
            "port_id": "88a15950-0000-4000-8000-000000000001",
        });
        match parse(method.name(), map(&args)) {
            Ok(ComputeRequest::Unserved(request)) => {
                assert_eq!(request.method, *method);
                assert!(request.instance.is_some());
            }
            Ok(_) => assert!(served.insert(method.name())),
            Err(error) => panic!("{method}: {error}"),
        }
    }
    assert_eq!(served.len(), 25, "{served:?}");
}

#[test]
fn a_ping_is_of_the_base_interface_alone() {
    let args = || map(&json!({"arg": "x"}));
    let ping = ComputeRequest::parse(release(), Some("baseapi"), "ping", "1.0", args());
    assert_eq!(ping, Ok(ComputeRequest::Ping { arg: "x".into() }));
    let newer = ComputeRequest::parse(release(), Some("baseapi"), "ping", "1.2", args());
    assert!(matches!(newer, Err(RequestError::Version { .. })));
    for (namespace, method) in [
        (None, "ping"),
        (Some("baseapi"), "stop_instance"),
        (Some("x"), "ping"),
    ] {
        let refused = ComputeRequest::parse(release(), namespace, method, "1.0", args());
        assert!(matches!(refused, Err(RequestError::Method(_))), "{method}");
    }
}

#[test]
fn a_wrong_request_is_refused_with_what_is_wrong() {
    let error = |method: &str, version: &str, args: Value| {
        ComputeRequest::parse(release(), None, method, version, map(&args))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("levitate_instance", "6.0", json!({})),
        "the compute RPC interface has no method \"levitate_instance\""
    );
    for version in ["6.6", "7.0", "5.13", "six"] {
        assert_eq!(
            error("get_host_uptime", version, json!({})),
            format!(
                "get_host_uptime has the version {version:?}, and this compute service has 6.5"
            )
        );
    }
    assert_eq!(
        error("start_instance", "6.0", json!({})),
        "start_instance has no argument instance"
    );
    assert_eq!(
        error("start_instance", "6.0", json!({"instance": {"uuid": "x"}})),
        "the argument instance of start_instance is wrong: nova_object.name of the object without a name is missing; a string is right"
    );
    assert_eq!(
        error("set_host_enabled", "6.0", json!({"enabled": "yes"})),
        "the argument enabled of set_host_enabled is wrong: it is a string; a boolean is right"
    );
    let mut newer = instance_json();
    newer["nova_object.version"] = "2.9".into();
    assert_eq!(
        error("start_instance", "6.0", json!({"instance": newer})),
        "start_instance has an object that this compute service does not understand: the object Instance has the version 2.9, and \
         Nova 34.0.0 has 2.8"
    );
}

#[test]
fn arguments_with_newer_objects_are_found_by_their_outermost_object() {
    let mut args = request("external_instance_event");
    assert_eq!(
        arguments_to_backport(release(), &args),
        Vec::<String>::new()
    );
    args["instances"][0]["nova_object.data"]["info_cache"]["nova_object.version"] = "1.6".into();
    args["events"][0]["nova_object.version"] = "1.6".into();
    let mut found = arguments_to_backport(release(), &args);
    found.sort();
    assert_eq!(found, ["/events/0", "/instances/0"]);
    let args = map(&json!({"a/b": {"~": args["events"][0]}}));
    let found = arguments_to_backport(release(), &args);
    assert_eq!(found, ["/a~1b/~0"]);
    let whole = Value::Object(args);
    assert!(whole.pointer(&found[0]).is_some());
}

fn states_that(method: ComputeMethod) -> BTreeSet<NovaTaskState> {
    NovaTaskState::VARIANTS
        .iter()
        .copied()
        .filter(|state| {
            let instance = instance("active", state.to_string().into());
            outcome_of_unserved(method, &instance).ends_task_state
        })
        .collect()
}

#[test]
fn each_task_state_of_nova_is_ended_by_a_method() {
    let ended: BTreeSet<NovaTaskState> = ComputeMethod::all()
        .iter()
        .flat_map(|method| states_that(*method))
        .collect();
    let all: BTreeSet<NovaTaskState> = NovaTaskState::VARIANTS.iter().copied().collect();
    assert_eq!(ended, all);
}

#[test]
fn a_method_that_is_not_served_ends_the_task_state_that_announced_it() {
    for (method, task_state, vm_state, cleanups) in [
        (
            "snapshot_instance",
            "image_snapshot_pending",
            None,
            vec![UnservedCleanup::DeleteImage],
        ),
        (
            "backup_instance",
            "image_backup",
            None,
            vec![UnservedCleanup::DeleteImage],
        ),
        (
            "shelve_instance",
            "shelving",
            None,
            vec![UnservedCleanup::DeleteImage],
        ),
        (
            "shelve_offload_instance",
            "shelving_offloading",
            None,
            vec![],
        ),
        (
            "unshelve_instance",
            "unshelving",
            None,
            vec![UnservedCleanup::DeleteAllocations],
        ),
        ("set_admin_password", "updating_password", None, vec![]),
        ("suspend_instance", "suspending", None, vec![]),
        (
            "live_migration",
            "migrating",
            None,
            vec![
                UnservedCleanup::FailMigration,
                UnservedCleanup::RevertAllocations,
            ],
        ),
        (
            "prep_resize",
            "resize_prep",
            None,
            vec![
                UnservedCleanup::FailMigration,
                UnservedCleanup::RevertAllocations,
            ],
        ),
        (
            "finish_resize",
            "resize_migrated",
            Some(NovaVmState::Error),
            vec![UnservedCleanup::FailMigration],
        ),
        (
            "rebuild_instance",
            "rebuilding",
            Some(NovaVmState::Error),
            vec![],
        ),
    ] {
        let instance = instance("active", task_state.into());
        let outcome = outcome_of_unserved(method.parse().unwrap(), &instance);
        assert!(outcome.ends_task_state && outcome.fault, "{method}");
        assert_eq!(outcome.vm_state, vm_state, "{method}");
        assert_eq!(outcome.cleanups, cleanups, "{method}");
    }
}

#[test]
fn an_action_that_is_not_served_does_not_end_the_action_of_somebody_else() {
    for method in ComputeMethod::all() {
        if *method == ComputeMethod::TerminateInstance {
            continue;
        }
        let deleting = outcome_of_unserved(*method, &instance("active", "deleting".into()));
        assert!(!deleting.ends_task_state, "{method}");
        assert_eq!(deleting.vm_state, None, "{method}");
    }
    let idle = outcome_of_unserved(
        ComputeMethod::SuspendInstance,
        &instance("active", Value::Null),
    );
    assert!(!idle.ends_task_state && idle.vm_state.is_none() && !idle.fault);
}

#[test]
fn a_call_that_is_not_served_is_answered_with_an_exception_that_its_caller_expects() {
    for (method, failure) in [
        ("get_spice_console", ReplyFailure::NotImplementedError),
        ("set_admin_password", ReplyFailure::NotImplementedError),
        ("reserve_block_device_name", ReplyFailure::InvalidInput),
        (
            "check_can_live_migrate_destination",
            ReplyFailure::MigrationPreCheckError,
        ),
    ] {
        let method = method.parse().unwrap();
        assert_eq!(failure_of_unserved(method), failure, "{method}");
    }
}

#[test]
fn a_task_state_that_nova_does_not_have_is_ended() {
    let instance = instance("active", "levitating".into());
    assert!(outcome_of_unserved(ComputeMethod::SuspendInstance, &instance).ends_task_state);
    assert!(!outcome_of_unserved(ComputeMethod::DetachVolume, &instance).ends_task_state);
}

//! Tests of the messages that a driver may send.

use std::path::PathBuf;

use berth_model::{ConsumerUuid, Disposition, NodeName};
use berth_virt::{
    CpuSet, GuestError, HostDeviceId, HostView, NodeDisk, ObserveError, PowerAction, PowerState,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::options::ExecOptions;

fn options() -> ExecOptions {
    ExecOptions::new(PathBuf::from("/driver"), PathBuf::from("/state"))
}

fn read(value: Value) -> Result<HostView, String> {
    let view: ViewResult = decode(value).map_err(|wrong| wrong.to_string())?;
    view.view(&options())
}

fn view() -> Value {
    let uuid = "00000000-0000-0000-0000-000000000001";
    let other = "00000000-0000-0000-0000-000000000002";
    json!({
        "hypervisor": {"kind": "QEMU", "version": "7.2.13", "hostname": "host"},
        "nodes": [{
            "name": "node-1",
            "uuid": other,
            "cpus": {"online": "0-7", "shared": "0-3", "dedicated": "4-7"},
            "memory_mib": 1024,
            "disk": {"local": {"gib": 10}},
            "cells": [{"id": 0, "cpus": "0-7", "memory_mib": 1024, "siblings": ["0,4"], "huge_pages": [{"size_kib": 2048, "count": 4}], "socket": 1}],
            "gpus": [{"address": "0000:84:00.0", "numa_node": 0, "offered": {"mdev_type": "nvidia-558", "class": "VGPU", "total": 4}}],
            "functions": [{"physical": "0000:3b:00.0", "addresses": ["0000:3b:02.0"], "class": "SRIOV_NET_VF"}],
            "devices": [{
                "address": "0000:81:00.0", "vendor_id": 4318, "product_id": 7864, "owner": "accelerator", "device_type": "GPU",
                "traits": ["CUSTOM_GPU_T4"], "handles": [{"function": "0000:81:00.0"}], "condition": {"unfit": "aer"},
            }],
            "customs": [{"class": "CUSTOM_LICENSE", "formerly": ["CUSTOM_LICENCE"], "total": 5}],
            "traits": ["HW_CPU_X86_AVX2"],
            "guests": [{
                "uuid": uuid, "name": "guest-1", "running": false, "cpu_policy": {"mixed": {"dedicated": 1}}, "vcpus": 2,
                "memory_mib": 64, "cells": [{"host_cell": 0, "vcpus": 2, "memory_mib": 64}], "mdevs": [{"uuid": other}],
                "functions": ["0000:3b:02.0"],
            }],
            "unreadable": [{"uuid": other, "name": "guest-2", "reason": "no document"}],
        }],
    })
}

#[test]
fn a_whole_view_is_the_contracts() {
    let seen = read(view()).unwrap();
    let node = &seen.nodes[&NodeName::new("node-1").unwrap()];
    assert_eq!(node.disk, NodeDisk::Local { gib: 10 });
    assert_eq!(node.devices[0].class.as_str(), "PGPU");
    assert_eq!(node.cells[0].huge_pages[&2048], 4);
    assert_eq!(node.cells[0].socket, Some(1));
    assert_eq!(
        node.guests.values().next().unwrap().power,
        PowerState::ShutOff
    );
    assert_eq!(node.unreadable.len(), 1);
}

#[test]
fn a_driver_that_leaves_out_what_it_may_leaves_it_to_the_configuration() {
    let bare = json!({
        "hypervisor": {"kind": "x", "version": "1", "hostname": "h"},
        "nodes": [{"name": "n", "cpus": {"online": "0-3"}, "memory_mib": 1, "disk": "none"}],
    });
    let configured = ExecOptions {
        cpu_dedicated_set: Some(CpuSet::first(2)),
        ..options()
    };
    let result: ViewResult = decode(bare).unwrap();
    let seen = result.view(&configured).unwrap();
    let node = seen.nodes.values().next().unwrap();
    assert_eq!(node.cpus.dedicated, Some(CpuSet::first(2)));
    assert_eq!(node.cpus.shared, None);
    assert!(node.guests.is_empty() && node.devices.is_empty());
}

#[test]
fn what_is_wrong_with_a_view_is_named_by_its_path() {
    let long = "x".repeat(300);
    let many = vec![json!("CUSTOM_X"); 2000];
    for (pointer, value, found) in [
        (
            "/nodes/0/gpus/0/address",
            json!("84:00"),
            "nodes[0].gpus[0].address: ",
        ),
        (
            "/nodes/0/cpus/online",
            json!("7-3"),
            "nodes[0].cpus.online: ",
        ),
        ("/nodes/0/memory_mib", json!(-1), "nodes[0].memory_mib: "),
        (
            "/nodes/0/memory_mib",
            json!("1024"),
            "nodes[0].memory_mib: ",
        ),
        (
            "/nodes/0/disk",
            json!({"local": {"gb": 1}}),
            "nodes[0].disk",
        ),
        (
            "/nodes/0/devices/0/device_type",
            json!("TPU"),
            "nodes[0].devices[0].device_type: \"TPU\" is no type of a device; one of GPU, ",
        ),
        (
            "/nodes/0/devices/0/condition",
            json!({"unfit": "tired"}),
            "one of vanished, aer",
        ),
        (
            "/nodes/0/devices/0/vendor_id",
            json!("10de"),
            "nodes[0].devices[0].vendor_id: ",
        ),
        (
            "/nodes/0/devices/0/handles/0",
            json!({"fonction": "0000:81:00.0"}),
            "nodes[0].devices[0].handles[0]",
        ),
        (
            "/nodes/0/traits/0",
            json!("no trait"),
            "nodes[0].traits[0]: ",
        ),
        (
            "/nodes/0/traits",
            json!(many),
            "nodes[0].traits: at most 1024",
        ),
        (
            "/nodes/0/guests/0/uuid",
            json!("1"),
            "nodes[0].guests[0].uuid: ",
        ),
        (
            "/nodes/0/guests/0/name",
            json!(long),
            "nodes[0].guests[0].name: 300 bytes; at most 255",
        ),
        (
            "/nodes/0/guests/0/name",
            json!("a\u{7}"),
            "without control characters",
        ),
        (
            "/nodes/0/unreadable/0/uuid",
            json!("00000000-0000-0000-0000-000000000001"),
            "nodes[0].unreadable[0].uuid: 00000000-0000-0000-0000-000000000001 is there twice",
        ),
        ("/nodes/0/name", json!(""), "nodes[0].name: "),
        (
            "/hypervisor",
            json!({"kind": "x", "version": "1", "host": "h"}),
            "hypervisor.host: unknown field `host`",
        ),
    ] {
        let mut wrong = view();
        *wrong.pointer_mut(pointer).unwrap() = value;
        let error = read(wrong).expect_err(pointer);
        assert!(error.contains(found), "{pointer}: {error}");
    }
    let mut twice = view();
    let node = twice["nodes"][0].clone();
    twice["nodes"].as_array_mut().unwrap().push(node);
    assert_eq!(
        read(twice).unwrap_err(),
        "nodes[1].name: node-1 is there twice"
    );
    for (list, key) in [
        ("cells", "id"),
        ("gpus", "address"),
        ("functions", "physical"),
        ("devices", "address"),
        ("customs", "class"),
        ("guests", "uuid"),
    ] {
        let mut twice = view();
        let all = twice["nodes"][0][list].as_array_mut().unwrap();
        all.push(all[0].clone());
        let error = read(twice).unwrap_err();
        let place = format!("nodes[0].{list}[1].{key}: ");
        assert!(
            error.starts_with(&place) && error.ends_with("is there twice"),
            "{error}"
        );
    }
}

/// Data that fit every code of a family, as far as each takes them.
fn data_of(fields: &[(&str, Value)]) -> Value {
    let fields = fields.iter();
    Value::Object(
        fields
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
    )
}

fn error(code: i64, data: Value) -> ErrorObject {
    ErrorObject {
        code,
        message: "the reason".to_owned(),
        data,
    }
}

#[test]
fn each_code_of_observe_is_an_error_of_its_own() {
    let target = ("target", json!("qemu:///system"));
    let mut seen = std::collections::HashSet::new();
    for code in ObserveCode::ALL {
        let data = match code {
            ObserveCode::Unreachable => data_of(std::slice::from_ref(&target)),
            ObserveCode::TimedOut => data_of(&[target.clone(), ("seconds", json!(5))]),
            ObserveCode::Refused => Value::Null,
            ObserveCode::Malformed => data_of(&[("origin", json!("a file"))]),
            ObserveCode::Unreadable => data_of(&[("path", json!("/a"))]),
            ObserveCode::Configuration => data_of(&[("option", json!("host"))]),
            ObserveCode::LibraryMissing => data_of(&[("library", json!("libx.so"))]),
        };
        let found = observe_error(error(code.number(), data), "exec:/x".to_owned());
        let is_fatal = matches!(
            code,
            ObserveCode::Configuration | ObserveCode::LibraryMissing
        );
        assert_eq!(
            found.disposition() == Disposition::Fatal,
            is_fatal,
            "{found}"
        );
        assert!(seen.insert(std::mem::discriminant(&found)), "{found}");
    }
    for (code, data, says) in [
        (9, Value::Null, "error.code: 9"),
        (1001, Value::Null, "error.data"),
        (
            1001,
            json!({"target": "x", "y": 1}),
            "error.data: y: unknown field",
        ),
        (1003, json!({"x": 1}), "this code has none"),
    ] {
        let found = observe_error(error(code, data), "exec:/x".to_owned());
        assert!(matches!(found, ObserveError::Malformed { .. }), "{found}");
        let text = found.to_string();
        assert!(text.contains(says) && text.contains("the reason"), "{text}");
    }
}

#[test]
fn each_code_of_guests_is_an_error_of_its_own() {
    let uuid = ConsumerUuid::from(Uuid::from_u128(1));
    let state = || data_of(&[("state", json!("paused"))]);
    let target = ("target", json!("t"));
    let device = json!({"function": "0000:81:00.0"});
    let mut seen = std::collections::HashSet::new();
    for code in GuestCode::ALL {
        let data = match code {
            GuestCode::HoldsDevices => data_of(&[("devices", json!([{"device": device}]))]),
            GuestCode::NotOff | GuestCode::NotRunning | GuestCode::WrongState => state(),
            GuestCode::Unreachable => data_of(std::slice::from_ref(&target)),
            GuestCode::TimedOut => data_of(&[target.clone(), ("seconds", json!(5))]),
            GuestCode::DeviceMissing => data_of(&[("device", device.clone())]),
            GuestCode::NameTaken => {
                data_of(&[("name", json!("n")), ("holder", json!(uuid.to_string()))])
            }
            GuestCode::Malformed => data_of(&[("origin", json!("a file"))]),
            GuestCode::State => data_of(&[("path", json!("/a"))]),
            GuestCode::Unsupported
            | GuestCode::DeviceBusy
            | GuestCode::Changed
            | GuestCode::Another
            | GuestCode::Refused
            | GuestCode::Stuck => Value::Null,
        };
        let question = GuestQuestion {
            action: Some(PowerAction::Pause),
            ..GuestQuestion::of(Method::Suspend, uuid)
        };
        let found = guest_error(error(code.number(), data), "exec:/x".to_owned(), &question);
        assert!(seen.insert(std::mem::discriminant(&found)), "{found}");
    }
    // A call about all guests has no guest for an error.
    let all = GuestQuestion::of_all(Method::Guests);
    let found = guest_error(error(2013, Value::Null), "exec:/x".to_owned(), &all);
    assert!(matches!(found, GuestError::Malformed { .. }), "{found}");
    assert_eq!(found.disposition(), Disposition::Retry);
}

#[test]
fn each_code_of_devices_is_an_error_of_its_own() {
    let device = HostDeviceId::Mdev(Uuid::from_u128(1));
    let mut seen = std::collections::HashSet::new();
    for code in DeviceCode::ALL {
        let data = match code {
            DeviceCode::TimedOut => data_of(&[("seconds", json!(5))]),
            DeviceCode::Quarantined => data_of(&[("cause", json!("reset-failed"))]),
            _ => json!({}),
        };
        let found = device_error(error(code.number(), data), device, "reset_device");
        assert!(seen.insert(std::mem::discriminant(&found)), "{found}");
    }
    let failed = json!({"errors": [
        {"device": {"function": "0000:81:00.0"}, "code": 3007, "message": "sriov_numvfs is refused"},
        {"device": {"function": "0000:82:00.0"}, "code": 7, "message": "what"},
    ]});
    let result: PrepareHostResult = decode(failed).unwrap();
    let found: Vec<_> = result.errors().iter().map(ToString::to_string).collect();
    assert!(
        found[0].contains("0000:81:00.0") && found[0].contains("sriov_numvfs"),
        "{found:?}"
    );
    assert!(found[1].contains("error.code: 7"), "{found:?}");
}

#[test]
fn a_grace_is_whole_seconds_and_never_shorter() {
    let uuid = ConsumerUuid::from(Uuid::from_u128(1));
    let of = |action| PowerParams {
        uuid: AsText(uuid),
        action,
    };
    let asked = |grace| params(&of(PowerAction::Stop { grace }));
    let millis = std::time::Duration::from_millis;
    assert_eq!(asked(millis(1500))["grace_seconds"], 2);
    let stop = asked(millis(0));
    assert_eq!(
        stop,
        json!({"uuid": uuid.to_string(), "action": "stop", "grace_seconds": 0})
    );
    assert_eq!(params(&PowerState::ShutOff), "shut_off");
    let start = params(&of(PowerAction::Start));
    assert_eq!(start, json!({"uuid": uuid.to_string(), "action": "start"}));
}

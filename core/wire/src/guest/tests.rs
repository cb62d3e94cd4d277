//! Tests of the serialised form.

use super::*;
use crate::{decode, encode};

const WHOLE: &str = r#"{
  "uuid": "11111111-2222-4333-8444-000000000001", "name": "vm1", "project_id": "p", "user_id": "u", "node": "compute1",
  "flavor": {"name": "gpu", "vcpus": 4, "ram_mb": 2048, "disk_gb": 10, "ephemeral_gb": 1,
             "extra_specs": {"hw:cpu_policy": "dedicated", "resources:VGPU": "1"}},
  "image": {"location": {"glance": "11111111-2222-4333-8444-0000000000aa"}, "checksum": "sha256:00", "format": "qcow2"},
  "kernel": {"kernel": "/boot/vmlinuz", "ramdisk": "/boot/initrd", "command_line": "console=ttyS0"},
  "networks": [{"source": {"bridge": "br0"}, "mac": "fa:16:3e:00:00:01"}, {"source": {"network": "default"}}],
  "accelerator_requests": ["aaaaaaaa-bbbb-4ccc-8ddd-000000000001"],
  "allocations": {"11111111-2222-4333-8444-0000000000ff": {"VGPU": 1}},
  "limits": {"host_cells": [0, 1], "cpu_allocation_ratio": 16.0},
  "config_drive": {"hostname": "vm1", "metadata": {"role": "web"}, "user_data": "I2Nsb3Vk",
                   "ssh_keys": [{"name": "k", "public_key": "ssh-ed25519 AAAA"}]},
  "power": "shut_off"
}"#;

#[test]
fn a_build_travels_whole_and_a_small_one_says_little() {
    let build: GuestBuild = decode(WHOLE.as_bytes()).unwrap();
    assert_eq!(decode::<GuestBuild>(&encode(&build)).unwrap(), build);
    let least = r#"{"uuid":"11111111-2222-4333-8444-000000000001","name":"a","project_id":"p","node":"n",
                    "flavor":{"name":"f","vcpus":1,"ram_mb":1}}"#;
    let least: GuestBuild = decode(least.as_bytes()).unwrap();
    assert_eq!(least.power, berth_model::DesiredPower::Running);
    let text = String::from_utf8(encode(&least)).unwrap();
    assert!(
        !text.contains("limits") && !text.contains("config_drive"),
        "{text}"
    );
}

#[test]
fn what_is_wrong_in_a_build_is_named() {
    for (from, to, named) in [
        (r#""name": "vm1""#, r#""nam": "vm1""#, "nam"),
        (r#""vcpus": 4"#, r#""vcpus": -4"#, "flavor.vcpus"),
        (r#""vcpus": 4"#, r#""vcpus": 4294967296"#, "flavor.vcpus"),
        (r#"{"VGPU": 1}"#, r#"{"VGPU": -1}"#, "VGPU"),
        (
            r#"{"bridge": "br0"}"#,
            r#"{"bond": "br0"}"#,
            "networks[0].source",
        ),
        (
            "aaaaaaaa-bbbb-4ccc-8ddd-000000000001",
            "one",
            "accelerator_requests[0]",
        ),
        (r#""power": "shut_off""#, r#""power": "on""#, "power"),
        (
            r#"{"role": "web"}"#,
            r#"{"role": 1}"#,
            "config_drive.metadata.role",
        ),
    ] {
        let body = WHOLE.replacen(from, to, 1);
        let error = decode::<GuestBuild>(body.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn user_data_is_not_shown() {
    let build: GuestBuild = decode(WHOLE.as_bytes()).unwrap();
    let shown = format!("{build:?}");
    assert!(
        !shown.contains("I2Nsb3Vk") && !shown.contains("web"),
        "{shown}"
    );
}

#[test]
fn an_answer_of_a_newer_agent_is_read() {
    let body = r#"{"api": "berth/1", "more": 1, "guests": [{"uuid": "11111111-2222-4333-8444-000000000001", "name": "a",
        "node": "n", "status": "active", "reason": null, "accelerator_requests": [], "devices": [], "new": {},
        "steps": [{"step": "bind", "state": "done"}]}]}"#;
    let list: GuestList = decode(body.as_bytes()).unwrap();
    assert_eq!(list.guests[0].steps[0].step, "bind");
}

#[test]
fn an_actions_id_is_short_and_plain() {
    for good in [
        "a",
        "req-11111111-2222-4333-8444-000000000001.7",
        &"x".repeat(64),
    ] {
        assert_eq!(good.parse::<ActionId>().unwrap().as_str(), good);
    }
    for bad in ["", "a b", "ä", "a&b", &"x".repeat(65)] {
        assert!(bad.parse::<ActionId>().is_err(), "{bad}");
        assert!(serde_json::from_value::<ActionId>(bad.into()).is_err());
    }
}

#[test]
fn an_action_is_a_word() {
    let stop: GuestAction = decode(br#"{"action": "stop"}"#).unwrap();
    assert_eq!(stop, GuestAction::Stop { grace_seconds: 0 });
    let text = encode(&GuestAction::HardReboot {});
    assert_eq!(text, br#"{"action":"hard_reboot"}"#);
    assert!(decode::<GuestAction>(br#"{"action": "start", "grace": 1}"#).is_err());
}

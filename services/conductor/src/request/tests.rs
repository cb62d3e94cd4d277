//! What is refused, with its field, and what the journal gives back.

use berth_wire::decode;

use super::checks::has_userinfo;
use super::*;

fn body(change: &[(&str, serde_json::Value)]) -> CreateGuest {
    let mut body =
        serde_json::json!({"name": "vm", "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}});
    for (pointer, value) in change {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    decode(body.to_string().as_bytes()).unwrap()
}

fn fresh() -> Uuid {
    Uuid::from_u128(7)
}

#[test]
fn a_name_before_the_host_is_seen_however_the_url_is_written() {
    for url in [
        "http://u:p@h/x",
        "http:/u:p@h/x",
        "http:u:p@h",
        "https:///u@h",
        r"http:\\u:p@h\x",
        "u:p@h",
    ] {
        assert!(has_userinfo(url), "{url}");
    }
    for url in ["http://h/a@b", "https://[::1]:8080/x?y=a@b", "http://h#a@b"] {
        assert!(!has_userinfo(url), "{url}");
    }
}

#[test]
fn a_zone_may_force_a_host_and_a_node() {
    use serde_json::json;
    for (zone, expected) in [
        ("az", (Some("az"), None, None, HostFiltering::Applied)),
        ("az:", (Some("az"), None, None, HostFiltering::Applied)),
        (
            "az:h",
            (Some("az"), Some("h"), None, HostFiltering::Skipped),
        ),
        (
            "az:h:n",
            (Some("az"), Some("h"), Some("n"), HostFiltering::Skipped),
        ),
        (
            "az::n",
            (Some("az"), None, Some("n"), HostFiltering::Skipped),
        ),
        (":h", (None, Some("h"), None, HostFiltering::Skipped)),
    ] {
        let change = [("/availability_zone", json!(zone))];
        let request = BootRequest::new(body(&change), fresh()).unwrap();
        let target = request.target();
        let node = target.node.as_ref().map(NodeName::as_str);
        let (zone_of, host) = (target.zone.as_deref(), target.host.as_deref());
        assert_eq!((zone_of, host, node, target.filters), expected, "{zone}");
    }
    for field in ["/host", "/node"] {
        let change = [("/availability_zone", json!("az:h")), (field, json!("h"))];
        let refused = BootRequest::new(body(&change), fresh()).unwrap_err();
        let expected = "availability_zone: it forces a host or node";
        assert!(refused.to_string().starts_with(expected), "{refused}");
    }
}

#[test]
fn what_is_wrong_is_named_by_its_field() {
    use serde_json::json;
    let long = json!({"a": "é".repeat(255), "é".repeat(255): ""});
    let taken = BootRequest::new(body(&[("/flavor/extra_specs", long)]), fresh());
    assert!(taken.is_ok(), "{taken:?}");
    for (pointer, value, sentence) in [
        ("/name", json!(""), "name: 1 to 240"),
        ("/name", json!("a/b"), "name: "),
        ("/name", json!("a\nb"), "name: "),
        ("/name", json!(" "), "name: "),
        ("/name", json!(" a"), "name: "),
        ("/name", json!("."), "name: 1 to 240"),
        ("/name", json!(".."), "name: "),
        ("/name", json!("a\u{fdd0}"), "name: "),
        ("/name", json!("a\u{1fffe}"), "name: "),
        ("/name", json!("a\u{2028}b"), "name: "),
        ("/flavor/name", json!(" "), "flavor.name: 1 to 255"),
        ("/user_id", json!("u\u{fdef}"), "user_id: "),
        ("/project_id", json!(""), "project_id: 1 to 255"),
        ("/flavor/vcpus", json!(0), "flavor.vcpus: 0 is out of range"),
        ("/flavor/ram_mb", json!(0), "flavor.ram_mb: 0"),
        ("/flavor/disk_gb", json!(1u64 << 40), "flavor.disk_gb: "),
        ("/device_profile", json!("a b"), "device_profile: letters"),
        (
            "/image",
            json!({"location": {"url": "http://u:pw@host/x?a=b"}, "format": "raw"}),
            "image.location.url: the URL has a name or password in it",
        ),
        (
            "/image",
            json!({"location": {"url": "http://u@host"}, "format": "raw"}),
            "image.location.url: ",
        ),
        (
            "/image",
            json!({"location": {"path": "disk.img"}, "format": "raw"}),
            "image.location.path: the absolute path of a file on the host is expected",
        ),
        (
            "/kernel",
            json!({"kernel": "vmlinuz"}),
            "kernel.kernel: the absolute path of a file on the host is expected, without . and .. parts, such as \
             /srv/guests/vmlinuz",
        ),
        (
            "/kernel",
            json!({"kernel": "/vmlinuz", "ramdisk": "/a/../initrd"}),
            "kernel.ramdisk: the absolute path",
        ),
        (
            "/networks",
            json!([{"source": {"network": "no net"}}]),
            "networks: the name of a network has 1 to 64 letters",
        ),
        (
            "/networks",
            json!([{"source": {"bridge": "a-name-of-16-byt"}}]),
            "networks: the name of a network",
        ),
        ("/node", json!("two words"), "node: "),
        ("/host", json!(" h"), "host: 1 to 255"),
        ("/ignore_hosts", json!([""]), "ignore_hosts: at most 1024"),
        ("/ignore_hosts", json!(vec!["h"; 1025]), "ignore_hosts: "),
        ("/availability_zone", json!(""), "availability_zone: ZONE"),
        ("/availability_zone", json!("::"), "availability_zone: ZONE"),
        ("/availability_zone", json!(" a"), "availability_zone: ZONE"),
        (
            "/availability_zone",
            json!("a:b:c:d"),
            "availability_zone: ZONE",
        ),
        (
            "/availability_zone",
            json!("a: b"),
            "availability_zone: ZONE",
        ),
        ("/availability_zone", json!("a::two words"), "node: "),
        (
            "/flavor/extra_specs",
            json!({"a": "é".repeat(256)}),
            "flavor.extra_specs: a name has 1 to 255",
        ),
        (
            "/flavor/extra_specs",
            json!({"a".repeat(256): ""}),
            "flavor.extra_specs: a name has 1 to 255",
        ),
        (
            "/flavor/extra_specs",
            json!({"a": "\u{1b}[2J"}),
            "flavor.extra_specs: a name has 1 to 255",
        ),
        (
            "/scheduler_hints",
            json!({"query": ["a".repeat(4097)]}),
            "scheduler_hints: a text has at most 4096 bytes",
        ),
        (
            "/scheduler_hints",
            json!({"query": vec!["a".repeat(4000); 5]}),
            "scheduler_hints: 16384 bytes are allowed in all",
        ),
        (
            "/flavor/extra_specs",
            json!({"trait:CUSTOM_A": "maybe"}),
            "flavor.extra_specs.trait:CUSTOM_A: ",
        ),
        (
            "/flavor/extra_specs",
            json!({"hw:cpu_policy": "mine"}),
            "flavor.extra_specs.hw:cpu_policy: ",
        ),
        (
            "/flavor/extra_specs",
            json!({"resources1:VGPU": "1", "resources2:VGPU": "1"}),
            "flavor: the flavor has 2 numbered request groups",
        ),
    ] {
        let refused = BootRequest::new(body(&[(pointer, value)]), fresh()).unwrap_err();
        let message = refused.to_string();
        assert!(message.starts_with(sentence), "{message}");
    }
}

#[test]
fn a_physical_network_is_that_of_an_existing_port() {
    use serde_json::json;
    let requested = |network: serde_json::Value| {
        let change = [("/requested_networks", json!([network]))];
        BootRequest::new(body(&change), fresh()).map(drop)
    };
    let id = Uuid::from_u128(3);
    assert!(requested(json!({"port": id, "physical_network": "storage"})).is_ok());
    for wrong in [
        json!({"uuid": id, "physical_network": "storage"}),
        json!({"port": id, "physical_network": ""}),
        json!({"port": id, "physical_network": "x".repeat(65)}),
        json!({"port": id, "physical_network": "storage", "resource_request": {"resources": {"VCPU": 1}}}),
    ] {
        let refused = requested(wrong).unwrap_err().to_string();
        assert!(refused.contains("physical_network"), "{refused}");
    }
}

#[test]
fn hints_name_guests_by_their_uuids() {
    use serde_json::json;
    for hint in ["same_host", "different_host"] {
        for wrong in ["aa2", "notauuid", ""] {
            let hints = json!({hint: [fresh().to_string(), wrong]});
            let refused = BootRequest::new(body(&[("/scheduler_hints", hints)]), fresh());
            let message = refused.unwrap_err().to_string();
            let sentence = format!("scheduler_hints.{hint}: the UUIDs of guests are expected");
            assert!(message.starts_with(&sentence), "{wrong}: {message}");
        }
        // HostFiltering compare letters, so that other ways to write one would never be the guest's.
        let hints = json!({hint: ["5C3B7D0E6F1F4F0E9D0D5B7F3A1C2E44"], "rack": ["aa2"]});
        let taken = BootRequest::new(body(&[("/scheduler_hints", hints)]), fresh()).unwrap();
        let kept = &taken.body().scheduler_hints[hint];
        assert_eq!(*kept, ["5c3b7d0e-6f1f-4f0e-9d0d-5b7f3a1c2e44"]);
    }
    let mut earlier = body(&[]);
    let names = vec!["aa2".to_owned()];
    earlier
        .scheduler_hints
        .insert("different_host".to_owned(), names);
    assert!(BootRequest::checked(earlier, fresh(), None, None).is_ok());
}

#[test]
fn what_a_journal_has_of_an_earlier_rule_is_read_as_it_was_taken() {
    let mut asked = body(&[]);
    asked.name = "..".to_owned();
    let request = BootRequest::checked(asked, fresh(), None, None).unwrap();
    // Its agent refuses it; what it asks for is known all the same.
    let (text, _) = BootRequest {
        body: CreateGuest {
            uuid: Some(fresh()),
            ..request.body.clone()
        },
        ..request
    }
    .to_journal();
    assert_eq!(
        BootRequest::from_journal(&text, None).unwrap().body().name,
        ".."
    );
}

#[test]
fn a_profile_may_be_named_in_either_place_but_not_twice_differently() {
    let specs = serde_json::json!({"accel:device_profile": "gpu"});
    let named = ("/device_profile", serde_json::json!("gpu"));
    for change in [
        vec![named.clone()],
        vec![("/flavor/extra_specs", specs.clone())],
        vec![named, ("/flavor/extra_specs", specs.clone())],
    ] {
        let request = BootRequest::new(body(&change), fresh()).unwrap();
        assert_eq!(request.profile().unwrap().as_str(), "gpu");
        assert_eq!(request.body().device_profile.as_deref(), Some("gpu"));
        let query = request.groups().query();
        assert!(query.contains("COMPUTE_ACCELERATORS"), "{query}");
    }
    let other = ("/device_profile", serde_json::json!("fpga"));
    let two = BootRequest::new(body(&[other, ("/flavor/extra_specs", specs)]), fresh());
    assert!(
        two.unwrap_err()
            .to_string()
            .contains("fpga differs from gpu")
    );
}

#[test]
fn of_an_image_the_scheduler_sees_all_and_a_host_its_machine_and_its_place() {
    let properties = serde_json::json!({"hw_firmware_type": "uefi", "hw_cpu_policy": "dedicated", "hw_mem_page_size": "2048",
        "hw_numa_cpus.0": "0,1", "trait:CUSTOM_A": "required", "hw_disk_bus": "scsi", "os_distro": "debian"});
    let image = serde_json::json!({"location": {"url": "http://images/a"}, "format": "raw", "properties": properties,
        "checksum": format!("sha256:{}", "a".repeat(64))});
    let specs = serde_json::json!({"hw:mem_page_size": "large", "hw:cpu_policy": "dedicated"});
    let asked = body(&[("/image", image), ("/flavor/extra_specs", specs)]);
    let request = BootRequest::new(asked, fresh()).unwrap();
    let kept = &request.body().image.as_ref().unwrap().properties;
    assert_eq!(kept.len(), 7);
    let node = NodeName::new("node1").unwrap();
    let build = request.build_on(&node, &LimitsBody::default());
    let sent_properties = build.image.unwrap().properties;
    assert_eq!(
        Vec::from_iter(sent_properties),
        [("hw_disk_bus", "scsi"), ("hw_firmware_type", "uefi")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    let specs = build.flavor.extra_specs;
    for (spec, value) in [
        ("hw:mem_page_size", "2048"),
        ("hw:cpu_policy", "dedicated"),
        ("hw:numa_cpus.0", "0,1"),
    ] {
        assert_eq!(specs[spec], value, "{spec}");
    }
    assert_eq!(specs.len(), 3, "{specs:?}");
}

#[test]
fn the_journal_returns_what_it_got_and_keeps_secrets_apart() {
    let drive = serde_json::json!({"user_data": "c2VjcmV0"});
    let request = BootRequest::new(body(&[("/config_drive", drive)]), fresh()).unwrap();
    let (text, drive) = request.to_journal();
    assert!(!text.contains("c2VjcmV0"), "{text}");
    let back = BootRequest::from_journal(&text, drive.as_deref()).unwrap();
    assert_eq!(back, request);
    // The same request has the same text even after its config drive was deleted.
    let bare = BootRequest::from_journal(&text, None).unwrap();
    assert_eq!(bare.to_journal().0, text);
}

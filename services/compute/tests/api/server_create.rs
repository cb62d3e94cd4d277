//! Tests of server creation: which requests are accepted, and what the conductor receives.

use berth_hosts::{NewServerGroup, ServerGroupPolicy};
use berth_wire::conductor::CreateGuest;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cloud::{ENCRYPTED_IMAGE, HOST, IMAGE, PROFILE};
use super::service::Service;

async fn service() -> Service {
    let service = Service::start().await;
    service.flavor("f", json!({"vcpus": 2})).await;
    service
}

/// The request that the conductor received.
async fn handed(service: &Service, server: Uuid) -> CreateGuest {
    let record = service.cloud.conductor.show(server.into()).await.unwrap();
    record.request.body().clone()
}

#[tokio::test]
async fn the_conductor_is_asked_for_the_flavor_image_hints_and_zone() {
    let service = service().await;
    let spec = json!({"extra_specs": {"hw:cpu_policy": "dedicated"}});
    let path = "/flavors/f/os-extra_specs";
    service.ask("admin", "2.1", "POST", path, Some(spec)).await;
    let group = service.cloud.hosts.create_group(
        NewServerGroup {
            project_id: "project-of-alice".to_owned(),
            user_id: "alice".to_owned(),
            name: "g".to_owned(),
            policy: ServerGroupPolicy::AntiAffinity,
            max_server_per_host: None,
        },
        None,
    );
    let group = group.await.unwrap().uuid;
    let server = json!({"name": "Web 1", "flavorRef": "http://x/flavors/f", "imageRef": IMAGE, "networks": "none",
        "availability_zone": "nova", "metadata": {"k": "v"}, "user_data": "c2VjcmV0",
        "block_device_mapping_v2": [{"uuid": IMAGE, "boot_index": 0, "source_type": "image", "destination_type": "local",
            "delete_on_termination": true}]});
    let others = [1, 2].map(|n| Uuid::from_u128(n).to_string());
    let body = json!({"server": server, "os:scheduler_hints": {"group": group, "different_host": others, "query": ["=", 1]}});
    let made = service
        .ask("alice", "2.82", "POST", "/servers", Some(body))
        .await;
    assert_eq!(made.status, 202, "{made:?}");
    let id: Uuid = made.body["server"]["id"].as_str().unwrap().parse().unwrap();
    let groups = &made.body["server"]["security_groups"];
    assert_eq!(*groups, json!([{"name": "default"}]));
    let location = format!("http://cloud.example/compute/v2.1/servers/{id}");
    assert_eq!(made.header("location"), location);
    // The members are visible to alice's project, so an operator's server cannot join the group.
    let body = json!({"server": server, "os:scheduler_hints": {"group": group}});
    let refused = service
        .ask("admin", "2.82", "POST", "/servers", Some(body))
        .await;
    let message = refused.message("badRequest");
    assert!(message.ends_with("could not be found."), "{message}");
    let guest = handed(&service, id).await;
    assert_eq!(
        (
            guest.name.as_str(),
            guest.project_id.as_deref(),
            guest.user_id.as_deref()
        ),
        ("instance-00000001", Some("project-of-alice"), Some("alice"))
    );
    assert_eq!(
        (
            guest.flavor.vcpus,
            guest.flavor.ram_mb,
            guest.flavor.disk_gb
        ),
        (2, 512, 10)
    );
    assert_eq!(guest.flavor.extra_specs["hw:cpu_policy"], "dedicated");
    assert_eq!(guest.availability_zone.as_deref(), Some("nova"));
    assert_eq!(guest.scheduler_hints["group"], [group.to_string()]);
    assert_eq!(guest.scheduler_hints["different_host"], others);
    assert_eq!(guest.scheduler_hints["query"], ["[\"=\",1]"]);
    let image = guest.image.unwrap();
    assert_eq!(image.properties["os_distro"], "debian");
    assert!(guest.networks.is_empty());
    let shown = service.shown("alice", "2.71", id).await;
    assert_eq!(shown["server_groups"], json!([group.to_string()]));
    assert_eq!(shown["OS-EXT-AZ:availability_zone"], "nova");
    let path = format!("/os-server-groups/{group}");
    let gone = service.ask("alice", "2.82", "DELETE", &path, None).await;
    assert_eq!(gone.status, 204);
    let shown = service.shown("alice", "2.71", id).await;
    assert_eq!(shown["server_groups"], json!([]));
    let rows = service.compute.server(id).await.unwrap();
    assert_eq!(rows.hostname, "web-1");
    let kept = format!("{rows:?}");
    assert!(!kept.contains("c2VjcmV0"), "user data is not kept");
}

#[tokio::test]
async fn the_swap_of_a_flavor_is_handed_over_and_shown() {
    let service = service().await;
    service.flavor("swap", json!({"swap": 512})).await;
    let made = service
        .ask_for("alice", "2.82", json!({"flavorRef": "swap"}))
        .await;
    let id: Uuid = made.body["server"]["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(handed(&service, id).await.flavor.swap_mb, 512);
    let shown = service.shown("alice", "2.82", id).await;
    assert_eq!(shown["flavor"]["swap"], 512);
}

#[tokio::test]
async fn several_are_asked_for_at_once_and_each_has_its_number() {
    let service = service().await;
    let more =
        json!({"min_count": 2, "max_count": "3", "return_reservation_id": true, "name": "web"});
    let made = service.ask_for("alice", "2.82", more).await;
    let id = made.body["reservation_id"].as_str().unwrap();
    let path = format!("/servers?reservation_id={id}&sort_key=display_name&sort_dir=asc");
    let listed = service.get("alice", "2.82", &path).await;
    let names: Vec<&Value> = listed.body["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["web-1", "web-2", "web-3"]);
    let many = service
        .ask_for("alice", "2.82", json!({"max_count": 6}))
        .await;
    assert!(
        many.message("forbidden")
            .contains("Quota exceeded for instances")
    );
}

#[tokio::test]
async fn only_an_operator_may_name_the_host() {
    let service = service().await;
    let by_zone = json!({"availability_zone": format!("nova:{HOST}")});
    let by_field = json!({"hypervisor_hostname": HOST, "host": HOST});
    let forced = format!("nova::{HOST}");
    // A requested host must pass the scheduler's filters, a forced one need not.
    for (more, node, zone) in [
        (by_zone, None, Some(forced.as_str())),
        (by_field, Some(HOST), None),
    ] {
        let made = service.ask_for("admin", "2.74", more.clone()).await;
        let id: Uuid = made.body["server"]["id"].as_str().unwrap().parse().unwrap();
        let guest = handed(&service, id).await;
        let (its_node, its_zone) = (guest.node, guest.availability_zone);
        assert_eq!((its_node.as_deref(), its_zone.as_deref()), (node, zone));
        assert_eq!(service.ask_for("alice", "2.74", more).await.status, 403);
    }
    let nowhere = json!({"availability_zone": ":nowhere"});
    let refused = service.ask_for("admin", "2.74", nowhere).await;
    assert_eq!(
        refused.message("badRequest"),
        "Compute host nowhere could not be found."
    );
    let early = service
        .ask_for("admin", "2.73", json!({"host": HOST}))
        .await;
    assert!(
        early
            .message("badRequest")
            .contains("'host' was unexpected")
    );
}

#[tokio::test]
async fn only_an_operator_boots_a_root_disk_as_large_as_its_image() {
    let service = service().await;
    service.flavor("boundless", json!({"disk": 0})).await;
    let more = json!({"flavorRef": "boundless"});
    let refused = service.ask_for("alice", "2.82", more.clone()).await;
    let sentence = "Only volume-backed servers are allowed for flavors with zero disk.";
    assert_eq!(refused.message("forbidden"), sentence);
    assert_eq!(service.ask_for("admin", "2.82", more).await.status, 202);
}

#[tokio::test]
async fn a_secret_in_a_refused_body_is_not_repeated() {
    let service = service().await;
    for more in [
        json!({"adminPass": "hunter2"}),
        json!({"adminPass": "hunter2", "name": null}),
        json!({"adminPass": "hunter2", "networks": {"adminPass": "hunter2"}}),
        json!({"user_data": format!("hunter2{}", "x".repeat(70_000))}),
        json!({"personality": [{"path": "/a", "contents": "hunter2"}]}),
    ] {
        let refused = service.ask_for("alice", "2.56", more.clone()).await;
        let message = refused.message("badRequest");
        assert!(!message.contains("hunter2"), "{message}");
    }
    let server = json!({"server": {"adminPass": "hunter2"}});
    let post = |body| service.ask("alice", "2.82", "POST", "/servers", Some(body));
    let message = post(server).await;
    let message = message.message("badRequest");
    assert!(
        !message.contains("hunter2") && message.contains("'name'"),
        "{message}"
    );
}

#[tokio::test]
async fn a_long_value_is_repeated_by_its_ends_and_its_length() {
    let service = service().await;
    let refused = service.ask_for("alice", "2.82", json!({"name": "n".repeat(70_000)}));
    let refused = refused.await;
    let message = refused.message("badRequest");
    assert!(message.len() < 400, "{message}");
    assert!(
        message.contains("… (70002 bytes) …") && message.ends_with("it is too long"),
        "{message}"
    );
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_with_what_is_wrong() {
    let service = service().await;
    service.flavor("small", json!({"ram": 64})).await;
    service.flavor("flat", json!({"disk": 1})).await;
    service
        .flavor("hidden", json!({"os-flavor-access:is_public": false}))
        .await;
    let unknown = Uuid::from_u128(7);
    let many: Value = (0..129)
        .map(|n| (format!("k{n}"), json!("v")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for (version, more, kind, named) in [
        (
            "2.82",
            json!({"flavorRef": "none"}),
            "badRequest",
            "Flavor none could not be found.",
        ),
        (
            "2.82",
            json!({"flavorRef": "hidden"}),
            "badRequest",
            "Flavor hidden could not be found.",
        ),
        (
            "2.82",
            json!({"flavorRef": "small"}),
            "badRequest",
            "memory is too small",
        ),
        (
            "2.82",
            json!({"flavorRef": "flat"}),
            "badRequest",
            "disk is too small",
        ),
        (
            "2.82",
            json!({"imageRef": unknown}),
            "badRequest",
            "could not be found.",
        ),
        (
            "2.82",
            json!({"imageRef": "x"}),
            "badRequest",
            "Invalid imageRef",
        ),
        (
            "2.82",
            json!({"imageRef": ""}),
            "badRequest",
            "Missing imageRef",
        ),
        (
            "2.82",
            json!({"key_name": "k"}),
            "badRequest",
            "Invalid key_name provided.",
        ),
        (
            "2.82",
            json!({"availability_zone": "moon"}),
            "badRequest",
            "zone is not available",
        ),
        (
            "2.82",
            json!({"networks": [{"uuid": unknown}]}),
            "badRequest",
            "no network service",
        ),
        (
            "2.36",
            json!({"networks": "none"}),
            "badRequest",
            "a list of at most 64 networks",
        ),
        (
            "2.82",
            json!({"networks": "all"}),
            "badRequest",
            "auto and none",
        ),
        (
            "2.82",
            json!({"min_count": 3, "max_count": 2}),
            "badRequest",
            "min_count must be <= max_count",
        ),
        (
            "2.82",
            json!({"min_count": 0}),
            "badRequest",
            "less than the minimum of 1",
        ),
        (
            "2.82",
            json!({"user_data": "ä"}),
            "badRequest",
            "valid base 64",
        ),
        (
            "2.82",
            json!({"metadata": {"k": 1}}),
            "badRequest",
            "not of type 'string'",
        ),
        (
            "2.82",
            json!({"metadata": {"k/": "v"}}),
            "badRequest",
            "a key has",
        ),
        (
            "2.82",
            json!({"metadata": many}),
            "forbidden",
            "Maximum number of metadata items exceeds 128",
        ),
        (
            "2.82",
            json!({"tags": ["a,b"]}),
            "badRequest",
            "without / and ,",
        ),
        (
            "2.51",
            json!({"tags": ["a"]}),
            "badRequest",
            "'tags' was unexpected",
        ),
        (
            "2.18",
            json!({"description": "a"}),
            "badRequest",
            "'description' was unexpected",
        ),
        (
            "2.82",
            json!({"personality": []}),
            "badRequest",
            "'personality' was unexpected",
        ),
        (
            "2.56",
            json!({"personality": [{"path": "/a", "contents": ""}]}),
            "badRequest",
            "injecting files",
        ),
        (
            "2.82",
            json!({"adminPass": "x"}),
            "badRequest",
            "setting passwords",
        ),
        (
            "2.82",
            json!({"security_groups": [{"name": "web"}]}),
            "badRequest",
            "there is no network service, so there are no security groups",
        ),
        (
            "2.82",
            json!({"block_device_mapping_v2": [{"source_type": "blank", "destination_type": "local"}]}),
            "badRequest",
            "only the root disk from imageRef is supported",
        ),
        ("2.82", json!({"name": ""}), "badRequest", "too short"),
        (
            "2.82",
            json!({"colour": "red"}),
            "badRequest",
            "'colour' was unexpected",
        ),
    ] {
        let mut more = more;
        if version < "2.37" && more.get("networks").is_none() {
            more["networks"] = json!([]);
        }
        let refused = service.ask_for("alice", version, more.clone()).await;
        let message = refused.message(kind);
        assert!(message.contains(named), "{more}: {message}");
    }
    let server = json!({"name": "s", "flavorRef": "f", "imageRef": IMAGE});
    for (hints, named) in [
        (
            json!({"group": "x"}),
            "Instance group x could not be found.",
        ),
        (json!({"group": unknown}), "could not be found."),
        (json!({"_nova_check_type": "rebuild"}), "_nova_"),
    ] {
        let body = json!({"server": server, "OS-SCH-HNT:scheduler_hints": hints});
        let refused = service
            .ask("alice", "2.1", "POST", "/servers", Some(body))
            .await;
        let message = refused.message("badRequest");
        assert!(message.contains(named), "{hints}: {message}");
    }
    let body = json!({ "server": server });
    let none = service
        .ask("alice", "2.37", "POST", "/servers", Some(body))
        .await;
    assert!(
        none.message("badRequest")
            .contains("'networks' is a required property")
    );
    assert_eq!(service.compute.servers(None).await.unwrap(), []);
}

#[tokio::test]
async fn several_servers_have_room_for_their_numbers_in_their_names() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    for (length, count, status) in [(255, 1, 202), (253, 2, 202), (254, 2, 400), (255, 2, 400)] {
        let name = "n".repeat(length);
        let asked = json!({"name": name, "max_count": count});
        let reported = service.ask_for("alice", "2.82", asked).await;
        assert_eq!(reported.status, status, "{length} {count}: {reported:?}");
        if status == 400 {
            let message = reported.message("badRequest");
            assert!(message.contains("more than 255 characters"), "{message}");
        }
    }
    assert_eq!(service.compute.servers(None).await.unwrap().len(), 3);
}

#[tokio::test]
async fn what_depends_on_flavor_and_image_alone_is_refused_at_once() {
    let service = service().await;
    let path = "/flavors/f/os-extra_specs";
    for (specs, expected) in [
        (
            json!({"hw:numa_nodes": "3"}),
            "hw:numa_nodes is \"3\": each cell has a virtual CPU",
        ),
        (
            json!({"hw:numa_nodes": "2", "hw:numa_cpus.0": "0", "hw:numa_mem.0": "1", "hw:numa_cpus.1": "1", "hw:numa_mem.1": "1"}),
            "the flavor has 512 MiB",
        ),
        (json!({"hw:mem_page_size": "2MB"}), ""),
        (
            json!({"hw:mem_page_size": "2M"}),
            "hw:mem_page_size: should be small, large, any, or a size",
        ),
        (
            json!({"hw:mem_page_size": "2 MB"}),
            "hw:mem_page_size is \"2 MB\"",
        ),
        (
            json!({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}),
            "hw:cpu_realtime is not supported",
        ),
        (
            json!({"hw:cpu_thread_policy": "isolate"}),
            "has an effect only with hw:cpu_policy=dedicated or mixed",
        ),
        (
            json!({"quota:vif_limit": "1"}),
            "quota:vif_limit is not supported: only hosts of VMware read it",
        ),
        (
            json!({"hw:tpm_version": "2.0"}),
            "hw:tpm_version is not supported: guests have no TPM",
        ),
        (
            json!({"hw:cpu_polcy": "dedicated"}),
            "unknown extra spec hw:cpu_polcy; did you mean hw:cpu_policy?",
        ),
        (
            json!({"hw:watchdog_action": "reset", "hw:boot_menu": "true", "hw:cpu_sockets": "2", "hw:hide_hypervisor_id": "true",
                "hw:vif_multiqueue_enabled": "true", "hw_rng:allowed": "True", "hw_video:ram_max_mb": "16"}),
            "",
        ),
    ] {
        let body = json!({ "extra_specs": specs });
        let set = service.ask("admin", "2.1", "POST", path, Some(body)).await;
        assert_eq!(set.status, 200, "{set:?}");
        let made = service.ask_for("alice", "2.82", json!({})).await;
        match expected {
            "" => assert_eq!(made.status, 202, "{specs}: {made:?}"),
            expected => {
                let message = made.message("badRequest");
                assert!(message.contains(expected), "{specs}: {message}");
            }
        }
        for key in specs.as_object().unwrap().keys() {
            let path = format!("{path}/{key}");
            service.ask("admin", "2.1", "DELETE", &path, None).await;
        }
    }
    let made = service
        .ask_for("alice", "2.82", json!({"imageRef": ENCRYPTED_IMAGE}))
        .await;
    assert_eq!(
        made.message("badRequest"),
        format!(
            "Image {ENCRYPTED_IMAGE} is unacceptable: Direct booting of an image uploaded from an encrypted volume is unsupported."
        )
    );
}

#[tokio::test]
async fn a_flavor_with_an_unknown_device_profile_is_refused_at_once_with_its_name() {
    let service = service().await;
    let path = "/flavors/f/os-extra_specs";
    for (profile, is_reachable, expected) in [
        // The boot asks the service again.
        ("no-such", false, ""),
        ("no-such", true, "there is no device profile no-such"),
        (PROFILE, true, ""),
    ] {
        if is_reachable {
            service.cloud.accelerators.set_reachable();
        }
        let body = json!({"extra_specs": {"accel:device_profile": profile}});
        let set = service.ask("admin", "2.1", "POST", path, Some(body)).await;
        assert_eq!(set.status, 200, "{set:?}");
        let before = service.compute.servers(None).await.unwrap().len();
        let made = service.ask_for("alice", "2.82", json!({})).await;
        let after = service.compute.servers(None).await.unwrap().len();
        match expected {
            "" => assert_eq!((made.status.as_u16(), after), (202, before + 1), "{made:?}"),
            expected => {
                let message = made.message("badRequest");
                assert!(message.contains(expected), "{message}");
                assert_eq!(after, before);
            }
        }
    }
}

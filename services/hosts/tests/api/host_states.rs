//! What agents tell, and what operators see and want of hosts.

use serde_json::json;

use super::service::{Service, guest, node, node_body, node_with, state};

#[tokio::test]
async fn a_reported_state_is_shown_and_found_by_name() {
    let service = Service::start().await;
    let body = state(&[node_with(
        1,
        json!({"stats": {"a": [1, {"b": null}]}, "metrics": {"cpu.percent": 0.25},
            "cpu_info": "{\"arch\": \"x86_64\"}", "disk_available_least": -3, "num_io_ops": 1,
            "instances": {(guest(1).to_string()): {"flavorid": "1", "image_properties": {"os_type": "linux"}}},
            "pci_device_pools": [{"vendor_id": "8086", "product_id": "10ca", "count": 4, "tags": {"dev_type": "type-VF"}}],
            "numa_topology": [{"id": 0, "cpuset": [0, 1], "pcpuset": [], "memory": 1024, "siblings": [[0, 1]],
                "mempages": [{"size_kb": 4, "total": 262_144}]}]}),
    )]);
    let reply = service.reports("host1", body.clone()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.body["disabled_reason"].is_null());
    let name = reply.state();
    let shown = service.get("/host1/state").await;
    assert_eq!(shown.status, 200);
    assert_eq!(service.reports("host1", shown.body).await.state(), name);
    assert_eq!(service.seen("host1", &name).await.status, 200);
    let other = service.report("host1", &[node_body(1)]).await;
    assert_ne!(other, name);
    let refused = service.seen("host1", &name).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(
        refused.message().contains("report the whole state"),
        "{refused:?}"
    );
    assert_eq!(service.seen("nobody", &name).await.status, 409);
    assert_eq!(service.get("/nobody/state").await.status, 404);
}

#[tokio::test]
async fn nodes_appear_and_vanish_with_the_reports() {
    let service = Service::start().await;
    let nodes = async || {
        let body = service.get("").await.body;
        let nodes = body["hosts"][0]["nodes"].as_array().unwrap();
        let name =
            |node: &serde_json::Value| node["hypervisor_hostname"].as_str().unwrap().to_owned();
        nodes.iter().map(name).collect::<Vec<_>>()
    };
    for (reported_now, names) in [
        (vec![node_body(1), node_body(2)], vec!["node1", "node2"]),
        (vec![node_body(2), node_body(1)], vec!["node2", "node1"]),
        (vec![node_body(3), node_body(1)], vec!["node3", "node1"]),
        (vec![], vec![]),
        (vec![node_body(1)], vec!["node1"]),
    ] {
        service.report("host1", &reported_now).await;
        assert_eq!(nodes().await, names);
    }
}

#[tokio::test]
async fn a_node_that_another_living_host_reports_is_refused_and_a_dead_hosts_goes_over() {
    let service = Service::start().await;
    let name = service.report("old", &[node_body(1), node_body(2)]).await;
    let refused = service.reports("new", state(&[node_body(1)])).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    for word in ["old", "new", &node(1).to_string()] {
        assert!(refused.message().contains(word), "{word}: {refused:?}");
    }
    assert_eq!(service.get("/new/state").await.status, 404, "nothing stays");
    service.was_seen("old", 61).await;
    service.report("new", &[node_body(1)]).await;
    let left = service.get("/old/state").await.body["nodes"].clone();
    assert_eq!(
        (left.as_array().unwrap().len(), &left[0]["uuid"]),
        (1, &json!(node(2)))
    );
    assert_eq!(service.seen("old", &name).await.status, 409);
    let refused = service
        .reports("old", state(&[node_body(1), node_body(2)]))
        .await;
    assert_eq!(refused.status, 409, "{refused:?}");
    service.report("old", &[node_body(2)]).await;
    // A forced-down host counts as down in spite of its heartbeats.
    let down = json!({"forced_down": true});
    let reply = service
        .ask("admin", "PUT", "/old/service", Some(down))
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    service.report("new", &[node_body(1), node_body(2)]).await;
}

#[tokio::test]
async fn a_field_that_is_not_what_it_may_be_is_named() {
    let service = Service::start().await;
    let cell = |fields: serde_json::Value| {
        let mut cell = json!({"id": 0, "cpuset": [0], "pcpuset": [], "memory": 1});
        cell.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        cell
    };
    for (fields, field) in [
        (
            json!({"uuid": "00000000-0000-0000-0000-000000000000"}),
            "nodes[0].uuid: it is nil",
        ),
        (json!({"uuid": "x"}), "nodes[0].uuid"),
        (
            json!({"hypervisor_hostname": ""}),
            "nodes[0].hypervisor_hostname: it is empty",
        ),
        (
            json!({"hypervisor_hostname": "a\u{0}b"}),
            "nodes[0].hypervisor_hostname: it has control",
        ),
        (
            json!({"hypervisor_hostname": "a".repeat(256)}),
            "nodes[0].hypervisor_hostname: it has 256",
        ),
        (
            json!({"hypervisor_version": -1}),
            "nodes[0].hypervisor_version: it is -1",
        ),
        (json!({"host_ip": "somewhere"}), "nodes[0].host_ip"),
        (
            json!({"vcpus": -1}),
            "nodes[0].vcpus: it is -1; it must be between 0 and 2147483648",
        ),
        (json!({"vcpus": 1.5}), "nodes[0].vcpus"),
        (
            json!({"memory_mb": i64::MAX}),
            "nodes[0].memory_mb: it is 9223372036854775807",
        ),
        (json!({"local_gb_used": -1}), "nodes[0].local_gb_used"),
        (
            json!({"disk_available_least": i64::MIN}),
            "nodes[0].disk_available_least",
        ),
        (
            json!({"cpu_allocation_ratio": 0.0}),
            "nodes[0].cpu_allocation_ratio: it is 0",
        ),
        (
            json!({"ram_allocation_ratio": -1.0}),
            "nodes[0].ram_allocation_ratio: it is -1",
        ),
        (
            json!({"disk_allocation_ratio": 1e10}),
            "nodes[0].disk_allocation_ratio",
        ),
        (
            json!({"cpu_info": "x".repeat(70_000)}),
            "nodes[0].cpu_info: it has 70000",
        ),
        (
            json!({"supported_instances": [["a", "b"]]}),
            "nodes[0].supported_instances[0]",
        ),
        (json!({"instances": {"x": {}}}), "nodes[0].instances"),
        (
            json!({"instances": {(guest(1).to_string()): {"flavorid": ""}}}),
            "flavorid: it is empty",
        ),
        (json!({"num_io_ops": -1}), "nodes[0].num_io_ops"),
        (json!({"failed_builds": -1}), "nodes[0].failed_builds"),
        (json!({"stats": {"": 1}}), "nodes[0].stats: it is empty"),
        (
            json!({"pci_device_pools": [{"vendor_id": "808", "product_id": "10ca", "count": 1}]}),
            "nodes[0].pci_device_pools[0].vendor_id: it is \"808\"; it must be four hexadecimal digits",
        ),
        (
            json!({"pci_device_pools": [{"vendor_id": "8086", "product_id": "10ca", "count": -1}]}),
            "nodes[0].pci_device_pools[0].count",
        ),
        (
            json!({"numa_topology": [cell(json!({})), cell(json!({}))]}),
            "nodes[0].numa_topology[1].id: it is 0",
        ),
        (
            json!({"numa_topology": [cell(json!({"cpuset": [65_536]}))]}),
            "nodes[0].numa_topology[0].cpuset: CPU 65536 is out of range",
        ),
        (
            json!({"numa_topology": [cell(json!({"siblings": [[0], [70_000]]}))]}),
            "numa_topology[0].siblings[1]",
        ),
        (
            json!({"numa_topology": [cell(json!({"memory": -1}))]}),
            "numa_topology[0].memory: it is -1",
        ),
        (
            json!({"numa_topology": [cell(json!({"mempages": [{"size_kb": 0, "total": 1}]}))]}),
            "mempages[0].size_kb",
        ),
        (
            json!({"numa_topology": vec![cell(json!({})); 129]}),
            "nodes[0].numa_topology: it has 129 entries; at most 128 are allowed",
        ),
        (json!({"color": "blue"}), "nodes[0].color"),
    ] {
        let refused = service
            .reports("host1", state(&[node_with(1, fields)]))
            .await;
        assert_eq!(refused.status, 400, "{field}: {refused:?}");
        assert!(
            refused.message().contains(field),
            "{field}: {}",
            refused.message()
        );
    }
    for (body, field) in [
        (
            json!({"service": {"version": "1"}, "nodes": [node_body(1), node_body(1)]}),
            "nodes[1].uuid: nodes[0] has the same value",
        ),
        (
            json!({"service": {"version": "1"}, "nodes": [node_body(1), node_with(2, json!({"hypervisor_hostname": "node1"}))]}),
            "nodes[1].hypervisor_hostname: nodes[0] has the same value",
        ),
        (json!({"service": {}, "nodes": []}), "service"),
        (
            json!({"service": {"version": "1", "disabled_reason": "a\nb"}, "nodes": []}),
            "service.disabled_reason",
        ),
        (json!({"nodes": []}), "service"),
        (json!([]), "body"),
    ] {
        let refused = service.reports("host1", body).await;
        assert_eq!(refused.status, 400, "{field}: {refused:?}");
        assert!(
            refused.message().contains(field),
            "{field}: {}",
            refused.message()
        );
    }
    assert_eq!(service.reports("a%00b", state(&[])).await.status, 400);
    assert_eq!(
        service.reports(&"h".repeat(256), state(&[])).await.status,
        400
    );
    assert_eq!(service.get("").await.body, json!({"hosts": []}));
}

#[tokio::test]
async fn an_operator_disables_and_the_agent_hears_of_it() {
    let service = Service::start().await;
    let name = service.report("host1", &[node_body(1)]).await;
    let put = async |body| {
        service
            .ask("admin", "PUT", "/host1/service", Some(body))
            .await
    };
    let reason = async || service.seen("host1", &name).await.body["disabled_reason"].clone();
    assert!(reason().await.is_null());
    let reply = put(json!({"disabled": true, "disabled_reason": "rack moves"})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.body["disabled_reason"], "rack moves");
    assert_eq!(reason().await, "rack moves");
    put(json!({"disabled": true})).await;
    assert_eq!(reason().await, "", "disabled without a reason");
    // What was not named stays.
    let reply = put(json!({"forced_down": true, "cell": "cell2"})).await;
    assert_eq!(reply.body["disabled"], true);
    assert_eq!(
        (&reply.body["forced_down"], &reply.body["cell"]),
        (&json!(true), &json!("cell2"))
    );
    put(json!({"disabled": false, "forced_down": false})).await;
    assert!(reason().await.is_null());
    for (body, field) in [
        (json!({"disabled_reason": "x"}), "disabled_reason"),
        (
            json!({"disabled": false, "disabled_reason": "x"}),
            "disabled_reason",
        ),
        (json!({"cell": ""}), "cell"),
        (json!({"status": "up"}), "status"),
    ] {
        let refused = put(body).await;
        assert_eq!(refused.status, 400, "{field}: {refused:?}");
        assert!(refused.message().contains(field), "{field}: {refused:?}");
    }
    let unknown = service
        .ask("admin", "PUT", "/nobody/service", Some(json!({})))
        .await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn hosts_are_listed_by_name_and_a_former_one_can_be_removed() {
    let service = Service::start().await;
    let agents =
        json!({"service": {"version": "0.2.0", "disabled_reason": ""}, "nodes": [node_body(2)]});
    service.reports("b", agents).await;
    let name = service
        .report(
            "a",
            &[node_with(
                1,
                json!({"instances": {(guest(1).to_string()): {}}}),
            )],
        )
        .await;
    service.was_seen("a", 100).await;
    let hosts = service.get("").await.body["hosts"].clone();
    assert_eq!(
        (&hosts[0]["host"], &hosts[1]["host"]),
        (&json!("a"), &json!("b"))
    );
    assert_eq!(
        (&hosts[0]["state"], &hosts[0]["cell"]),
        (&json!(name), &json!("cell1"))
    );
    assert_eq!(
        hosts[0]["nodes"],
        json!([{"uuid": node(1), "hypervisor_hostname": "node1", "instances": 1}])
    );
    let age = hosts[0]["last_seen_age_s"].as_f64().unwrap();
    assert!(age > 90.0, "{age}");
    assert_eq!(
        (&hosts[1]["agent_disabled_reason"], &hosts[1]["disabled"]),
        (&json!(""), &json!(false))
    );
    assert_eq!(service.ask("admin", "DELETE", "/a", None).await.status, 204);
    assert_eq!(service.ask("admin", "DELETE", "/a", None).await.status, 404);
    assert_eq!(
        service.seen("a", &name).await.status,
        409,
        "it has to tell all"
    );
    assert_eq!(
        service.report("a", &[node_body(1)]).await,
        service.report("a", &[node_body(1)]).await
    );
}

#[tokio::test]
async fn agents_report_operators_read_and_others_may_neither() {
    let service = Service::with_hosts(1).await;
    for (token, method, path, status) in [
        ("agent", "GET", "", 200),
        ("admin", "GET", "", 200),
        ("alice", "GET", "", 403),
        ("nobody", "GET", "", 401),
        ("alice", "GET", "/host1/state", 403),
        ("alice", "DELETE", "/host1", 403),
        ("admin", "POST", "/host1/state", 405),
        ("admin", "GET", "/host1/other", 404),
    ] {
        let reply = service.ask(token, method, path, None).await;
        assert_eq!(reply.status, status, "{token} {method} {path}");
    }
    for (token, path, status) in [
        ("admin", "/host1/state", 403),
        ("alice", "/host1/seen", 403),
        ("alice", "/host1/service", 403),
    ] {
        let reply = service.ask(token, "PUT", path, Some(json!({}))).await;
        assert_eq!(reply.status, status, "{token} {path}");
    }
}

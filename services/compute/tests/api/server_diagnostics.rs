//! Tests of diagnostics and of the NUMA topology.

use serde_json::json;

use super::service::Service;

async fn service() -> Service {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    service
}

#[tokio::test]
async fn diagnostics_have_one_form_from_2_48_and_that_of_libvirt_before() {
    let service = service().await;
    let server = service.running(json!({})).await;
    let path = format!("/servers/{server}/diagnostics");
    let shown = service.get("admin", "2.48", &path).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    let body = &shown.body;
    for (key, expected) in [
        ("state", json!("running")),
        ("driver", json!("libvirt")),
        ("config_drive", json!(true)),
        ("num_cpus", json!(1)),
        ("num_nics", json!(1)),
        ("num_disks", json!(1)),
        ("memory_details", json!({"maximum": 512, "used": 256})),
        (
            "cpu_details",
            json!([{"id": 0, "time": 7, "utilisation": null}]),
        ),
        (
            "disk_details",
            json!([{"read_bytes": 1, "read_requests": 2, "write_bytes": 3, "write_requests": 4, "errors_count": null}]),
        ),
        (
            "nic_details",
            json!([{"mac_address": "fa:00:00:00:00:01", "rx_octets": 10, "rx_errors": 12, "rx_drop": 13, "rx_packets": 11,
                "rx_rate": null, "tx_octets": 20, "tx_errors": 22, "tx_drop": 23, "tx_packets": 21, "tx_rate": null}]),
        ),
    ] {
        assert_eq!(body[key], expected, "{key}");
    }
    let early = service.get("admin", "2.47", &path).await.body;
    for (key, expected) in [
        ("memory", 512 * 1024),
        ("cpu0_time", 7),
        ("vda_read", 1),
        ("vda_write_req", 4),
        ("vnet0_rx", 10),
        ("vnet0_tx_drop", 23),
    ] {
        assert_eq!(early[key], expected, "{key}: {early}");
    }
    assert_eq!(service.get("alice", "2.48", &path).await.status, 403);
}

#[tokio::test]
async fn diagnostics_need_a_running_guest_and_a_driver_that_counts() {
    let service = service().await;
    let server = service.running(json!({})).await;
    let path = format!("/servers/{server}/diagnostics");
    service.cloud.agent.set_guest(server, "stopped", "shut off");
    let off = service.get("admin", "2.48", &path).await;
    let message = off.message("conflictingRequest");
    let expected = format!("Cannot 'get_diagnostics' instance {server} while it is in power state");
    assert!(message.starts_with(&expected), "{message}");
    service.cloud.agent.set_guest(server, "active", "running");
    service.cloud.agent.count_nothing();
    assert_eq!(service.get("admin", "2.48", &path).await.status, 501);
}

#[tokio::test]
async fn the_topology_has_cells_from_2_78_and_the_hosts_part_for_operators_only() {
    let service = service().await;
    let server = service.running(json!({})).await;
    let path = format!("/servers/{server}/topology");
    let own = service.get("alice", "2.78", &path).await;
    assert_eq!(
        own.body,
        json!({"nodes": [{"vcpu_set": [0, 1], "siblings": [], "memory_mb": 512}], "pagesize_kb": 2048})
    );
    let whole = service.get("admin", "2.78", &path).await;
    let node = &whole.body["nodes"][0];
    assert_eq!(node["host_node"], 1);
    assert_eq!(node["cpu_pinning"], json!({"0": 4, "1": 5}));
    assert_eq!(service.get("admin", "2.77", &path).await.status, 404);
    assert_eq!(service.get("bob", "2.78", &path).await.status, 404);
    let fresh = service.server(json!({})).await;
    let path = format!("/servers/{fresh}/topology");
    let none = service.get("alice", "2.78", &path).await;
    assert_eq!(none.body, json!({"nodes": [], "pagesize_kb": null}));
}

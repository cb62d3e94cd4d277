//! Tests with invalid and hostile bodies: each is refused with the field's name, and nothing is stored.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use berth_agent_instances::build_bench::{Bench, bench_of_devices, body, uuid};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::instances::routes;

async fn post(router: &Router, body: impl Into<Body>) -> (u16, String) {
    let request = Request::post("/v1/guests").body(body.into()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20)
        .await
        .unwrap();
    let text: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let message = text["error"]["message"].as_str().map(str::to_owned);
    (status, message.unwrap_or_else(|| text.to_string()))
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_its_field_and_nothing_is_left() {
    let bench = bench_of_devices();
    let guests = bench.guests().await;
    let router = routes(&guests);
    let flavor = |change: Value| {
        let mut flavor = json!({"name": "f", "vcpus": 1, "ram_mb": 64});
        for (key, value) in change.as_object().unwrap() {
            flavor[key] = value.clone();
        }
        json!({ "flavor": flavor })
    };
    let specs = |specs: Value| flavor(json!({ "extra_specs": specs }));
    let arq = "aaaaaaaa-bbbb-4ccc-8ddd-000000000001";
    let many_specs: serde_json::Map<_, _> =
        (0..300).map(|n| (format!("a:{n}"), json!("1"))).collect();
    let many_nics: Vec<_> = (0..65)
        .map(|_| json!({"source": {"bridge": "br0"}}))
        .collect();
    let many_arqs: Vec<_> = (0..257_u128)
        .map(|n| json!(Uuid::from_u128(n).to_string()))
        .collect();
    for (change, status, text) in [
        (json!({"uuid": "one"}), 400, "uuid"),
        (json!({"uuid": Uuid::nil()}), 400, "uuid"),
        (json!({"name": "../../etc"}), 400, "name"),
        (json!({"name": ""}), 400, "name"),
        (json!({"name": "a\u{0}b"}), 400, "name"),
        (json!({"project_id": "a\nb"}), 400, "project_id"),
        (json!({"user_id": ""}), 400, "user_id"),
        (json!({"node": "compute2"}), 409, "compute2"),
        (json!({"node": "a b\n"}), 400, "node"),
        (json!({"hypervisor": "x"}), 400, "hypervisor"),
        (flavor(json!({"vcpus": 0})), 400, "topology.vcpus"),
        (flavor(json!({"vcpus": -1})), 400, "flavor.vcpus"),
        (
            flavor(json!({"vcpus": 4_000_000_000_u32})),
            400,
            "topology.vcpus",
        ),
        (
            flavor(json!({"ram_mb": u64::MAX})),
            400,
            "topology.memory_mib",
        ),
        (flavor(json!({"disk_gb": u64::MAX})), 400, "root_gib"),
        (
            flavor(json!({"ephemeral_gb": u64::MAX})),
            400,
            "ephemeral_gib",
        ),
        (flavor(json!({"swap": 1})), 400, "swap"),
        (flavor(json!({"name": "\u{1b}[31m"})), 400, "flavor.name"),
        (
            flavor(json!({ "extra_specs": many_specs })),
            400,
            "at most 256",
        ),
        (specs(json!({"a": "x".repeat(300)})), 400, "at most 255"),
        (
            specs(json!({"hw:cpu_policy": "mine"})),
            400,
            "hw:cpu_policy",
        ),
        (
            specs(json!({"hw:tpm_version": "2.0"})),
            400,
            "hw:tpm_version",
        ),
        (
            specs(json!({"hw:numa_nodes": "18446744073709551616"})),
            400,
            "hw:numa_nodes",
        ),
        (
            specs(
                json!({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-65535", "hw:numa_mem.0": "64"}),
            ),
            400,
            "hw:numa_cpus.0",
        ),
        (
            specs(json!({"hw:mem_page_size": "1GB"})),
            400,
            "the 64 MiB of a cell are not whole pages",
        ),
        (
            specs(json!({"resources:CUSTOM-X": "1"})),
            400,
            "resources:CUSTOM-X",
        ),
        (json!({"accelerator_requests": [arq, arq]}), 400, "twice"),
        (
            json!({"accelerator_requests": many_arqs}),
            400,
            "at most 256",
        ),
        (json!({"networks": many_nics}), 400, "at most 64"),
        (
            json!({"networks": [{"source": {"bridge": "../x"}}]}),
            400,
            "networks[0]",
        ),
        (
            json!({"networks": [{"source": {"bridge": "br0"}, "mac": "ff:ff:ff:ff:ff:ff"}]}),
            400,
            "networks[0]",
        ),
        (
            json!({"kernel": {"kernel": "/etc/shadow"}}),
            400,
            "/boot/guests",
        ),
        (
            json!({"kernel": {"kernel": "/boot/guests/../../etc/shadow"}}),
            400,
            "kernel.kernel",
        ),
        (
            json!({"kernel": {"kernel": "/boot/guests/v", "ramdisk": "/dev/mem"}}),
            400,
            "kernel.ramdisk",
        ),
        (
            json!({"kernel": {"kernel": "/boot/guests/v", "command_line": "a\nb"}}),
            400,
            "boot.command_line",
        ),
        (
            json!({"image": {"location": {"path": "/a/../b"}, "format": "raw", "checksum": "sha256:00"}}),
            400,
            "image.location",
        ),
        (
            json!({"image": {"location": {"url": "file:///etc/shadow"}, "format": "raw"}}),
            400,
            "image.location",
        ),
        (
            json!({"image": {"location": {"path": "/images/a"}, "format": "raw"}}),
            400,
            "image.checksum",
        ),
        (
            json!({"image": {"location": {"path": "/images/a"}, "format": "vmdk", "checksum": "sha256:00"}}),
            400,
            "image.format",
        ),
        (
            json!({"config_drive": {"user_data": "not base64!"}}),
            400,
            "user_data",
        ),
        (
            json!({"config_drive": {"hostname": "a b"}}),
            400,
            "hostname",
        ),
        (json!({"config_drive": {"password": "x"}}), 400, "password"),
        (
            json!({"limits": {"cpu_allocation_ratio": 0.0}}),
            400,
            "limits.cpu_allocation_ratio",
        ),
        (
            json!({"limits": {"ram_allocation_ratio": -1.5}}),
            400,
            "limits.ram_allocation_ratio",
        ),
        (json!({"allocations": {"x": {}}}), 400, "allocations"),
        (
            json!({"allocations": {(Uuid::from_u128(1).to_string()): {"vgpu": 1}}}),
            400,
            "allocations.",
        ),
        (
            json!({"allocations": {(Uuid::from_u128(1).to_string()): {"VGPU": 0}}}),
            400,
            "VGPU",
        ),
        (json!({"power": "on"}), 400, "power"),
    ] {
        let (found, message) = post(&router, body(1, change.clone()).to_string()).await;
        assert_eq!(found, status, "{change}: {message}");
        assert!(message.contains(text), "{change}: {message}");
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
    assert_eq!(post(&router, "{}").await.0, 400);
    assert_eq!(post(&router, "x".repeat(300 << 10)).await.0, 413);
    let deep = format!("{{\"uuid\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(post(&router, deep).await.0, 400);
    assert!(guests.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_name_full_of_markup_is_a_name() {
    let bench = Bench::new(1, 4, "0");
    let guests = bench.guests().await;
    let router = routes(&guests);
    let name = "</name><devices>&amp;'\"]]><!--";
    let (status, answer) = post(&router, body(1, json!({"name": "</name>"})).to_string()).await;
    assert_eq!(status, 400, "a file name has no slash: {answer}");
    let name = name.replace('/', "");
    let drive = json!({"name": name, "config_drive": {}});
    let (status, answer) = post(&router, body(1, drive).to_string()).await;
    assert_eq!(status, 202, "{answer}");
    guests.reconcile_instance(uuid(1)).await;
    assert_eq!(bench.running(1).name.as_str(), name);
}

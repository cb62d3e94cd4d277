//! Any body is taken or refused, and what is taken can be kept.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Numbers at the edges, and others.
fn numbers() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        (-2_i64..70_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::Null),
    ]
}

proptest! {
    #[test]
    fn any_node_is_taken_or_refused_by_the_name_of_a_field(
        field in prop::sample::select(vec!["vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "local_gb", "local_gb_used",
            "disk_available_least", "cpu_allocation_ratio", "num_io_ops", "failed_builds", "hypervisor_version"]),
        number in numbers(),
        name in any::<String>(),
        cpu in any::<u32>(),
    ) {
        let mut body = json!({"service": {"version": "1"}, "nodes": [{
            "uuid": "aaaaaaaa-0000-0000-0000-000000000001", "hypervisor_hostname": name, "hypervisor_type": "QEMU",
            "vcpus": 1, "vcpus_used": 0, "memory_mb": 1, "memory_mb_used": 0, "local_gb": 1, "local_gb_used": 0,
            "cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0, "disk_allocation_ratio": 1.0,
            "numa_topology": [{"id": 0, "cpuset": [cpu], "pcpuset": [], "memory": 1}],
        }]});
        body["nodes"][0][field] = number;
        let read = berth_wire::decode::<HostStateBody>(body.to_string().as_bytes());
        match read.and_then(|body| HostReport::new("host1", body)) {
            Ok(report) => {
                let kept: NodeStateBody = berth_wire::decode(report.nodes[0].body.as_bytes()).expect("it was taken");
                // What filters compute of it has no end either.
                let state = crate::node_state::from_report(kept);
                prop_assert!(state.free_ram_mb.checked_mul(1_024).is_some());
                prop_assert!(state.free_disk_mb.checked_mul(1_024).is_some());
            }
            Err(error) => prop_assert!(error.to_string().starts_with("nodes[0]."), "{}", error),
        }
    }
}

#[test]
fn equal_bodies_have_one_name_and_others_another() {
    let report = |version: &str, nodes: &[Value]| {
        let body = json!({"service": {"version": version}, "nodes": nodes});
        let body = berth_wire::decode(body.to_string().as_bytes()).expect("a body");
        HostReport::new("host1", body).expect("it is taken").state
    };
    let node = serde_json::to_value(crate::node_state::sample()).expect("a value");
    let one = report("1", std::slice::from_ref(&node));
    assert_eq!(one, report("1", std::slice::from_ref(&node)));
    assert_ne!(one, report("2", std::slice::from_ref(&node)));
    assert_ne!(one, report("1", &[]));
}

//! Tests of the conversion from a reported node to the scheduler's `HostState`.

use serde_json::{Value, json};

use super::*;

/// A reported node with only its mandatory fields.
pub(crate) fn sample() -> NodeStateBody {
    with(json!({}))
}

/// The same with other fields.
fn with(fields: Value) -> NodeStateBody {
    let mut node = json!({
        "uuid": "aaaaaaaa-0000-0000-0000-00000000000B",
        "hypervisor_hostname": "node1",
        "hypervisor_type": "QEMU",
        "vcpus": 16,
        "vcpus_used": 20,
        "memory_mb": 1_000,
        "memory_mb_used": 1_200,
        "local_gb": 100,
        "local_gb_used": 10,
        "cpu_allocation_ratio": 4.0,
        "ram_allocation_ratio": 1.5,
        "disk_allocation_ratio": 1.0,
    });
    let all = node.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    berth_wire::decode(node.to_string().as_bytes()).unwrap()
}

#[test]
fn amounts_match_those_of_filters_and_weighers() {
    let state = from_report(sample());
    assert_eq!(state.uuid, "aaaaaaaa-0000-0000-0000-00000000000b");
    assert_eq!(state.nodename, "node1");
    assert_eq!(
        (state.total_usable_ram_mb, state.free_ram_mb),
        (1_000, -200)
    );
    assert_eq!((state.vcpus_total, state.vcpus_used), (16, 20));
    assert_eq!(state.total_usable_disk_gb, 100);
    let ratios = (
        state.cpu_allocation_ratio,
        state.ram_allocation_ratio,
        state.disk_allocation_ratio,
    );
    assert_eq!(ratios, (4.0, 1.5, 1.0));
    assert_eq!(
        (state.num_instances, state.num_io_ops, state.failed_builds),
        (0, 0, 0)
    );
    assert!(state.pci.is_none() && state.numa.is_none() && state.metrics.is_none());
    assert!(state.cpu_info.is_none() && state.hypervisor_version.is_none());
}

#[test]
fn free_disk_is_the_smaller_of_unallocated_and_really_free_space() {
    for (least, free_gb) in [
        (json!(null), 90),
        (json!(200), 90),
        (json!(90), 90),
        (json!(7), 7),
        (json!(-3), -3),
    ] {
        let state = from_report(with(json!({"disk_available_least": least})));
        assert_eq!(state.free_disk_mb, free_gb * 1_024, "{least}");
    }
}

#[test]
fn guests_are_counted_and_known_by_uuid_with_what_they_were_booted_from() {
    let guest = "CCCCCCCC-0000-0000-0000-000000000001";
    let state = from_report(with(json!({"instances": {
        (guest): {"flavorid": "42", "image_properties":
            {"architecture": "AMD64", "hw_numa_nodes": "two", "os_type": "Linux", "hw_disk_bus": "odd"}},
        "cccccccc-0000-0000-0000-000000000002": {},
    }})));
    assert_eq!(state.num_instances, 2);
    let lower = guest.to_lowercase();
    assert!(state.instances.contains(&lower));
    let (_, known) = state.instances.iter().next().unwrap();
    assert_eq!(known.flavorid.as_deref(), Some("42"));
    let properties: Vec<_> = known.image.iter().collect();
    let read = [("hw_architecture", "x86_64"), ("os_type", "linux")];
    assert_eq!(properties, read, "what no image may have is left out");
}

#[test]
fn cpu_info_is_parsed_once_and_stored_unchanged() {
    let state = from_report(with(json!({"cpu_info": "{\"arch\": \"x86_64\"}"})));
    let cpu_info = state.cpu_info.unwrap();
    assert_eq!(cpu_info.text(), "{\"arch\": \"x86_64\"}");
    assert!(cpu_info.value().is_some());
    let odd = from_report(with(json!({"cpu_info": "not JSON"})))
        .cpu_info
        .unwrap();
    assert_eq!((odd.text(), odd.value()), ("not JSON", None));
}

#[test]
fn stats_are_values_of_any_kind() {
    let stats = json!({"n": 7, "f": 0.5, "t": "x", "b": true, "z": null, "big": 18_446_744_073_709_551_615_u64});
    let state = from_report(with(json!({"stats": stats})));
    for (key, value) in [
        ("n", Capability::Int(7)),
        ("f", Capability::Float(0.5)),
        ("t", Capability::Text("x".to_owned())),
        ("b", Capability::Bool(true)),
        ("z", Capability::Null),
        ("big", Capability::Float(18_446_744_073_709_551_615.0)),
    ] {
        assert_eq!(state.stats.get(key), Some(&value), "{key}");
    }
}

#[test]
fn missing_devices_and_cells_differ_from_empty_lists() {
    let state = from_report(with(
        json!({"pci_device_pools": [], "numa_topology": [], "metrics": {}}),
    ));
    assert!(state.pci.is_some_and(|pools| pools.is_empty()));
    assert!(state.numa.is_some_and(|numa| numa.cells.is_empty()));
    assert_eq!(state.metrics.map(|all| all.len()), Some(0));
    let state = from_report(with(json!({
        "pci_device_pools": [
            {"vendor_id": "8086", "product_id": "10ca", "numa_node": 1, "count": 4,
                "tags": {"dev_type": "type-VF", "rp_uuid": "r"}},
            {"vendor_id": "10de", "product_id": "1eb8", "count": 1},
        ],
        "numa_topology": [{
            "id": 1, "cpuset": [0, 1], "pcpuset": [2, 3, 65_535], "memory": 2_048, "cpu_usage": 3, "memory_usage": 512,
            "pinned_cpus": [2], "siblings": [[0, 1], [2, 3]], "socket": 0, "physnets": ["physnet0"], "tunneled": true,
            "mempages": [{"size_kb": 2_048, "total": 512, "used": 1, "reserved": 2}],
        }],
    })));
    let pools = state.pci.unwrap();
    let by_tags: Vec<_> = pools
        .iter()
        .map(|pool| (pool.vendor_id.as_str(), pool.count))
        .collect();
    assert_eq!(by_tags, [("10de", 1), ("8086", 4)]);
    let numa = state.numa.unwrap();
    assert!(numa.has_threads());
    let cell = &numa.cells[0];
    assert_eq!(
        (cell.id, cell.memory, cell.memory_usage, cell.cpu_usage),
        (1, 2_048, 512, 3)
    );
    assert_eq!(
        (cell.cpuset.to_string(), cell.pcpuset.to_string()),
        ("0-1".to_owned(), "2-3,65535".to_owned())
    );
    assert_eq!(
        (cell.pinned_cpus.to_string(), cell.socket, cell.tunneled),
        ("2".to_owned(), Some(0), true)
    );
    let pages = cell.mempages[0];
    assert_eq!(
        (pages.size_kb, pages.total, pages.used, pages.reserved),
        (2_048, 512, 1, 2)
    );
    assert!(cell.physnets.contains("physnet0"));
}

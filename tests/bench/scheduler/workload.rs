//! Generates the hosts and the requests for both schedulers from a seed; no two hosts are alike.

use berth_model::SeededRng;
use serde_json::{Value, json};

/// The maximum number of guests that are already on each host.
const GUESTS: u64 = 30;

/// So many hosts, and the requests `plain` and `rich`.
pub(crate) fn workload(hosts: usize) -> Value {
    let mut rng = SeededRng::new(1);
    let hosts: Vec<Value> = (0..hosts).map(|number| host(&mut rng, number)).collect();
    json!({
        "aggregates": aggregates(),
        "requests": {"plain": plain(), "rich": rich(&mut rng, hosts.len())},
        "hosts": hosts,
    })
}

fn uuid(kind: u32, number: u64) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

/// The uuid of one of the guests that a host may have had before.
fn guest(host: usize, number: u64) -> String {
    uuid(2, u64::try_from(host).unwrap_or_default() * 64 + number)
}

fn aggregates() -> Value {
    json!([
        {"id": 1, "metadata": {"ssd": "true", "zone": "a"}},
        {"id": 2, "metadata": {"ssd": "false", "max_instances_per_host": "80"}},
        {"id": 3, "metadata": {"instance_type": "m1.small,m1.large", "ram_weight_multiplier": "2.0"}},
        {"id": 4, "metadata": {"filter_tenant_id": "p1,p2", "max_io_ops_per_host": "16"}},
        {"id": 5, "metadata": {"os_distro": "linux,windows"}},
    ])
}

fn host(rng: &mut SeededRng, number: usize) -> Value {
    let mut below = |most: u64| rng.next_u64() % most;
    let cpus = [64, 96, 128][usize::try_from(below(3)).unwrap_or_default()];
    let memory = 262_144 << below(2);
    let busy = [0, 0, 0, 1, 2, 7][usize::try_from(below(6)).unwrap_or_default()];
    let cells: Vec<Value> = (0..2)
        .map(|cell| {
            let half = cpus / 2;
            let all: Vec<u64> = (cell * half..(cell + 1) * half).collect();
            let (shared, own) = all.split_at(all.len() / 2);
            let pinned = usize::try_from(2 * below(7)).unwrap_or_default();
            json!({
                "id": cell, "socket": cell, "cpuset": shared, "pcpuset": own, "pinned_cpus": own[..pinned],
                "siblings": all.chunks(2).collect::<Vec<_>>(),
                "memory": memory / 2, "memory_usage": below(3) * memory / 8, "cpu_usage": below(half),
                "mempages": [{"size_kb": 4, "total": memory / 2 * 128, "used": 0},
                             {"size_kb": 2048, "total": memory / 8, "used": below(2) * 64}],
            })
        })
        .collect();
    let pool = |cell: u64, count: u64| {
        json!({
            "vendor_id": "8086", "product_id": "1520", "numa_node": cell, "count": count,
            "tags": {"dev_type": "type-VF", "physical_network": "physnet1"},
        })
    };
    let cpu_info = json!({
        "arch": "x86_64", "model": "Cascadelake", "vendor": "Intel",
        "topology": {"cores": cpus / 4, "threads": 2, "sockets": 2},
        "features": ["aes", "vmx", "avx512f", "avx2", "sse4.2", "mmx", "pge", "nx"],
    });
    json!({
        "host": format!("cn{number:06}"), "node": format!("cn{number:06}.example"),
        "uuid": uuid(1, u64::try_from(number).unwrap_or_default()), "cell": format!("cell{}", number % 4),
        "host_ip": format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255),
        "total_ram_mb": memory, "free_ram_mb": below(memory),
        "total_disk_gb": 4000, "free_disk_mb": below(4001) * 1024,
        "vcpus_total": cpus, "vcpus_used": below(cpus * 4),
        "cpu_ratio": 4.0, "ram_ratio": 1.5, "disk_ratio": 1.0,
        "num_instances": below(50), "num_io_ops": busy,
        "failed_builds": below(20) / 19, "hv_type": "QEMU", "hv_version": 8_000_000 + below(3) * 1_000_000,
        "cpu_info": cpu_info.to_string(),
        "supported_instances": [["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"], ["x86_64", "qemu", "hvm"]],
        "aggregates": (1..=5).filter(|_| below(3) == 0).collect::<Vec<u64>>(),
        "instances": (0..below(GUESTS + 1)).map(|one| guest(number, one)).collect::<Vec<_>>(),
        "metrics": [{"name": "cpu.percent", "value": below(101)}],
        "pci_pools": [pool(0, below(9)), pool(1, below(9))],
        "numa": {"cells": cells},
    })
}

fn plain() -> Value {
    json!({
        "project_id": "p1",
        "flavor": {"name": "m1.small", "vcpus": 2, "memory_mb": 2048, "root_gb": 20, "ephemeral_gb": 0, "swap": 0, "extra_specs": {}},
        "image": {"id": uuid(5, 1), "properties": {}},
        "hints": {}, "group": null, "pci_requests": null,
    })
}

/// What most filters have something to do with.
fn rich(rng: &mut SeededRng, hosts: usize) -> Value {
    let most = u64::try_from(hosts).unwrap_or(1).max(1);
    let mut member = || {
        let host = usize::try_from(rng.next_u64() % most).unwrap_or_default();
        guest(host, rng.next_u64() % 20)
    };
    let members: Vec<String> = (0..10).map(|_| member()).collect();
    let mut request = plain();
    request["flavor"]["extra_specs"] = json!({
        "capabilities:cpu_info:features": "<in> aes", "capabilities:hypervisor_version": ">= 8000000",
        "hw:video_ram_max_mb": "16",
    });
    request["image"]["properties"] = json!({
        "hw_architecture": "x86_64", "img_hv_type": "kvm", "hw_vm_mode": "hvm", "os_distro": "linux",
        "img_hv_requested_version": ">=8.0",
    });
    let query = json!([
        "and",
        [">=", "$free_ram_mb", 2048],
        [">=", "$free_disk_mb", 20480]
    ]);
    request["hints"] = json!({"different_host": members[..3], "query": [query.to_string()]});
    request["group"] = json!({
        "policy": "anti-affinity", "members": members, "hosts": [], "rules": {"max_server_per_host": 4},
    });
    request["pci_requests"] = json!([{
        "count": 1, "spec": [{"vendor_id": "8086", "product_id": "1520", "dev_type": "type-VF"}],
        "request_id": uuid(6, 1), "alias_name": "nic",
    }]);
    request
}

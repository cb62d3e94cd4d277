//! Each rule, on hosts made for it.

use serde_json::{Value, json};

use crate::host_state::{HostState, NumaLimits};
use crate::numa::{CellStrategy, NumaAsk, Offer};
use crate::pci::Mappings;
use crate::request::RequestSpec;
use crate::testing;

/// Eight CPUs with two shared and two dedicated cores, and 1 GiB.
fn cell(id: i64, change: &Value) -> Value {
    let cpus = |places: &[i64]| -> Vec<i64> { places.iter().map(|at| id * 8 + at).collect() };
    let mut cell = json!({
        "id": id, "cpuset": cpus(&[0, 1, 4, 5]), "pcpuset": cpus(&[2, 3, 6, 7]), "memory": 1024,
        "siblings": [cpus(&[0, 4]), cpus(&[1, 5]), cpus(&[2, 6]), cpus(&[3, 7])],
    });
    for (key, value) in change.as_object().expect("an object") {
        cell[key] = value.clone();
    }
    cell
}

fn host(cells: &[Value], pools: &Value) -> HostState {
    let hosts = json!([{"numa": {"cells": cells}, "pci_pools": pools}]);
    HostState::clone(&testing::hosts(&hosts)[0].state)
}

/// Of a flavor with two CPUs and 512 MiB.
fn request(specs: &Value) -> RequestSpec {
    testing::request(&json!({
        "flavor": {"vcpus": 2, "memory_mb": 512, "extra_specs": specs},
        "numa_from_flavor": true,
    }))
}

const ONCE: NumaLimits = NumaLimits {
    cpu_allocation_ratio: 1.0,
    ram_allocation_ratio: 1.0,
};

fn fit(host: &HostState, request: &RequestSpec) -> Result<(), String> {
    let ask = NumaAsk::new(request).expect("it asks for cells");
    let offer = Offer {
        numa: host.numa.as_ref().expect("it has cells"),
        pci: host.pci.as_ref(),
        limits: Some(ONCE),
        mappings: &Mappings::new(),
    };
    ask.fit(offer).map_err(|reason| reason.to_string())
}

/// The dedicated CPUs in each cell after the claim.
fn pinned(host: &HostState, request: &RequestSpec, packing: CellStrategy) -> Vec<String> {
    let ask = NumaAsk::new(request).expect("it asks for cells");
    let offer = Offer {
        numa: host.numa.as_ref().expect("it has cells"),
        pci: host.pci.as_ref(),
        limits: None,
        mappings: &Mappings::new(),
    };
    let (after, _) = ask.take(offer, packing).expect("it fits");
    let cells = after.cells.iter();
    cells.map(|cell| cell.pinned_cpus.to_string()).collect()
}

#[test]
fn a_cell_that_does_not_fit_says_what_it_lacks() {
    let shared = json!({"hw:numa_nodes": "1"});
    let dedicated = json!({"hw:cpu_policy": "dedicated"});
    let pages = |size: &str| json!({"hw:mem_page_size": size});
    let threads =
        |policy: &str| json!({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": policy});
    let huge =
        json!({"mempages": [{"size_kb": 4, "total": 262_144}, {"size_kb": 2048, "total": 200}]});
    let legacy = json!({
        "cpuset": [2, 3, 6, 7], "pcpuset": [2, 3, 6, 7], "siblings": [[2, 6], [3, 7]], "pinned_cpus": [2]
    });
    for (specs, change, lacks) in [
        (&shared, json!({}), ""),
        (&shared, json!({"memory": 256}), "has 256 MiB for 512 MiB"),
        (
            &shared,
            json!({"cpuset": [1]}),
            "has 1 shared CPUs in all for 2",
        ),
        (
            &shared,
            json!({"cpu_usage": 3}),
            "would have 5 shared CPUs in use, and 4 are allowed",
        ),
        (
            &shared,
            json!({"memory_usage": 600}),
            "would have 1112 MiB in use, and 1024 are allowed",
        ),
        (
            &shared,
            json!({"mempages": [{"size_kb": 4, "total": 1000, "used": 0}]}),
            "has 4000 KiB in pages of size 4 for 524288 KiB in whole pages",
        ),
        (
            &shared,
            json!({"mempages": [{"size_kb": 4, "total": 262_144, "used": 262_144}]}),
            "",
        ),
        (&dedicated, json!({}), ""),
        (
            &dedicated,
            json!({"memory_usage": 600}),
            "has 424 MiB for 512 MiB",
        ),
        (
            &dedicated,
            json!({"pcpuset": [2]}),
            "has 1 dedicated CPUs in all for 2",
        ),
        (
            &dedicated,
            json!({"pinned_cpus": [2, 3, 6]}),
            "has 1 dedicated CPUs free for 2",
        ),
        (
            &dedicated,
            json!({"siblings": []}),
            "does not tell its cores",
        ),
        (
            &pages("large"),
            huge.clone(),
            "has 409600 KiB in pages of size large for 524288 KiB in whole pages",
        ),
        (&pages("small"), huge.clone(), ""),
        (&pages("any"), huge.clone(), ""),
        (&pages("1GB"), huge, "has no pages of size 1048576"),
        (&pages("small"), json!({}), "has no pages of size small"),
        (
            &threads("require"),
            json!({"pinned_cpus": [2, 3]}),
            "has 0 CPUs as hw:cpu_thread_policy require wants them, for 2",
        ),
        (&threads("prefer"), json!({"pinned_cpus": [2, 3]}), ""),
        (
            &threads("isolate"),
            json!({}),
            "has cores of several threads, which it cannot isolate for one instance",
        ),
        (
            &threads("isolate"),
            legacy,
            "has 1 CPUs as hw:cpu_thread_policy isolate wants them, for 2",
        ),
        (
            &threads("isolate"),
            json!({"siblings": [[2], [3], [6], [7]]}),
            "",
        ),
    ] {
        let sentence = match lacks {
            "" => Ok(()),
            lacks => Err(format!(
                "instance cell 0 fits on none of its NUMA cells: cell 0 {lacks} (instance cell 0)"
            )),
        };
        let got = fit(&host(&[cell(0, &change)], &json!([])), &request(specs));
        assert_eq!(got, sentence, "{specs} {change}");
    }
}

#[test]
fn the_emulator_has_a_cpu_of_the_first_cell_more() {
    let specs = json!({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"});
    let two = json!({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate", "hw:numa_nodes": "2"});
    let full = |pinned: &[i64]| cell(0, &json!({"pinned_cpus": pinned}));
    assert_eq!(
        fit(&host(&[full(&[2])], &json!([])), &request(&specs)),
        Ok(())
    );
    let refused = fit(&host(&[full(&[2, 3])], &json!([])), &request(&specs));
    assert!(refused.is_err_and(|it| it.contains("has 2 dedicated CPUs free for 3")));
    let one_free = cell(1, &json!({"pinned_cpus": [10, 11, 14]}));
    let host = host(&[one_free, full(&[])], &json!([]));
    assert_eq!(
        pinned(&host, &request(&two), CellStrategy::Spread),
        ["10-11,14-15", "2,6"]
    );
}

#[test]
fn each_way_is_tried_with_the_cells_as_they_were_asked_for() {
    let two = |first: i64, second: i64| {
        testing::request(&json!({
            "flavor": {"vcpus": 2, "memory_mb": first + second, "extra_specs": {
                "hw:numa_nodes": "2", "hw:numa_cpus.0": "0", "hw:numa_cpus.1": "1",
                "hw:numa_mem.0": first.to_string(), "hw:numa_mem.1": second.to_string(),
            }},
            "numa_from_flavor": true,
        }))
    };
    let of = |memory: &[i64]| {
        let cells = (0..).zip(memory);
        let cells: Vec<Value> = cells
            .map(|(id, memory)| cell(id, &json!({"memory": memory})))
            .collect();
        host(&cells, &json!([]))
    };
    for (memory, first, second, fits) in [
        (&[256, 1024][..], 768, 256, true),
        (&[256, 1024], 256, 768, true),
        (&[1024, 256], 256, 768, true),
        (&[256, 256, 1024], 768, 256, true),
        (&[256, 256], 768, 256, false),
        (&[256, 1024, 256], 512, 768, false),
        (&[512, 1024, 256], 512, 768, true),
    ] {
        let got = fit(&of(memory), &two(first, second));
        assert_eq!(got.is_ok(), fits, "{memory:?} {first} {second} {got:?}");
    }
    let got = fit(&of(&[256, 1024, 256]), &two(512, 768)).expect_err("only one cell is large");
    assert!(got.starts_with(
        "each instance cell fits on one of its NUMA cells, but not each on another: "
    ));
}

#[test]
fn pages_of_one_cell_say_nothing_of_those_of_another() {
    let cells = [
        cell(
            0,
            &json!({"mempages": [{"size_kb": 4, "total": 0}, {"size_kb": 262_144, "total": 1}]}),
        ),
        cell(
            1,
            &json!({"mempages": [{"size_kb": 4, "total": 0}, {"size_kb": 2048, "total": 128}]}),
        ),
    ];
    let specs = json!({"hw:numa_nodes": "2", "hw:mem_page_size": "large"});
    let (mut host, request) = (host(&cells, &json!([])), request(&specs));
    assert_eq!(fit(&host, &request), Ok(()));
    let counted =
        host.consume_numa_and_pci(&request, &Mappings::new(), Some(ONCE), CellStrategy::Spread);
    assert_eq!(counted, Ok(()));
    let numa = host.numa.as_ref().expect("it has cells");
    let used: Vec<i64> = numa
        .cells
        .iter()
        .map(|cell| cell.mempages[1].used)
        .collect();
    assert_eq!(used, [1, 128]);
    let again =
        host.consume_numa_and_pci(&request, &Mappings::new(), Some(ONCE), CellStrategy::Spread);
    assert!(again.is_err(), "no pages are left: {again:?}");
}

#[test]
fn cpus_are_pinned_by_the_thread_policy() {
    let specs =
        |policy: &str| json!({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": policy});
    let alone = |pinned: &[i64]| {
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        cell(
            0,
            &json!({"cpuset": all, "pcpuset": all, "pinned_cpus": pinned}),
        )
    };
    for (policy, before, after) in [
        ("prefer", &[][..], "0,4"),
        ("prefer", &[0], "0-1,5"),
        ("prefer", &[0, 1, 2], "0-3,7"),
        ("prefer", &[0, 1, 2, 3, 4], "0-6"),
        ("require", &[0, 1, 2], "0-3,7"),
        ("isolate", &[0], "0-2,5-6"),
    ] {
        let host = host(&[alone(before)], &json!([]));
        let got = pinned(&host, &request(&specs(policy)), CellStrategy::Spread);
        assert_eq!(got, [after], "{policy} {before:?}");
    }
}

#[test]
fn cells_are_taken_in_novas_order() {
    let pinned_cells = |packing, pools: &Value, asks: bool| {
        let cells = [
            cell(0, &json!({"pinned_cpus": [2]})),
            cell(1, &json!({"memory_usage": 256})),
            cell(2, &json!({})),
        ];
        let mut request = request(&json!({"hw:cpu_policy": "dedicated"}));
        if asks {
            let device = json!({"pci_requests": [{"count": 1, "spec": [{"vendor_id": "8086"}]}]});
            request.pci_requests = testing::request(&device).pci_requests;
        }
        let host = host(&cells, pools);
        let after = pinned(&host, &request, packing);
        let cells = host.numa.as_ref().expect("it has cells").cells.iter();
        let before = cells.map(|cell| cell.pinned_cpus.to_string());
        let taken = before
            .zip(after)
            .position(|(before, after)| before != after);
        taken.expect("one is taken")
    };
    let pools = json!([{"vendor_id": "8086", "product_id": "1520", "numa_node": 2, "count": 1}]);
    for (packing, pools, asks, taken) in [
        (CellStrategy::Spread, &json!([]), false, 2),
        (CellStrategy::Pack, &json!([]), false, 0),
        (CellStrategy::Spread, &pools, false, 1),
        (CellStrategy::Pack, &pools, true, 2),
    ] {
        assert_eq!(
            pinned_cells(packing, pools, asks),
            taken,
            "{packing:?} {pools} {asks}"
        );
    }
}

#[test]
fn devices_are_as_near_as_the_policy_says() {
    let device = |policy: &str| {
        let mut request = request(&json!({"hw:numa_nodes": "1"}));
        let device = json!({"pci_requests": [{
            "count": 1, "spec": [{"vendor_id": "8086"}], "alias_name": "a", "numa_policy": policy}]});
        request.pci_requests = testing::request(&device).pci_requests;
        request
    };
    // The device is at a full cell; one of the others is at the same socket.
    let host = |node: Value, socket: Value| {
        let cells = [
            cell(0, &json!({"socket": 0})),
            cell(1, &json!({"socket": socket})),
            cell(2, &json!({"socket": 1, "memory": 0})),
        ];
        host(
            &cells,
            &json!([{"vendor_id": "8086", "product_id": "1520", "numa_node": node, "count": 1}]),
        )
    };
    for (policy, node, socket, fits) in [
        ("required", json!(0), json!(0), true),
        ("required", json!(2), json!(1), false),
        ("required", json!(null), json!(1), false),
        ("legacy", json!(2), json!(1), false),
        ("legacy", json!(null), json!(1), true),
        ("preferred", json!(2), json!(0), true),
        ("socket", json!(2), json!(1), true),
        ("socket", json!(2), json!(0), false),
        ("socket", json!(2), json!(null), false),
        ("socket", json!(null), json!(1), false),
    ] {
        let got = fit(&host(node.clone(), socket.clone()), &device(policy));
        assert_eq!(got.is_ok(), fits, "{policy} {node} {socket} {got:?}");
    }
    assert_eq!(
        fit(&host(json!(2), json!(0)), &device("required")),
        Err("on its NUMA cells [0]: of the 1 devices that alias a asks for it has 0, which are near enough to the \
             instance's NUMA cells".to_owned())
    );
}

#[test]
fn networks_are_left_from_where_they_are() {
    let host = host(
        &[
            cell(0, &json!({"physnets": ["net1"]})),
            cell(
                1,
                &json!({"memory": 0, "physnets": ["net2"], "tunneled": true}),
            ),
        ],
        &json!([]),
    );
    for (networks, refused) in [
        (json!({"physnets": ["net1", "net3"]}), ""),
        (
            json!({"physnets": ["net1", "net2"]}),
            "network net2 is at its NUMA cells [1], and the instance would be on [0]",
        ),
        (
            json!({"physnets": [], "tunneled": true}),
            "tunnelled networks are at its NUMA cells [1], and the instance would be on [0]",
        ),
    ] {
        let request = testing::request(&json!({
            "flavor": {"extra_specs": {"hw:numa_nodes": "1"}}, "numa_from_flavor": true,
            "network_metadata": networks,
        }));
        let got = fit(&host, &request).err().unwrap_or_default();
        assert_eq!(got, refused, "{networks}");
    }
}

#[test]
fn a_search_without_hope_ends() {
    // Each cell has a device of the kind, so no two are equivalent; nothing fits, but there are 16 * 15 * ... * 9
    // orders.
    let hopeless = |cells: i64| {
        let cells: Vec<Value> = (0..cells).map(|id| cell(id, &json!({}))).collect();
        let pool =
            |id| json!({"vendor_id": "8086", "product_id": "1520", "numa_node": id, "count": 1});
        let pools: Vec<Value> = (0..cells.len()).map(pool).collect();
        host(&cells, &json!(pools))
    };
    let request = testing::request(&json!({
        "flavor": {"vcpus": 8, "memory_mb": 512, "extra_specs": {"hw:numa_nodes": "8"}},
        "numa_from_flavor": true,
        "pci_requests": [{"count": 9, "spec": [{"vendor_id": "8086"}], "numa_policy": "required"}],
    }));
    let refused = fit(&hopeless(16), &request).expect_err("there are 8 devices at 8 cells");
    assert!(refused.starts_with("on its NUMA cells [0, 1, 2, 3, 4, 5, 6, 7]: of the 9 devices"));
    let refused = fit(&hopeless(32), &request).expect_err("there are 8 devices at 8 cells");
    assert_eq!(
        refused,
        "it has 32 NUMA cells, and none of 65536 ways to use them fits; others were not tried"
    );
}

#[test]
fn what_fits_can_be_taken_where_the_sorted_cells_have_too_many_ways() {
    let cells: Vec<Value> = (0..18)
        .map(|id| {
            let usage = if id < 9 { 4 } else { 0 };
            cell(
                id,
                &json!({"physnets": [format!("net{id}")], "cpu_usage": usage}),
            )
        })
        .collect();
    let nets: Vec<String> = (0..9).map(|id| format!("net{id}")).collect();
    let asked = testing::request(&json!({
        "flavor": {"vcpus": 9, "memory_mb": 9, "extra_specs": {"hw:numa_nodes": "9"}},
        "numa_from_flavor": true, "network_metadata": {"physnets": nets},
    }));
    let host = host(&cells, &json!([]));
    let ask = NumaAsk::new(&asked).expect("it asks for cells");
    let offer = Offer {
        numa: host.numa.as_ref().expect("it has cells"),
        pci: host.pci.as_ref(),
        limits: None,
        mappings: &Mappings::new(),
    };
    assert_eq!(ask.fit(offer), Ok(()));
    let (after, _) = ask.take(offer, CellStrategy::Spread).expect("it fits");
    let used: Vec<i64> = after.cells.iter().map(|it| it.cpu_usage).collect();
    assert_eq!(used, [[5; 9], [0; 9]].concat());
}

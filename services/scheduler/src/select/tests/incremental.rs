//! After a claim only the changed host is filtered again. Compared with a loop that filters every host each time.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ask, run};
use crate::filters::InstancePosition;
use crate::host_state::ConsideredHost;
use crate::options::{Normalization, SchedulerOptions};
use crate::select::{Scheduler, SelectionRequest, consume};
use crate::weighers::{HostRanking, Weighers, order};
use berth_model::SeededRng;
use berth_scheduler_objects::testing::hosts;

/// The claims of each instance, by a loop that filters every host for every instance.
fn reference(
    scheduler: &Scheduler,
    mut ask: SelectionRequest,
    mut left: Vec<ConsideredHost>,
) -> Vec<String> {
    let options = &scheduler.options;
    let weighers = Weighers::new(options).expect("weighers");
    let mut rng = SeededRng::new(ask.seed);
    let mut chosen = Vec::new();
    for (at, uuid) in ask.instance_uuids.iter().enumerate() {
        ask.request.instance_uuid.clone_from(uuid);
        let turn = if at == 0 {
            InstancePosition::First
        } else {
            InstancePosition::Later
        };
        let chain = &scheduler.chain;
        chain.filter(&mut left, &ask.request, options, turn, |_| {});
        let ranking = HostRanking::new(&weighers, &left, &ask.request, options).expect("weighed");
        let mut places: Vec<usize> = (0..left.len()).collect();
        let weights = ranking.weights();
        order(&mut places, &weights, &options.filter_scheduler, &mut rng);
        left = places.iter().map(|place| left[*place].clone()).collect();
        let Some(best) = left.first_mut() else { break };
        let (state, limits) = (Arc::make_mut(&mut best.state), &best.limits);
        consume(state, &ask.request, None, limits, options).expect("it is all there");
        if let Some(group) = &mut ask.request.group {
            group.hosts.insert(best.state.host.clone());
        }
        chosen.push(format!("{uuid} {} -", best.state.host));
    }
    chosen
}

fn any_host() -> impl Strategy<Value = Value> {
    let numbers = (8_000..20_000i64, 0..14i64, 40..50i64, 0..7i64, 1..4i64);
    let members = prop::collection::btree_set("[xyz]", 0..3);
    let values = prop_oneof![Just("1"), Just("48"), Just("50"), Just("x")];
    (numbers, members, values).prop_map(|((ram, used, instances, io_ops, few), members, value)| {
        json!({
            "free_ram_mb": ram, "total_ram_mb": 65_536, "free_disk_mb": ram, "total_disk_gb": 500,
            "vcpus_total": 16, "cpu_ratio": 2.0, "vcpus_used": used, "num_instances": instances,
            "num_io_ops": io_ops, "failed_builds": few % 2, "instances": members,
            "pci_pools": [{"vendor_id": "8086", "product_id": "1520", "numa_node": 0, "count": few}],
            "numa": {"cells": [{"id": 0, "cpuset": [0, 1, 2, 3], "memory": 16_384, "memory_usage": ram / 4}]},
            "aggregates": [{"metadata": {"ram_weight_multiplier": value, "max_instances_per_host": value}}],
        })
    })
}

fn any_group() -> impl Strategy<Value = Value> {
    let policies = [
        "affinity",
        "anti-affinity",
        "soft-affinity",
        "soft-anti-affinity",
    ];
    let policy = prop::sample::select(policies.to_vec());
    let hosts: BTreeSet<&str> = ["h0", "h1"].into();
    (policy, prop::option::of(1..3i64), any::<bool>()).prop_map(move |(policy, most, is_there)| {
        json!({
            "policy": policy, "members": ["x", "y", "i0", "i1", "i2", "i3", "i4"],
            "hosts": if is_there { hosts.clone() } else { BTreeSet::new() },
            "rules": {"max_server_per_host": most},
        })
    })
}

proptest! {
    #[test]
    fn looking_again_at_what_changed_is_as_good_as_looking_at_all(
        these in prop::collection::vec(any_host(), 1..7),
        group in prop::option::of(any_group()),
        subset in 1..4i64,
        many in 1..6usize,
        (percent, cells, devices) in any::<(bool, bool, bool)>(),
    ) {
        let mut options = SchedulerOptions::default();
        options.filter_scheduler.host_subset_size = subset;
        if percent {
            options.filter_scheduler.weight_normalization = Normalization::Percent;
        }
        options.filter_scheduler.enabled_filters = [
            "ComputeFilter", "RamFilter", "CoreFilter", "NumInstancesFilter", "AggregateNumInstancesFilter",
            "IoOpsFilter", "JsonFilter", "PciPassthroughFilter", "NUMATopologyFilter",
            "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter",
        ].map(str::to_owned).to_vec();
        let scheduler = Scheduler::new(options).expect("filters and weighers");
        let device = json!({"count": 1, "alias_name": "nic", "spec": [{"vendor_id": "8086"}]});
        let specs = if cells { json!({"hw:numa_nodes": "1"}) } else { json!({}) };
        let asked = json!({
            "flavor": {"memory_mb": 4096, "extra_specs": specs}, "numa_from_flavor": true, "group": group,
            "pci_requests": if devices { vec![device] } else { Vec::new() },
            "hints": {"query": ["[\"<\", \"$vcpus_used\", 14]"]},
        });
        let these = hosts(&json!(these));
        let expected = reference(&scheduler, ask(&asked, many), these.clone());
        let (claims, ended) = run(scheduler.select(ask(&asked, many), these), |_| true);
        prop_assert_eq!(&claims, &expected);
        prop_assert_eq!(ended.is_ok(), claims.len() == many);
    }
}

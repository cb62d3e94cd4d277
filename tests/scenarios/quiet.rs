//! The requests of an idle node to Placement: almost none, whatever the number of consumers.

use std::sync::Arc;
use std::time::Duration;

use berth_agent_tracker::complete::Service;
use berth_agent_tracker::tick;
use berth_model::{ResourceClass, Trait};
use berth_tests::claims::{Claim, claim, join, neighbours};
use berth_tests::cloud::Cloud;
use berth_tests::host::{Host, consumer};
use berth_tests::node::{Node, NodeProcess, ViewDriver};
use berth_virt::CpuSet;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::scenarios::upgrading::{flat, guest_claim, two_gpus};

const NOTHING: [&str; 0] = [];

async fn quiet_ticks(life: &mut NodeProcess, node: &Node, cloud: &Cloud, ticks: u32) {
    let _ = cloud.take_requests();
    for _ in 0..ticks {
        let ticked = life.tick(node).await.unwrap();
        assert!(ticked.changed.is_empty(), "{}", ticked.changed);
    }
    assert_eq!(cloud.take_requests(), NOTHING);
}

/// A tick after `resource_provider_association_refresh`.
async fn aged_tick(life: &mut NodeProcess, node: &Node) {
    let (view, later) = (
        node.driver.view(),
        Instant::now() + Duration::from_secs(301),
    );
    let ticked = tick::reconcile(&mut life.tracker, &view, node.service, later).await;
    let changed = ticked.unwrap().changed;
    assert!(changed.is_empty(), "{changed}");
}

#[tokio::test]
async fn a_new_host_is_reported_whole_and_then_quiet() {
    let cloud = Cloud::in_process().await;
    let host = Host::new("gpu-01").gpu(4).quality("HW_CPU_X86_AVX2");
    let node = Node::new(&host.quality("CUSTOM_FAST"));
    let mut life = node.start(&cloud).await.unwrap();
    assert_eq!(life.started.reshapes, []);
    let rows = cloud.rows().await;
    let inventories = |name: &str| {
        let rows = rows.providers[name].inventories.iter();
        rows.map(|(class, row)| format!("{class} {row}"))
            .collect::<Vec<_>>()
    };
    let root = [
        "DISK_GB 2000 0 1 2000 1 1.0",
        "MEMORY_MB 262144 512 1 262144 1 1.0",
        "VCPU 64 0 1 64 1 4.0",
    ];
    assert_eq!(inventories("gpu-01"), root);
    let gpu = "gpu-01_pci_0000_40_00_0";
    assert_eq!(inventories(gpu), ["VGPU 4 0 1 4 1 1.0"]);
    let traits = |name: &str| Vec::from_iter(rows.providers[name].traits.clone());
    let on_root = [
        "COMPUTE_NODE",
        "CUSTOM_FAST",
        "HW_CPU_X86_AVX2",
        "OWNER_NOVA",
    ];
    assert_eq!(traits("gpu-01"), on_root);
    assert_eq!(traits(gpu), ["OWNER_NOVA"]);
    assert_eq!(rows.providers[gpu].parent.as_deref(), Some("gpu-01"));
    assert_eq!(rows.providers["gpu-01"].uuid, node.root().await.to_string());
    quiet_ticks(&mut life, &node, &cloud, 3).await;
}

#[tokio::test]
async fn a_restart_sends_only_reads() {
    let cloud = Cloud::in_process().await;
    let node = Node::new(&two_gpus());
    node.start(&cloud).await.unwrap();
    let before = cloud.rows().await;
    let _ = cloud.take_requests();
    let life = node.start(&cloud).await.unwrap();
    assert!(life.started.changed.is_empty(), "{}", life.started.changed);
    let requests = cloud.take_requests();
    assert!(
        requests.iter().all(|request| request.starts_with("GET ")),
        "{requests:?}"
    );
    assert!(
        !requests
            .iter()
            .any(|request| request.contains("allocations"))
    );
    // Who am I, the tree, and three of each of its three providers.
    assert!(requests.len() <= 2 + 3 * 3, "{requests:?}");
    assert_eq!(cloud.rows().await.difference(&before), "");
}

#[tokio::test]
async fn steady_ticks_send_nothing_and_the_aged_one_a_single_request_with_0_100_and_1000_consumers()
{
    let cloud = Cloud::in_process().await;
    let host = two_gpus().with(|node| node.cpus.online = CpuSet::first(512));
    let node = Node::new(&host);
    let mut life = node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let mut there = 0;
    for consumers in [0, 100, 1000] {
        let new = (there..consumers).map(|n| Claim::of(consumer(n)).and_a_guest(root));
        claim(&cloud.placement(), new.collect()).await;
        there = consumers;
        // The claims changed the root's generation: it is read once more.
        aged_tick(&mut life, &node).await;
        quiet_ticks(&mut life, &node, &cloud, 5).await;
        let mut life = node.start(&cloud).await.unwrap();
        let _ = cloud.take_requests();
        aged_tick(&mut life, &node).await;
        let one = ["GET /resource_providers"];
        assert_eq!(cloud.take_requests(), one, "{consumers} consumers");
    }
}

#[tokio::test]
async fn a_node_without_a_refresh_interval_never_reads_again() {
    let cloud = Cloud::in_process().await;
    let mut node = Node::new(&two_gpus());
    node.options.association_refresh = None;
    let mut life = node.start(&cloud).await.unwrap();
    let _ = cloud.take_requests();
    aged_tick(&mut life, &node).await;
    assert_eq!(cloud.take_requests(), NOTHING);
}

#[tokio::test]
async fn a_tick_never_reads_allocations() {
    let cloud = Cloud::in_process().await;
    let old = flat(&two_gpus().gpu(8));
    let mut node = Node::new(&old);
    node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let neighbours = neighbours(&cloud.placement()).await;
    join(&cloud.placement(), root, neighbours.aggregate).await;
    let orphan = Claim::of(consumer(77)).and(root, &ResourceClass::VGPU, 2);
    let claims = (0..6).map(|n| guest_claim(n, root, 1)).chain([orphan]);
    claim(&cloud.placement(), claims.collect()).await;
    node.driver.show(&two_gpus().gpu(8));
    let mut life = node.start(&cloud).await.unwrap();
    assert_eq!(life.started.held.len(), 1);
    let _ = cloud.take_requests();

    let host = two_gpus().gpu(8);
    let changes = [
        host.clone(),
        host.clone().with(|node| node.memory_mib *= 2),
        host.clone().gpu(4).quality("CUSTOM_FAST"),
        host.clone().without_gpu(2),
        host.clone().without_gpu(1),
        host.without_guest(3),
    ];
    for (n, change) in changes.iter().enumerate() {
        node.driver.show(change);
        node.service = [Service::Enabled, Service::Disabled][n % 2];
        life.tick(&node).await.unwrap();
        life.tracker.forget();
        life.tick(&node).await.unwrap();
    }
    let requests = cloud.take_requests();
    assert!(requests.len() > 20, "{requests:?}");
    let read = |request: &&String| request.contains("allocations");
    assert_eq!(requests.iter().find(read), None);
}

#[tokio::test]
async fn disabling_a_node_adds_one_trait_and_enabling_it_removes_it() {
    let cloud = Cloud::in_process().await;
    let mut node = Node::new(&two_gpus());
    let mut life = node.start(&cloud).await.unwrap();
    let before = cloud.rows().await.essence();
    let traits = "PUT /resource_providers/{uuid}/traits";
    let _ = cloud.take_requests();
    node.service = Service::Disabled;
    life.tick(&node).await.unwrap();
    let rows = cloud.rows().await.essence();
    assert_eq!(
        rows.difference(&before),
        "- gpu-01: COMPUTE_STATUS_DISABLED\n"
    );
    let requests = cloud.take_requests();
    let writes = requests
        .iter()
        .filter(|request| !request.starts_with("GET "));
    assert_eq!(writes.collect::<Vec<_>>(), [traits]);

    // It stays so over a restart, and other traits of the root with it.
    let mut life = node.start(&cloud).await.unwrap();
    assert!(life.started.changed.is_empty(), "{}", life.started.changed);
    quiet_ticks(&mut life, &node, &cloud, 2).await;
    node.service = Service::Enabled;
    life.tick(&node).await.unwrap();
    assert_eq!(cloud.take_requests(), [traits]);
    assert_eq!(cloud.rows().await.essence().difference(&before), "");
    let disabled = Trait::COMPUTE_STATUS_DISABLED.to_string();
    assert!(
        !cloud.rows().await.providers["gpu-01"]
            .traits
            .contains(&disabled)
    );
}

#[tokio::test]
async fn several_nodes_of_one_driver_start_and_tick_side_by_side() {
    let cloud = Cloud::in_process().await;
    let host = |n: u32| {
        Host::new(&format!("node-{n}"))
            .gpu(4)
            .quality("CUSTOM_FAST")
    };
    let mut view = host(0).view();
    for n in 1..4 {
        view.nodes.extend(host(n).view().nodes);
    }
    let driver = Arc::new(ViewDriver::new(view));
    let nodes: Vec<Node> = (0..4)
        .map(|n| {
            let mut node = Node::new(&host(n));
            node.driver = Arc::clone(&driver);
            node
        })
        .collect();
    let started = join_all(nodes.iter().map(|node| node.start(&cloud))).await;
    let mut lives: Vec<NodeProcess> = started.into_iter().map(Result::unwrap).collect();
    let rows = cloud.rows().await;
    assert_eq!(rows.providers.len(), 8);
    for n in 0..4 {
        let gpu = &rows.providers[host(n).gpu_provider(0).as_str()];
        assert_eq!(gpu.root, format!("node-{n}"));
        assert_eq!(gpu.inventories["VGPU"], "4 0 1 4 1 1.0");
    }
    let _ = cloud.take_requests();
    let ticks = lives.iter_mut().zip(&nodes);
    let ticked = join_all(ticks.map(|(life, node)| life.tick(node))).await;
    assert!(
        ticked
            .iter()
            .all(|ticked| ticked.as_ref().unwrap().changed.is_empty())
    );
    assert_eq!(cloud.take_requests(), NOTHING);
}

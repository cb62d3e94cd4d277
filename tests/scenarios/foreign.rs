//! Objects that operators, Cyborg and other hosts put into Placement are not changed.

use berth_agent_tracker::complete::Service;
use berth_agent_tracker::tick;
use berth_model::{AllocationRatio, Inventory, ProviderUuid, ResourceClass, Trait};
use berth_tests::claims::{Claim, add, claim, join, neighbours};
use berth_tests::cloud::Cloud;
use berth_tests::host::{Host, consumer};
use berth_tests::node::{Node, NodeProcess};
use berth_tests::worlds::{PlacementRows, ProviderRow};
use tokio::time::Instant;
use uuid::Uuid;

use crate::scenarios::upgrading::{flat, guest_claim, places, two_gpus};

/// Changes a provider's inventory of a class as an operator does.
async fn set(
    cloud: &Cloud,
    provider: ProviderUuid,
    class: &ResourceClass,
    change: impl FnOnce(&mut Inventory),
) {
    let placement = cloud.placement();
    let mut found = placement.inventories(provider).await.unwrap();
    let one = || Inventory::of(1).unwrap();
    change(found.value.entry(class.clone()).or_insert_with(one));
    placement
        .put_inventories(provider, found.generation, &found.value)
        .await
        .unwrap();
}

/// Adds a trait as an operator does.
async fn mark(cloud: &Cloud, provider: ProviderUuid, name: &str) {
    let placement = cloud.placement();
    let name: Trait = name.parse().unwrap();
    if name.is_custom() {
        placement.ensure_trait(&name).await.unwrap();
    }
    let mut found = placement.traits(provider).await.unwrap();
    found.value.insert(name);
    placement
        .put_traits(provider, found.generation, &found.value)
        .await
        .unwrap();
}

async fn fresh_tick(life: &mut NodeProcess, node: &Node) {
    life.tracker.forget();
    let (view, now) = (node.driver.view(), Instant::now());
    tick::reconcile(&mut life.tracker, &view, Service::Enabled, now)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_reserve_and_a_ratio_that_an_operator_set_survive_ticks_and_restarts() {
    let cloud = Cloud::in_process().await;
    let host = two_gpus();
    let node = Node::new(&host);
    let mut life = node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let gpu = host.gpu_provider(0);
    let ratio = AllocationRatio::new(2.5).unwrap();
    set(&cloud, root, &ResourceClass::VCPU, |vcpu| {
        vcpu.allocation_ratio = ratio
    })
    .await;
    set(&cloud, root.child(&gpu), &ResourceClass::VGPU, |vgpu| {
        vgpu.reserved = 1
    })
    .await;
    // What is kept for the host is the configuration's to say.
    set(&cloud, root, &ResourceClass::MEMORY_MB, |memory| {
        memory.reserved = 9
    })
    .await;

    let more = host.with(|node| node.memory_mib *= 2);
    for shown in [more, two_gpus()] {
        fresh_tick(&mut life, &node).await;
        node.driver.show(&shown);
        node.start(&cloud).await.unwrap();
        let rows = cloud.rows().await;
        let memory = &rows.providers["gpu-01"].inventories["MEMORY_MB"];
        assert_eq!(memory.split(' ').nth(1), Some("512"), "{memory}");
        assert_eq!(
            rows.providers["gpu-01"].inventories["VCPU"],
            "64 0 1 64 1 2.5"
        );
        assert_eq!(
            rows.providers[gpu.as_str()].inventories["VGPU"],
            "4 1 1 4 1 1.0"
        );
    }
}

/// What no pass may touch, as rows: the foreign children, and what is foreign on ours.
fn foreign(rows: &PlacementRows) -> (Vec<ProviderRow>, Vec<String>) {
    let whole = |(name, row): (&String, &ProviderRow)| {
        let is_foreign = name.contains("fpga")
            || name.contains("Open vSwitch")
            || name == "storage"
            || name == "other-01";
        let mut row = row.clone();
        if name.contains("Open vSwitch") {
            // A reshape sends all allocations of a guest, and Placement counts a new generation of each of their providers.
            row.generation = 0;
        }
        is_foreign.then_some(row)
    };
    let marks = rows.providers.iter().flat_map(|(name, row)| {
        let traits = row.traits.iter().map(move |held| format!("{name} {held}"));
        let aggregates = row.aggregates.iter().map(move |of| format!("{name} {of}"));
        let classes = row.inventories.iter();
        let classes = classes.map(move |(class, row)| format!("{name} {class} {row}"));
        traits.chain(aggregates).chain(classes)
    });
    let marks = marks.filter(|mark| {
        ["RACK", "SSD", "LICENSE", "0a99"]
            .iter()
            .any(|word| mark.contains(word))
    });
    (
        rows.providers.iter().filter_map(whole).collect(),
        marks.collect(),
    )
}

#[tokio::test]
async fn foreign_traits_inventories_aggregates_and_children_are_left_alone() {
    let cloud = Cloud::in_process().await;
    let placement = cloud.placement();
    let node = Node::new(&flat(&two_gpus()));
    let mut life = node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let neighbours = neighbours(&placement).await;
    join(&placement, root, neighbours.aggregate).await;
    mark(&cloud, root, "CUSTOM_RACK_7").await;
    mark(&cloud, root, "STORAGE_DISK_SSD").await;
    let license: ResourceClass = "CUSTOM_LICENSE".parse().unwrap();
    placement.ensure_resource_class(&license).await.unwrap();
    set(&cloud, root, &license, |license| license.total = 7).await;
    let card: ProviderUuid = Uuid::from_u128(0xf96a).into();
    let region: ProviderUuid = Uuid::from_u128(0xf96b).into();
    let fpga: ResourceClass = "FPGA".parse().unwrap();
    let cyborgs = [Trait::OWNER_CYBORG];
    let on_card = [(fpga.clone(), 1)];
    add(
        &placement,
        card,
        "gpu-01_fpga",
        Some(root),
        &on_card,
        &cyborgs,
    )
    .await;
    add(
        &placement,
        region,
        "gpu-01_fpga_1",
        Some(card),
        &[(fpga, 2)],
        &cyborgs,
    )
    .await;
    // Neutron's agent reports the packet rate of the host, and below it the bandwidth of a bridge.
    let class = |name: &str| name.parse::<ResourceClass>().unwrap();
    let bandwidth = class("NET_BW_EGR_KILOBIT_PER_SEC");
    let rate = class("NET_PACKET_RATE_KILOPACKET_PER_SEC");
    let agent: ProviderUuid = Uuid::from_u128(0xf96c).into();
    let bridge: ProviderUuid = Uuid::from_u128(0xf96d).into();
    let name = "gpu-01:Open vSwitch agent";
    add(
        &placement,
        agent,
        name,
        Some(root),
        &[(rate.clone(), 100)],
        &[],
    )
    .await;
    let name = format!("{name}:br-ex");
    let of_bridge = [(bandwidth.clone(), 10_000)];
    add(&placement, bridge, &name, Some(agent), &of_bridge, &[]).await;
    let mut claims: Vec<_> = (1..6).map(|n| guest_claim(n, root, 1)).collect();
    let with_port = guest_claim(0, root, 1).and(agent, &rate, 40);
    claims.push(with_port.and(bridge, &bandwidth, 6000));
    claim(&placement, claims).await;
    let port_of_guest = async || {
        let rows = cloud.rows().await;
        let held = &rows.consumers[&consumer(0).to_string()].holds;
        let of_port = held.iter().filter(|(place, _)| place.contains(" NET_"));
        of_port.map(|(_, amount)| *amount).collect::<Vec<_>>()
    };
    assert_eq!(port_of_guest().await, [40, 6000]);
    let before = foreign(&cloud.rows().await);
    assert_eq!((before.0.len(), before.1.len()), (6, 5), "{before:?}");

    fresh_tick(&mut life, &node).await;
    assert_eq!(foreign(&cloud.rows().await), before, "after a tick");
    node.driver.show(&two_gpus());
    let life = node.start(&cloud).await.unwrap();
    assert_eq!(life.started.reshapes.len(), 1);
    assert_eq!(foreign(&cloud.rows().await), before, "after a reshape");
    assert_eq!(port_of_guest().await, [40, 6000]);
    node.driver.show(&flat(&two_gpus()));
    let mut life = node.start(&cloud).await.unwrap();
    assert_eq!(foreign(&cloud.rows().await), before, "after the way back");
    assert_eq!(port_of_guest().await, [40, 6000]);
    fresh_tick(&mut life, &node).await;
    assert_eq!(foreign(&cloud.rows().await), before);
}

#[tokio::test]
async fn a_sharing_provider_is_read_and_never_written() {
    let cloud = Cloud::in_process().await;
    let node = Node::new(&two_gpus().on_shared_storage());
    node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let neighbours = neighbours(&cloud.placement()).await;
    join(&cloud.placement(), root, neighbours.aggregate).await;
    let before = cloud.rows().await;
    let _ = cloud.take_requests();
    let mut life = node.start(&cloud).await.unwrap();
    let requests = cloud.take_requests();
    assert!(
        requests.iter().all(|request| request.starts_with("GET ")),
        "{requests:?}"
    );
    assert_eq!(
        life.tracker.report().known_tree().unwrap().sharing().len(),
        1
    );
    for change in [two_gpus().gpu(4), two_gpus()] {
        node.driver.show(&change.on_shared_storage());
        fresh_tick(&mut life, &node).await;
    }
    let rows = cloud.rows().await;
    for name in ["storage", "other-01"] {
        assert_eq!(rows.providers[name], before.providers[name]);
    }
}

#[tokio::test]
async fn a_newly_shared_disk_is_not_reported_twice() {
    let cloud = Cloud::in_process().await;
    let node = Node::new(&Host::new("node"));
    let mut life = node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let neighbours = neighbours(&cloud.placement()).await;
    join(&cloud.placement(), root, neighbours.aggregate).await;
    let disk = Claim::of(consumer(0)).and(root, &ResourceClass::DISK_GB, 20);
    claim(&cloud.placement(), vec![disk]).await;

    node.driver.show(&Host::new("node").on_shared_storage());
    fresh_tick(&mut life, &node).await;
    // The part of the old disk that is still allocated is held; the rest is no longer offered.
    let rows = cloud.rows().await;
    let root = &rows.providers["node"];
    assert_eq!(root.inventories["DISK_GB"], "20 20 1 2147483647 1 1.0");
    assert_eq!(rows.held_by(consumer(0)), places(&[("node DISK_GB", 20)]));
    let placement = cloud.placement();
    placement.delete_allocations(consumer(0)).await.unwrap();
    fresh_tick(&mut life, &node).await;
    let rows = cloud.rows().await;
    assert!(!rows.providers["node"].inventories.contains_key("DISK_GB"));
    assert_eq!(
        rows.providers["storage"].inventories["DISK_GB"],
        "100000 0 1 100000 1 1.0"
    );
}

#[tokio::test]
async fn allocations_elsewhere_are_sent_back_unchanged() {
    let cloud = Cloud::in_process().await;
    let node = Node::new(&flat(&two_gpus()));
    node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let neighbours = neighbours(&cloud.placement()).await;
    join(&cloud.placement(), root, neighbours.aggregate).await;
    let claims = [
        guest_claim(0, root, 1).and(neighbours.storage, &ResourceClass::DISK_GB, 20),
        guest_claim(1, root, 1)
            .and(neighbours.other, &ResourceClass::VCPU, 3)
            .and(neighbours.other, &ResourceClass::MEMORY_MB, 512)
            .migrating(),
    ];
    claim(&cloud.placement(), claims.into()).await;
    let before = cloud.rows().await;

    node.driver.show(&two_gpus());
    node.start(&cloud).await.unwrap();
    let rows = cloud.rows().await;
    for n in 0..2 {
        let [was, is] = [&before, &rows].map(|rows| {
            let mut row = rows.consumers[&consumer(n).to_string()].clone();
            row.holds.retain(|place, _| !place.contains("VGPU"));
            row.generation = None;
            row
        });
        assert_eq!(is, was);
        let gpu = format!("{} VGPU", two_gpus().gpu_provider(n as u8));
        assert_eq!(rows.held_by(consumer(n)).get(&gpu), Some(&1));
    }
    for name in ["storage", "other-01"] {
        let [was, is] = [&before, &rows].map(|rows| &rows.providers[name].inventories);
        assert_eq!(is, was);
    }
}

#[tokio::test]
async fn a_free_gpu_s_child_is_removed_with_it() {
    let cloud = Cloud::in_process().await;
    let host = Host::new("gpu-01").gpu(4).gpu(4);
    let node = Node::new(&host);
    let mut life = node.start(&cloud).await.unwrap();
    node.driver.show(&host.clone().without_gpu(0));
    let ticked = life.tick(&node).await.unwrap();
    assert_eq!(ticked.changed.removed.len(), 1);
    let rows = cloud.rows().await;
    let names: Vec<_> = rows.providers.keys().collect();
    assert_eq!(names, ["gpu-01", host.gpu_provider(1).as_str()]);
}

#[tokio::test]
async fn removed_children_are_deleted_bottom_up() {
    let cloud = Cloud::in_process().await;
    let placement = cloud.placement();
    let node = Node::new(&Host::new("gpu-01"));
    node.start(&cloud).await.unwrap();
    let root = node.root().await;
    // As another agent nested them: a GPU below its cell.
    let [cell, gpu] = [0xce11, 0x6b0].map(|n| ProviderUuid::from(Uuid::from_u128(n)));
    let (ours, vgpu) = ([Trait::OWNER_NOVA], [(ResourceClass::VGPU, 4)]);
    add(&placement, cell, "gpu-01_numa0", Some(root), &[], &ours).await;
    let name = "gpu-01_pci_0000_40_00_0";
    add(&placement, gpu, name, Some(cell), &vgpu, &ours).await;
    let life = node.start(&cloud).await.unwrap();
    assert_eq!(life.started.changed.removed.len(), 2);
    assert_eq!(cloud.rows().await.providers.len(), 1);
}

#[tokio::test]
async fn a_tick_that_meets_an_operator_s_change_reads_again_and_keeps_it() {
    let cloud = Cloud::in_process().await;
    let node = Node::new(&two_gpus());
    let mut life = node.start(&cloud).await.unwrap();
    let root = node.root().await;
    mark(&cloud, root, "CUSTOM_RACK_7").await;
    node.driver.show(&two_gpus().quality("CUSTOM_FAST"));
    let _ = cloud.take_requests();
    life.tick(&node).await.unwrap();
    let requests = cloud.take_requests();
    let put = "PUT /resource_providers/{uuid}/traits";
    let writes = requests.iter().filter(|request| *request == put);
    assert_eq!(writes.count(), 2, "{requests:?}");
    let traits = &cloud.rows().await.providers["gpu-01"].traits;
    for name in ["CUSTOM_RACK_7", "CUSTOM_FAST", "COMPUTE_NODE"] {
        assert!(traits.contains(name), "{traits:?}");
    }
}

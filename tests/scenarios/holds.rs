//! Units without a new provider are held on the old one and cannot be claimed, and all others are reshaped.

use berth_agent_tracker::complete::Service;
use berth_model::{ConsumerUuid, HeldUnits, HomelessReason, ResourceClass};
use berth_tests::claims::Claim;
use berth_tests::host::{Host, consumer};
use berth_tests::node::NodeProcess;

use crate::scenarios::upgrading::{UpgradeNode, claimable, flat, guest_claim, places, two_gpus};

const USAGES: &str = "GET /resource_providers/{uuid}/usages";
const ORPHAN: u32 = 77;

/// An inventory of so many units that are held.
fn holding(used: u64) -> String {
    format!("{used} {used} 1 2147483647 1 1.0")
}

/// [`two_gpus`], and a consumer without a guest that holds so much of VGPU on the root.
async fn with_orphans(orphans: &[(u32, u64)]) -> UpgradeNode {
    let host = two_gpus();
    let orphan = |root| {
        move |(n, units): &(u32, u64)| {
            Claim::of(consumer(*n)).and(root, &ResourceClass::VGPU, *units)
        }
    };
    let claims = |root| {
        let guests = (0..6).map(|n| guest_claim(n, root, 1));
        guests.chain(orphans.iter().map(orphan(root))).collect()
    };
    let host = host.clone().gpu(8);
    UpgradeNode::of(&flat(&host), &host, claims).await
}

async fn start(upgrading: &UpgradeNode) -> NodeProcess {
    upgrading.node.start(&upgrading.cloud).await.unwrap()
}

/// Provider, class and units of what is held.
fn units_of(held: &[HeldUnits]) -> Vec<(&str, &str, u64)> {
    held.iter()
        .map(|held| (held.name.as_str(), held.class.as_str(), held.used))
        .collect()
}

fn reasons(life: &NodeProcess) -> Vec<(ConsumerUuid, u64, HomelessReason)> {
    let reshapes = life.started.reshapes.iter();
    reshapes
        .flat_map(|request| request.homeless())
        .map(|(allocation, reason)| (allocation.consumer, allocation.amount, reason.clone()))
        .collect()
}

async fn free(upgrading: &UpgradeNode, n: u32) {
    let placement = upgrading.cloud.placement();
    placement.delete_allocations(consumer(n)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_orphans_units_are_held_and_the_rest_is_reshaped() {
    let upgrading = with_orphans(&[(ORPHAN, 2)]).await;
    let life = start(&upgrading).await;
    assert_eq!(units_of(&life.started.held), [("gpu-01", "VGPU", 2)]);
    assert_eq!(
        reasons(&life),
        [(consumer(ORPHAN), 2, HomelessReason::NoGuest)]
    );
    let rows = upgrading.rows().await;
    assert_eq!(rows.providers["gpu-01"].inventories["VGPU"], holding(2));
    assert_eq!(
        rows.held_by(consumer(ORPHAN)),
        places(&[("gpu-01 VGPU", 2)])
    );
    for n in 0..6 {
        let gpu = format!("{} VGPU", two_gpus().gpu_provider((n % 2) as u8));
        assert_eq!(rows.held_by(consumer(n)).get(&gpu), Some(&1), "{n}");
    }
    let placement = upgrading.cloud.placement();
    assert!(!claimable(&placement, upgrading.root, &ResourceClass::VGPU).await);
    assert!(claimable(&placement, upgrading.root, &ResourceClass::VCPU).await);
}

#[tokio::test(start_paused = true)]
async fn held_units_shrink_with_their_consumers_and_end_with_the_last() {
    let upgrading = with_orphans(&[(ORPHAN, 2), (ORPHAN + 1, 1)]).await;
    let mut life = start(&upgrading).await;
    assert_eq!(units_of(&life.started.held), [("gpu-01", "VGPU", 3)]);
    for (freed, left) in [(ORPHAN, 1), (ORPHAN + 1, 0)] {
        free(&upgrading, freed).await;
        let ticked = life.tick(&upgrading.node).await.unwrap();
        let expected: &[_] = if left > 0 {
            &[("gpu-01", "VGPU", left)]
        } else {
            &[]
        };
        assert_eq!(units_of(&ticked.held), expected);
        let rows = upgrading.rows().await;
        let inventory = rows.providers["gpu-01"].inventories.get("VGPU");
        assert_eq!(inventory.cloned(), (left > 0).then(|| holding(left)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_provider_s_usages_are_a_tick_s_one_probe() {
    let upgrading = with_orphans(&[(ORPHAN, 2)]).await;
    let mut life = start(&upgrading).await;
    let _ = upgrading.cloud.take_requests();
    for _ in 0..3 {
        let ticked = life.tick(&upgrading.node).await.unwrap();
        assert!(ticked.changed.is_empty(), "{}", ticked.changed);
        assert_eq!(ticked.held, life.started.held);
        assert_eq!(upgrading.cloud.take_requests(), [USAGES]);
    }
    free(&upgrading, ORPHAN).await;
    life.tick(&upgrading.node).await.unwrap();
    let _ = upgrading.cloud.take_requests();
    life.tick(&upgrading.node).await.unwrap();
    assert_eq!(upgrading.cloud.take_requests(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_guest_on_a_gpu_no_longer_configured_keeps_its_units_on_the_root() {
    let host = two_gpus().unconfigured_gpu(1);
    let claims = |root| (0..6).map(|n| guest_claim(n, root, 1)).collect();
    let upgrading = UpgradeNode::of(&flat(&two_gpus()), &host, claims).await;
    let life = start(&upgrading).await;
    assert_eq!(units_of(&life.started.held), [("gpu-01", "VGPU", 3)]);
    for (_, amount, reason) in reasons(&life) {
        assert_eq!(amount, 1);
        assert!(
            matches!(reason, HomelessReason::DeviceGone { .. }),
            "{reason}"
        );
        assert!(reason.to_string().contains("pci_0000_41_00_0"), "{reason}");
    }
    let rows = upgrading.rows().await;
    let gpu = format!("{} VGPU", host.gpu_provider(0));
    for n in 0..6 {
        let place = if n % 2 == 0 {
            gpu.as_str()
        } else {
            "gpu-01 VGPU"
        };
        assert_eq!(rows.held_by(consumer(n)).get(place), Some(&1), "{n}");
    }
    assert!(!rows.providers.contains_key(host.gpu_provider(1).as_str()));
    let placement = upgrading.cloud.placement();
    assert!(!claimable(&placement, upgrading.root, &ResourceClass::VGPU).await);
}

#[tokio::test(start_paused = true)]
async fn a_returned_device_gets_its_held_units_back_at_the_next_start() {
    let host = two_gpus().unconfigured_gpu(1);
    let claims = |root| (0..6).map(|n| guest_claim(n, root, 1)).collect();
    let upgrading = UpgradeNode::of(&flat(&two_gpus()), &host, claims).await;
    let mut life = start(&upgrading).await;

    upgrading.node.driver.show(&two_gpus());
    let ticked = life.tick(&upgrading.node).await.unwrap();
    assert_eq!(units_of(&ticked.held), [("gpu-01", "VGPU", 3)]);
    let life = start(&upgrading).await;
    assert_eq!(life.started.held, []);
    assert_eq!(life.started.reshapes.len(), 1);
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn units_beyond_the_capacity_of_the_gpu_stay_held() {
    let host = (0..3).fold(Host::new("gpu-01").gpu(2), |host, n| host.guest(n, &[0]));
    let roomy = (0..3).fold(Host::new("gpu-01").gpu(4), |host, n| host.guest(n, &[0]));
    let claims = |root| (0..3).map(|n| guest_claim(n, root, 1)).collect();
    let upgrading = UpgradeNode::of(&flat(&roomy), &host, claims).await;
    let life = start(&upgrading).await;
    let gpu = host.gpu_provider(0);
    assert_eq!(units_of(&life.started.held), [("gpu-01", "VGPU", 1)]);
    let no_room = HomelessReason::NoRoom {
        provider: gpu.clone(),
    };
    assert_eq!(reasons(&life), [(consumer(2), 1, no_room)]);
    let rows = upgrading.rows().await;
    let gpu = format!("{gpu} VGPU");
    for (n, place) in [(0, gpu.as_str()), (1, gpu.as_str()), (2, "gpu-01 VGPU")] {
        assert_eq!(rows.held_by(consumer(n)).get(place), Some(&1), "{n}");
    }

    free(&upgrading, 0).await;
    let life = start(&upgrading).await;
    assert_eq!(life.started.held, []);
    assert_eq!(
        upgrading.rows().await.held_by(consumer(2)).get(&gpu),
        Some(&1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_gpu_in_use_stays_held_until_its_last_unit_is_released() {
    let host = Host::new("gpu-01").gpu(4).gpu(4).guest(0, &[1]);
    let upgrading = UpgradeNode::of(&host, &host, |_| Vec::new()).await;
    let gpu = host.gpu_provider(1);
    let uuid = upgrading.root.child(&gpu);
    let claim = Claim::of(consumer(0)).and(uuid, &ResourceClass::VGPU, 1);
    berth_tests::claims::claim(&upgrading.cloud.placement(), vec![claim]).await;
    let mut life = start(&upgrading).await;

    upgrading.node.driver.show(&host.clone().without_gpu(1));
    let ticked = life.tick(&upgrading.node).await.unwrap();
    assert_eq!(units_of(&ticked.held), [(gpu.as_str(), "VGPU", 1)]);
    let rows = upgrading.rows().await;
    assert_eq!(rows.providers[gpu.as_str()].inventories["VGPU"], holding(1));
    assert!(!claimable(&upgrading.cloud.placement(), uuid, &ResourceClass::VGPU).await);

    free(&upgrading, 0).await;
    let ticked = life.tick(&upgrading.node).await.unwrap();
    assert_eq!(ticked.held, []);
    assert!(!upgrading.rows().await.providers.contains_key(gpu.as_str()));
}

#[tokio::test(start_paused = true)]
async fn held_units_stay_held_while_the_node_is_disabled() {
    let mut upgrading = with_orphans(&[(ORPHAN, 2)]).await;
    let mut life = start(&upgrading).await;
    upgrading.node.service = Service::Disabled;
    let ticked = life.tick(&upgrading.node).await.unwrap();
    assert_eq!(ticked.held, life.started.held);
    let rows = upgrading.rows().await;
    let root = &rows.providers["gpu-01"];
    assert!(root.traits.contains("COMPUTE_STATUS_DISABLED"));
    assert_eq!(root.inventories["VGPU"], holding(2));
}

//! The upgrade: the driver models the machine differently, and every unit follows.

use berth_agent::tick::TickError;
use berth_model::ResourceClass;
use berth_tests::claims::{Claim, claim};
use berth_tests::cloud::Cloud;
use berth_tests::host::{Host, consumer};
use berth_tests::node::Node;
use berth_virt::VgpuModel;

#[tokio::test]
async fn each_unit_follows_its_guest_to_its_gpu_and_later_ticks_are_quiet() {
    let cloud = Cloud::in_process().await;
    let mut host = (0..8).fold(Host::new("gpu-01"), |host, _| host.gpu(4));
    host = (0..20).fold(host, |host, n| host.guest(n, &[(n % 8) as u8]));
    let root_model = host.clone().modelled(|model| model.vgpu = VgpuModel::Root);
    let node = Node::new(&root_model);
    let mut life = node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let claims = (0..20).map(|n| {
        let claim = Claim::of(consumer(n)).and_a_guest(root);
        claim.and(root, &ResourceClass::VGPU, 1)
    });
    claim(&cloud.placement(), claims.collect()).await;
    life.tick(&node).await.unwrap();

    node.driver.show(&host);
    let refused = life.tick(&node).await.unwrap_err();
    assert!(matches!(refused, TickError::ReshapeNeeded(_)), "{refused}");

    let mut life = node.start(&cloud).await.unwrap();
    assert_eq!(life.started.reshapes.len(), 1);
    assert!(life.started.held.is_empty());
    let rows = cloud.rows().await;
    for n in 0..20 {
        let gpu = host.gpu_provider((n % 8) as u8);
        let expected = [
            (format!("{gpu} VGPU"), 1),
            ("gpu-01 MEMORY_MB".to_owned(), 256),
            ("gpu-01 VCPU".to_owned(), 1),
        ];
        assert_eq!(rows.held_by(consumer(n)), expected.into());
    }

    let _ = cloud.take_requests();
    for _ in 0..3 {
        let ticked = life.tick(&node).await.unwrap();
        assert!(ticked.changed.is_empty(), "{}", ticked.changed);
    }
    assert_eq!(cloud.take_requests(), Vec::<String>::new());
}

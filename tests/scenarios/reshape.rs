//! The upgrade: the driver models the machine differently, and every unit follows.

use berth_agent::tick::TickError;
use berth_model::ResourceClass;
use berth_tests::cloud::Cloud;
use berth_tests::node::Node;
use berth_virt::VgpuModel;

use crate::gpu_host::{claim, held, view};

#[tokio::test]
async fn each_unit_follows_its_guest_to_its_gpu_and_later_ticks_are_quiet() {
    let cloud = Cloud::in_process().await;
    let node = Node::new("gpu-01", view("gpu-01", 8, 20, VgpuModel::Root));
    let mut life = node.start(&cloud).await.unwrap();
    let root = node.root().await;
    claim(&cloud.placement(), root, 20).await;
    life.tick(&node).await.unwrap();

    node.driver.show(view("gpu-01", 8, 20, VgpuModel::PerGpu));
    let refused = life.tick(&node).await.unwrap_err();
    assert!(matches!(refused, TickError::ReshapeNeeded(_)), "{refused}");

    let mut life = node.start(&cloud).await.unwrap();
    assert_eq!(life.started.reshapes.len(), 1);
    assert!(life.started.held.is_empty());
    let after = held(&cloud.placement(), 20).await;
    for (consumer, of) in after.consumers() {
        let guest = &node.driver.view().nodes[&node.name].guests[consumer];
        let gpu = guest.mdevs[0].parent.unwrap();
        let child = node.name.child_name(&gpu.nodedev_name()).unwrap();
        assert_eq!(of.resources[&(root.child(&child), ResourceClass::VGPU)], 1);
        assert_eq!(of.resources[&(root, ResourceClass::VCPU)], 1);
        assert_eq!(of.resources.len(), 3);
    }

    let _ = cloud.take_requests();
    for _ in 0..3 {
        let ticked = life.tick(&node).await.unwrap();
        assert!(ticked.changed.is_empty(), "{}", ticked.changed);
    }
    assert_eq!(cloud.take_requests(), Vec::<String>::new());
}

//! The agent introduces link groups under a guest on the real Placement, and dissolves them.

use std::collections::BTreeSet;

use berth_model::{CandidatesQuery, ProviderUuid};
use berth_tests::claims::{Claim, claim};
use berth_tests::cloud::Cloud;
use berth_tests::host::{Host, consumer, gpu};
use berth_tests::node::Node;
use berth_tests::peer::{PlacementSettings, RealPlacement};
use berth_virt::DeviceOwner;

/// Four GPUs with these link groups, and a guest with the first one.
fn host(groups: [Option<&str>; 4]) -> Host {
    let gpus = (0..).zip(groups);
    let host = gpus.fold(Host::new("gpu-01"), |host, (n, group)| {
        host.whole_gpu(n, DeviceOwner::Accelerator, group)
    });
    host.guest_as(1, |guest| guest.functions = [gpu(0)].into())
}

#[tokio::test]
async fn link_groups_come_and_go_under_a_guest_and_a_query_finds_gpus_of_one() {
    let placement = RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    let cloud = Cloud::at(&placement.url());
    let placement = cloud.placement();
    let flat = host([None; 4]);
    let pairs = host([Some("left"), Some("left"), Some("right"), Some("right")]);
    let node = Node::new(&flat);
    node.start(&cloud).await.expect("a first start");
    let root = node.root().await;
    let view = flat.view();
    let gpus = &view.nodes[flat.name()].devices;
    let provider = |n: usize| gpus[n].provider_uuid(flat.name(), root);
    let taken = Claim::of(consumer(1)).and_a_guest(root);
    let taken = taken.and(provider(0), &gpus[0].class, 1);
    claim(&placement, vec![taken]).await;
    let before = placement.allocations(consumer(1)).await.unwrap();
    let query = CandidatesQuery::read(
        "resources_a=PGPU:1&resources_b=PGPU:1&required_link_group_0=CUSTOM_LINK_GROUP&group_policy=none\
         &same_subtree=_link_group_0,_a,_b",
    );
    let query = query.expect("a query");
    for grouped in [true, false] {
        node.driver.show(if grouped { &pairs } else { &flat });
        let mut life = node.start(&cloud).await.expect("a start");
        assert_eq!(life.started.reshapes.len(), 0);
        // What the process remembers is what Placement has.
        assert!(life.tick(&node).await.expect("a tick").changed.is_empty());
        assert_eq!(placement.allocations(consumer(1)).await.unwrap(), before);
        let found = placement.candidates_of(&query).await.expect("an answer");
        let found = found.candidates.iter().map(|candidate| {
            let places = candidate.resources().keys();
            places.map(|(provider, _)| *provider).collect()
        });
        let found: BTreeSet<BTreeSet<ProviderUuid>> = found.collect();
        let right = grouped.then(|| [2, 3].map(provider).into());
        assert_eq!(found, right.into_iter().collect());
        let tree = placement.providers_in_tree(root).await.expect("a tree");
        assert_eq!(tree.len(), if grouped { 7 } else { 5 });
    }
}

//! A first start, and starts with nothing to reshape.

use berth_tests::claims::{join, neighbours};
use berth_tests::cloud::Cloud;
use berth_tests::peer::{PlacementSettings, RealPlacement};

use crate::real_placement::agent::Agent;
use crate::real_placement::holdings::{assert_held, claims, expected, post};
use crate::real_placement::upgrade::{Upgrade, Version};

fn are_readings(requests: &[String]) -> bool {
    requests.iter().all(|request| request.starts_with("GET "))
}

#[tokio::test]
async fn a_first_start_reports_the_node_and_a_restart_only_reads() {
    let mut placement =
        RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    for upgrade in Upgrade::ALL {
        first_start(&placement, upgrade).await;
        placement.reset().expect("the rows are gone");
    }
}

async fn first_start(placement: &RealPlacement, upgrade: Upgrade) {
    let cloud = Cloud::at(&placement.url());
    let neighbours = neighbours(&cloud.placement()).await;
    let version = Version::New;
    let machine = upgrade.machine(9, version);
    let agent = Agent::new(&machine, upgrade.node());
    let mut life = agent.start(&cloud).await;
    assert!(life.started.reshapes.is_empty());
    assert!(!life.started.changed.is_empty());
    assert!(!are_readings(&cloud.take_requests()));
    let ticked = agent.tick(&mut life).await;
    assert!(ticked.changed.is_empty(), "{}", ticked.changed);
    assert_eq!(cloud.take_requests(), Vec::<String>::new());

    let root = agent.root().await;
    join(&cloud.placement(), root, neighbours.aggregate).await;
    let held = claims(upgrade, version, &machine, root, &neighbours);
    post(placement, &held);
    for _ in 0..2 {
        let _ = cloud.take_requests();
        let life = agent.start(&cloud).await;
        assert!(life.started.reshapes.is_empty());
        assert!(life.started.changed.is_empty(), "{}", life.started.changed);
        let requests = cloud.take_requests();
        assert!(are_readings(&requests), "{requests:?}");
        assert!(
            !requests
                .iter()
                .any(|request| request.contains("/allocations")),
            "{requests:?}"
        );
        assert_eq!(agent.root().await, root);
    }
    assert_held(placement, &expected(&held));
}

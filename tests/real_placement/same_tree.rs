//! The same startup on the built-in router in this process and over HTTP on the real service.

use berth_tests::claims::{claim, join, neighbours};
use berth_tests::cloud::Cloud;
use berth_tests::peer::{PlacementSettings, RealPlacement};
use berth_tests::worlds::{PlacementRows, Rows};

use crate::real_placement::agent::Agent;
use crate::real_placement::holdings::claims;
use crate::real_placement::upgrade::{Upgrade, Version};

#[tokio::test]
async fn the_same_startup_leaves_the_same_tree_in_process_and_over_http() {
    for upgrade in Upgrade::ALL {
        let built_in = Cloud::in_process().await;
        let rows = Rows::BuiltIn(built_in.store().expect("a built-in one"));
        let in_process = trees(upgrade, &built_in, &rows).await;
        let placement =
            RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
        let over_http = trees(
            upgrade,
            &Cloud::at(&placement.url()),
            &Rows::Real(&placement),
        )
        .await;
        assert_eq!(in_process.len(), over_http.len());
        for (here, there) in in_process.iter().zip(&over_http) {
            assert_eq!(here.difference(there), "", "{upgrade:?}");
            assert_eq!(json(here), json(there), "{upgrade:?}");
        }
    }
}

fn json(rows: &PlacementRows) -> String {
    serde_json::to_string_pretty(rows).expect("rows are JSON")
}

/// After the first start, after the claims, after the reshape, after the way back: UUIDs and generations aside.
async fn trees(upgrade: Upgrade, cloud: &Cloud, rows: &Rows<'_>) -> Vec<PlacementRows> {
    let [old, new] = [Version::Old, Version::New].map(|it| upgrade.machine(10, it));
    let mut trees = Vec::new();
    let neighbours = neighbours(&cloud.placement()).await;
    let agent = Agent::new(&old, upgrade.node());
    agent.start(cloud).await;
    trees.push(rows.all().await.essence());
    let root = agent.root().await;
    join(&cloud.placement(), root, neighbours.aggregate).await;
    let held = claims(upgrade, Version::Old, &old, root, &neighbours);
    claim(&cloud.placement(), held).await;
    trees.push(rows.all().await.essence());
    for machine in [&new, &old] {
        agent.show(machine);
        let life = agent.start(cloud).await;
        assert_eq!(life.started.reshapes.len(), 1);
        trees.push(rows.all().await.essence());
    }
    trees
}

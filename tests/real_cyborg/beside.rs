//! The agent reports the node, and Cyborg its devices: neither touches the other's objects.

use serde_json::Value;

use crate::real_cyborg::cloud::{Cloud, FUNCTIONS, ONLY, fake_provider, of_provider, provider};

/// Placement's view of Cyborg's providers. A claim changes a generation, so those that other tests claim are shown
/// without it.
fn children(cloud: &Cloud) -> Vec<Value> {
    let all = (0..FUNCTIONS.len()).map(|at| (provider(at), at < ONLY));
    let all = all.chain([(fake_provider(), false)]);
    let all = all.flat_map(|(provider, with_generation)| {
        ["inventories", "traits", "aggregates"].map(|what| {
            let mut text = of_provider(cloud, provider, what);
            if let (false, Some(text)) = (with_generation, text.as_object_mut()) {
                text.remove("resource_provider_generation");
            }
            text
        })
    });
    all.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cyborgs_reports_survive_ticks_and_restarts_of_the_agent() {
    let cloud = Cloud::shared();
    let before = children(cloud);
    assert!(
        before[0].to_string().contains("CUSTOM_PCI"),
        "{}",
        before[0]
    );
    assert!(
        before[1].to_string().contains("OWNER_CYBORG"),
        "{}",
        before[1]
    );
    let mut node = cloud.node.lock().await;
    let (node, life) = &mut *node;
    for _ in 0..2 {
        life.tick(node).await.expect("a tick");
    }
    assert_eq!(children(cloud), before);
    *life = node.start(&cloud.placement()).await.expect("a start");
    life.tick(node).await.expect("a tick");
    assert_eq!(children(cloud), before);
}

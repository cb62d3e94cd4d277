//! Additions of operators' provider files, from the file to Placement and back.

use berth_agent_tracker::provider_config::ProviderConfigs;
use berth_agent_tracker::tick::TickError;
use berth_model::{Disposition, ResourceClass};
use berth_tests::claims::{Claim, claim};
use berth_tests::cloud::Cloud;
use berth_tests::host::{Host, consumer};
use berth_tests::node::{Node, NodeProcess};

const LICENCES: &str = "CUSTOM_LICENCES";

fn read(files: &[(&str, &str)]) -> ProviderConfigs {
    let directory = tempfile::tempdir().unwrap();
    for (file, text) in files {
        std::fs::write(directory.path().join(file), text).unwrap();
    }
    ProviderConfigs::read(directory.path()).unwrap()
}

fn licences(total: u32) -> ProviderConfigs {
    let text = format!(
        "meta: {{schema_version: '1.0'}}\nproviders:\n- identification: {{uuid: $COMPUTE_NODE}}\n  inventories: {{additional: \
         [{LICENCES}: {{total: {total}}}]}}\n  traits: {{additional: [CUSTOM_RACK_7]}}\n"
    );
    read(&[("licences.yaml", &text)])
}

/// What the next pass of this process goes by, as after a SIGHUP.
fn hangup(life: &mut NodeProcess, node: &mut Node, configs: ProviderConfigs) {
    node.options.provider_configs = configs;
    life.tracker.set_options(node.options.clone());
}

async fn inventory(cloud: &Cloud) -> Option<String> {
    let rows = cloud.rows().await;
    let row = rows.providers["gpu-01"].inventories.get(LICENCES)?;
    Some(row.to_string())
}

async fn has_trait(cloud: &Cloud) -> bool {
    let rows = cloud.rows().await;
    rows.providers["gpu-01"].traits.contains("CUSTOM_RACK_7")
}

#[tokio::test]
async fn additions_of_a_file_appear_change_and_vanish_with_the_file() {
    let cloud = Cloud::in_process().await;
    let mut node = Node::new(&Host::new("gpu-01").gpu(4));
    let mut life = node.start(&cloud).await.unwrap();
    let bare = cloud.rows().await;
    hangup(&mut life, &mut node, licences(7));
    life.tick(&node).await.unwrap();
    assert_eq!(
        inventory(&cloud).await.as_deref(),
        Some("7 0 1 2147483647 1 1.0")
    );
    assert!(has_trait(&cloud).await);
    // A steady state sends nothing, in this life and the next.
    let _ = cloud.take_requests();
    assert!(life.tick(&node).await.unwrap().changed.is_empty());
    assert!(cloud.take_requests().is_empty());
    let mut life = node.start(&cloud).await.unwrap();
    assert!(life.started.changed.is_empty(), "{}", life.started.changed);
    hangup(&mut life, &mut node, licences(9));
    life.tick(&node).await.unwrap();
    assert_eq!(
        inventory(&cloud).await.as_deref(),
        Some("9 0 1 2147483647 1 1.0")
    );
    hangup(&mut life, &mut node, ProviderConfigs::default());
    life.tick(&node).await.unwrap();
    let after = cloud.rows().await;
    assert_eq!(
        after.providers["gpu-01"].inventories,
        bare.providers["gpu-01"].inventories
    );
    assert_eq!(
        after.providers["gpu-01"].traits,
        bare.providers["gpu-01"].traits
    );
}

#[tokio::test]
async fn entries_removed_while_the_agent_was_down_leave_placement_at_its_start() {
    let cloud = Cloud::in_process().await;
    let mut node = Node::new(&Host::new("gpu-01").gpu(4));
    node.options.provider_configs = licences(7);
    node.start(&cloud).await.unwrap();
    assert!(inventory(&cloud).await.is_some());
    node.options.provider_configs = ProviderConfigs::default();
    let mut life = node.start(&cloud).await.unwrap();
    assert_eq!(inventory(&cloud).await, None);
    assert!(!has_trait(&cloud).await);
    life.tick(&node).await.unwrap();
    let left = std::fs::read_dir(node.folder().unwrap()).unwrap();
    let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
    assert!(
        left.iter()
            .all(|file| !file.to_string_lossy().starts_with("provider-config")),
        "{left:?}"
    );
}

#[tokio::test]
async fn used_units_of_removed_entries_are_held_until_they_are_free() {
    let cloud = Cloud::in_process().await;
    let mut node = Node::new(&Host::new("gpu-01").gpu(4));
    node.options.provider_configs = licences(7);
    node.start(&cloud).await.unwrap();
    let root = node.root().await;
    let class = ResourceClass::new(LICENCES).unwrap();
    let one = Claim::of(consumer(1)).and(root, &class, 3);
    claim(&cloud.placement(), vec![one]).await;
    node.options.provider_configs = ProviderConfigs::default();
    // Two starts: what is held is still remembered as a file's.
    for _ in 0..2 {
        let life = node.start(&cloud).await.unwrap();
        assert_eq!(life.started.held.len(), 1);
        assert_eq!(
            inventory(&cloud).await.as_deref(),
            Some("3 3 1 2147483647 1 1.0")
        );
    }
    let placement = cloud.placement();
    placement.delete_allocations(consumer(1)).await.unwrap();
    let life = node.start(&cloud).await.unwrap();
    assert!(life.started.held.is_empty());
    assert_eq!(inventory(&cloud).await, None);
}

#[tokio::test]
async fn an_entry_that_the_driver_contradicts_ends_the_pass_with_the_files_name() {
    let cloud = Cloud::in_process().await;
    let mut node = Node::new(&Host::new("gpu-01").quality("CUSTOM_RACK_7"));
    let mut life = node.start(&cloud).await.unwrap();
    hangup(&mut life, &mut node, licences(7));
    let before = cloud.rows().await;
    let Err(TickError::Propose(error)) = life.tick(&node).await else {
        panic!("the driver reports the trait itself");
    };
    assert_eq!(error.disposition(), Disposition::Fatal);
    let message = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        message.contains("licences.yaml") && message.contains("CUSTOM_RACK_7"),
        "{message}"
    );
    assert_eq!(cloud.rows().await.difference(&before), "");
}

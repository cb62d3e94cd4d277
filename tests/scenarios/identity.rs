//! A node knows who it is, or says why it does not and what mends it; it never guesses.

use std::sync::Arc;

use berth_agent::node_identity::IdentityError;
use berth_agent::options::Rename;
use berth_model::{Disposition, ProviderUuid};
use berth_tests::claims::add;
use berth_tests::cloud::Cloud;
use berth_tests::host::Host;
use berth_tests::node::{COMPUTE_ID, MemoryFiles, Node, NodeError};
use berth_tests::unit::sentence;
use uuid::Uuid;

use crate::mishaps::{ALWAYS, Mishap, mishap, placement};

/// The refusal in its words. It is final, and Placement was only asked.
async fn refused(node: &Node, cloud: &Cloud) -> String {
    let before = cloud.rows().await;
    let error = match node.start(cloud).await {
        Err(NodeError::Identity(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    };
    assert_eq!(error.disposition(), Disposition::Fatal);
    assert_eq!(cloud.rows().await.difference(&before), "");
    sentence(&error)
}

#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

fn node(host: &Host) -> (Node, Arc<MemoryFiles>) {
    let files = Arc::new(MemoryFiles::default());
    (Node::with_files(host, files.clone()), files)
}

#[tokio::test(start_paused = true)]
async fn a_lost_uuid_file_is_not_replaced_but_told_with_the_uuid_to_restore() {
    let cloud = placement().await;
    let host = Host::new("gpu-01").gpu(4);
    let (first, _) = node(&host);
    first.start(&cloud).await.unwrap();
    let root = first.root().await;

    let (reinstalled, files) = node(&host);
    let told = refused(&reinstalled, &cloud).await;
    let mend = format!("echo {root} > ");
    assert_says(
        &told,
        &["compute_id is missing", "gpu-01", &root.to_string(), &mend],
    );
    assert!(files.content().is_empty());

    files.put(COMPUTE_ID, &root.to_string());
    let life = reinstalled.start(&cloud).await.unwrap();
    assert!(life.started.changed.is_empty(), "{}", life.started.changed);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_provider_has_is_refused_with_both_uuids() {
    let cloud = placement().await;
    let other: ProviderUuid = Uuid::from_u128(0x0713).into();
    add(&cloud.placement(), other, "gpu-01", None, &[], &[]).await;
    let own: ProviderUuid = Uuid::from_u128(0x0714).into();
    let (node, files) = node(&Host::new("gpu-01"));
    files.put(COMPUTE_ID, &own.to_string());
    let told = refused(&node, &cloud).await;
    let (own, other) = (own.to_string(), other.to_string());
    assert_says(
        &told,
        &[&own, &other, "copied from another host", "write it into"],
    );
}

#[tokio::test(start_paused = true)]
async fn a_uuid_that_is_none_or_a_child_s_is_refused() {
    let cloud = placement().await;
    let host = Host::new("gpu-01").gpu(4);
    let (node, files) = node(&host);
    node.start(&cloud).await.unwrap();
    let (root, gpu) = (node.root().await, host.gpu_provider(0));
    for (content, said) in [
        ("gpu-01", "which is no UUID"),
        ("", "which is no UUID"),
        (
            root.child(&gpu).to_string().as_str(),
            "is not a root resource provider",
        ),
    ] {
        files.put(COMPUTE_ID, content);
        assert_says(&refused(&node, &cloud).await, &[said, "compute_id"]);
    }
}

/// A host with two GPUs, reported as `old-01`, now called `new-01`.
async fn renamed() -> (Cloud, Node) {
    let cloud = placement().await;
    let host = Host::new("old-01").gpu(4).gpu(4);
    let (node, files) = node(&host);
    node.start(&cloud).await.unwrap();
    let node = Node::with_files(&host.named("new-01"), files);
    let _ = cloud.take_requests();
    (cloud, node)
}

fn names(rows: &berth_tests::worlds::PlacementRows) -> Vec<&str> {
    rows.providers.keys().map(String::as_str).collect()
}

const NEW_NAMES: [&str; 3] = [
    "new-01",
    "new-01_pci_0000_40_00_0",
    "new-01_pci_0000_41_00_0",
];

#[tokio::test(start_paused = true)]
async fn a_renamed_host_is_refused_until_an_operator_accepts_it() {
    let (cloud, mut node) = renamed().await;
    let told = refused(&node, &cloud).await;
    assert_says(
        &told,
        &["as old-01", "now new-01", "--accept-risk rename-host"],
    );

    let before = cloud.rows().await;
    node.options.rename = Rename::Accept;
    let mut life = node.start(&cloud).await.unwrap();
    let rows = cloud.rows().await;
    assert_eq!(names(&rows), NEW_NAMES);
    let uuids = |rows: &berth_tests::worlds::PlacementRows| {
        let providers = rows.providers.values();
        providers.map(|row| row.uuid.clone()).collect::<Vec<_>>()
    };
    assert_eq!(uuids(&rows), uuids(&before));
    let ticked = life.tick(&node).await.unwrap();
    assert!(ticked.changed.is_empty(), "{}", ticked.changed);

    node.options.rename = Rename::Refuse;
    node.start(&cloud).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_root_is_renamed_last_so_that_a_rename_goes_on_after_a_crash() {
    let (cloud, mut node) = renamed().await;
    node.options.rename = Rename::Accept;
    let put = "PUT /resource_providers/{uuid}";
    for done in 0..3 {
        // One more rename passes at each start.
        let cut = mishap(&cloud, put, 1..usize::MAX, &Mishap::Unreachable);
        let crashed = node.start(&cut).await;
        let rows = cloud.rows().await;
        let renamed = names(&rows)
            .iter()
            .filter(|name| name.starts_with("new"))
            .count();
        assert_eq!(renamed, done + 1);
        assert_eq!(rows.providers.contains_key("new-01"), done == 2);
        assert_eq!(crashed.is_ok(), done == 2);
    }
    assert_eq!(names(&cloud.rows().await), NEW_NAMES);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_placement_does_not_answer_asks_again_and_keeps_no_uuid() {
    let cloud = placement().await;
    let away = mishap(
        &cloud,
        "GET /resource_providers",
        ALWAYS,
        &Mishap::Unreachable,
    );
    let (node, files) = node(&Host::new("gpu-01"));
    let Err(NodeError::Identity(error)) = node.start(&away).await else {
        panic!("it started");
    };
    assert!(matches!(error, IdentityError::Placement { .. }), "{error}");
    assert_eq!(error.disposition(), Disposition::Retry);
    assert!(files.content().is_empty());
    node.start(&cloud).await.unwrap();
}

//! The identity of a node: it is known for certain, or the error names the problem and the fix; it is never guessed.

use std::sync::Arc;

use berth_agent_tracker::node_identity::NodeIdentityError;
use berth_agent_tracker::options::Rename;
use berth_model::{Disposition, ProviderUuid, error_chain};
use berth_tests::claims::add;
use berth_tests::cloud::Cloud;
use berth_tests::host::Host;
use berth_tests::node::{COMPUTE_ID, MemoryFiles, Node, NodeError};
use uuid::Uuid;

use crate::scenarios::mishaps::{ALWAYS, RequestMishap, mishap, placement};

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
    error_chain(&error)
}

#[track_caller]
fn assert_contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

fn node(host: &Host) -> (Node, Arc<MemoryFiles>) {
    let files = Arc::new(MemoryFiles::default());
    (Node::with_files(host, files.clone()), files)
}

#[tokio::test(start_paused = true)]
async fn a_lost_uuid_file_is_not_replaced_but_reported_with_the_uuid_to_restore() {
    let cloud = placement().await;
    let host = Host::new("gpu-01").gpu(4);
    let (first, _) = node(&host);
    first.start(&cloud).await.unwrap();
    let root = first.root().await;

    let (reinstalled, files) = node(&host);
    let reported = refused(&reinstalled, &cloud).await;
    let remedy = format!("echo {root} > ");
    assert_contains(
        &reported,
        &[
            "compute_id is missing",
            "gpu-01",
            &root.to_string(),
            &remedy,
        ],
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
    let reported = refused(&node, &cloud).await;
    let (own, other) = (own.to_string(), other.to_string());
    assert_contains(
        &reported,
        &[&own, &other, "copied from another host", "write it into"],
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_uuid_or_that_of_a_child_is_refused() {
    let cloud = placement().await;
    let host = Host::new("gpu-01").gpu(4);
    let (node, files) = node(&host);
    node.start(&cloud).await.unwrap();
    let (root, gpu) = (node.root().await, host.gpu_provider(0));
    for (content, message) in [
        ("gpu-01", "which is not a UUID"),
        ("", "which is not a UUID"),
        (
            root.child(&gpu).to_string().as_str(),
            "is not a root resource provider",
        ),
    ] {
        files.put(COMPUTE_ID, content);
        assert_contains(&refused(&node, &cloud).await, &[message, "compute_id"]);
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
    let reported = refused(&node, &cloud).await;
    assert_contains(
        &reported,
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
async fn the_root_is_renamed_last_so_that_a_rename_continues_after_a_crash() {
    let (cloud, mut node) = renamed().await;
    node.options.rename = Rename::Accept;
    let put = "PUT /resource_providers/{uuid}";
    for done in 0..3 {
        // One more rename passes at each start.
        let cut = mishap(&cloud, put, 1..usize::MAX, &RequestMishap::Unreachable);
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

/// The virtual GPUs that anybody may claim, over all providers.
fn claimable(rows: &berth_tests::worlds::PlacementRows) -> u64 {
    let providers = rows.providers.values();
    let vgpus = providers.filter_map(|row| row.inventories.get("VGPU"));
    vgpus
        .map(|row| row.split(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

#[tokio::test(start_paused = true)]
async fn a_rename_that_was_cut_off_is_finished_under_any_name_and_no_unit_is_doubled() {
    let put = "PUT /resource_providers/{uuid}";
    for (cut_after, name, accept) in [
        (1, "third", Rename::Accept),
        (2, "third", Rename::Accept),
        (1, "old-01", Rename::Accept),
        (2, "old-01", Rename::Accept),
        (1, "old-01", Rename::Refuse),
        (2, "old-01", Rename::Refuse),
    ] {
        let (cloud, mut node) = renamed().await;
        let before = cloud.rows().await;
        node.options.rename = Rename::Accept;
        let cut = mishap(
            &cloud,
            put,
            cut_after..usize::MAX,
            &RequestMishap::Unreachable,
        );
        assert!(node.start(&cut).await.is_err());

        let host = Host::new(name).gpu(4).gpu(4);
        let mut next = Node::with_files(&host, node.files().clone());
        next.options.rename = accept;
        let mut life = next.start(&cloud).await.unwrap();
        let ticked = life.tick(&next).await.unwrap();
        assert!(ticked.changed.is_empty(), "{}", ticked.changed);
        let rows = cloud.rows().await;
        let pci = |n| format!("{name}_pci_0000_4{n}_00_0");
        assert_eq!(names(&rows), [name.to_owned(), pci(0), pci(1)]);
        assert_eq!(claimable(&rows), claimable(&before));
    }
}

#[tokio::test(start_paused = true)]
async fn a_renamed_child_gets_its_own_name_back() {
    let cloud = placement().await;
    let host = Host::new("gpu-01").gpu(4);
    let (node, _) = node(&host);
    let mut life = node.start(&cloud).await.unwrap();
    let before = cloud.rows().await;
    let child = node.root().await.child(&host.gpu_provider(0));
    for name in ["special", "gpu-02_pci_0000_40_00_0"] {
        let placement = cloud.placement();
        let other = berth_model::ProviderName::new(name).unwrap();
        placement.rename_provider(child, &other).await.unwrap();
        life.tracker.forget();
        let ticked = life.tick(&node).await.unwrap();
        assert_eq!(ticked.changed.changed.len(), 1, "{}", ticked.changed);
        assert_eq!(cloud.rows().await.difference(&before), "");

        placement.rename_provider(child, &other).await.unwrap();
        node.start(&cloud).await.unwrap();
        assert_eq!(cloud.rows().await.difference(&before), "");
    }
}

#[tokio::test(start_paused = true)]
async fn two_children_for_one_device_are_named_with_the_remedy() {
    let cloud = placement().await;
    let (node, _) = node(&Host::new("gpu-01").gpu(4));
    node.start(&cloud).await.unwrap();
    let (root, other) = (node.root().await, Uuid::from_u128(0x0715).into());
    let (units, ours) = (
        [(berth_model::ResourceClass::VGPU, 4)],
        [berth_model::Trait::OWNER_NOVA],
    );
    let name = "gpu-00_pci_0000_40_00_0";
    add(&cloud.placement(), other, name, Some(root), &units, &ours).await;
    let Err(error) = node.start(&cloud).await else {
        panic!("it started");
    };
    let remedy = "openstack resource provider delete";
    assert_contains(&error_chain(&error), &[name, &other.to_string(), remedy]);
}

#[tokio::test(start_paused = true)]
async fn a_child_moved_to_another_tree_does_not_count_as_created() {
    let cloud = placement().await;
    let host = Host::new("gpu-01").gpu(4).gpu(4);
    let (node, _) = node(&host);
    let mut life = node.start(&cloud).await.unwrap();
    let (placement, other) = (cloud.placement(), Uuid::from_u128(0x0716).into());
    add(&placement, other, "other-01", None, &[], &[]).await;
    let (root, name) = (node.root().await, host.gpu_provider(0));
    let child = root.child(&name);
    let moved = placement.place_provider_under(child, &name, other).await;
    moved.unwrap();
    let there = [name.as_str(), "other-01", "--parent-provider"];
    for _ in 0..2 {
        life.tracker.forget();
        let error = life.tick(&node).await.unwrap_err();
        assert_eq!(error.disposition(), Disposition::Fatal);
        assert_contains(&error_chain(&error), &there);
    }
    let Err(NodeError::Startup(error)) = node.start(&cloud).await else {
        panic!("it started");
    };
    assert_eq!(error.disposition(), Disposition::Fatal);
    assert_contains(&error_chain(&error), &there);
    placement
        .place_provider_under(child, &name, root)
        .await
        .unwrap();
    node.start(&cloud).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_without_an_answer_from_placement_retries_and_keeps_no_uuid() {
    let cloud = placement().await;
    let away = mishap(
        &cloud,
        "GET /resource_providers",
        ALWAYS,
        &RequestMishap::Unreachable,
    );
    let (node, files) = node(&Host::new("gpu-01"));
    let Err(NodeError::Identity(error)) = node.start(&away).await else {
        panic!("it started");
    };
    assert!(
        matches!(error, NodeIdentityError::Placement { .. }),
        "{error}"
    );
    assert_eq!(error.disposition(), Disposition::Retry);
    assert!(files.content().is_empty());
    node.start(&cloud).await.unwrap();
}

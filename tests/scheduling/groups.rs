//! Guests of one server group, all requested at once.

use std::collections::BTreeSet;

use berth_conductor::{BootRequest, Conductor, GuestRunOutcome};
use berth_hosts::{NewServerGroup, ServerGroupPolicy};
use berth_scheduler::SchedulerOptions;
use berth_tests::boot::{asked, guest};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use berth_tests::peer::{PlacementSettings, RealPlacement};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

/// So many guests, each by a conductor of its own.
const GUESTS: u32 = 16;

async fn group(fleet: &Fleet, policy: ServerGroupPolicy) -> Uuid {
    let group = fleet.hosts.create_group(
        NewServerGroup {
            project_id: "berth".to_owned(),
            user_id: "berth".to_owned(),
            name: "apart".to_owned(),
            policy,
            max_server_per_host: None,
        },
        None,
    );
    group.await.expect("a group").uuid
}

/// The nodes of the running guests, and why the others do not run.
async fn create(fleet: &Fleet, group: Uuid) -> (Vec<String>, Vec<String>) {
    let mut boots = JoinSet::new();
    for number in 0..GUESTS {
        let conductor = fleet.conductor(SchedulerOptions::default()).await;
        let request = asked(&json!({
            "uuid": guest(number).to_string(),
            "name": format!("vm{number}"),
            "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
            "scheduler_hints": {"group": [group.to_string()]},
        }));
        boots.spawn(async move {
            conductor
                .create(&request)
                .await
                .expect("a journal in memory");
            let mut end = conductor.reconcile_guest(request.uuid()).await;
            // A Placement with too many writers for its SQLite reports it, and the request is repeated.
            while matches!(&end, GuestRunOutcome::Blocked { reason } if reason.contains("database is locked")) {
                end = conductor.reconcile_guest(request.uuid()).await;
            }
            let record = conductor.show(request.uuid()).await.expect("it is known");
            let chosen = record.chosen(record.attempt);
            (end, chosen.map(|it| it.node.to_string()))
        });
    }
    let (mut nodes, mut reasons) = (Vec::new(), Vec::new());
    for (end, node) in boots.join_all().await {
        match end {
            GuestRunOutcome::Active => nodes.extend(node),
            GuestRunOutcome::Failed { reason } => reasons.push(reason),
            end => panic!("{end:?}"),
        }
    }
    (nodes, reasons)
}

async fn sixteen_on(cloud: Cloud, many: usize) -> (usize, Vec<String>) {
    // Room for all of them on each.
    let fleet = Fleet::over(cloud, &hosts(many, "cell1", 16)).await;
    let group = group(&fleet, ServerGroupPolicy::AntiAffinity).await;
    let (nodes, reasons) = create(&fleet, group).await;
    let apart: BTreeSet<&String> = nodes.iter().collect();
    assert_eq!(apart.len(), nodes.len(), "{nodes:?}");
    let kept = fleet.hosts.group(group).await.expect("a group").members;
    let kept: BTreeSet<&String> = kept.values().collect();
    assert_eq!(kept, apart, "the group has exactly the running members");
    (nodes.len(), reasons)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anti_affinity_group_of_sixteen_uses_sixteen_hosts() {
    let (running, reasons) = sixteen_on(Cloud::in_process().await, 16).await;
    assert_eq!((running, reasons.len()), (16, 0), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_fifteen_hosts_exactly_one_fails_with_a_reason() {
    let (running, reasons) = sixteen_on(Cloud::in_process().await, 15).await;
    assert_eq!((running, reasons.len()), (15, 1), "{reasons:?}");
    let sentence =
        "No valid host was found: of 15 hosts, ServerGroupAntiAffinityFilter rejected 15 (";
    assert!(reasons[0].starts_with(sentence), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_openstacks_placement_it_is_the_same() {
    let placement = RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    let (running, reasons) = sixteen_on(Cloud::at(&placement.url()), 15).await;
    assert_eq!((running, reasons.len()), (15, 1), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_affinity_group_lands_on_one_host() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(8, "cell1", 16)).await;
    let group = group(&fleet, ServerGroupPolicy::Affinity).await;
    let (nodes, reasons) = create(&fleet, group).await;
    let together: BTreeSet<&String> = nodes.iter().collect();
    assert_eq!((nodes.len(), together.len()), (16, 1), "{reasons:?}");
}

#[tokio::test]
async fn a_deleted_guest_leaves_the_group() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(2, "cell1", 4)).await;
    let group = group(&fleet, ServerGroupPolicy::AntiAffinity).await;
    let conductor = fleet.conductor(SchedulerOptions::default()).await;
    for number in 0..6 {
        let request = asked(&json!({
            "uuid": guest(number).to_string(),
            "name": "vm",
            "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
            "scheduler_hints": {"group": [group.to_string()]},
        }));
        conductor.create(&request).await.unwrap();
        let end = conductor.reconcile_guest(request.uuid()).await;
        assert!(matches!(end, GuestRunOutcome::Active), "{number}: {end:?}");
        if number > 0 {
            conductor.delete(guest(number - 1)).await.unwrap();
            let end = conductor.reconcile_guest(guest(number - 1)).await;
            assert!(matches!(end, GuestRunOutcome::Gone), "{end:?}");
        }
    }
    let members = fleet.hosts.group(group).await.unwrap().members;
    assert_eq!(members.len(), 1);
}

#[tokio::test]
async fn a_group_without_its_filter_accepts_no_guest() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(2, "cell1", 8)).await;
    let apart = group(&fleet, ServerGroupPolicy::AntiAffinity).await;
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = vec!["ComputeFilter".to_owned()];
    let conductor = fleet.conductor(options).await;
    let request = of_group(apart, 1);
    conductor
        .create(&request)
        .await
        .expect("a journal in memory");
    let GuestRunOutcome::Failed { reason } = conductor.reconcile_guest(request.uuid()).await else {
        panic!("its policy is not enforced");
    };
    let sentence = format!(
        "No valid host was found: the policy anti-affinity of its server group {apart} is not enforced: \
         enabled_filters does not include ServerGroupAntiAffinityFilter"
    );
    assert_eq!(reason, sentence);
}

/// A guest of the group, and a conductor that has booted it.
async fn booted(fleet: &Fleet, group: Uuid, number: u32) -> Conductor {
    let conductor = fleet.conductor(SchedulerOptions::default()).await;
    conductor
        .create(&of_group(group, number))
        .await
        .expect("a journal in memory");
    let end = conductor.reconcile_guest(guest(number)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    conductor
}

fn of_group(group: Uuid, number: u32) -> BootRequest {
    asked(&json!({
        "uuid": guest(number).to_string(),
        "name": "vm",
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
        "scheduler_hints": {"group": [group.to_string()]},
    }))
}

#[tokio::test]
async fn a_guest_without_a_host_leaves_the_group_after_its_conductor_lost_its_journal() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(2, "cell1", 4)).await;
    let group = group(&fleet, ServerGroupPolicy::AntiAffinity).await;
    drop(booted(&fleet, group, 0).await);
    let other = booted(&fleet, group, 1).await;
    // It runs, even if no conductor knows it.
    assert_eq!(other.collect_stale_members().await, Ok(0));
    fleet.agent.forget(guest(0));
    assert_eq!(
        other.collect_stale_members().await,
        Ok(0),
        "it has its allocation"
    );
    fleet.forget_allocations(guest(0)).await;
    // Its membership, and its ownership row.
    assert_eq!(other.collect_stale_members().await, Ok(2));
    // The conductor's own guest is its own affair, whatever became of it.
    fleet.forget_allocations(guest(1)).await;
    assert_eq!(other.collect_stale_members().await, Ok(0));
    let members = fleet.hosts.group(group).await.unwrap().members;
    assert_eq!(members.keys().collect::<Vec<_>>(), [guest(1).as_uuid()]);
}

#[tokio::test]
async fn a_guest_removed_as_stale_before_its_claim_is_placed_again() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(2, "cell1", 4)).await;
    let group = group(&fleet, ServerGroupPolicy::AntiAffinity).await;
    let collector = fleet.conductor(SchedulerOptions::default()).await;
    let placement = fleet.placement_with(async move || {
        assert_eq!(collector.collect_stale_members().await, Ok(2));
    });
    let slow = fleet
        .conductor_over(SchedulerOptions::default(), placement)
        .await;
    slow.create(&of_group(group, 0)).await.unwrap();
    let end = slow.reconcile_guest(guest(0)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let record = slow.show(guest(0)).await.unwrap();
    assert_eq!(record.attempt, 2);
    let reason = &record.failures[0].reason;
    assert!(
        reason.contains("its server group membership was removed"),
        "{reason}"
    );
    let chosen = record.chosen(2).unwrap().host_name.clone();
    let members = fleet.hosts.group(group).await.unwrap().members;
    assert_eq!(members.get(guest(0).as_uuid()), chosen.as_ref());
    assert!(fleet.held(guest(0)).await.is_some());
}

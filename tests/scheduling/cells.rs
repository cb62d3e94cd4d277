//! Two cells: if the build on one host fails, the guest runs on another host of the same cell.

use berth_conductor::GuestRunOutcome;
use berth_scheduler::SchedulerOptions;
use berth_tests::boot::{AgentBehaviour, asked, guest};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use serde_json::json;

#[tokio::test]
async fn an_alternate_is_in_the_cell_of_the_host_that_failed() {
    // Two hosts here and ten there: by chance alone the next one would hardly ever be here.
    let mut fleet = hosts(2, "cell2", 8);
    fleet.extend(hosts(10, "cell1", 4));
    let fleet = Fleet::over(Cloud::in_process().await, &fleet).await;
    let conductor = fleet.conductor(SchedulerOptions::default()).await;
    for number in 0..4 {
        fleet.agent.is(AgentBehaviour::CannotBuildOne);
        let request = asked(&json!({
            "uuid": guest(number).to_string(),
            "name": "vm",
            "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
        }));
        conductor.create(&request).await.unwrap();
        let end = conductor.reconcile_guest(request.uuid()).await;
        assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
        let record = conductor.show(request.uuid()).await.unwrap();
        let failed = &record.failures[0];
        let chosen = record.chosen(record.attempt).unwrap();
        // The largest hosts are the best.
        assert_eq!(failed.cell.as_deref(), Some("cell2"));
        assert_eq!(chosen.cell, failed.cell);
        assert_ne!(Some(chosen.node.to_string()), failed.node);
    }
    // A cell is exhausted when all of its hosts have failed, whatever the other cell has.
    fleet.agent.is(AgentBehaviour::CannotBuild);
    let request = asked(&json!({
        "uuid": guest(9).to_string(),
        "name": "vm",
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
    }));
    conductor.create(&request).await.unwrap();
    let GuestRunOutcome::Failed { reason } = conductor.reconcile_guest(request.uuid()).await else {
        panic!("no host can build it");
    };
    assert!(reason.contains("attempt 2 on cell2-"), "{reason}");
    assert!(!reason.contains("cell1-"), "{reason}");
    assert!(
        reason.ends_with("no other host or device satisfies the request"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_guest_of_one_node_is_tried_there_again_after_a_failed_build() {
    let fleet = hosts(2, "cell2", 8);
    let node = fleet[1].name.clone();
    let fleet = Fleet::over(Cloud::in_process().await, &fleet).await;
    let conductor = fleet.conductor(SchedulerOptions::default()).await;
    fleet.agent.is(AgentBehaviour::CannotBuildOne);
    let request = asked(&json!({
        "uuid": guest(1).to_string(),
        "name": "vm",
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
        "node": node,
    }));
    conductor.create(&request).await.unwrap();
    let GuestRunOutcome::Failed { reason } = conductor.reconcile_guest(request.uuid()).await else {
        panic!("the node is the only one");
    };
    // Placement knows the node, and it is asked; but without a device of its own the host itself is to blame.
    assert!(
        reason.contains(&format!("attempt 1 on {node}: ")),
        "{reason}"
    );
    let sentence =
        "attempt 2 No valid host was found: no other host or device satisfies the request";
    assert!(reason.ends_with(sentence), "{reason}");
}

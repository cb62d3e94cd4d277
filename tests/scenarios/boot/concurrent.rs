//! Concurrent boots, and a conductor that stops during one.

use std::time::Duration;

use berth_conductor::{ConductorOptions, GuestRunOutcome};
use berth_hosts::{ServiceStatus, ServiceUpdate};
use berth_tests::boot::{AgentBehaviour, BootFault, BootStage, EffectSide, NODE, impatient};
use berth_tests::wait::poll_until;
use tokio::time::timeout;

use super::{guest, request};

/// A hundred guests that were asked for together were offered the same devices again and again.
#[tokio::test]
async fn guests_whose_hosts_are_searched_one_at_a_time_do_not_conflict() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let options = ConductorOptions {
        scheduler_workers: 1,
        ..impatient()
    };
    let conductor = stage.conductor_with(options);
    for number in 1..=8 {
        conductor.create(&request(number, "gpu")).await.unwrap();
    }
    for number in 1..=8 {
        let end = conductor.reconcile_guest(guest(number)).await;
        assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    }
    let page = conductor.metrics().await;
    let claims = |result: &str, many: u32| {
        let line = format!("berth_scheduler_claims_total{{result=\"{result}\"}} {many}\n");
        assert!(page.contains(&line), "no {line:?} in {page}");
    };
    claims("granted", 8);
    claims("refused", 0);
    stage.judge().await;
}

#[tokio::test]
async fn a_stopping_conductor_does_not_wait_for_a_guest_that_cannot_be_deleted() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let options = ConductorOptions {
        delete_timeout: Duration::from_hours(24),
        ..impatient()
    };
    let conductor = stage.conductor_with(options);
    conductor.create(&request(1, "gpu")).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.agent.is(AgentBehaviour::SlowToDelete);
    conductor.delete(guest(1)).await.unwrap();
    poll_until("the agent is asked to delete the guest", async || {
        let asked = stage.agent.is_deleting(guest(1));
        asked.then_some(()).ok_or(stage.effects.history())
    })
    .await;
    let stopped = timeout(Duration::from_hours(1), conductor.stop()).await;
    stopped.expect("it waits for the guest");
    assert!(
        stage.holders().await.contains_key(&guest(1)),
        "what may still run keeps its claim"
    );
    // The next conductor continues.
    stage.agent.is(AgentBehaviour::Well);
    let next = stage.conductor();
    let end = next.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Gone), "{end:?}");
    stage.judge().await;
}

/// What was about to be claimed before a kill went straight to its host, whatever had become of that since.
#[tokio::test]
async fn a_host_disabled_between_a_recorded_claim_and_the_next_start_accepts_no_guest() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let claim = |what: &String| what.starts_with("placement PUT /allocations");
    let at = stage.effects.history().iter().position(claim);
    let at = at.expect("a claim") + 1;

    stage
        .effects
        .begin(Some((EffectSide { at, after: false }, BootFault::Kill)));
    let conductor = stage.conductor();
    conductor.create(&request(2, "gpu")).await.unwrap();
    tokio::select! {
        end = conductor.reconcile_guest(guest(2)) => panic!("{end:?}"),
        () = stage.effects.dies() => {}
    }
    let status = Some(ServiceStatus::Disabled {
        reason: Some("its fans are loud".to_owned()),
    });
    let update = ServiceUpdate {
        status,
        ..ServiceUpdate::default()
    };
    stage.hosts.update_service(NODE, update).await.unwrap();

    stage.effects.begin(None);
    let conductor = stage.conductor();
    let GuestRunOutcome::Failed { reason } = conductor.reconcile_guest(guest(2)).await else {
        panic!("the host is disabled");
    };
    assert!(reason.contains("ComputeFilter rejected 1"), "{reason}");
    let record = conductor.show(guest(2)).await.unwrap();
    let reported = record.user_fault().unwrap();
    assert_eq!(
        reported,
        "No valid host was found: no host with room fits the request"
    );
    assert!(!stage.holders().await.contains_key(&guest(2)));
    stage.judge().await;
}

//! Boots: from a request to a guest with its devices and back, with a Placement, an accelerator service and an agent,
//! each of which may refuse, fail or be down.

mod claims;
mod concurrent;
mod sweep;

use std::time::Duration;

use berth_conductor::journal::{AcceptOutcome, BootJournal as _, StepState};
use berth_conductor::{Conductor, ConductorError, ConductorOptions, GuestRunOutcome};
use berth_model::{Arq, ArqState, ResourceClass};
use berth_tests::boot::{
    AgentBehaviour, BootFault, BootStage, EffectSide, GPUS, NODE, asked, gpu, guest, impatient,
    request,
};
use berth_tests::wait::poll_until;
use serde_json::json;

async fn fails(conductor: &Conductor, number: u32, profile: &str) -> String {
    conductor.create(&request(number, profile)).await.unwrap();
    match conductor.reconcile_guest(guest(number)).await {
        GuestRunOutcome::Failed { reason } => reason,
        end => panic!("{end:?}"),
    }
}

#[tokio::test]
async fn a_guest_gets_its_claim_and_its_devices_and_is_built_with_both() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "two")).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.judge().await;
    let build = stage.agent.guests().remove(&guest(1)).unwrap();
    assert_eq!(
        (build.node.as_str(), build.accelerator_requests.len()),
        (NODE, 2)
    );
    let drive = build.config_drive.unwrap();
    assert_eq!(drive.user_data.as_deref(), Some("c2VjcmV0"));
    let held = &stage.holders().await[&guest(1)];
    assert_eq!(held[&ResourceClass::PGPU], 2);
    assert_eq!(held[&ResourceClass::VCPU], 2);
    let record = conductor.show(guest(1)).await.unwrap();
    assert!(
        record
            .steps
            .values()
            .all(|step| step.state == StepState::Done)
    );

    conductor.delete(guest(1)).await.unwrap();
    assert!(matches!(
        conductor.reconcile_guest(guest(1)).await,
        GuestRunOutcome::Gone
    ));
    assert!(stage.holders().await.is_empty());
    stage.judge().await;
}

#[tokio::test]
async fn a_guest_without_a_profile_needs_no_accelerator_service() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    let plain = asked(&json!({"uuid": guest(1).to_string(), "name": "plain",
        "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}, "node": NODE}));
    conductor.create(&plain).await.unwrap();
    assert!(matches!(
        conductor.reconcile_guest(guest(1)).await,
        GuestRunOutcome::Active
    ));
    let history = stage.effects.history();
    assert!(
        !history.iter().any(|it| it.contains("accelerator")),
        "{history:?}"
    );
    stage.judge().await;
}

#[tokio::test]
async fn without_a_candidate_the_fault_names_the_unmet_demand() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    let reason = fails(&conductor, 1, "fast").await;
    assert_eq!(
        reason,
        "No valid host was found: no host has trait CUSTOM_FAST in group device_profile_0 in addition to the rest"
    );
    let reason = fails(&conductor, 2, "pair").await;
    assert!(
        reason.contains("2 PGPU in group device_profile_0"),
        "{reason}"
    );
    let huge = asked(&json!({"uuid": guest(3).to_string(), "name": "huge",
        "flavor": {"name": "f", "vcpus": 65, "ram_mb": 64}}));
    conductor.create(&huge).await.unwrap();
    let end = conductor.reconcile_guest(guest(3)).await;
    assert!(
        format!("{end:?}").contains("65 VCPU: at most 64 is free"),
        "{end:?}"
    );
    let elsewhere = asked(&json!({"uuid": guest(4).to_string(), "name": "elsewhere",
        "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}, "node": "compute9"}));
    conductor.create(&elsewhere).await.unwrap();
    let end = conductor.reconcile_guest(guest(4)).await;
    assert!(
        format!("{end:?}").contains("Placement has no host compute9"),
        "{end:?}"
    );
    let unknown = asked(&json!({"uuid": guest(6).to_string(), "name": "unknown",
        "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64, "extra_specs": {"resources:CUSTOM_NOBODYS": "1"}}}));
    conductor.create(&unknown).await.unwrap();
    let end = format!("{:?}", conductor.reconcile_guest(guest(6)).await);
    assert!(
        end.contains("no host ever reported the resource class CUSTOM_NOBODYS"),
        "{end}"
    );
    let reason = fails(&conductor, 5, "unheard-of").await;
    assert!(
        reason.contains("device profile unheard-of does not exist"),
        "{reason}"
    );
    stage.judge().await;
}

#[tokio::test]
async fn a_refused_bind_is_tried_on_other_devices_and_then_undone() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    stage.disable_devices().await;
    let conductor = stage.conductor();
    let reason = fails(&conductor, 1, "gpu").await;
    assert!(reason.contains("is disabled"), "{reason}");
    assert!(reason.contains("attempt 3 on compute1"), "{reason}");
    let record = conductor.show(guest(1)).await.unwrap();
    let tried: std::collections::BTreeSet<_> = (1..=3)
        .flat_map(|attempt| record.chosen(attempt).unwrap().devices())
        .collect();
    assert_eq!(tried.len(), 3, "three devices");
    stage.judge().await;
    // Once they are offered again, so is a guest of another name.
    stage.enable_devices().await;
    conductor.create(&request(2, "gpu")).await.unwrap();
    assert!(matches!(
        conductor.reconcile_guest(guest(2)).await,
        GuestRunOutcome::Active
    ));
    stage.judge().await;
}

#[tokio::test]
async fn a_guest_gets_new_requests_if_they_were_deleted_while_its_conductor_was_down() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "two")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let history = stage.effects.history();
    let bind = |what: &String| what.starts_with("accelerator PATCH");
    let at = history.iter().position(bind).expect("a bind") + 1;

    stage
        .effects
        .begin(Some((EffectSide { at, after: false }, BootFault::Kill)));
    let conductor = stage.conductor();
    conductor.create(&request(2, "two")).await.unwrap();
    tokio::select! {
        end = conductor.reconcile_guest(guest(2)) => panic!("{end:?}"),
        () = stage.effects.dies() => {}
    }
    // It is away for so long that the service does not keep what holds nothing.
    let accelerators = stage.accelerators();
    let made = accelerators.arqs().await.unwrap().into_iter();
    let made: Vec<Arq> = made
        .filter_map(|reported| reported.arq.ok())
        .filter(|arq| arq.state == ArqState::Initial)
        .collect();
    assert_eq!(made.len(), 2);
    for arq in &made {
        accelerators.delete_arq(arq.uuid).await.unwrap();
    }

    stage.effects.begin(None);
    let conductor = stage.conductor();
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let record = conductor.show(guest(2)).await.unwrap();
    let [failed] = record.failures.as_slice() else {
        panic!("{:?}", record.failures);
    };
    assert!(failed.reason.contains("no longer exist"), "{failed}");
    assert!(failed.avoid.is_empty(), "its devices are not to blame");
    stage.judge().await;
}

#[tokio::test]
async fn a_device_being_cleaned_is_skipped_if_another_is_free() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    let boot = async || {
        conductor.create(&request(1, "gpu")).await.unwrap();
        let end = conductor.reconcile_guest(guest(1)).await;
        assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
        let record = conductor.show(guest(1)).await.unwrap();
        conductor.delete(guest(1)).await.unwrap();
        conductor.reconcile_guest(guest(1)).await;
        record
    };
    let first = boot().await.chosen(1).unwrap().devices()[0];
    let place = (0..GPUS).find(|n| *gpu(*n).as_uuid() == first).unwrap();
    stage.dirty_devices(&[place]).await;
    let record = boot().await;
    assert_eq!(record.chosen(1).unwrap().devices(), [first]);
    assert_ne!(record.chosen(2).unwrap().devices(), [first]);
    stage.judge().await;
}

#[tokio::test]
async fn a_guest_waits_with_a_reason_while_all_devices_are_cleaned_and_then_gets_one() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let all: Vec<u8> = (0..GPUS).collect();
    stage.dirty_devices(&all).await;
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    let GuestRunOutcome::Blocked { reason } = conductor.reconcile_guest(guest(1)).await else {
        panic!("it waits");
    };
    assert!(
        reason.contains("1 more being cleaned by host compute1"),
        "{reason}"
    );
    assert_eq!(conductor.blocked_reason(guest(1)), Some(reason));
    let again = conductor.reconcile_guest(guest(1)).await;
    assert!(
        matches!(again, GuestRunOutcome::Blocked { .. }),
        "{again:?}"
    );
    // A restarted conductor continues it.
    let conductor = stage.conductor();
    let again = conductor.reconcile_guest(guest(1)).await;
    assert!(
        matches!(again, GuestRunOutcome::Blocked { .. }),
        "{again:?}"
    );
    stage.clean_devices().await;
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    assert_eq!(conductor.show(guest(1)).await.unwrap().attempt, 2);
    stage.judge().await;
}

#[tokio::test]
async fn a_device_that_does_not_get_clean_is_waited_for_so_long_and_no_longer() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let all: Vec<u8> = (0..GPUS).collect();
    stage.dirty_devices(&all).await;
    let options = ConductorOptions {
        retry_timeout: Duration::ZERO,
        ..impatient()
    };
    let conductor = stage.conductor_with(options);
    conductor.create(&request(1, "gpu")).await.unwrap();
    let reason = poll_until("the boot fails", async || {
        match conductor.reconcile_guest(guest(1)).await {
            GuestRunOutcome::Failed { reason } => Ok(reason),
            end => Err(end),
        }
    })
    .await;
    assert!(
        reason.contains("being cleaned by host compute1"),
        "{reason}"
    );
    assert!(
        reason.contains("[conductor_service] retry_timeout"),
        "{reason}"
    );
    assert!(stage.holders().await.is_empty());
    stage.judge().await;
}

#[tokio::test]
async fn a_host_without_room_is_no_reason_not_to_try_another_candidate() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    stage.agent.is(AgentBehaviour::NoRoomForOne);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let record = conductor.show(guest(1)).await.unwrap();
    assert_eq!(record.attempt, 2);
    assert!(
        record.failures[0].reason.contains("cell 0 lacks 2 CPUs"),
        "{}",
        record.failures[0]
    );
    stage.judge().await;
}

/// The guest with a GPU and this image, and the failures of its attempts.
async fn fails_with_image(stage: &BootStage, location: serde_json::Value) -> (String, usize) {
    let conductor = stage.conductor();
    let image = json!({"location": location, "format": "qcow2"});
    let asked = asked(
        &json!({"uuid": guest(1).to_string(), "name": "vm", "device_profile": "gpu",
        "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64, "disk_gb": 1}, "image": image}),
    );
    conductor.create(&asked).await.unwrap();
    let GuestRunOutcome::Failed { reason } = conductor.reconcile_guest(guest(1)).await else {
        panic!("it cannot be built");
    };
    let attempts = conductor.show(guest(1)).await.unwrap().attempt;
    stage.judge().await;
    (reason, usize::try_from(attempts).unwrap())
}

/// Eight devices would be eight attempts at the same.
#[tokio::test]
async fn an_image_that_cannot_be_used_is_not_tried_with_another_device() {
    let of_all = json!({"glance": uuid::Uuid::from_u128(7).to_string()});
    let of_host = json!({"path": "/images/a.qcow2"});
    let nowhere_else = "no other host or device satisfies the request";
    for (behaviour, location, attempts, last) in [
        (AgentBehaviour::BadImage, &of_all, 1, "it is no qcow2"),
        // Another host has a file of its own of that name; this is the only host.
        (AgentBehaviour::BadImage, &of_host, 2, nowhere_else),
        (AgentBehaviour::NoDisks, &of_all, 2, nowhere_else),
    ] {
        let stage = BootStage::new().await;
        stage.effects.begin(None);
        let mood_text = format!("{behaviour:?}");
        stage.agent.is(behaviour);
        let (reason, made) = fails_with_image(&stage, location.clone()).await;
        assert_eq!(made, attempts, "{mood_text}: {reason}");
        assert!(reason.ends_with(last), "{mood_text}: {reason}");
    }
}

#[tokio::test]
async fn a_build_that_fails_once_is_done_on_the_next_candidate() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    stage.agent.is(AgentBehaviour::CannotBuildOne);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let record = conductor.show(guest(1)).await.unwrap();
    assert_eq!(record.attempt, 2);
    assert!(
        record.failures[0]
            .to_string()
            .contains("cannot be given to a guest")
    );
    assert_ne!(
        record.chosen(1).unwrap().devices(),
        record.chosen(2).unwrap().devices()
    );
    stage.judge().await;
}

#[tokio::test]
async fn a_request_that_the_agent_refuses_fails_with_the_agents_message() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    stage.agent.is(AgentBehaviour::Refuses);
    let conductor = stage.conductor();
    let reason = fails(&conductor, 1, "gpu").await;
    assert!(
        reason.contains("hw:numa_nodes: 9 is more than this host has"),
        "{reason}"
    );
    assert!(
        !reason.contains("attempt"),
        "no other host would say anything else: {reason}"
    );
    stage.judge().await;
}

#[tokio::test]
async fn a_guest_with_an_unreachable_agent_is_undone_only_after_the_agent_confirms_its_deletion() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    stage.agent.is(AgentBehaviour::Slow);
    let options = ConductorOptions {
        retry_timeout: Duration::ZERO,
        ..impatient()
    };
    let conductor = stage.conductor_with(options);
    conductor.create(&request(1, "gpu")).await.unwrap();
    // It has accepted the guest.
    stage.wait_for_build(&conductor, guest(1)).await;
    stage.agent.is(AgentBehaviour::Away);
    stage.wait_until_blocked(&conductor, guest(1)).await;
    // Out of patience, and on the way back, which the agent must allow.
    let GuestRunOutcome::Blocked { reason } = conductor.reconcile_guest(guest(1)).await else {
        panic!("it is held");
    };
    assert!(
        reason.contains("until the agent confirms that the guest is gone"),
        "{reason}"
    );
    assert!(
        stage.holders().await.contains_key(&guest(1)),
        "its claim is its own"
    );
    stage.agent.is(AgentBehaviour::Well);
    let GuestRunOutcome::Failed { reason } = conductor.reconcile_guest(guest(1)).await else {
        panic!("it failed");
    };
    assert!(
        reason.contains("agent.sock refuses connections"),
        "{reason}"
    );
    stage.judge().await;
}

#[tokio::test]
async fn a_guest_unknown_to_its_agent_is_undone_without_that_agent() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    stage.agent.is(AgentBehaviour::Away);
    let options = ConductorOptions {
        retry_timeout: Duration::ZERO,
        ..impatient()
    };
    let conductor = stage.conductor_with(options);
    conductor.create(&request(1, "gpu")).await.unwrap();
    stage.wait_until_blocked(&conductor, guest(1)).await;
    let GuestRunOutcome::Failed { reason } = conductor.reconcile_guest(guest(1)).await else {
        panic!("there is no other host");
    };
    for part in [
        "attempt 1 on compute1: ",
        "agent.sock refuses connections",
        "attempt 2 No valid host was found: ",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    assert!(stage.holders().await.is_empty());
    stage.agent.is(AgentBehaviour::Well);
    stage.judge().await;
}

/// As a front end does, or an agent of a later release.
#[tokio::test]
async fn after_a_conflict_on_one_host_another_candidate_is_tried() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    stage.agent.is(AgentBehaviour::ConflictsOnce);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let record = conductor.show(guest(1)).await.unwrap();
    assert_eq!(record.attempt, 2);
    assert!(record.failures[0].reason.contains("409"), "{record:?}");
    stage.judge().await;
}

#[tokio::test]
async fn a_guest_deleted_during_its_build_disappears() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    stage.agent.is(AgentBehaviour::Slow);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    stage.wait_for_build(&conductor, guest(1)).await;
    conductor.delete(guest(1)).await.unwrap();
    assert!(matches!(
        conductor.create(&request(1, "gpu")).await,
        Err(ConductorError::Deleting { .. } | ConductorError::NotFound { .. }) | Ok(_)
    ));
    assert!(matches!(
        conductor.reconcile_guest(guest(1)).await,
        GuestRunOutcome::Gone | GuestRunOutcome::Active
    ));
    conductor.delete(guest(1)).await.ok();
    conductor.reconcile_guest(guest(1)).await;
    stage.judge().await;
}

#[tokio::test]
async fn the_same_request_twice_is_one_guest_and_another_with_its_uuid_is_refused() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    let first = request(1, "gpu");
    assert_eq!(conductor.create(&first).await.unwrap(), AcceptOutcome::New);
    assert!(matches!(
        conductor.reconcile_guest(guest(1)).await,
        GuestRunOutcome::Active
    ));
    // Also now that its config drive is forgotten.
    assert_eq!(conductor.create(&first).await.unwrap(), AcceptOutcome::Same);
    let other = conductor.create(&request(1, "two")).await;
    assert!(matches!(other, Err(ConductorError::Conflict { .. })));
    assert_eq!(stage.agent.guests().len(), 1);
    let missing = conductor.delete(guest(5)).await;
    assert!(matches!(missing, Err(ConductorError::NotFound { .. })));
    stage.judge().await;
}

#[tokio::test]
async fn a_uuid_that_holds_something_in_placement_keeps_it() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    assert!(matches!(
        conductor.reconcile_guest(guest(1)).await,
        GuestRunOutcome::Active
    ));
    // The conductor's journal is lost, and a client requests the same UUID again.
    stage.journal().delete_guest(guest(1)).await.unwrap();
    let held = stage.holders().await[&guest(1)].clone();
    // For other devices, or the very same.
    for profile in ["two", "gpu"] {
        let reason = fails(&conductor, 1, profile).await;
        assert!(
            reason.contains("holds other allocations already"),
            "{reason}"
        );
        assert_eq!(stage.holders().await[&guest(1)], held, "they are another's");
        assert!(stage.agent.knows(guest(1)), "it is another's");
        stage.journal().delete_guest(guest(1)).await.unwrap();
    }
}

/// The guest was created at the agent, past the conductor.
#[tokio::test]
async fn a_guest_of_that_uuid_at_the_agent_is_not_deleted_when_the_agent_refuses_another() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    let plain = asked(&json!({"uuid": guest(1).to_string(), "name": "plain",
        "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}, "node": NODE}));
    conductor.create(&plain).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.journal().delete_guest(guest(1)).await.unwrap();
    stage.forget_allocations(guest(1)).await;
    let reason = fails(&conductor, 1, "two").await;
    assert!(reason.contains("another one has its UUID"), "{reason}");
    assert!(stage.agent.knows(guest(1)), "it is another's");
    assert!(
        stage.holders().await.is_empty(),
        "the claim of the second is released"
    );
    conductor.delete(guest(1)).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Gone), "{end:?}");
    assert!(stage.agent.knows(guest(1)), "it is another's");
}

/// Before the delete, or while it is under way.
#[tokio::test]
async fn a_running_guest_keeps_its_resources_after_its_agent_lost_its_journal() {
    for behaviour in [AgentBehaviour::Forgetful, AgentBehaviour::ForgetsTheDelete] {
        let stage = BootStage::new().await;
        stage.effects.begin(None);
        let conductor = stage.conductor();
        conductor.create(&request(1, "gpu")).await.unwrap();
        let end = conductor.reconcile_guest(guest(1)).await;
        assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
        let held = stage.holders().await;
        stage.agent.is(behaviour.clone());
        conductor.delete(guest(1)).await.unwrap();
        let end = conductor.reconcile_guest(guest(1)).await;
        let GuestRunOutcome::Blocked { reason } = end else {
            panic!("{behaviour:?}: {end:?}");
        };
        for expected in [
            "is on this host, and the journal does not know it",
            "its devices and claim are kept",
        ] {
            assert!(reason.contains(expected), "{behaviour:?}: {reason}");
        }
        assert_eq!(stage.holders().await, held, "{behaviour:?}");
        // The journal is back from a backup.
        stage.agent.is(AgentBehaviour::Well);
        let end = conductor.reconcile_guest(guest(1)).await;
        assert!(
            matches!(end, GuestRunOutcome::Gone),
            "{behaviour:?}: {end:?}"
        );
        stage.judge().await;
    }
}

#[tokio::test]
async fn sixteen_at_once_for_eight_devices_are_eight_guests_and_nothing_is_left_of_the_others() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    let boots = (1..=16).map(|number| {
        let conductor = conductor.clone();
        tokio::spawn(async move {
            conductor.create(&request(number, "gpu")).await.unwrap();
            conductor.reconcile_guest(guest(number)).await
        })
    });
    let boots: Vec<_> = boots.collect();
    let mut active = 0;
    for boot in boots {
        match boot.await.unwrap() {
            GuestRunOutcome::Active => active += 1,
            GuestRunOutcome::Failed { reason } => {
                assert!(reason.contains("No valid host was found"), "{reason}");
            }
            end => panic!("{end:?}"),
        }
    }
    assert_eq!(active, 8);
    stage.judge().await;
}

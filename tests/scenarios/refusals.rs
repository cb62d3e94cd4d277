//! A disturbed startup continues by itself; a refused one ends with the reason and leaves nothing half done.

use std::sync::Mutex;
use std::time::Duration;

use berth_agent_tracker::tick::TickError;
use berth_model::{Disposition, ResourceClass};
use berth_tests::claims::{Claim, add, claim};
use berth_tests::host::{Host, consumer};
use berth_tests::unit::{Exit, UnitEnd, UnitHistory};
use tokio::time::timeout;
use uuid::Uuid;

use crate::scenarios::mishaps::{ALWAYS, RequestMishap, mishap};
use crate::scenarios::upgrading::{UpgradeNode, flat, guest_claim, places, two_gpus};

const RESHAPE: &str = "POST /reshaper";

fn count(requests: &[String], line: &str) -> usize {
    requests.iter().filter(|request| *request == line).count()
}

#[tokio::test(start_paused = true)]
async fn reshape_is_refused_outside_startup() {
    let upgrading = UpgradeNode::two_gpus().await;
    let (node, cloud) = (&upgrading.node, &upgrading.cloud);
    node.driver.show(&flat(&two_gpus()));
    let mut life = node.start(cloud).await.unwrap();
    node.driver.show(&two_gpus());
    let before = upgrading.rows().await;
    let _ = cloud.take_requests();

    let refused = life.tick(node).await.unwrap_err();
    assert!(matches!(refused, TickError::ReshapeNeeded(_)), "{refused}");
    assert_eq!(refused.disposition(), Disposition::Fatal);
    assert_eq!(cloud.take_requests(), Vec::<String>::new());
    assert_eq!(upgrading.rows().await.difference(&before), "");
}

#[tokio::test(start_paused = true)]
async fn a_reshape_that_one_server_error_meets_is_done_by_the_same_process() {
    let upgrading = UpgradeNode::two_gpus().await;
    let server_error = RequestMishap::Refused(500, "placement.undefined_code");
    let cloud = mishap(&upgrading.cloud, RESHAPE, 0..1, &server_error);
    let (rest, history) = upgrading.run(&cloud).await;
    assert_eq!(rest, UnitEnd::Settled { held: vec![] });
    assert_eq!(history.ends, Vec::<String>::new());
    assert_eq!(count(&cloud.take_requests(), RESHAPE), 2);
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn a_reshape_whose_answer_is_lost_is_not_sent_again() {
    let upgrading = UpgradeNode::two_gpus().await;
    let cloud = mishap(&upgrading.cloud, RESHAPE, 0..1, &RequestMishap::AnswerLost);
    let (rest, history) = upgrading.run(&cloud).await;
    assert_eq!(rest, UnitEnd::Settled { held: vec![] });
    assert_eq!(history.ends, Vec::<String>::new());
    assert_eq!(count(&cloud.take_requests(), RESHAPE), 1);
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn a_reshape_that_does_not_arrive_is_sent_again() {
    let upgrading = UpgradeNode::two_gpus().await;
    let cloud = mishap(&upgrading.cloud, RESHAPE, 0..3, &RequestMishap::Unreachable);
    let (rest, history) = upgrading.run(&cloud).await;
    assert_eq!(rest, UnitEnd::Settled { held: vec![] });
    assert_eq!(history.ends, Vec::<String>::new());
    assert_eq!(history.failures().count(), 3, "{history:#?}");
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_conflict_is_retried_with_growing_pauses_by_a_living_process() {
    let upgrading = UpgradeNode::two_gpus().await;
    let before = upgrading.rows().await;
    let cloud = mishap(&upgrading.cloud, RESHAPE, ALWAYS, &RequestMishap::CONFLICT);
    let history = Mutex::new(UnitHistory::default());
    let hour = Duration::from_hours(1);
    let running = timeout(hour, upgrading.run_into(&cloud, &history)).await;
    assert!(running.is_err(), "{running:?}");
    let history = history.into_inner().unwrap();
    assert_eq!(history.ends, Vec::<String>::new());
    let pauses: Vec<_> = history
        .passes
        .windows(2)
        .map(|passes| passes[1].began.saturating_sub(passes[0].ended))
        .collect();
    // Sixty at most, one a minute, once they have grown.
    assert!((50..150).contains(&pauses.len()), "{pauses:?}");
    assert!(pauses[0] < Duration::from_secs(1), "{pauses:?}");
    assert!(
        pauses[20..]
            .iter()
            .all(|pause| *pause >= Duration::from_secs(30))
    );
    assert!(history.failures().all(|why| why.contains("409")));
    // No unit moved meanwhile; the children that are waiting for theirs are filled as soon as the conflict is over.
    let meanwhile = upgrading.rows().await;
    assert_eq!(meanwhile.consumers, before.consumers);
    assert_eq!(
        meanwhile.providers["gpu-01"].inventories,
        before.providers["gpu-01"].inventories
    );

    let (rest, _) = upgrading.run(&upgrading.cloud).await;
    assert_eq!(rest, UnitEnd::Settled { held: vec![] });
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_changes_between_the_reading_and_the_reshape_is_read_again() {
    let upgrading = UpgradeNode::two_gpus().await;
    let (placement, root) = (upgrading.cloud.placement(), upgrading.root);
    let freed = RequestMishap::meanwhile(move || {
        let placement = placement.clone();
        async move {
            placement.delete_allocations(consumer(5)).await.unwrap();
            claim(&placement, vec![guest_claim(5, root, 1)]).await;
        }
    });
    let cloud = mishap(&upgrading.cloud, RESHAPE, 0..1, &freed);
    let life = upgrading.node.start(&cloud).await.unwrap();
    assert_eq!(life.started.reshapes.len(), 1);
    assert_eq!(count(&cloud.take_requests(), RESHAPE), 2);
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn a_reshape_that_is_forbidden_names_the_role_and_leaves_no_children() {
    let upgrading = UpgradeNode::two_gpus().await;
    let before = upgrading.rows().await;
    let forbidden = RequestMishap::Refused(403, "placement.undefined_code");
    let cloud = mishap(&upgrading.cloud, RESHAPE, ALWAYS, &forbidden);
    let (rest, _) = upgrading.run(&cloud).await;
    let UnitEnd::Stopped { exit, reason } = rest else {
        panic!("{rest:?}");
    };
    assert_eq!(exit, Exit::ReshapeFailed);
    for expected in [
        "ReshapeFailed",
        "POST /reshaper with 403",
        "another one needs the account of a user",
    ] {
        assert!(reason.contains(expected), "{reason}");
    }
    assert_eq!(upgrading.rows().await.difference(&before), "");

    let (rest, _) = upgrading.run(&upgrading.cloud).await;
    assert_eq!(rest, UnitEnd::Settled { held: vec![] });
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_reshape_whose_children_may_not_be_deleted_either_names_both() {
    let upgrading = UpgradeNode::two_gpus().await;
    let forbidden = RequestMishap::Refused(403, "placement.undefined_code");
    let cloud = mishap(&upgrading.cloud, RESHAPE, ALWAYS, &forbidden);
    let delete = "DELETE /resource_providers/{uuid}";
    let cloud = mishap(&cloud, delete, ALWAYS, &forbidden);
    let (rest, _) = upgrading.run(&cloud).await;
    let UnitEnd::Stopped { exit, reason } = rest else {
        panic!("{rest:?}");
    };
    assert_eq!(exit, Exit::ReshapeFailed);
    let children = [0, 1].map(|n| two_gpus().gpu_provider(n));
    for expected in [
        "POST /reshaper with 403",
        "another one needs the account of a user",
        children[0].as_str(),
        children[1].as_str(),
    ] {
        assert!(reason.contains(expected), "{reason}");
    }
    let (rest, _) = upgrading.run(&upgrading.cloud).await;
    assert_eq!(rest, UnitEnd::Settled { held: vec![] });
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn a_reshape_that_is_only_answered_as_done_is_detected_and_leaves_no_children() {
    let upgrading = UpgradeNode::two_gpus().await;
    let before = upgrading.rows().await;
    let cloud = mishap(&upgrading.cloud, RESHAPE, ALWAYS, &RequestMishap::Pretended);
    let (rest, _) = upgrading.run(&cloud).await;
    let UnitEnd::Stopped { exit, reason } = rest else {
        panic!("{rest:?}");
    };
    assert_eq!(exit, Exit::ReshapeFailed);
    assert!(reason.contains("its tree is unchanged"), "{reason}");
    assert_eq!(upgrading.rows().await.difference(&before), "");
}

#[tokio::test(start_paused = true)]
async fn a_reshape_that_meets_three_writers_in_a_row_is_done_in_the_same_pass() {
    let upgrading = UpgradeNode::two_gpus().await;
    let cloud = mishap(&upgrading.cloud, RESHAPE, 0..3, &RequestMishap::CONFLICT);
    let life = upgrading.node.start(&cloud).await.unwrap();
    assert_eq!(life.started.reshapes.len(), 1);
    assert_eq!(count(&cloud.take_requests(), RESHAPE), 4);
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn a_trait_conflict_just_after_the_reshape_does_not_reshape_again() {
    let upgrading = UpgradeNode::two_gpus().await;
    let traits = "PUT /resource_providers/{uuid}/traits";
    let cloud = mishap(&upgrading.cloud, traits, 0..1, &RequestMishap::CONFLICT);
    let life = upgrading.node.start(&cloud).await.unwrap();
    assert_eq!(life.started.reshapes.len(), 1);
    assert_eq!(count(&cloud.take_requests(), RESHAPE), 1);
    let rows = upgrading.rows().await;
    UpgradeNode::assert_each_on_its_gpu(&rows);
    assert!(
        rows.providers
            .values()
            .all(|row| row.traits.contains("OWNER_NOVA"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_holds_nothing_but_a_virtual_gpu_moves_too() {
    let host = Host::new("gpu-01").gpu(4).guest(0, &[0]);
    let only = |root| vec![Claim::of(consumer(0)).and(root, &ResourceClass::VGPU, 1)];
    let upgrading = UpgradeNode::of(&flat(&host), &host, only).await;
    let life = upgrading.node.start(&upgrading.cloud).await.unwrap();
    assert_eq!(life.started.held, []);
    let gpu = format!("{} VGPU", host.gpu_provider(0));
    assert_eq!(
        upgrading.rows().await.held_by(consumer(0)),
        places(&[(&gpu, 1)])
    );
}

#[tokio::test(start_paused = true)]
async fn units_can_move_to_a_class_that_placement_does_not_know_yet() {
    let old = Host::new("node")
        .custom("CUSTOM_CARD", &[], 4)
        .guest(0, &[]);
    let new = Host::new("node").custom("CUSTOM_NEW_CARD", &["CUSTOM_CARD"], 4);
    let new = new.guest(0, &[]);
    let card: ResourceClass = "CUSTOM_CARD".parse().unwrap();
    let claims = |root| vec![Claim::of(consumer(0)).and(root, &card, 3)];
    let upgrading = UpgradeNode::of(&old, &new, claims).await;
    upgrading.node.start(&upgrading.cloud).await.unwrap();
    let rows = upgrading.rows().await;
    assert_eq!(
        rows.held_by(consumer(0)),
        places(&[("node CUSTOM_NEW_CARD", 3)])
    );
    assert!(
        !rows.providers["node"]
            .inventories
            .contains_key("CUSTOM_CARD")
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_name_used_elsewhere_refuses_the_reshape_and_leaves_no_children() {
    let upgrading = UpgradeNode::two_gpus().await;
    // The second child's: the first is made before.
    let taken = two_gpus().gpu_provider(1);
    let squatter = Uuid::from_u128(0x59).into();
    let placement = upgrading.cloud.placement();
    add(&placement, squatter, taken.as_str(), None, &[], &[]).await;
    let before = upgrading.rows().await;
    let (rest, _) = upgrading.run(&upgrading.cloud).await;
    let UnitEnd::Stopped { exit, reason } = rest else {
        panic!("{rest:?}");
    };
    assert_eq!(exit, Exit::ReshapeFailed);
    assert!(reason.contains(taken.as_str()), "{reason}");
    assert!(reason.contains("409"), "{reason}");
    assert_eq!(upgrading.rows().await.difference(&before), "");

    placement.delete_provider(squatter).await.unwrap();
    let (rest, _) = upgrading.run(&upgrading.cloud).await;
    assert_eq!(rest, UnitEnd::Settled { held: vec![] });
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_keeps_children_that_existed_before() {
    let upgrading = UpgradeNode::two_gpus().await;
    let gpu = two_gpus().gpu_provider(0);
    let child = upgrading.root.child(&gpu);
    let inventory = [(ResourceClass::VGPU, 4)];
    let (placement, root) = (upgrading.cloud.placement(), Some(upgrading.root));
    add(&placement, child, gpu.as_str(), root, &inventory, &[]).await;
    let before = upgrading.rows().await;
    let malformed = RequestMishap::Refused(400, "placement.undefined_code");
    let cloud = mishap(&upgrading.cloud, RESHAPE, ALWAYS, &malformed);
    let (rest, _) = upgrading.run(&cloud).await;
    assert!(
        matches!(
            rest,
            UnitEnd::Stopped {
                exit: Exit::ReshapeFailed,
                ..
            }
        ),
        "{rest:?}"
    );
    assert_eq!(upgrading.rows().await.difference(&before), "");
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_tick_is_retried_and_not_fatal_to_the_process() {
    let host = two_gpus();
    let upgrading = UpgradeNode::of(&host, &host, |_| Vec::new()).await;
    let forbidden = RequestMishap::Refused(403, "placement.undefined_code");
    let traits = "PUT /resource_providers/{uuid}/traits";
    let cloud = mishap(&upgrading.cloud, traits, 0..2, &forbidden);
    let mut life = upgrading.node.start(&cloud).await.unwrap();
    upgrading.node.driver.show(&host.quality("CUSTOM_FAST"));
    for _ in 0..2 {
        let error = life.tick(&upgrading.node).await.unwrap_err();
        assert!(!matches!(error, TickError::ReshapeNeeded(_)), "{error}");
    }
    life.tick(&upgrading.node).await.unwrap();
    let rows = upgrading.rows().await;
    assert!(rows.providers["gpu-01"].traits.contains("CUSTOM_FAST"));
}

#[tokio::test(start_paused = true)]
async fn a_consumer_released_during_the_read_is_not_restored() {
    for line in ["GET /allocations/{consumer}", RESHAPE] {
        let upgrading = UpgradeNode::two_gpus().await;
        let placement = upgrading.cloud.placement();
        let freed = RequestMishap::meanwhile(move || {
            let placement = placement.clone();
            async move {
                placement.delete_allocations(consumer(5)).await.unwrap();
            }
        });
        let cloud = mishap(&upgrading.cloud, line, 0..1, &freed);
        let (rest, history) = upgrading.run(&cloud).await;
        assert_eq!(rest, UnitEnd::Settled { held: vec![] });
        assert_eq!(history.ends, Vec::<String>::new());
        let rows = upgrading.rows().await;
        assert_eq!(rows.held_by(consumer(5)), places(&[]));
        let gpu = format!("{} VGPU", two_gpus().gpu_provider(0));
        assert_eq!(rows.held_by(consumer(4)).get(&gpu), Some(&1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_arrives_between_the_reading_and_the_reshape_is_not_lost() {
    let upgrading = UpgradeNode::two_gpus().await;
    let (placement, root) = (upgrading.cloud.placement(), upgrading.root);
    let arrival = RequestMishap::meanwhile(move || {
        let placement = placement.clone();
        async move { claim(&placement, vec![guest_claim(6, root, 1)]).await }
    });
    let cloud = mishap(&upgrading.cloud, RESHAPE, 0..1, &arrival);
    let late = two_gpus().guest(6, &[1]);
    upgrading.node.driver.show(&late);
    let life = upgrading.node.start(&cloud).await.unwrap();
    assert_eq!(life.started.held, []);
    let rows = upgrading.rows().await;
    UpgradeNode::assert_each_on_its_gpu(&rows);
    let gpu = format!("{} VGPU", late.gpu_provider(1));
    assert_eq!(rows.held_by(consumer(6)).get(&gpu), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn two_starts_of_one_node_side_by_side_lose_and_double_nothing() {
    let upgrading = UpgradeNode::two_gpus().await;
    let run = || upgrading.run(&upgrading.cloud);
    let (one, other) = tokio::join!(run(), run());
    for (rest, history) in [one, other] {
        assert_eq!(rest, UnitEnd::Settled { held: vec![] }, "{history:#?}");
    }
    UpgradeNode::assert_each_on_its_gpu(&upgrading.rows().await);
}

//! Claims that were moved, deleted or applied late while their conductor was blocked.

use berth_conductor::{Conductor, GuestRunOutcome};
use berth_model::{ConsumerAllocations, ConsumerUuid, ProviderUuid};
use berth_tests::boot::{AgentBehaviour, BootFault, BootStage, EffectSide, gpu};

use super::{guest, request};

/// A guest that its agent accepted before it became unreachable.
async fn standing_still(stage: &BootStage) -> Conductor {
    stage.effects.begin(None);
    stage.agent.is(AgentBehaviour::Slow);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    stage.wait_for_build(&conductor, guest(1)).await;
    stage.agent.is(AgentBehaviour::Away);
    stage.wait_until_blocked(&conductor, guest(1)).await;
    stage.agent.is(AgentBehaviour::Well);
    conductor
}

async fn held(stage: &BootStage, by: ConsumerUuid) -> ConsumerAllocations {
    let held = stage.placement().allocations(by).await.unwrap();
    held.expect("an allocation")
}

/// The device among what a guest holds.
fn device_of(held: &ConsumerAllocations) -> ProviderUuid {
    let mut providers = held.resources.keys().map(|(provider, _)| *provider);
    let devices: Vec<_> = (0..8).map(gpu).collect();
    providers.find(|it| devices.contains(it)).expect("a device")
}

/// The same, of another device.
fn moved(held: &ConsumerAllocations, from: ProviderUuid, to: ProviderUuid) -> ConsumerAllocations {
    let mut moved = held.clone();
    moved.resources = (moved.resources.into_iter())
        .map(|((provider, class), amount)| match provider == from {
            true => ((to, class), amount),
            false => ((provider, class), amount),
        })
        .collect();
    moved
}

fn other_than(device: ProviderUuid) -> ProviderUuid {
    (0..8).map(gpu).find(|it| *it != device).expect("another")
}

/// As a reshape of the agent's tree does it.
#[tokio::test]
async fn a_guest_with_a_moved_claim_is_built_nevertheless_and_releases_it_at_its_end() {
    let stage = BootStage::new().await;
    let conductor = standing_still(&stage).await;
    let before = held(&stage, guest(1)).await;
    let device = device_of(&before);
    let after = moved(&before, device, other_than(device));
    let placement = stage.placement();
    placement.put_allocations(guest(1), &after).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    assert_eq!(conductor.show(guest(1)).await.unwrap().attempt, 1);
    assert_eq!(held(&stage, guest(1)).await.resources, after.resources);
    conductor.delete(guest(1)).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    stage.judge().await;
}

#[tokio::test]
async fn a_guest_with_a_deleted_claim_and_no_room_left_releases_its_devices_before_it_is_placed_again()
 {
    let stage = BootStage::new().await;
    let conductor = standing_still(&stage).await;
    let theirs = ConsumerAllocations {
        generation: None,
        ..held(&stage, guest(1)).await
    };
    stage.forget_allocations(guest(1)).await;
    let placement = stage.placement();
    placement.put_allocations(guest(9), &theirs).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let record = conductor.show(guest(1)).await.unwrap();
    assert_eq!((record.attempt, record.failures.len()), (2, 1));
    let ours = held(&stage, guest(1)).await;
    assert_ne!(device_of(&ours), device_of(&theirs));
    assert_eq!(held(&stage, guest(9)).await.resources, theirs.resources);
    stage.forget_allocations(guest(9)).await;
    stage.judge().await;
}

#[tokio::test]
async fn a_claim_that_takes_effect_after_it_was_given_up_is_released() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let history = stage.effects.history();
    let claim = |what: &String| what.starts_with("placement PUT /allocations");
    let at = history.iter().position(claim).expect("a claim") + 1;

    let point = EffectSide { at, after: false };
    stage.effects.begin(Some((point, BootFault::Error)));
    let conductor = stage.conductor();
    conductor.create(&request(2, "gpu")).await.unwrap();
    stage.wait_until_blocked(&conductor, guest(2)).await;
    // An earlier claim of other devices than the recorded ones.
    let record = conductor.show(guest(2)).await.unwrap();
    let chosen = record.chosen(record.attempt).expect("a choice");
    let mut late = ConsumerAllocations {
        generation: None,
        ..held(&stage, guest(1)).await
    };
    late.resources = chosen.candidate.resources().clone();
    let device = device_of(&late);
    let taken = device_of(&held(&stage, guest(1)).await);
    let free = (0..8).map(gpu).find(|it| ![device, taken].contains(it));
    let late = moved(&late, device, free.expect("a third"));
    let placement = stage.placement();
    placement.put_allocations(guest(2), &late).await.unwrap();
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.judge().await;
}

/// The effect by which a guest like the n-th is claimed.
async fn crossing_of_a_claim(stage: &BootStage) -> usize {
    stage.effects.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let history = stage.effects.history();
    let claim = |what: &String| what.starts_with("placement PUT /allocations");
    history.iter().position(claim).expect("a claim") + 1
}

/// A blocked guest with an unknown claim result, and its request.
async fn unheard(stage: &BootStage, n: u32) -> (Conductor, ConsumerAllocations) {
    let at = crossing_of_a_claim(stage).await;
    let point = EffectSide { at, after: false };
    stage.effects.begin(Some((point, BootFault::Error)));
    let conductor = stage.conductor();
    conductor.create(&request(n, "gpu")).await.unwrap();
    stage.wait_until_blocked(&conductor, guest(n)).await;
    let record = conductor.show(guest(n)).await.unwrap();
    let chosen = record.chosen(record.attempt).expect("a choice");
    let asked = ConsumerAllocations {
        generation: None,
        resources: chosen.candidate.resources().clone(),
        ..held(stage, guest(1)).await
    };
    (conductor, asked)
}

#[tokio::test]
async fn a_late_claim_of_a_deleted_guest_is_released_and_blocks_the_uuid_until_then() {
    let stage = BootStage::new().await;
    let (conductor, asked) = unheard(&stage, 2).await;
    conductor.delete(guest(2)).await.unwrap();
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Gone), "{end:?}");
    assert!(stage.owns(guest(2)).await);
    let placement = stage.placement();
    placement.put_allocations(guest(2), &asked).await.unwrap();
    assert_eq!(conductor.collect_late_claims().await, Ok(1));
    assert_eq!(placement.allocations(guest(2)).await.unwrap(), None);
    assert_eq!(conductor.collect_late_claims().await, Ok(0));
    assert!(!stage.owns(guest(2)).await);
    stage.judge().await;
}

const CLAIM: &str = "placement PUT /allocations";

/// All other devices are allocated, so only its own claim's room is left.
#[tokio::test]
async fn a_claim_that_takes_effect_during_the_next_search_does_not_fail_it() {
    let stage = BootStage::new().await;
    let (conductor, asked) = unheard(&stage, 2).await;
    let theirs = held(&stage, guest(1)).await;
    let [used, wanted] = [device_of(&theirs), device_of(&asked)];
    let mut theirs = theirs;
    theirs.generation = None;
    theirs.resources.retain(|(it, _), _| *it == used);
    let ((_, class), amount) = theirs.resources.pop_first().expect("a device");
    let free = (0..8).map(gpu).filter(|it| ![used, wanted].contains(it));
    theirs.resources = free.map(|it| ((it, class.clone()), amount)).collect();
    let placement = stage.placement();
    placement.put_allocations(guest(9), &theirs).await.unwrap();
    let candidates = "placement GET /allocation_candidates";
    let so_far = stage.effects.history();
    let so_far = so_far
        .iter()
        .filter(|it| it.starts_with(candidates))
        .count();
    let late = placement.clone();
    stage
        .effects
        .before_nth(so_far + 1, candidates, async move {
            late.put_allocations(guest(2), &asked).await.unwrap();
        });
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    assert_eq!(conductor.show(guest(2)).await.unwrap().attempt, 2);
    stage.forget_allocations(guest(9)).await;
    stage.judge().await;
}

/// The first was not answered, the second was and could not be built on; the third meets the first.
#[tokio::test]
async fn a_claim_of_an_earlier_attempt_is_released_when_the_next_one_finds_it() {
    let stage = BootStage::new().await;
    let (conductor, asked) = unheard(&stage, 2).await;
    stage.agent.is(AgentBehaviour::CannotBuildOne);
    let late = stage.placement();
    stage.effects.before_nth(3, CLAIM, async move {
        late.put_allocations(guest(2), &asked).await.unwrap();
    });
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    assert_eq!(conductor.show(guest(2)).await.unwrap().attempt, 3);
    stage.judge().await;
}

#[tokio::test]
async fn a_claim_that_was_moved_before_a_bind_is_released_and_repeated() {
    let stage = BootStage::new().await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let history = stage.effects.history();
    let arqs = |what: &String| what.starts_with("accelerator POST");
    let at = history.iter().position(arqs).expect("requests are made") + 1;
    let point = EffectSide { at, after: false };
    stage.effects.begin(Some((point, BootFault::Error)));
    let conductor = stage.conductor();
    conductor.create(&request(2, "gpu")).await.unwrap();
    stage.wait_until_blocked(&conductor, guest(2)).await;
    let before = held(&stage, guest(2)).await;
    let taken = [device_of(&held(&stage, guest(1)).await), device_of(&before)];
    let free = (0..8).map(gpu).find(|it| !taken.contains(it));
    let after = moved(&before, taken[1], free.expect("a third"));
    let placement = stage.placement();
    placement.put_allocations(guest(2), &after).await.unwrap();
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    assert_eq!(conductor.show(guest(2)).await.unwrap().attempt, 2);
    stage.judge().await;
}

/// The first release was not answered, and is done once the guest runs on what it claimed next.
#[tokio::test]
async fn a_release_after_the_claim_of_the_next_attempt_repeats_that_claim() {
    let stage = BootStage::new().await;
    let release = |what: &String| what.starts_with("placement DELETE /allocations");
    stage.effects.begin(None);
    stage.agent.is(AgentBehaviour::CannotBuildOne);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let history = stage.effects.history();
    let at = history.iter().position(release).expect("a release") + 1;
    let point = EffectSide { at, after: false };
    stage.effects.begin(Some((point, BootFault::Error)));
    stage.agent.is(AgentBehaviour::CannotBuildOne);
    let conductor = stage.conductor();
    conductor.create(&request(2, "gpu")).await.unwrap();
    stage.wait_until_blocked(&conductor, guest(2)).await;
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let history = stage.effects.history();
    assert_eq!(history.iter().filter(|it| release(it)).count(), 2);
    let before = held(&stage, guest(2)).await;
    stage.forget_allocations(guest(2)).await;
    assert_eq!(conductor.collect_late_claims().await, Ok(1));
    let after = held(&stage, guest(2)).await;
    assert_eq!(after.resources, before.resources);
    stage.judge().await;
}

/// The claim was deleted, and the result of the repeated claim is unknown.
#[tokio::test]
async fn a_repeated_late_claim_of_a_deleted_guest_is_released() {
    let stage = BootStage::new().await;
    let conductor = standing_still(&stage).await;
    let asked = ConsumerAllocations {
        generation: None,
        ..held(&stage, guest(1)).await
    };
    stage.forget_allocations(guest(1)).await;
    let effects = stage.effects.clone();
    let history = effects.history();
    let claims = history.iter().filter(|what| what.starts_with(CLAIM));
    let (next, refused) = (claims.count() + 1, effects.clone());
    effects.before_nth(next, CLAIM, async move { refused.refuse_last() });
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Blocked { .. }), "{end:?}");
    conductor.delete(guest(1)).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Gone), "{end:?}");
    assert!(stage.owns(guest(1)).await);
    let placement = stage.placement();
    placement.put_allocations(guest(1), &asked).await.unwrap();
    assert_eq!(conductor.collect_late_claims().await, Ok(1));
    assert_eq!(placement.allocations(guest(1)).await.unwrap(), None);
    stage.judge().await;
}

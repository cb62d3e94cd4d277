//! Claims that were moved, taken away or came late while their conductor stood still.

use berth_conductor::{Conductor, GuestRunOutcome};
use berth_model::{ConsumerAllocations, ConsumerUuid, ProviderUuid};
use berth_tests::boot::{BootStage, Fault, Mood, Point, gpu};

use super::{guest, request};

/// A guest whose agent has accepted it and is away since.
async fn standing_still(stage: &BootStage) -> Conductor {
    stage.crossings.begin(None);
    stage.agent.is(Mood::Slow);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    stage.wait_for_build(&conductor, guest(1)).await;
    stage.agent.is(Mood::Away);
    stage.wait_until_stuck(&conductor, guest(1)).await;
    stage.agent.is(Mood::Well);
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
async fn a_guest_whose_claim_was_moved_since_is_built_all_the_same_and_goes_with_it() {
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
async fn a_guest_whose_claim_was_deleted_and_whose_room_is_taken_gives_back_its_devices_before_it_is_placed_anew()
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
async fn a_claim_that_comes_after_it_was_given_up_is_taken_back() {
    let stage = BootStage::new().await;
    stage.crossings.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let history = stage.crossings.history();
    let claim = |what: &String| what.starts_with("placement PUT /allocations");
    let at = history.iter().position(claim).expect("a claim") + 1;

    let point = Point { at, after: false };
    stage.crossings.begin(Some((point, Fault::Error)));
    let conductor = stage.conductor();
    conductor.create(&request(2, "gpu")).await.unwrap();
    stage.wait_until_stuck(&conductor, guest(2)).await;
    // An earlier one, of other devices than those that were written down last.
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

/// The crossing at which a guest like the n-th is claimed.
async fn crossing_of_a_claim(stage: &BootStage) -> usize {
    stage.crossings.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let history = stage.crossings.history();
    let claim = |what: &String| what.starts_with("placement PUT /allocations");
    history.iter().position(claim).expect("a claim") + 1
}

/// A guest that stands still because nobody said what became of its claim, and what it asked for.
async fn unheard(stage: &BootStage, n: u32) -> (Conductor, ConsumerAllocations) {
    let at = crossing_of_a_claim(stage).await;
    let point = Point { at, after: false };
    stage.crossings.begin(Some((point, Fault::Error)));
    let conductor = stage.conductor();
    conductor.create(&request(n, "gpu")).await.unwrap();
    stage.wait_until_stuck(&conductor, guest(n)).await;
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
async fn a_claim_that_comes_after_its_guest_was_deleted_is_taken_back_and_nobody_else_may_have_the_uuid_until_then()
 {
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

/// All other devices are somebody else's: there is no room but what its own claim takes.
#[tokio::test]
async fn a_claim_that_comes_while_another_place_is_looked_for_is_no_reason_to_find_none() {
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
    let so_far = stage.crossings.history();
    let so_far = so_far
        .iter()
        .filter(|it| it.starts_with(candidates))
        .count();
    let late = placement.clone();
    stage
        .crossings
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
async fn a_claim_of_an_attempt_before_is_taken_back_where_the_next_one_meets_it() {
    let stage = BootStage::new().await;
    let (conductor, asked) = unheard(&stage, 2).await;
    stage.agent.is(Mood::CannotBuildOne);
    let late = stage.placement();
    stage.crossings.before_nth(3, CLAIM, async move {
        late.put_allocations(guest(2), &asked).await.unwrap();
    });
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    assert_eq!(conductor.show(guest(2)).await.unwrap().attempt, 3);
    stage.judge().await;
}

#[tokio::test]
async fn a_claim_that_was_moved_before_anything_is_bound_to_it_is_given_back_and_made_anew() {
    let stage = BootStage::new().await;
    stage.crossings.begin(None);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let history = stage.crossings.history();
    let arqs = |what: &String| what.starts_with("accelerator POST");
    let at = history.iter().position(arqs).expect("requests are made") + 1;
    let point = Point { at, after: false };
    stage.crossings.begin(Some((point, Fault::Error)));
    let conductor = stage.conductor();
    conductor.create(&request(2, "gpu")).await.unwrap();
    stage.wait_until_stuck(&conductor, guest(2)).await;
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
async fn a_release_that_comes_after_the_next_attempt_claimed_has_its_claim_made_again() {
    let stage = BootStage::new().await;
    let release = |what: &String| what.starts_with("placement DELETE /allocations");
    stage.crossings.begin(None);
    stage.agent.is(Mood::CannotBuildOne);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    conductor.reconcile_guest(guest(1)).await;
    let history = stage.crossings.history();
    let at = history.iter().position(release).expect("a release") + 1;
    let point = Point { at, after: false };
    stage.crossings.begin(Some((point, Fault::Error)));
    stage.agent.is(Mood::CannotBuildOne);
    let conductor = stage.conductor();
    conductor.create(&request(2, "gpu")).await.unwrap();
    stage.wait_until_stuck(&conductor, guest(2)).await;
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let history = stage.crossings.history();
    assert_eq!(history.iter().filter(|it| release(it)).count(), 2);
    let before = held(&stage, guest(2)).await;
    stage.forget_allocations(guest(2)).await;
    assert_eq!(conductor.collect_late_claims().await, Ok(1));
    let after = held(&stage, guest(2)).await;
    assert_eq!(after.resources, before.resources);
    stage.judge().await;
}

/// What was claimed is gone, and nobody heard what became of the claim that was made anew.
#[tokio::test]
async fn a_claim_that_was_made_anew_and_comes_after_its_guest_was_deleted_is_taken_back() {
    let stage = BootStage::new().await;
    let conductor = standing_still(&stage).await;
    let asked = ConsumerAllocations {
        generation: None,
        ..held(&stage, guest(1)).await
    };
    stage.forget_allocations(guest(1)).await;
    let crossings = stage.crossings.clone();
    let history = crossings.history();
    let claims = history.iter().filter(|what| what.starts_with(CLAIM));
    let (next, refused) = (claims.count() + 1, crossings.clone());
    crossings.before_nth(next, CLAIM, async move { refused.refuse_last() });
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

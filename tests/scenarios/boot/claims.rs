//! Claims that were moved, taken away or came late while their conductor stood still.

use berth_conductor::{Conductor, JourneyEnd};
use berth_model::{ConsumerAllocations, ConsumerUuid, ProviderUuid};
use berth_tests::boot::{BootStage, Fault, Mood, Point, gpu};

use super::{guest, request};

/// A guest whose agent has accepted it and is away since.
async fn standing_still(stage: &BootStage) -> Conductor {
    stage.crossings.begin(None);
    stage.agent.is(Mood::Slow);
    let conductor = stage.conductor();
    conductor.create(&request(1, "gpu")).await.unwrap();
    while !stage.agent.knows(guest(1)) {
        tokio::task::yield_now().await;
    }
    stage.agent.is(Mood::Away);
    while conductor.held(guest(1)).is_none() {
        tokio::task::yield_now().await;
    }
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
    let end = conductor.journey(guest(1)).await;
    assert!(matches!(end, JourneyEnd::Active), "{end:?}");
    assert_eq!(conductor.show(guest(1)).await.unwrap().attempt, 1);
    assert_eq!(held(&stage, guest(1)).await.resources, after.resources);
    conductor.delete(guest(1)).await.unwrap();
    conductor.journey(guest(1)).await;
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
    let end = conductor.journey(guest(1)).await;
    assert!(matches!(end, JourneyEnd::Active), "{end:?}");
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
    conductor.journey(guest(1)).await;
    let history = stage.crossings.history();
    let claim = |what: &String| what.starts_with("placement PUT /allocations");
    let at = history.iter().position(claim).expect("a claim") + 1;

    let point = Point { at, after: false };
    stage.crossings.begin(Some((point, Fault::Error)));
    let conductor = stage.conductor();
    conductor.create(&request(2, "gpu")).await.unwrap();
    while conductor.held(guest(2)).is_none() {
        tokio::task::yield_now().await;
    }
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
    let end = conductor.journey(guest(2)).await;
    assert!(matches!(end, JourneyEnd::Active), "{end:?}");
    stage.judge().await;
}

//! Guests booted and deleted through the real Placement, with its own candidates, mappings and claims.

use berth_conductor::{Conductor, GuestRunOutcome};
use berth_tests::boot::{BootStage, GPUS, guest, request};
use berth_tests::cloud::Cloud;
use berth_tests::peer::{PlacementSettings, RealPlacement};

async fn fails(conductor: &Conductor, number: u32, profile: &str) -> String {
    conductor.create(&request(number, profile)).await.unwrap();
    match conductor.reconcile_guest(guest(number)).await {
        GuestRunOutcome::Failed { reason } => reason,
        end => panic!("{end:?}"),
    }
}

#[tokio::test]
async fn guests_are_booted_until_no_device_is_left_and_deleted_again() {
    let placement = RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    let stage = BootStage::over(Cloud::at(&placement.url())).await;
    stage.effects.begin(None);
    let conductor = stage.conductor();
    let all = 1..=u32::from(GPUS);
    for number in all.clone() {
        conductor.create(&request(number, "gpu")).await.unwrap();
        let end = conductor.reconcile_guest(guest(number)).await;
        assert!(matches!(end, GuestRunOutcome::Active), "{number}: {end:?}");
    }
    stage.judge().await;
    let reason = fails(&conductor, 21, "gpu").await;
    assert!(reason.contains("no host has"), "{reason}");
    for number in all {
        conductor.delete(guest(number)).await.unwrap();
        let end = conductor.reconcile_guest(guest(number)).await;
        assert!(matches!(end, GuestRunOutcome::Gone), "{number}: {end:?}");
    }
    assert!(stage.holders().await.is_empty());
    for (number, profile, sentence) in [
        (22, "fast", "trait CUSTOM_FAST in group device_profile_0"),
        (23, "pair", "2 PGPU in group device_profile_0"),
    ] {
        let reason = fails(&conductor, number, profile).await;
        assert!(reason.contains(sentence), "{reason}");
    }
    conductor.create(&request(31, "two")).await.unwrap();
    assert!(matches!(
        conductor.reconcile_guest(guest(31)).await,
        GuestRunOutcome::Active
    ));
    stage.judge().await;
}

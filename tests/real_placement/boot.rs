//! Guests booted and deleted through the real Placement: candidates, mappings and claims are its own.

use berth_conductor::JourneyEnd;
use berth_tests::boot::{BootStage, GPUS, guest, request};
use berth_tests::cloud::Cloud;
use berth_tests::peer::{PlacementSettings, RealPlacement};

#[tokio::test]
async fn guests_are_booted_until_no_device_is_left_and_deleted_again() {
    let placement = RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    let stage = BootStage::over(Cloud::at(&placement.url())).await;
    stage.crossings.begin(None);
    let conductor = stage.conductor();
    let all = 1..=u32::from(GPUS);
    for number in all.clone() {
        conductor.create(&request(number, "gpu")).await.unwrap();
        let end = conductor.journey(guest(number)).await;
        assert!(matches!(end, JourneyEnd::Active), "{number}: {end:?}");
    }
    stage.judge().await;
    for (number, profile, sentence) in [
        (21, "gpu", "no host has"),
        (22, "fast", "trait CUSTOM_FAST in group device_profile_0"),
        (23, "pair", "2 PGPU in group device_profile_0"),
    ] {
        conductor.create(&request(number, profile)).await.unwrap();
        let end = conductor.journey(guest(number)).await;
        let JourneyEnd::Failed { reason } = end else {
            panic!("{end:?}");
        };
        assert!(reason.contains(sentence), "{reason}");
    }
    for number in all {
        conductor.delete(guest(number)).await.unwrap();
        let end = conductor.journey(guest(number)).await;
        assert!(matches!(end, JourneyEnd::Gone), "{number}: {end:?}");
    }
    assert!(stage.holders().await.is_empty());
    conductor.create(&request(31, "two")).await.unwrap();
    assert!(matches!(
        conductor.journey(guest(31)).await,
        JourneyEnd::Active
    ));
    stage.judge().await;
}

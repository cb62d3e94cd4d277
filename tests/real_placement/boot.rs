//! Guests booted and deleted through the real Placement, with its own candidates, mappings and claims.

use std::collections::BTreeSet;

use berth_conductor::{Conductor, GuestRunOutcome};
use berth_model::{Provider, ProviderName, ProviderUuid, ResourceClass, Trait};
use berth_tests::boot::{BootStage, GPUS, NODE, gpu, guest, request, root};
use berth_tests::claims::{Claim, claim};
use berth_tests::cloud::Cloud;
use berth_tests::host::consumer;
use berth_tests::peer::{PlacementSettings, RealPlacement};
use serde_json::json;

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

#[tokio::test]
async fn the_gpus_of_a_device_profile_are_of_one_link_group() {
    let placement = RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    let stage = BootStage::over(Cloud::at(&placement.url())).await;
    let placement = stage.placement();
    // The first four GPUs are two pairs, and the others have no link.
    placement
        .ensure_trait(&Trait::CUSTOM_LINK_GROUP)
        .await
        .unwrap();
    for (group, pair) in [("left", [0, 2]), ("right", [1, 3])] {
        let name = ProviderName::new(&format!("{NODE}_link-{group}")).unwrap();
        let made = Provider::child(root().child(&name), name, root());
        let made = placement.create_provider(&made).await.unwrap();
        let (uuid, generation) = (made.uuid(), made.generation.unwrap());
        let marks = [Trait::CUSTOM_LINK_GROUP].into();
        placement
            .put_traits(uuid, generation, &marks)
            .await
            .unwrap();
        for n in pair {
            let gpu = placement.provider(gpu(n)).await.unwrap().unwrap();
            let placed = placement
                .place_provider_under(gpu.uuid(), &gpu.name, uuid)
                .await;
            placed.unwrap();
        }
    }
    let linked = json!({"resources:PGPU": "1", "accel:same_link_group": "pair"});
    let profile = json!([{"name": "linked", "groups": [linked, linked]}]);
    stage.ask("POST", "/v2/device_profiles", profile).await;
    let conductor = stage.conductor();
    // One GPU of each pair is free.
    let [left, right] =
        [0, 1].map(|n| Claim::of(consumer(u32::from(n))).and(gpu(n), &ResourceClass::PGPU, 1));
    claim(&placement, vec![left, right]).await;
    let reason = fails(&conductor, 1, "linked").await;
    assert!(
        reason.contains("no host has 2 free devices in one link group"),
        "{reason}"
    );
    placement.delete_allocations(consumer(1)).await.unwrap();
    conductor.create(&request(2, "linked")).await.unwrap();
    let end = conductor.reconcile_guest(guest(2)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let held = placement.allocations(guest(2)).await.unwrap().unwrap();
    let gpus = held
        .resources
        .keys()
        .filter(|(_, class)| *class == ResourceClass::PGPU);
    let gpus: BTreeSet<ProviderUuid> = gpus.map(|(provider, _)| *provider).collect();
    assert_eq!(gpus, [1, 3].map(gpu).into());
    placement.delete_allocations(consumer(0)).await.unwrap();
    stage.judge().await;
}

//! Planted bugs on guests' way: each must be caught, by the invariant it breaks.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_model::audit::{InvariantId, audit_at_rest};
use berth_tests::guest_cloud::{Bug, GuestCloud, guest};
use serde_json::Value;

use super::journeys::{boot, delete};
use super::sweep::virtually;

/// What the audit finds a while after something went wrong.
async fn broken(cloud: &GuestCloud) -> BTreeSet<InvariantId> {
    tokio::time::sleep(Duration::from_mins(3)).await;
    let worlds = cloud.worlds(None).await;
    let broken = audit_at_rest(&worlds);
    cloud.end();
    broken.iter().map(|violation| violation.invariant).collect()
}

#[test]
fn a_reset_that_is_told_and_not_made_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        boot(&cloud, 1, "two").await;
        cloud.hardware.plant(Bug::SkipsResets);
        delete(&cloud, 1).await;
        assert!(broken(&cloud).await.contains(&InvariantId::S5));
    });
}

#[test]
fn a_guest_with_a_device_less_than_is_bound_for_it_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        cloud.hardware.plant(Bug::GivesFewer);
        boot(&cloud, 1, "two").await;
        assert!(broken(&cloud).await.contains(&InvariantId::S4));
    });
}

#[test]
fn a_guest_that_outlives_its_delete_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        boot(&cloud, 1, "two").await;
        cloud.hardware.plant(Bug::KeepsGuests);
        let deleting = tokio::time::timeout(Duration::from_mins(10), delete(&cloud, 1));
        deleting.await.ok();
        let broken = broken(&cloud).await;
        assert!(
            broken.contains(&InvariantId::L1) || broken.contains(&InvariantId::L8),
            "{broken:?}"
        );
    });
}

#[test]
fn a_request_that_somebody_left_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        let body = serde_json::json!({"device_profile_name": "gpu"});
        cloud.ask("POST", "/v2/accelerator_requests", body).await;
        assert!(broken(&cloud).await.contains(&InvariantId::L3));
    });
}

#[test]
fn a_guest_whose_request_was_deleted_under_it_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        boot(&cloud, 1, "gpu").await;
        let path = format!("/v2/accelerator_requests?instance={}", guest(1));
        cloud.ask("DELETE", &path, Value::Null).await;
        let worlds = cloud.worlds(None).await;
        let found = audit_at_rest(&worlds);
        cloud.end();
        let found: BTreeSet<_> = found.iter().map(|violation| violation.invariant).collect();
        assert!(found.contains(&InvariantId::S4), "{found:?}");
    });
}

//! Planted bugs in the management of guests: each must be caught by the invariant that it breaks. An invariant that no
//! bug of a running cloud breaks has its tests next to the audit itself (`core/model`).

use std::collections::BTreeSet;
use std::time::Duration;

use berth_fault_injection::{EffectPhase, Fault, FaultRepetition};
use berth_invariants::{InvariantId, Violation, audit_at_rest};
use berth_model::ResourceClass;
use berth_tests::fault::busy;
use berth_tests::guest_cloud::{
    CloudFaultPoint, CloudProcess, GuestCloud, NODE, PlantedBug, guest,
};
use berth_virt::VirtDriver as _;
use serde_json::Value;

use super::scenarios::{GuestOutcome, GuestScenario, SERVER, boot, boot_in, delete};
use super::servers;
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
fn a_reset_that_is_reported_but_not_done_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        boot(&cloud, 1, "two").await;
        cloud.hardware.plant(PlantedBug::SkipsResets);
        delete(&cloud, 1).await;
        assert!(broken(&cloud).await.contains(&InvariantId::S5));
    });
}

#[test]
fn a_guest_with_a_device_less_than_is_bound_for_it_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        cloud.hardware.plant(PlantedBug::GivesFewer);
        boot(&cloud, 1, "two").await;
        assert!(broken(&cloud).await.contains(&InvariantId::S4));
    });
}

#[test]
fn a_guest_that_outlives_its_delete_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        boot(&cloud, 1, "two").await;
        cloud.hardware.plant(PlantedBug::KeepsGuests);
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
fn a_left_over_request_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        let body = serde_json::json!({"device_profile_name": "gpu"});
        cloud.ask("POST", "/v2/accelerator_requests", body).await;
        assert!(broken(&cloud).await.contains(&InvariantId::L3));
    });
}

/// What the whole sweep tries too, of which the tests run a sample.
#[test]
fn a_duplicated_post_of_requests_is_caught_and_leaves_nothing_after_the_grace_time() {
    // What was made before the clock was set back is dated an hour ahead.
    for clock in [0, -3600] {
        virtually(comes_twice(clock));
    }
}

async fn comes_twice(clock: i64) {
    let cloud = GuestCloud::new().await;
    let point = CloudFaultPoint {
        process: CloudProcess::Conductor,
        crossing: "http POST /v2/accelerator_requests".to_owned(),
        nth: 1,
        moment: EffectPhase::Before,
        fault: Fault::Twice,
        repetition: FaultRepetition::Once,
    };
    cloud.effects.arm(std::slice::from_ref(&point));
    boot(&cloud, 1, "two").await;
    assert_eq!(cloud.effects.struck(), [point]);
    let found = audit_at_rest(&cloud.worlds(None).await);
    let left = |it: &&Violation| it.invariant == InvariantId::L3;
    assert_eq!(found.iter().filter(left).count(), 2, "{found:?}");
    cloud.clock.jump(clock).await;
    let wrong = cloud.rests(None).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(cloud.held_by(guest(1)).await.len(), 2);
    cloud.end();
}

#[test]
fn a_guest_with_a_deleted_request_is_caught() {
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

/// An undo that forgets the server group.
#[test]
fn a_deleted_guest_that_stays_in_its_group_is_caught() {
    virtually(async {
        let cloud = GuestCloud::new().await;
        cloud.keep_members();
        let apart = Some(cloud.apart);
        assert_eq!(boot_in(apart, &cloud, 1, "gpu").await, GuestOutcome::Done);
        assert_eq!(audit_at_rest(&cloud.worlds(None).await), []);
        delete(&cloud, 1).await;
        // The next one would be rejected for it.
        assert_eq!(boot_in(apart, &cloud, 2, "gpu").await, GuestOutcome::Undone);
        assert!(broken(&cloud).await.contains(&InvariantId::L9));
    });
}

/// A row that is deleted before its guest: no client could delete the guest.
#[test]
fn a_guest_without_its_row_in_the_compute_api_is_caught() {
    virtually(async {
        let cloud = GuestCloud::with_api().await;
        assert_eq!(servers::boot(&cloud, SERVER).await, GuestOutcome::Done);
        assert!(cloud.rests(None).await.is_empty());
        cloud.forget_servers().await;
        let patience = Duration::from_mins(3);
        let wrong = cloud.rests_within(None, patience).await.join("\n");
        assert!(
            wrong.contains("the compute API does not list it"),
            "{wrong}"
        );
        assert!(wrong.contains("has no row of it"), "{wrong}");
        // Its client sees that it is gone, and it is not.
        assert_eq!(servers::delete(&cloud, SERVER).await, GuestOutcome::Done);
        let left = cloud.left_over().await.join("\n");
        for what in [
            "guest",
            "allocation of",
            "request",
            "the conductor's record of",
        ] {
            assert!(left.contains(what), "{left}");
        }
        assert!(broken(&cloud).await.contains(&InvariantId::L8));
    });
}

/// The guest is deleted past the API, which checks a settled server only when a client asks for it.
#[test]
fn a_row_of_a_deleted_guest_is_caught_until_a_client_asks_for_it() {
    virtually(async {
        let cloud = GuestCloud::with_api().await;
        assert_eq!(servers::boot(&cloud, SERVER).await, GuestOutcome::Done);
        let there = cloud.worlds(None).await.guests;
        let (uuid, _) = there.first_key_value().expect("a guest");
        let deleted = cloud.conductor().await.delete(*uuid).await;
        deleted.expect("the conductor knows it");
        let patience = Duration::from_mins(3);
        let wrong = cloud.rests_within(None, patience).await.join("\n");
        assert!(wrong.contains("the compute API lists guest"), "{wrong}");
        let left = cloud.left_over().await.join("\n");
        assert!(left.contains("the compute API's row of"), "{left}");
        cloud.servers_named(SERVER).await.expect("an answer");
        assert!(GuestScenario::ServerDelete.clear(&cloud).await.is_empty());
        cloud.end();
    });
}

/// The audit's immediate findings after a change to a cloud with one guest.
fn broken_by(plant: impl AsyncFnOnce(&GuestCloud)) -> BTreeSet<InvariantId> {
    virtually(async {
        let cloud = GuestCloud::new().await;
        boot(&cloud, 1, "two").await;
        let expected = cloud.tree().await;
        plant(&cloud).await;
        let worlds = cloud.worlds(expected.as_ref()).await;
        cloud.end();
        let broken = audit_at_rest(&worlds);
        broken.iter().map(|violation| violation.invariant).collect()
    })
}

fn more_is_used_than_there_is() -> BTreeSet<InvariantId> {
    broken_by(async |cloud| {
        let root = cloud.tree().await.expect("a tree").root().uuid();
        let placement = cloud.placement();
        let known = placement.inventories(root).await.expect("inventories");
        let mut shrunk = known.value;
        let memory = shrunk.get_mut(&ResourceClass::MEMORY_MB).expect("memory");
        (memory.total, memory.reserved, memory.max_unit) = (32, 0, 32);
        let put = placement.put_inventories(root, known.generation, &shrunk);
        put.await.expect("Placement takes it");
    })
}

fn a_boot_hangs() -> BTreeSet<InvariantId> {
    virtually(async {
        let cloud = GuestCloud::new().await;
        cloud.hardware.plant(PlantedBug::Hangs);
        let booting = tokio::time::timeout(Duration::from_mins(10), boot(&cloud, 1, "two"));
        booting.await.ok();
        broken(&cloud).await
    })
}

fn an_allocation_is_taken_from_a_guest() -> BTreeSet<InvariantId> {
    broken_by(async |cloud| {
        let deleted = cloud.placement().delete_allocations(guest(1)).await;
        deleted.expect("Placement takes it");
    })
}

fn a_used_card_is_given_back_unclean() -> BTreeSet<InvariantId> {
    virtually(async {
        let cloud = GuestCloud::new().await;
        boot(&cloud, 1, "two").await;
        cloud.hardware.plant(PlantedBug::SkipsResets);
        delete(&cloud, 1).await;
        broken(&cloud).await
    })
}

fn a_provider_loses_its_traits() -> BTreeSet<InvariantId> {
    broken_by(async |cloud| {
        let tree = cloud.tree().await.expect("a tree");
        let cards = tree.children(tree.root().uuid());
        let card = cards.first().expect("a card").uuid();
        let placement = cloud.placement();
        let known = placement.traits(card).await.expect("traits");
        let none = BTreeSet::new();
        let put = placement.put_traits(card, known.generation, &none).await;
        put.expect("Placement takes it");
    })
}

fn a_guest_is_destroyed_past_all_services() -> BTreeSet<InvariantId> {
    broken_by(async |cloud| {
        let destroyed = cloud.hardware.destroy(guest(1)).await;
        let _ = destroyed.expect("in memory");
    })
}

fn a_guest_leaves_its_group_past_all_services() -> BTreeSet<InvariantId> {
    virtually(async {
        let cloud = GuestCloud::new().await;
        boot_in(Some(cloud.apart), &cloud, 1, "two").await;
        let left = cloud.hosts.remove_member(cloud.member(cloud.apart, 1));
        busy(left).await.expect("it takes it");
        broken(&cloud).await
    })
}

/// As if the member were written without a check of the group's generation.
fn a_second_guest_has_a_member_next_to_the_first() -> BTreeSet<InvariantId> {
    virtually(async {
        let cloud = GuestCloud::new().await;
        boot_in(Some(cloud.apart), &cloud, 1, "gpu").await;
        cloud.keep_members();
        let group = busy(cloud.hosts.group(cloud.apart)).await.expect("a group");
        let placed = cloud
            .hosts
            .place_member(cloud.member(group.uuid, 2), group.generation, NODE);
        busy(placed).await.expect("it takes it");
        broken(&cloud).await
    })
}

fn a_guest_is_short_of_a_device() -> BTreeSet<InvariantId> {
    virtually(async {
        let cloud = GuestCloud::new().await;
        cloud.hardware.plant(PlantedBug::GivesFewer);
        boot(&cloud, 1, "two").await;
        broken(&cloud).await
    })
}

/// The bug of a living cloud that breaks an invariant.
fn alive(invariant: InvariantId) -> Option<fn() -> BTreeSet<InvariantId>> {
    match invariant {
        InvariantId::S1 => Some(more_is_used_than_there_is),
        InvariantId::S5 | InvariantId::L4 => Some(a_used_card_is_given_back_unclean),
        InvariantId::L1 => Some(a_boot_hangs),
        InvariantId::L2 => Some(an_allocation_is_taken_from_a_guest),
        InvariantId::L9 => Some(a_guest_leaves_its_group_past_all_services),
        InvariantId::S15 => Some(a_second_guest_has_a_member_next_to_the_first),
        InvariantId::L5 => Some(a_provider_loses_its_traits),
        InvariantId::S4 => Some(a_guest_is_short_of_a_device),
        InvariantId::L3 | InvariantId::L8 => Some(a_guest_is_destroyed_past_all_services),
        // No layer below lets two guests have one device.
        InvariantId::S3
        // Judged by what a reshape or a request did: planted on the way to Placement (`crate::canaries`).
        | InvariantId::S2
        | InvariantId::S11
        | InvariantId::S12
        | InvariantId::S13
        // Judged by histories that this cloud does not keep.
        | InvariantId::S8
        | InvariantId::S9
        | InvariantId::S10
        | InvariantId::S14
        | InvariantId::L7 => None,
    }
}

#[test]
fn each_invariant_of_guests_is_broken_by_its_bug_and_named() {
    let mut missed = Vec::new();
    for invariant in InvariantId::ALL {
        let Some(plant) = alive(invariant) else {
            continue;
        };
        let broken = plant();
        if !broken.contains(&invariant) {
            missed.push((invariant, broken));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

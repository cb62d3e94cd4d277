//! A guest from a device profile to its deletion: Berth's conductor and agent, Cyborg's requests, Placement's
//! candidates.

use berth_conductor::GuestRunOutcome;

use crate::real_cyborg::agent::Agent;
use crate::real_cyborg::cloud::{Cloud, ONLY, address, new_guest};
use crate::real_cyborg::conductor::{assert_nothing_left, conductor, with_profile};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_is_booted_from_a_profile_and_deleted_with_nothing_left() {
    let cloud = Cloud::shared();
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let conductor = conductor(cloud, &agent, cloud.accelerators()).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let request = with_profile(guest, "only");
    conductor.create(&request).await.expect("it is taken");
    let end = conductor.reconcile_guest(guest).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    assert_eq!(agent.devices(guest).await, [address(ONLY)].into());
    let received = cloud.nova.received(guest);
    assert_eq!(received.len(), 1, "{received:?}");
    let held = cloud.placement_client().allocations(guest).await;
    let held = held.expect("Placement answers").expect("allocations");
    let classes: Vec<_> = held
        .resources
        .keys()
        .map(|(_, it)| it.to_string())
        .collect();
    assert!(classes.contains(&"CUSTOM_PCI".to_owned()), "{classes:?}");

    // The only device of its kind is given out.
    let second = new_guest();
    let request = with_profile(second, "only");
    conductor.create(&request).await.expect("it is taken");
    let end = conductor.reconcile_guest(second).await;
    let GuestRunOutcome::Failed { reason } = end else {
        panic!("{end:?}");
    };
    assert!(reason.contains("no host has"), "{reason}");

    conductor.delete(guest).await.expect("it is taken");
    let end = conductor.reconcile_guest(guest).await;
    assert!(matches!(end, GuestRunOutcome::Gone), "{end:?}");
    assert!(agent.devices(guest).await.is_empty());
    assert_nothing_left(cloud, guest).await;
    cloud.assert_free(ONLY).await;
}

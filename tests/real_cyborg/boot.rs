//! A guest from a device profile to its end: our conductor and agent, Cyborg's requests, Placement's candidates.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use berth_agent::guest::api;
use berth_client::{AdapterOptions, Auth, GuestClient, HttpService};
use berth_conductor::journal::SqlJournal;
use berth_conductor::{
    AsAnswered, Conductor, ConductorOptions, ConductorParts, EveryNode, JourneyEnd,
};
use berth_tests::boot::{asked, impatient};
use serde_json::json;

use crate::agent::Agent;
use crate::cloud::{Cloud, FUNCTIONS, address, new_guest};

async fn conductor(cloud: &Cloud, agent: &Agent) -> Conductor {
    let http = HttpService::in_process::<_, Body, _>(api::routes(&agent.guests), 8 << 20);
    let auth = Auth::none("http://agent").expect("an endpoint");
    let parts = ConductorParts {
        journal: Arc::new(SqlJournal::in_memory().await.expect("memory")),
        placement: cloud.placement_client(),
        accelerators: cloud.accelerators(),
        agents: Arc::new(EveryNode(GuestClient::new(
            http,
            auth,
            &AdapterOptions::default(),
        ))),
    };
    let options = ConductorOptions {
        poll: Duration::from_millis(50),
        delete_wait: Duration::from_secs(60),
        ..impatient()
    };
    Conductor::open_with(parts, Arc::new(AsAnswered), options)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "not seen to pass yet"]
async fn a_guest_is_booted_from_a_profile_and_deleted_with_nothing_left() {
    let cloud = Cloud::shared();
    let agent = Agent::new(cloud.accelerators()).await;
    let conductor = conductor(cloud, &agent).await;
    let last = FUNCTIONS.len() - 1;
    let body = |guest: &str, profile: &str| {
        asked(&json!({
            "uuid": guest,
            "name": "vm",
            "flavor": {"name": "small", "vcpus": 1, "ram_mb": 256, "disk_gb": 0},
            "device_profile": profile,
        }))
    };
    let guest = new_guest();
    agent.hears_of(cloud, guest);
    let request = body(&guest.to_string(), "last");
    conductor.create(&request).await.expect("it is taken");
    let end = conductor.journey(guest).await;
    assert!(matches!(end, JourneyEnd::Active), "{end:?}");
    assert_eq!(agent.devices(guest).await, [address(last)].into());
    let told = cloud.nova.told(guest);
    assert_eq!(told.len(), 1, "{told:?}");
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
    let request = body(&second.to_string(), "last");
    conductor.create(&request).await.expect("it is taken");
    let end = conductor.journey(second).await;
    let JourneyEnd::Failed { reason } = end else {
        panic!("{end:?}");
    };
    assert!(reason.contains("no host has"), "{reason}");

    conductor.delete(guest).await.expect("it is taken");
    let end = conductor.journey(guest).await;
    assert!(matches!(end, JourneyEnd::Gone), "{end:?}");
    assert!(agent.devices(guest).await.is_empty());
    let held = cloud.placement_client().allocations(guest).await;
    assert!(held.expect("Placement answers").is_none());
    let left = cloud.accelerators().arqs_of_instance(guest).await;
    assert_eq!(left.expect("Cyborg answers"), []);
    cloud.assert_free(last).await;
}

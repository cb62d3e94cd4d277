//! Our conductor before the real Placement, the real Cyborg and an agent.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use berth_agent::guest::api;
use berth_client::{AcceleratorClient, AdapterOptions, Auth, GuestClient, HttpService};
use berth_conductor::journal::SqlJournal;
use berth_conductor::{
    BootRequest, Conductor, ConductorOptions, ConductorParts, Destinations, EveryNode, JourneyEnd,
};
use berth_model::ConsumerUuid;
use berth_tests::boot::{asked, impatient};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::cloud::{Cloud, NODE};

/// How often a journey is gone on with at most.
const TRIES: usize = 5;

/// One that asks an agent of this process.
pub(crate) async fn conductor(
    cloud: &Cloud,
    agent: &Agent,
    accelerators: AcceleratorClient,
) -> Conductor {
    let http = HttpService::in_process::<_, Body, _>(api::routes(&agent.guests), 8 << 20);
    conductor_of(cloud, http, accelerators).await
}

/// One that asks this agent.
pub(crate) async fn conductor_of(
    cloud: &Cloud,
    agent: HttpService,
    accelerators: AcceleratorClient,
) -> Conductor {
    let options = ConductorOptions {
        poll: Duration::from_millis(50),
        delete_wait: Duration::from_secs(60),
        ..impatient()
    };
    conductor_with(cloud, agent, accelerators, options).await
}

/// The same with these options.
pub(crate) async fn conductor_with(
    cloud: &Cloud,
    agent: HttpService,
    accelerators: AcceleratorClient,
    options: ConductorOptions,
) -> Conductor {
    let auth = Auth::none("http://agent").expect("an endpoint");
    let agent = GuestClient::new(agent, auth, &AdapterOptions::default());
    let parts = ConductorParts {
        journal: Arc::new(SqlJournal::in_memory().await.expect("memory")),
        placement: cloud.placement_client(),
        accelerators,
        agents: Arc::new(EveryNode(agent)),
    };
    Conductor::open_with(parts, Destinations::AsAnswered, options)
}

/// A request for a small guest with this device profile on the node of the tests.
pub(crate) fn with_profile(guest: ConsumerUuid, profile: &str) -> BootRequest {
    asked(&body(guest, NODE, profile))
}

/// The body of such a request.
pub(crate) fn body(guest: ConsumerUuid, node: &str, profile: &str) -> Value {
    json!({
        "uuid": guest.to_string(),
        "name": format!("vm-{guest}"),
        "node": node,
        "flavor": {"name": "small", "vcpus": 1, "ram_mb": 192, "disk_gb": 0},
        "device_profile": profile,
    })
}

/// The end of a guest's journey; one that stands still goes on when its pause is over.
pub(crate) async fn end(conductor: &Conductor, guest: ConsumerUuid) -> JourneyEnd {
    let mut end = conductor.journey(guest).await;
    for _ in 1..TRIES {
        if !matches!(end, JourneyEnd::Held { .. }) {
            break;
        }
        end = conductor.journey(guest).await;
    }
    end
}

/// Neither Placement nor Cyborg has anything of the guest.
pub(crate) async fn assert_nothing_left(cloud: &Cloud, guest: ConsumerUuid) {
    let held = cloud.placement_client().allocations(guest).await;
    assert!(held.expect("Placement answers").is_none());
    let left = cloud.accelerators().arqs_of_instance(guest).await;
    assert_eq!(left.expect("Cyborg answers"), []);
}

//! Berth's conductor with the real Placement, the real Cyborg and an agent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use berth_agent_api::instances as api;
use berth_client::{AcceleratorClient, AdapterOptions, Auth, GuestClient, HttpService};
use berth_conductor::journal::SqlBootJournal;
use berth_conductor::{
    BootRequest, Conductor, ConductorOptions, ConductorParts, GuestRunOutcome, SingleAgent,
};
use berth_hosts::Hosts;
use berth_model::ConsumerUuid;
use berth_tests::boot::{asked, impatient};
use berth_tests::host_states::{self, ReportedHost};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::real_cyborg::agent::Agent;
use crate::real_cyborg::cloud::{Cloud, NODE};

/// How long a boot is retried at most: a restarted agent must report its host first.
const PATIENCE: Duration = Duration::from_secs(60);

/// A conductor that uses an agent in this process.
pub(crate) async fn conductor(
    cloud: &Cloud,
    agent: &Agent,
    accelerators: AcceleratorClient,
) -> Conductor {
    let http = HttpService::in_process::<_, Body, _>(api::routes(&agent.guests), 8 << 20);
    conductor_of(cloud, http, accelerators).await
}

/// A conductor that uses this agent.
pub(crate) async fn conductor_of(
    cloud: &Cloud,
    agent: HttpService,
    accelerators: AcceleratorClient,
) -> Conductor {
    let options = ConductorOptions {
        poll_interval: Duration::from_millis(50),
        delete_timeout: Duration::from_secs(60),
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
        journal: Arc::new(SqlBootJournal::in_memory().await.expect("memory")),
        placement: cloud.placement_client(),
        accelerators,
        networks: None,
        agents: Arc::new(SingleAgent(agent)),
        scheduler: host_states::scheduler(reported_hosts(cloud).await),
    };
    Conductor::open(parts, options)
}

/// Every host of the cloud's Placement, as its agent would tell it, for as long as the test runs.
async fn reported_hosts(cloud: &Cloud) -> Hosts {
    let hosts = host_states::hosts_of(&host_states::store().await);
    let mut alive = JoinSet::new();
    let providers = tokio::task::block_in_place(|| cloud.cyborg.providers());
    let providers = providers.expect("Placement answers");
    for provider in &providers {
        let text = |key: &str| provider[key].as_str().map(str::to_owned);
        if provider["root_provider_uuid"] != provider["uuid"] {
            continue;
        }
        let uuid = text("uuid").and_then(|it| it.parse().ok());
        let host = ReportedHost {
            name: text("name").expect("a name"),
            node: uuid.expect("a UUID"),
            vcpus: 16,
            memory_mb: 65_536,
            local_gb: 1000,
        };
        host_states::report(&hosts, &host, &mut alive).await;
    }
    alive.detach_all();
    hosts
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

/// The end of a guest's task; a blocked one is retried after its pause.
pub(crate) async fn end(conductor: &Conductor, guest: ConsumerUuid) -> GuestRunOutcome {
    let began = Instant::now();
    loop {
        let end = conductor.reconcile_guest(guest).await;
        if !matches!(end, GuestRunOutcome::Blocked { .. }) || began.elapsed() > PATIENCE {
            return end;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Neither Placement nor Cyborg has anything of the guest.
pub(crate) async fn assert_nothing_left(cloud: &Cloud, guest: ConsumerUuid) {
    let held = cloud.placement_client().allocations(guest).await;
    assert!(held.expect("Placement answers").is_none());
    let left = cloud.accelerators().arqs_of_instance(guest).await;
    assert_eq!(left.expect("Cyborg answers"), []);
}

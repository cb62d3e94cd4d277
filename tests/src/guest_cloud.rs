//! A cloud of one or two hosts in this process: Placement, the accelerator service, the hosts database, a conductor,
//! optionally the compute API in front of it, and for each host an agent with guests and devices on the fake driver's
//! machine. Agents, the conductor (with the compute API, as in the program), Placement and the accelerator service
//! count as separate processes.
//!
//! Every effect of the agent and the conductor passes a gate ([`CloudEffects`]): requests, calls of the driver,
//! statements of their journals, and transactions with the hosts database. Only the state reports of hosts do not,
//! because no guest waits for them. At an effect, a process can be killed (it is restarted, as a unit would be) or get
//! an error. Placement and the accelerator service have a gate for the requests that reach them, where they can also be
//! killed.
//!
//! [`GuestCloud::worlds`] reads the true state of all seven stores beneath the APIs, for the audit. Time is virtual:
//! use it in a `LocalSet` of a runtime with a paused clock. Used by the fault tests.

mod ages;
mod api;
mod effects;
mod fresh;
mod hardware;
mod node;
mod processes;
mod server_rows;
mod services;
mod worlds;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use berth_accelerator::IdleArqCollector;
use berth_client::{
    AcceleratorClient, AdapterOptions, Auth, GuestApiError, GuestClient, HttpService,
    PlacementClient, Secret,
};
use berth_conductor::journal::BootJournal as _;
use berth_conductor::{BootRequest, Conductor};
use berth_hosts::{GroupMember, Hosts};
use berth_model::{ConsumerUuid, ProviderTree};
use berth_store::SqlStore;
use berth_wire::guest::{GuestAction, GuestBody};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

pub use api::ClientObservation;
pub use effects::{CloudEffects, CloudFaultPoint, CloudProcess, RecordedEffect};
pub use hardware::{CardHardware, GuestMishap, Hardware, ON_CELL_0, PlantedBug, card, name_of};
pub use node::{AgentReachability, ComputeNode};

use crate::cloud::Cloud;
use crate::fault::{HarnessClock, busy};
use processes::{Controller, CurrentProcess};
use services::CloudService;

/// The node of the first host.
pub const NODE: &str = "gpu-01";
/// The node of the second.
pub const SECOND: &str = "gpu-02";
/// How many cards it has.
pub const CARDS: u8 = 3;

/// How long the cloud may take to come to rest, in virtual time.
const PATIENCE: Duration = Duration::from_mins(30);
/// The first pause between two looks meanwhile; each is twice as long as the one before.
const SOON: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// All of it. Clones are one.
#[derive(Clone)]
pub struct GuestCloud {
    /// The wall clock of all of it.
    pub clock: HarnessClock,
    cloud: Cloud,
    service: Router,
    /// Placement's process and the accelerator service's.
    services: [Arc<CloudService>; 2],
    accelerator_db: SqlStore,
    /// What the accelerator service has seen of requests that hold nothing.
    unbound: Arc<tokio::sync::Mutex<IdleArqCollector>>,
    /// What the scheduler knows of the host, and the server groups.
    pub hosts: Hosts,
    /// A server group with anti-affinity: each host has at most one guest of it.
    pub apart: Uuid,
    /// A server group with affinity.
    pub together: Uuid,
    keeps_members: Arc<AtomicBool>,
    /// The first host, beneath its agent.
    pub hardware: Arc<Hardware>,
    pub nodes: Arc<[Arc<ComputeNode>]>,
    /// The effects of agents and conductor.
    pub effects: CloudEffects,
    conductor_db: Arc<berth_conductor::journal::SqlBootJournal>,
    conductor: CurrentProcess<Controller>,
    api: Option<api::CloudComputeApi>,
    processes: Arc<std::sync::Mutex<JoinSet<()>>>,
}

impl GuestCloud {
    fn spawn(&self, process: impl Future<Output = ()> + 'static) {
        let mut processes = self.processes.lock().expect("no panic");
        let _: AbortHandle = processes.spawn_local(process);
    }

    pub fn end(&self) {
        self.processes.lock().expect("no panic").abort_all();
        self.kill();
    }

    /// All processes are killed, and started again.
    pub fn kill(&self) {
        for node in self.nodes.iter() {
            if let Some(life) = node.agent.borrow().as_ref() {
                life.end();
            }
        }
        if let Some(life) = self.conductor.borrow().as_ref() {
            life.end();
        }
    }

    /// Power-cycles every host: guests are off, and all processes start again.
    pub async fn boot_host(&self) {
        for node in self.nodes.iter() {
            node.boot().await;
        }
        self.kill();
    }

    /// Plants a bug, to test that it is caught: members are never removed from server groups.
    pub fn keep_members(&self) {
        self.keeps_members.store(true, Ordering::SeqCst);
    }

    fn accelerators_through(
        &self,
        decorate: impl FnOnce(HttpService) -> HttpService,
    ) -> AcceleratorClient {
        let token = Secret::from("admin".to_owned());
        let auth = Auth::admin_token("http://accelerator", &token).expect("an endpoint");
        let options = AdapterOptions::default();
        let [_, accelerators] = &self.services;
        let http = unheard(decorate(accelerators.transport()));
        AcceleratorClient::new(http, auth, &options)
    }

    fn placement_through(
        &self,
        decorate: impl FnOnce(HttpService) -> HttpService,
    ) -> PlacementClient {
        let [placement, _] = &self.services;
        let cloud = self.cloud.decorated(|_| decorate(placement.transport()));
        cloud.placement()
    }

    #[must_use]
    pub fn placement(&self) -> PlacementClient {
        self.cloud.placement()
    }

    /// Sends a request to the accelerator service without fault injection.
    ///
    /// # Panics
    /// The service refuses it.
    pub async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let http = HttpService::in_process::<_, Body, _>(self.service.clone(), 8 << 20);
        let request = Request::builder()
            .method(method)
            .uri(format!("http://accelerator{path}"))
            .header("x-auth-token", "admin")
            .header("openstack-api-version", "accelerator 2.3")
            .header("content-type", "application/json")
            .body(match body {
                Value::Null => Bytes::new(),
                body => body.to_string().into(),
            });
        let http = leaving_the_process(http);
        let answer = http.send(request.expect("a request")).await;
        let answer = answer.expect("an answer");
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        assert!(
            answer.status().is_success(),
            "{method} {path}: {} {text}",
            answer.status()
        );
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The conductor that lives, once one does.
    ///
    /// # Panics
    /// None comes to life.
    pub async fn conductor(&self) -> Conductor {
        let mut present = self.conductor.subscribe();
        let life = present.wait_for(Option::is_some).await;
        let life = life.expect("a conductor").clone();
        life.expect("a running one").process.conductor.clone()
    }

    /// An operator asks the agent of the guest's host, or the first where none knows it; no gate is on the way.
    /// # Panics
    /// No agent comes to life.
    pub async fn action(
        &self,
        guest: ConsumerUuid,
        action: &GuestAction,
    ) -> Result<GuestBody, GuestApiError> {
        let mut node = &self.nodes[0];
        for of_guest in self.nodes.iter() {
            if of_guest.remembered().await.contains(&guest) {
                node = of_guest;
            }
        }
        let mut present = node.agent.subscribe();
        let life = present.wait_for(Option::is_some).await;
        let life = life.expect("an agent").clone().expect("a running one");
        let auth = Auth::none("http://agent").expect("an endpoint");
        let options = AdapterOptions::default();
        let client = GuestClient::new(life.process.routes.clone(), auth, &options);
        client.action(guest, action, None).await
    }

    /// Waits until no problem is left; returns the remaining problems when patience ends.
    pub async fn rests(&self, expected: Option<&ProviderTree>) -> Vec<String> {
        self.rests_within(expected, PATIENCE).await
    }

    /// Waits until the conductor has forgotten the n-th guest, for an hour of the cloud's clock.
    ///
    /// # Panics
    /// It has not.
    pub async fn wait_until_gone(&self, n: u32) {
        let mut goal = self.boot_goal(guest(n)).await;
        for _ in 0..3600 {
            if goal.is_none() {
                return;
            }
            sleep(Duration::from_secs(1)).await;
            goal = self.boot_goal(guest(n)).await;
        }
        panic!("guest {n} is not gone after an hour: {goal:?}");
    }

    /// The n-th guest as its server group knows it.
    #[must_use]
    pub fn member(&self, group: Uuid, n: u32) -> GroupMember {
        GroupMember {
            group,
            instance: *guest(n).as_uuid(),
            owner: self.conductor_db.owner(),
        }
    }

    /// The same with another patience.
    pub async fn rests_within(
        &self,
        expected: Option<&ProviderTree>,
        patience: Duration,
    ) -> Vec<String> {
        let began = Instant::now();
        let mut interval = SOON;
        loop {
            let worlds = self.worlds(expected).await;
            let mut wrong: Vec<String> = berth_invariants::audit_at_rest(&worlds)
                .iter()
                .map(ToString::to_string)
                .collect();
            wrong.extend(self.unfinished(&worlds).await);
            if wrong.is_empty() || began.elapsed() > patience {
                return wrong;
            }
            sleep(interval).await;
            interval = (interval * 2).min(POLL_INTERVAL);
        }
    }
}

/// A service with answers from other threads: the clock is stopped for them.
fn leaving_the_process(http: HttpService) -> HttpService {
    HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let http = http.clone();
        async move { busy(http.send(request)).await }
    }))
}

/// A service that ignores long polls for operators' changes: such a wait is no effect, and would never end.
fn unheard(http: HttpService) -> HttpService {
    HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let http = http.clone();
        async move {
            if request.uri().path().ends_with("/changes") {
                std::future::pending::<()>().await;
            }
            http.send(request).await
        }
    }))
}

#[must_use]
pub fn guest(n: u32) -> ConsumerUuid {
    Uuid::from_u128(0x3000_0000_0000_4000_8000_0000_0000_0000 + u128::from(n)).into()
}

/// Whether it is one of those, asked of the conductor and not of the compute API.
fn is_asked_at_conductor(uuid: ConsumerUuid) -> bool {
    uuid.as_uuid().as_u128() >> 64 == guest(0).as_uuid().as_u128() >> 64
}

/// A request for the n-th guest, with the devices of a profile.
///
/// # Panics
/// Never: the request is whole.
#[must_use]
pub fn request(n: u32, profile: &str) -> BootRequest {
    request_in(None, n, profile)
}

/// The same, of a server group where one is named.
///
/// # Panics
/// Never: the request is whole.
#[must_use]
pub fn request_in(group: Option<Uuid>, n: u32, profile: &str) -> BootRequest {
    let hints = group.map(|group| json!({"group": [group.to_string()]}));
    let body = json!({
        "uuid": guest(n).to_string(),
        "name": format!("vm{n}"),
        "flavor": {"name": "small", "vcpus": 1, "ram_mb": 64},
        "device_profile": profile,
        "scheduler_hints": hints.unwrap_or_else(|| json!({})),
    });
    let body = berth_wire::decode(body.to_string().as_bytes()).expect("a body");
    BootRequest::new(body, *guest(n).as_uuid()).expect("a request")
}

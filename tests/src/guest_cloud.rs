//! A cloud of one or two hosts, all of it in this process: Placement, the accelerator service, what the scheduler knows of hosts, a
//! conductor that chooses by it, the compute API before it where that is wanted, and of each host an agent with its guests and
//! devices on the fake driver's machine.
//!
//! Everything that the agent and the conductor do to the world crosses a gate ([`Crossings`]): requests, calls of the driver,
//! statements of their journals, transactions with the database of hosts. Only that the host tells its state does not: no guest waits
//! for it. There a process can be killed (it is started again, as a unit would be) or told an error.
//! [`GuestCloud::worlds`] is what is true in the six places, read beneath all of it, for the audit. Time is virtual: use it in
//! a `LocalSet` of a runtime whose clock is paused. Called by the fault tests.

mod api;
mod crossings;
mod hardware;
mod lives;
mod node;
mod worlds;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use berth_accelerator::{Options, prepare, router};
use berth_client::{
    AcceleratorClient, AdapterOptions, Auth, GuestApiError, GuestClient, HttpService,
    PlacementClient, Secret,
};
use berth_conductor::journal::BootJournal as _;
use berth_conductor::{BootRequest, Conductor};
use berth_hosts::{GroupMember, GroupPolicy, Hosts};
use berth_model::{ConsumerUuid, ProviderTree};
use berth_store::SqlStore;
use berth_wire::guest::{GuestAction, GuestBody};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

pub use api::Heard;
pub use crossings::{Crossed, Crossings, Point, Process};
pub use hardware::{Bug, Hardware, Host, Mishap, ON_CELL_0, card, name_of};
pub use node::{Node, Reach};

use crate::cloud::{Cloud, Snapshot};
use crate::fault::{HarnessClock, busy};
use crate::host_states;
use lives::{Controller, Present};

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
/// The longest.
const LOOK: Duration = Duration::from_secs(15);

/// All of it. Clones are one.
#[derive(Clone)]
pub struct GuestCloud {
    clock: HarnessClock,
    cloud: Cloud,
    service: Router,
    accelerator_db: SqlStore,
    /// What the scheduler knows of the host, and the server groups.
    pub hosts: Hosts,
    /// A server group whose guests are to be on different hosts: here it has one guest at a time.
    pub apart: Uuid,
    /// One whose guests are to be on one host.
    pub together: Uuid,
    keeps_members: Arc<AtomicBool>,
    /// The first host, beneath its agent.
    pub hardware: Arc<Hardware>,
    /// All hosts.
    pub nodes: Arc<[Arc<Node>]>,
    /// The crossings of agents and conductor.
    pub crossings: Crossings,
    conductor_db: Arc<berth_conductor::journal::SqlJournal>,
    conductor: Present<Controller>,
    api: Option<api::Api>,
    processes: Arc<std::sync::Mutex<JoinSet<()>>>,
}

/// The databases of a fresh cloud of one host at rest: all but the first begin with them.
static FRESH: Mutex<Option<Fresh>> = Mutex::new(None);

#[derive(Clone, Copy)]
struct Fresh {
    placement: Snapshot,
    accelerators: Snapshot,
}

impl GuestCloud {
    /// A fresh one, at rest.
    ///
    /// # Panics
    /// It does not come to rest.
    pub async fn new() -> Self {
        let fresh = *FRESH.lock().expect("no panic");
        let cloud = match fresh {
            Some(fresh) => {
                let accelerators = busy(fresh.accelerators.restore()).await;
                let placement = Cloud::of(fresh.placement).await;
                Self::over(placement, accelerators, &[Host::Flat]).await
            }
            None => Self::made(&[Host::Flat]).await,
        };
        cloud.begin_and_rest().await;
        if fresh.is_none() {
            let placement = cloud.cloud.store().expect("the built-in Placement");
            let fresh = Fresh {
                placement: busy(Snapshot::take(placement)).await,
                accelerators: busy(Snapshot::take(&cloud.accelerator_db)).await,
            };
            FRESH.lock().expect("no panic").get_or_insert(fresh);
        }
        cloud
    }

    /// A fresh one of another host, at rest.
    ///
    /// # Panics
    /// It does not come to rest.
    pub async fn of(host: Host) -> Self {
        let cloud = Self::made(&[host]).await;
        cloud.begin_and_rest().await;
        cloud
    }

    /// A fresh one of two hosts of one cell, at rest. The first has more memory, and is chosen first.
    ///
    /// # Panics
    /// It does not come to rest.
    pub async fn of_two() -> Self {
        let cloud = Self::made(&[Host::Flat, Host::Flat]).await;
        cloud.begin_and_rest().await;
        cloud
    }

    async fn begin_and_rest(&self) {
        self.begin();
        // Both processes have looked at everything once.
        sleep(LOOK).await;
        let wrong = self.rests(None).await;
        assert!(wrong.is_empty(), "a fresh cloud: {wrong:#?}");
    }

    /// One on empty databases, with its device profiles.
    async fn made(hosts: &[Host]) -> Self {
        let store = busy(SqlStore::in_memory()).await.expect("memory");
        busy(prepare(&store)).await.expect("an empty database");
        let cloud = Self::over(busy(Cloud::in_process()).await, store, hosts).await;
        for (profile, groups) in [
            ("gpu", json!([{"resources:PGPU": "1"}])),
            (
                "two",
                json!([{"resources:PGPU": "1"}, {"resources:PGPU": "1"}]),
            ),
        ] {
            let body = json!([{"name": profile, "groups": groups}]);
            cloud.ask("POST", "/v2/device_profiles", body).await;
        }
        cloud
    }

    async fn over(placement: Cloud, accelerator_db: SqlStore, machines: &[Host]) -> Self {
        let mut nodes = Vec::new();
        for (place, host) in machines.iter().enumerate() {
            nodes.push(Arc::new(Node::new(place, *host).await));
        }
        let conductor_db = busy(berth_conductor::journal::SqlJournal::in_memory());
        let hosts = host_states::hosts_of(&busy(host_states::store()).await);
        let group = async |name, policy| busy(host_states::group(&hosts, name, policy)).await;
        Self {
            clock: HarnessClock::begin(),
            cloud: placement.decorated(leaving_the_process),
            service: router(accelerator_db.clone(), Options::default()),
            accelerator_db,
            apart: group("apart", GroupPolicy::AntiAffinity).await,
            together: group("together", GroupPolicy::Affinity).await,
            hosts,
            keeps_members: Arc::default(),
            hardware: Arc::clone(&nodes[0].hardware),
            nodes: nodes.into(),
            crossings: Crossings::default(),
            conductor_db: Arc::new(conductor_db.await.expect("memory")),
            conductor: Arc::default(),
            api: None,
            processes: Arc::default(),
        }
    }

    fn spawn(&self, process: impl Future<Output = ()> + 'static) {
        let mut processes = self.processes.lock().expect("no panic");
        let _: AbortHandle = processes.spawn_local(process);
    }

    /// Ends all processes.
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

    /// Every host is switched off and on: guests are off, all processes begin anew.
    pub async fn boot_host(&self) {
        for node in self.nodes.iter() {
            node.boots.fetch_add(1, Ordering::SeqCst);
            node.hardware.boot().await;
        }
        self.kill();
    }

    /// Plants a bug, to see that it is caught: whoever leaves a server group does not.
    pub fn keep_members(&self) {
        self.keeps_members.store(true, Ordering::SeqCst);
    }

    /// The first host has these cards from now on, and says so.
    pub fn plug(&self, cards: impl IntoIterator<Item = u8>) {
        self.hardware.show(cards);
        self.nodes[0].plugged.notify_one();
    }

    /// One more card there.
    pub fn plug_in(&self, card: u8) {
        let mut cards = self.hardware.cards();
        cards.insert(card);
        self.plug(cards);
    }

    /// A card less, whoever has it.
    pub fn pull_out(&self, card: u8) {
        let mut cards = self.hardware.cards();
        cards.remove(&card);
        self.plug(cards);
    }

    fn accelerators_through(
        &self,
        decorate: impl FnOnce(HttpService) -> HttpService,
    ) -> AcceleratorClient {
        let http = HttpService::in_process::<_, Body, _>(self.service.clone(), 8 << 20);
        let token = Secret::from("admin".to_owned());
        let auth = Auth::admin_token("http://accelerator", &token).expect("an endpoint");
        let options = AdapterOptions::default();
        let http = unheard(decorate(leaving_the_process(http)));
        AcceleratorClient::new(http, auth, &options)
    }

    /// Placement, beside everything.
    #[must_use]
    pub fn placement(&self) -> PlacementClient {
        self.cloud.placement()
    }

    /// Asks the accelerator service, beside everything.
    ///
    /// # Panics
    /// It refuses.
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
        life.expect("one that lives").process.conductor.clone()
    }

    /// An operator asks the first host's agent; no gate is on the way.
    ///
    /// # Errors
    /// As the agent says; also that it is away.
    ///
    /// # Panics
    /// No agent comes to life.
    pub async fn action(
        &self,
        guest: ConsumerUuid,
        action: &GuestAction,
    ) -> Result<GuestBody, GuestApiError> {
        let mut present = self.nodes[0].agent.subscribe();
        let life = present.wait_for(Option::is_some).await;
        let life = life.expect("an agent").clone().expect("one that lives");
        let auth = Auth::none("http://agent").expect("an endpoint");
        let options = AdapterOptions::default();
        let client = GuestClient::new(life.process.routes.clone(), auth, &options);
        client.action(guest, action).await
    }

    /// Waits until nothing is wrong any more; what still is when patience ends.
    pub async fn rests(&self, expected: Option<&ProviderTree>) -> Vec<String> {
        self.rests_within(expected, PATIENCE).await
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
        let mut look = SOON;
        loop {
            let worlds = self.worlds(expected).await;
            let mut wrong: Vec<String> = berth_model::audit::audit_at_rest(&worlds)
                .iter()
                .map(ToString::to_string)
                .collect();
            wrong.extend(self.unfinished(&worlds).await);
            if wrong.is_empty() || began.elapsed() > patience {
                return wrong;
            }
            sleep(look).await;
            look = (look * 2).min(LOOK);
        }
    }
}

/// A service whose answers come from other threads: the clock stands still for them.
fn leaving_the_process(http: HttpService) -> HttpService {
    HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let http = http.clone();
        async move { busy(http.send(request)).await }
    }))
}

/// A service at which nobody hears what an operator changes: a wait for that crosses nothing, and would be under way always.
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

/// The n-th guest.
#[must_use]
pub fn guest(n: u32) -> ConsumerUuid {
    Uuid::from_u128(0x3000_0000_0000_4000_8000_0000_0000_0000 + u128::from(n)).into()
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

//! A cloud of one host, all of it in this process: Placement, the accelerator service, what the scheduler knows of hosts, a
//! conductor that chooses by it, and an agent with its guests and devices on the fake driver's machine.
//!
//! Everything that the agent and the conductor do to the world crosses a gate ([`Crossings`]): requests, calls of the driver,
//! statements of their journals, transactions with the database of hosts. Only that the host tells its state does not: no guest waits
//! for it. There a process can be killed (it is started again, as a unit would be) or told an error.
//! [`GuestCloud::worlds`] is what is true in the six places, read beneath all of it, for the audit. Time is virtual: use it in
//! a `LocalSet` of a runtime whose clock is paused. Called by the fault tests.

mod crossings;
mod hardware;
mod lives;
mod worlds;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use berth_accelerator::{Options, prepare, router};
use berth_agent::guest::SqlJournal;
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
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

pub use crossings::{Crossed, Crossings, Point, Process};
pub use hardware::{Bug, Hardware, Host, ON_CELL_0, card, name_of};

use crate::cloud::{Cloud, Snapshot};
use crate::fault::{HarnessClock, busy};
use crate::host_states;
use crate::node::{COMPUTE_ID, MemoryFiles};
use lives::{Agent, Present};

/// The node.
pub const NODE: &str = "gpu-01";
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
    /// The host beneath the agent.
    pub hardware: Arc<Hardware>,
    /// The crossings of agent and conductor.
    pub crossings: Crossings,
    guests_db: SqlJournal,
    conductor_db: Arc<berth_conductor::journal::SqlJournal>,
    files: Arc<MemoryFiles>,
    boots: Arc<AtomicU32>,
    plugged: Arc<Notify>,
    agent: Present<Agent>,
    conductor: Present<Conductor>,
    processes: Arc<std::sync::Mutex<JoinSet<()>>>,
}

/// The databases of a fresh cloud at rest: all but the first begin with them.
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
                Self::over(placement, accelerators, Host::Flat).await
            }
            None => Self::made(Host::Flat).await,
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
        let cloud = Self::made(host).await;
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
    async fn made(host: Host) -> Self {
        let store = busy(SqlStore::in_memory()).await.expect("memory");
        busy(prepare(&store)).await.expect("an empty database");
        let cloud = Self::over(busy(Cloud::in_process()).await, store, host).await;
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

    async fn over(placement: Cloud, accelerator_db: SqlStore, host: Host) -> Self {
        let conductor_db = busy(berth_conductor::journal::SqlJournal::in_memory());
        let hosts = host_states::hosts_of(&busy(host_states::store()).await);
        let group = async |name, policy| busy(host_states::group(&hosts, name, policy)).await;
        let files = MemoryFiles::default();
        files.put(COMPUTE_ID, "20000000-0000-4000-8000-000000000001");
        Self {
            clock: HarnessClock::begin(),
            cloud: placement.decorated(leaving_the_process),
            service: router(accelerator_db.clone(), Options::default()),
            accelerator_db,
            apart: group("apart", GroupPolicy::AntiAffinity).await,
            together: group("together", GroupPolicy::Affinity).await,
            hosts,
            keeps_members: Arc::default(),
            hardware: Arc::new(Hardware::with(CARDS, host)),
            crossings: Crossings::default(),
            guests_db: busy(SqlJournal::in_memory()).await.expect("memory"),
            conductor_db: Arc::new(conductor_db.await.expect("memory")),
            files: Arc::new(files),
            boots: Arc::default(),
            plugged: Arc::default(),
            agent: Arc::default(),
            conductor: Arc::default(),
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

    /// Both processes are killed, and started again.
    pub fn kill(&self) {
        if let Some(life) = self.agent.borrow().as_ref() {
            life.end();
        }
        if let Some(life) = self.conductor.borrow().as_ref() {
            life.end();
        }
    }

    /// The host is switched off and on: guests are off, both processes begin anew.
    pub async fn boot_host(&self) {
        self.boots.fetch_add(1, Ordering::SeqCst);
        self.hardware.boot().await;
        self.kill();
    }

    fn boots(&self) -> u32 {
        self.boots.load(Ordering::SeqCst)
    }

    /// Plants a bug, to see that it is caught: whoever leaves a server group does not.
    pub fn keep_members(&self) {
        self.keeps_members.store(true, Ordering::SeqCst);
    }

    /// The host has these cards from now on, and says so.
    pub fn plug(&self, cards: impl IntoIterator<Item = u8>) {
        self.hardware.show(cards);
        self.plugged.notify_one();
    }

    /// One more card.
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
        life.expect("one that lives").process.clone()
    }

    /// An operator asks the agent; no gate is on the way.
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
        let mut present = self.agent.subscribe();
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

//! What stands behind the API in these tests: a real conductor over a journal in memory, whose Placement is away, so that its
//! journal is where a test says how far a guest is; and an agent that does what it is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_client::placement::Candidate;
use berth_client::{
    AcceleratorClient, AdapterOptions, Auth, GuestClient, HttpService, PlacementClient,
    TransportError,
};
use berth_compute::{ComputeOptions, ComputeParts, FoundImage};
use berth_conductor::journal::{
    BootJournal, BootStep, Chosen, Course, SqlJournal, StepDetail, StepRecord, StepState,
};
use berth_conductor::{Conductor, ConductorOptions, ConductorParts, EveryNode, FilterScheduler};
use berth_hosts::{Hosts, HostsOptions};
use berth_model::{ConsumerUuid, NodeName};
use berth_scheduler::Options as SchedulerOptions;
use berth_scheduler::select::Scheduler;
use berth_store::SqlStore;
use berth_wire::guest::{GuestAction, ImageBody, ImageLocation, LimitsBody};
use berth_wire::host_state::{HostStateBody, NodeStateBody, ServiceBody};
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tower::service_fn;
use uuid::Uuid;

/// The one host, its node too.
pub(crate) const HOST: &str = "compute1";

/// An image that there is.
pub(crate) const IMAGE: Uuid = Uuid::from_u128(0x1111_1111_2222_4333_8444_0000_0000_00aa);

pub(crate) const OTHER_IMAGE: Uuid = Uuid::from_u128(0x1111_1111_2222_4333_8444_0000_0000_00bb);

/// How the agent has a guest: status, state.
type Guests = BTreeMap<Uuid, (&'static str, Option<&'static str>)>;

#[derive(Default)]
struct World {
    guests: Guests,
    away: bool,
    /// With what it refuses actions.
    refuses: Option<(u16, &'static str)>,
    /// It does what it is asked for, and its answers are lost.
    loses: bool,
    /// It does not answer an action, and takes none.
    hangs: bool,
    /// It says nothing of these guests.
    silent_of: BTreeSet<Uuid>,
    /// It is away after so many actions more.
    left: Option<u32>,
    asked: Vec<GuestAction>,
    ids: Vec<String>,
    told: Vec<Value>,
}

/// The agent of the host.
#[derive(Clone, Default)]
pub(crate) struct Agent(Arc<Mutex<World>>);

impl Agent {
    fn with<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// It has the guest so.
    pub(crate) fn has(&self, guest: Uuid, status: &'static str, state: &'static str) {
        self.with(|world| world.guests.insert(guest, (status, Some(state))));
    }

    /// It has no such guest any more.
    pub(crate) fn has_no(&self, guest: Uuid) {
        self.with(|world| world.guests.remove(&guest));
    }

    /// It does not answer any more, or again.
    pub(crate) fn is_away(&self, away: bool) {
        self.with(|world| world.away = away);
    }

    /// It refuses every action so, or none.
    pub(crate) fn refuses(&self, how: Option<(u16, &'static str)>) {
        self.with(|world| world.refuses = how);
    }

    /// Its answers to actions are lost, or arrive.
    pub(crate) fn loses(&self, loses: bool) {
        self.with(|world| world.loses = loses);
    }

    /// It says nothing to an action until it does not any more.
    pub(crate) fn hangs(&self, hangs: bool) {
        self.with(|world| world.hangs = hangs);
    }

    /// It never says anything of this guest.
    pub(crate) fn is_silent_of(&self, guest: Uuid) {
        self.with(|world| world.silent_of.insert(guest));
    }

    /// It goes away after so many actions.
    pub(crate) fn goes_after(&self, actions: u32) {
        self.with(|world| world.left = Some(actions));
    }

    /// The ids of the actions that it was asked for.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.with(|world| world.ids.clone())
    }

    /// The actions that it was asked for.
    pub(crate) fn asked(&self) -> Vec<GuestAction> {
        self.with(|world| world.asked.clone())
    }

    /// The events that it was told of.
    pub(crate) fn told(&self) -> Vec<Value> {
        self.with(|world| world.told.clone())
    }

    /// As the agent answers: those whose guests it knows are taken.
    fn hear(&self, body: &[u8]) -> (u16, Value) {
        let mut body: Value = serde_json::from_slice(body).unwrap();
        for event in body["events"].as_array_mut().unwrap() {
            let guest: Uuid = event["server_uuid"].as_str().unwrap().parse().unwrap();
            let code = self.with(|world| {
                world.told.push(event.clone());
                match world.guests.contains_key(&guest) {
                    true => 200,
                    false => 422,
                }
            });
            event["code"] = json!(code);
        }
        (207, body)
    }

    fn answer(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        if self.with(|world| world.away) {
            return Err(refused());
        }
        let path = request.uri().path().trim_start_matches("/v1/guests");
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (status, body) = match parts[..] {
            [] => {
                let guests = self.with(|world| world.guests.clone());
                let guests: Vec<Value> = guests.into_iter().map(shown).collect();
                (200, json!({"api": "berth/1", "guests": guests}))
            }
            ["v2.1", "os-server-external-events"] => {
                let version = request.headers().get("openstack-api-version").unwrap();
                assert_eq!(version, "compute 2.82");
                self.hear(request.body())
            }
            [guest] => self.one(guest.parse().unwrap()),
            [guest, "console"] => match self.one(guest.parse().unwrap()) {
                (200, _) => {
                    let log = "one\ntwo\nthree\n".into();
                    return Ok(Response::new(log));
                }
                nobodys => nobodys,
            },
            [guest, _] => {
                let query = request.uri().query().unwrap();
                let id = query.strip_prefix("id=").unwrap().to_owned();
                let left = self.with(|world| {
                    world.ids.push(id);
                    world.left.as_mut().map(|left| {
                        *left = left.saturating_sub(1);
                        *left
                    })
                });
                let acted = self.act(guest.parse().unwrap(), request.body());
                if left == Some(0) {
                    self.with(|world| (world.left, world.away) = (None, true));
                }
                if self.with(|world| world.loses) {
                    return Err(refused());
                }
                acted
            }
            _ => (404, json!({})),
        };
        let mut response = Response::new(body.to_string().into());
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        Ok(response)
    }

    fn one(&self, guest: Uuid) -> (u16, Value) {
        let known = self.with(|world| world.guests.get(&guest).copied());
        known.map_or((404, refusal("not_found")), |known| {
            (200, shown((guest, known)))
        })
    }

    fn act(&self, guest: Uuid, body: &[u8]) -> (u16, Value) {
        let action: GuestAction = berth_wire::decode(body).unwrap();
        self.with(|world| {
            world.asked.push(action.clone());
            if let Some((status, code)) = world.refuses {
                return (status, refusal(code));
            }
            let now = match action {
                GuestAction::Stop { .. } => ("stopped", "shut off"),
                GuestAction::Pause {} => ("paused", "paused"),
                GuestAction::Rescue { .. } => ("rescued", "running"),
                _ => ("active", "running"),
            };
            world.guests.insert(guest, (now.0, Some(now.1)));
            (200, shown((guest, (now.0, Some(now.1)))))
        })
    }

    fn http(&self) -> HttpService {
        let agent = self.clone();
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let agent = agent.clone();
            async move {
                let path = request.uri().path();
                while path.ends_with("/action") && agent.with(|world| world.hangs) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let guest = path.rsplit('/').next().unwrap().parse();
                if guest.is_ok_and(|guest| agent.with(|world| world.silent_of.contains(&guest))) {
                    std::future::pending::<()>().await;
                }
                agent.answer(&request)
            }
        }))
    }
}

fn refusal(code: &str) -> Value {
    json!({"api": "berth/1", "error": {"code": code, "message": "the guest is on its way"}})
}

fn shown((uuid, (status, state)): (Uuid, (&str, Option<&str>))) -> Value {
    json!({"uuid": uuid, "name": "instance", "node": HOST, "status": status, "state": state, "reason": null,
        "accelerator_requests": [], "devices": [], "steps": []})
}

fn refused() -> TransportError {
    TransportError::Refused {
        peer: "nobody".to_owned(),
    }
}

/// A Placement that knows one provider and its aggregates, and is away for all else.
#[derive(Clone, Default)]
pub(crate) struct Placement(Arc<Mutex<PlacementWorld>>);

#[derive(Default)]
struct PlacementWorld {
    aggregates: BTreeSet<Uuid>,
    generation: u64,
    away: bool,
    /// So many writes come too late.
    conflicts: u32,
}

impl Placement {
    fn with<T>(&self, f: impl FnOnce(&mut PlacementWorld) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The aggregates of the host's provider.
    pub(crate) fn aggregates(&self) -> BTreeSet<Uuid> {
        self.with(|world| world.aggregates.clone())
    }

    /// Somebody else puts it into an aggregate.
    pub(crate) fn join(&self, aggregate: Uuid) {
        self.with(|world| world.aggregates.insert(aggregate));
    }

    /// It does not answer any more, or again.
    pub(crate) fn is_away(&self, away: bool) {
        self.with(|world| world.away = away);
    }

    /// Others write before the next so many writes.
    pub(crate) fn conflicts(&self, conflicts: u32) {
        self.with(|world| world.conflicts = conflicts);
    }

    fn answer(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let provider = Uuid::from_u128(2);
        let of_provider = format!("/resource_providers/{provider}/aggregates");
        let uri = request.uri();
        let member_of = uri
            .query()
            .and_then(|query| query.strip_prefix("member_of="));
        let answer = self.with(|world| {
            if world.away {
                return None;
            }
            let shown = |world: &PlacementWorld| json!({"aggregates": world.aggregates, "resource_provider_generation": world.generation});
            match (request.method().as_str(), uri.path(), member_of) {
                ("GET", "/resource_providers", Some(aggregate)) => {
                    let one = json!({"uuid": provider, "name": HOST, "generation": world.generation,
                        "parent_provider_uuid": null, "root_provider_uuid": provider});
                    let is_in = world.aggregates.contains(&aggregate.parse().unwrap());
                    let found: Vec<Value> = is_in.then_some(one).into_iter().collect();
                    Some((200, json!({"resource_providers": found})))
                }
                ("GET", path, _) if path == of_provider => Some((200, shown(world))),
                ("PUT", path, _) if path == of_provider => {
                    let body: Value = serde_json::from_slice(request.body()).unwrap();
                    if world.conflicts > 0 {
                        world.conflicts -= 1;
                        world.generation += 1;
                    }
                    if body["resource_provider_generation"] != world.generation {
                        return Some((409, json!({"errors": [{"status": 409, "code": "placement.concurrent_update", "detail": "late", "title": "Conflict"}]})));
                    }
                    world.generation += 1;
                    world.aggregates = serde_json::from_value(body["aggregates"].clone()).unwrap();
                    Some((200, shown(world)))
                }
                _ => None,
            }
        });
        let (status, body) = answer.ok_or_else(refused)?;
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        Ok(response)
    }

    fn http(&self) -> HttpService {
        let placement = self.clone();
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let answer = placement.answer(&request);
            async move { answer }
        }))
    }
}

fn away() -> HttpService {
    HttpService::new(service_fn(|_: Request<Bytes>| async {
        Err::<Response<Bytes>, _>(refused())
    }))
}

pub(crate) struct Cloud {
    /// The tables of the hosts.
    pub(crate) store: SqlStore,
    pub(crate) hosts: Hosts,
    pub(crate) journal: Arc<SqlJournal>,
    pub(crate) conductor: Conductor,
    pub(crate) agent: Agent,
    pub(crate) placement: Placement,
}

impl Cloud {
    pub(crate) async fn new() -> Self {
        Self::with(SqlJournal::in_memory().await.unwrap()).await
    }

    /// One whose conductor has this journal.
    pub(crate) async fn with(journal: SqlJournal) -> Self {
        let store = SqlStore::in_memory().await.unwrap();
        berth_hosts::prepare(&store).await.unwrap();
        let hosts = Hosts::new(store.clone(), HostsOptions::default());
        hosts.tell(HOST, state()).await.unwrap();
        let journal = Arc::new(journal);
        let (agent, placement) = (Agent::default(), Placement::default());
        let auth = || Auth::none("http://nobody").unwrap();
        let options = AdapterOptions::default();
        let scheduler = Scheduler::new(SchedulerOptions::default()).unwrap();
        let parts = ConductorParts {
            journal: Arc::clone(&journal) as Arc<dyn BootJournal>,
            placement: PlacementClient::new(placement.http(), auth(), &options),
            accelerators: AcceleratorClient::new(away(), auth(), &options),
            agents: Arc::new(EveryNode(GuestClient::new(agent.http(), auth(), &options))),
            scheduler: FilterScheduler::new(scheduler, hosts.clone()),
        };
        Self {
            store,
            hosts,
            journal,
            conductor: Conductor::open(parts, ConductorOptions::default()),
            agent,
            placement,
        }
    }

    /// What the API stands on.
    pub(crate) fn parts(&self, store: SqlStore) -> (ComputeParts, ComputeOptions) {
        let image = FoundImage {
            body: ImageBody {
                location: ImageLocation::Url("http://images/a".to_owned()),
                checksum: Some(format!("sha256:{}", "a".repeat(64))),
                format: "qcow2".to_owned(),
                properties: BTreeMap::from([("os_distro".to_owned(), "debian".to_owned())]),
            },
            min_ram: 128,
            min_disk: 2,
        };
        let parts = ComputeParts {
            store,
            conductor: self.conductor.clone(),
            hosts: self.hosts.clone(),
            images: Arc::new(BTreeMap::from([
                (IMAGE, image.clone()),
                (OTHER_IMAGE, image),
            ])),
            quota: None,
        };
        let options = ComputeOptions {
            most_at_once: 5,
            pause: Duration::from_millis(5),
            ..ComputeOptions::default()
        };
        (parts, options)
    }

    /// A guest's boot has come so far, on the host.
    pub(crate) async fn is_at(&self, guest: Uuid, course: &Course) {
        self.is_on(guest, HOST, StepState::Done, course).await;
    }

    /// A guest's boot has come so far; how it stands with what it claimed of a node.
    pub(crate) async fn is_on(&self, guest: Uuid, node: &str, claim: StepState, course: &Course) {
        let guest = ConsumerUuid::from(guest);
        let body =
            json!({"allocations": {(Uuid::from_u128(2).to_string()): {"resources": {"VCPU": 1}}}});
        let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
        let chosen = Chosen {
            host: Uuid::from_u128(2).into(),
            node: NodeName::new(node).unwrap(),
            host_name: Some(node.to_owned()),
            cell: None,
            candidate: Candidate::of_body(&body).unwrap(),
            limits: LimitsBody::default(),
        };
        let claimed = StepRecord {
            state: claim,
            detail: StepDetail::Claim(Box::new(chosen)),
        };
        self.journal
            .note(guest, 1, BootStep::Claim, &claimed)
            .await
            .unwrap();
        self.journal.turn(guest, course).await.unwrap();
    }

    /// The conductor is done with the guest, whatever was in its way.
    pub(crate) async fn is_gone(&self, guest: Uuid) {
        self.journal.forget(guest.into()).await.unwrap();
    }
}

fn state() -> HostStateBody {
    let node = json!({"uuid": Uuid::from_u128(2), "hypervisor_hostname": HOST, "hypervisor_type": "QEMU",
        "hypervisor_version": 8_000_000, "vcpus": 8, "vcpus_used": 0, "memory_mb": 8192, "memory_mb_used": 0, "local_gb": 100,
        "local_gb_used": 0, "disk_available_least": null, "cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0,
        "disk_allocation_ratio": 1.0, "instances": {}, "num_io_ops": 0, "failed_builds": 0});
    let node: NodeStateBody = berth_wire::decode(node.to_string().as_bytes()).unwrap();
    HostStateBody {
        service: ServiceBody::default(),
        nodes: vec![node],
    }
}

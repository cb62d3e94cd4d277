//! Test doubles of the services that the API depends on: a real conductor with an in-memory journal and an unreachable
//! Placement, and a fake agent that carries out actions. Tests set the progress of a guest by writing to the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_client::placement::Candidate;
use berth_client::{
    AcceleratorClient, AdapterOptions, Auth, GuestClient, HttpService, NetworkClient,
    PlacementClient, TransportError, UpgradedConnection,
};
use berth_compute::{ComputeOptions, ComputeParts, ConsoleOptions, FoundImage};
use berth_conductor::journal::{
    BootGoal, BootJournal, BootStep, BootStepDetail, BootStepRecord, ChosenHost, SqlBootJournal,
    StepState,
};
use berth_conductor::{Conductor, ConductorOptions, ConductorParts, FilterScheduler, SingleAgent};
use berth_hosts::{Hosts, HostsOptions};
use berth_model::{ConsumerUuid, NodeName};
use berth_quota::QuotaLimits;
use berth_scheduler::SchedulerOptions;
use berth_scheduler::select::Scheduler;
use berth_store::SqlStore;
use berth_wire::guest::{ConfigDriveChangeBody, GuestAction, ImageBody, ImageLocation, LimitsBody};
use berth_wire::host_state::{HostStateBody, NodeStateBody, ServiceBody};
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tower::service_fn;
use uuid::Uuid;

/// The name of the only host and of its node.
pub(crate) const HOST: &str = "compute1";

pub(crate) const IMAGE: Uuid = Uuid::from_u128(0x1111_1111_2222_4333_8444_0000_0000_00aa);

pub(crate) const OTHER_IMAGE: Uuid = Uuid::from_u128(0x1111_1111_2222_4333_8444_0000_0000_00bb);

/// An image that was uploaded from an encrypted volume.
pub(crate) const ENCRYPTED_IMAGE: Uuid = Uuid::from_u128(0x1111_1111_2222_4333_8444_0000_0000_00cc);

/// An image that boots by UEFI and places its guests.
pub(crate) const UEFI_IMAGE: Uuid = Uuid::from_u128(0x1111_1111_2222_4333_8444_0000_0000_00dd);

/// The state of each guest: status and power state.
type Guests = BTreeMap<Uuid, (&'static str, Option<&'static str>)>;

#[derive(Default)]
struct AgentState {
    guests: Guests,
    away: bool,
    /// Status and code with which it refuses actions.
    refuses: Option<(u16, &'static str)>,
    /// Carries out actions, but its answers are lost.
    loses: bool,
    /// Neither carries out nor answers actions.
    hangs: bool,
    /// Queries about these guests are not answered.
    silent_of: BTreeSet<Uuid>,
    /// The number of actions until it becomes unreachable.
    left: Option<u32>,
    /// Its driver counts nothing of guests.
    has_no_statistics: bool,
    /// Its guests were started without consoles.
    has_no_console: bool,
    actions: Vec<GuestAction>,
    /// Changes of config drives, each with the number of actions before it.
    drive_changes: Vec<(usize, ConfigDriveChangeBody)>,
    ids: Vec<String>,
    events: Vec<Value>,
}

/// The fake agent of the host.
#[derive(Clone, Default)]
pub(crate) struct Agent(Arc<Mutex<AgentState>>);

impl Agent {
    fn with<T>(&self, f: impl FnOnce(&mut AgentState) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the state of a guest.
    pub(crate) fn set_guest(&self, guest: Uuid, status: &'static str, state: &'static str) {
        self.with(|inner| inner.guests.insert(guest, (status, Some(state))));
    }

    pub(crate) fn remove_guest(&self, guest: Uuid) {
        self.with(|inner| inner.guests.remove(&guest));
    }

    /// Makes the agent unreachable or reachable.
    pub(crate) fn set_unreachable(&self, away: bool) {
        self.with(|inner| inner.away = away);
    }

    /// Makes the agent refuse all actions, or none.
    pub(crate) fn refuse_actions(&self, how: Option<(u16, &'static str)>) {
        self.with(|inner| inner.refuses = how);
    }

    /// Makes the agent's answers to actions get lost.
    pub(crate) fn lose_answers(&self, loses: bool) {
        self.with(|inner| inner.loses = loses);
    }

    /// Makes actions wait until this is reset.
    pub(crate) fn block_actions(&self, hangs: bool) {
        self.with(|inner| inner.hangs = hangs);
    }

    /// Leaves queries about this guest unanswered.
    pub(crate) fn ignore_guest(&self, guest: Uuid) {
        self.with(|inner| inner.silent_of.insert(guest));
    }

    /// Makes the agent unreachable after this number of actions.
    pub(crate) fn fail_after(&self, actions: u32) {
        self.with(|inner| inner.left = Some(actions));
    }

    /// Makes the driver of the agent one that counts nothing.
    pub(crate) fn count_nothing(&self) {
        self.with(|inner| inner.has_no_statistics = true);
    }

    /// Makes the guests of the agent such that were started without consoles.
    pub(crate) fn have_no_consoles(&self) {
        self.with(|inner| inner.has_no_console = true);
    }

    /// The ids of the received actions.
    pub(crate) fn received_ids(&self) -> Vec<String> {
        self.with(|inner| inner.ids.clone())
    }

    pub(crate) fn received_actions(&self) -> Vec<GuestAction> {
        self.with(|inner| inner.actions.clone())
    }

    /// The received changes of config drives, each with the number of actions before it.
    pub(crate) fn received_drive_changes(&self) -> Vec<(usize, ConfigDriveChangeBody)> {
        self.with(|inner| inner.drive_changes.clone())
    }

    pub(crate) fn received_events(&self) -> Vec<Value> {
        self.with(|inner| inner.events.clone())
    }

    /// Answers events: those of known guests are accepted.
    fn answer_events(&self, body: &[u8]) -> (u16, Value) {
        let mut body: Value = serde_json::from_slice(body).unwrap();
        for event in body["events"].as_array_mut().unwrap() {
            let guest: Uuid = event["server_uuid"].as_str().unwrap().parse().unwrap();
            let code = self.with(|inner| {
                inner.events.push(event.clone());
                match inner.guests.contains_key(&guest) {
                    true => 200,
                    false => 422,
                }
            });
            event["code"] = json!(code);
        }
        (207, body)
    }

    fn answer(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        if self.with(|inner| inner.away) {
            return Err(refused());
        }
        let path = request.uri().path().trim_start_matches("/v1/guests");
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (status, body) = match parts[..] {
            [] => {
                let guests = self.with(|inner| inner.guests.clone());
                let guests: Vec<Value> = guests.into_iter().map(shown).collect();
                (200, json!({"api": "berth/1", "guests": guests}))
            }
            ["v2.1", "os-server-external-events"] => {
                let version = request.headers().get("openstack-api-version").unwrap();
                assert_eq!(version, "compute 2.82");
                self.answer_events(request.body())
            }
            [guest] => self.one(guest.parse().unwrap()),
            [guest, "console"] => match self.one(guest.parse().unwrap()) {
                (200, _) => {
                    let log = "one\ntwo\nthree\n".into();
                    return Ok(Response::new(log));
                }
                missing => missing,
            },
            [guest, "console", kind] => match self.one(guest.parse().unwrap()) {
                (200, guest) => return Ok(self.console(&guest, kind, request)),
                missing => missing,
            },
            [guest, "diagnostics"] => match self.one(guest.parse().unwrap()) {
                (200, _) if self.with(|inner| inner.has_no_statistics) => {
                    (501, refusal("not_supported"))
                }
                (200, _) => (200, statistics()),
                missing => missing,
            },
            [guest, _] => {
                let query = request.uri().query().unwrap();
                let id = query.strip_prefix("id=").unwrap().to_owned();
                let left = self.with(|inner| {
                    inner.ids.push(id);
                    inner.left.as_mut().map(|left| {
                        *left = left.saturating_sub(1);
                        *left
                    })
                });
                let acted = self.act(guest.parse().unwrap(), request.body());
                if left == Some(0) {
                    self.with(|inner| (inner.left, inner.away) = (None, true));
                }
                if self.with(|inner| inner.loses) {
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
        let known = self.with(|inner| inner.guests.get(&guest).copied());
        known.map_or((404, refusal("not_found")), |known| {
            (200, shown((guest, known)))
        })
    }

    /// A console of a guest; its first bytes are its kind.
    fn console(&self, guest: &Value, kind: &str, request: &Request<Bytes>) -> Response<Bytes> {
        let respond = |status: u16, body: &Value| {
            let mut response = Response::new(Bytes::from(body.to_string()));
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            response
        };
        if guest["state"] != "running" || self.with(|inner| inner.has_no_console) {
            let message = "guest has no vnc console: it gets one at its next start";
            let error = json!({"code": "no_console", "message": message});
            return respond(409, &json!({"api": "berth/1", "error": error}));
        }
        if request.headers().get("upgrade").is_none() {
            let (host, port) = ("127.0.0.1", 5900);
            return respond(200, &json!({"kind": kind, "host": host, "port": port}));
        }
        let (mut guest, console) = tokio::io::duplex(64);
        let greeting = kind.to_owned();
        tokio::spawn(async move { guest.write_all(greeting.as_bytes()).await });
        let mut response = respond(101, &Value::Null);
        let connection = UpgradedConnection::new(console);
        response.extensions_mut().insert(connection);
        response
    }

    fn act(&self, guest: Uuid, body: &[u8]) -> (u16, Value) {
        let action: GuestAction = berth_wire::decode(body).unwrap();
        self.with(|inner| {
            if let GuestAction::UpdateConfigDrive { change } = &action {
                let known = inner.guests.get(&guest).copied();
                let Some(known) = known.filter(|_| inner.refuses.is_none()) else {
                    let (status, code) = inner.refuses.unwrap_or((404, "not_found"));
                    return (status, refusal(code));
                };
                let before = inner.actions.len();
                inner.drive_changes.push((before, change.clone()));
                return (200, shown((guest, known)));
            }
            inner.actions.push(action.clone());
            if let Some((status, code)) = inner.refuses {
                return (status, refusal(code));
            }
            let now = match action {
                GuestAction::Stop { .. } => ("stopped", "shut off"),
                GuestAction::Pause {} => ("paused", "paused"),
                GuestAction::Rescue { .. } => ("rescued", "running"),
                _ => ("active", "running"),
            };
            inner.guests.insert(guest, (now.0, Some(now.1)));
            (200, shown((guest, (now.0, Some(now.1)))))
        })
    }

    fn http(&self) -> HttpService {
        let agent = self.clone();
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let agent = agent.clone();
            async move {
                let path = request.uri().path();
                while path.ends_with("/action") && agent.with(|inner| inner.hangs) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let guest = path.rsplit('/').next().unwrap().parse();
                if guest.is_ok_and(|guest| agent.with(|inner| inner.silent_of.contains(&guest))) {
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
        "accelerator_requests": [], "devices": [], "steps": [],
        "interfaces": [{"network": "default", "mac": "fa:00:00:00:00:01", "addresses": ["192.0.2.7", "2001:db8::7"]},
            {"network": "br-ex", "mac": "fa:00:00:00:00:02", "addresses": []}],
        "cells": [{"vcpus": [0, 1], "memory_mb": 512, "host_cell": 1, "pins": {"0": 4, "1": 5}}],
        "page_size_kib": 2048})
}

fn statistics() -> Value {
    json!({"driver": "libvirt", "memory_maximum_mb": 512, "memory_used_mb": 256, "vcpus": 1, "cpu_time_ns": 7,
        "disks": [{"name": "vda", "read_bytes": 1, "read_requests": 2, "write_bytes": 3, "write_requests": 4, "errors": null}],
        "interfaces": [{"device": "vnet0", "mac": "fa:00:00:00:00:01",
            "received": {"bytes": 10, "packets": 11, "errors": 12, "dropped": 13},
            "sent": {"bytes": 20, "packets": 21, "errors": 22, "dropped": 23}}]})
}

fn with_properties(image: &FoundImage, properties: &[(&str, &str)]) -> FoundImage {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut image = image.clone();
    image.body.properties.extend(properties.iter().map(pair));
    image
}

fn refused() -> TransportError {
    TransportError::Refused {
        peer: "nobody".to_owned(),
    }
}

/// A fake Placement with one provider and its aggregates. All other requests fail.
#[derive(Clone, Default)]
pub(crate) struct Placement(Arc<Mutex<PlacementState>>);

#[derive(Default)]
struct PlacementState {
    aggregates: BTreeSet<Uuid>,
    generation: u64,
    away: bool,
    /// The number of writes that will conflict.
    conflicts: u32,
}

impl Placement {
    fn with<T>(&self, f: impl FnOnce(&mut PlacementState) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The aggregates of the host's provider.
    pub(crate) fn aggregates(&self) -> BTreeSet<Uuid> {
        self.with(|inner| inner.aggregates.clone())
    }

    /// Adds the provider to an aggregate, as another client would.
    pub(crate) fn join(&self, aggregate: Uuid) {
        self.with(|inner| inner.aggregates.insert(aggregate));
    }

    /// Makes Placement unreachable or reachable.
    pub(crate) fn set_unreachable(&self, away: bool) {
        self.with(|inner| inner.away = away);
    }

    /// Makes the next writes conflict.
    pub(crate) fn conflicts(&self, conflicts: u32) {
        self.with(|inner| inner.conflicts = conflicts);
    }

    fn answer(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let provider = Uuid::from_u128(2);
        let of_provider = format!("/resource_providers/{provider}/aggregates");
        let uri = request.uri();
        let member_of = uri
            .query()
            .and_then(|query| query.strip_prefix("member_of="));
        let answer = self.with(|inner| {
            if inner.away {
                return None;
            }
            let shown = |inner: &PlacementState| json!({"aggregates": inner.aggregates, "resource_provider_generation": inner.generation});
            match (request.method().as_str(), uri.path(), member_of) {
                ("GET", "/resource_providers", Some(aggregate)) => {
                    let one = json!({"uuid": provider, "name": HOST, "generation": inner.generation,
                        "parent_provider_uuid": null, "root_provider_uuid": provider});
                    let is_in = inner.aggregates.contains(&aggregate.parse().unwrap());
                    let found: Vec<Value> = is_in.then_some(one).into_iter().collect();
                    Some((200, json!({"resource_providers": found})))
                }
                ("GET", path, _) if path == of_provider => Some((200, shown(inner))),
                ("PUT", path, _) if path == of_provider => {
                    let body: Value = serde_json::from_slice(request.body()).unwrap();
                    if inner.conflicts > 0 {
                        inner.conflicts -= 1;
                        inner.generation += 1;
                    }
                    if body["resource_provider_generation"] != inner.generation {
                        return Some((409, json!({"errors": [{"status": 409, "code": "placement.concurrent_update", "detail": "late", "title": "Conflict"}]})));
                    }
                    inner.generation += 1;
                    inner.aggregates = serde_json::from_value(body["aggregates"].clone()).unwrap();
                    Some((200, shown(inner)))
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

/// The accelerator service's only device profile.
pub(crate) const PROFILE: &str = "gpu";

/// A fake accelerator service with one device profile. It can be unreachable, as all other requests are.
#[derive(Clone, Default)]
pub(crate) struct Accelerators(Arc<AtomicBool>);

impl Accelerators {
    /// Makes the service answer.
    pub(crate) fn set_reachable(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn http(&self) -> HttpService {
        let reachable = Arc::clone(&self.0);
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let is_known = reachable.load(Ordering::Relaxed)
                && request.method() == "GET"
                && request.uri().path() == "/v2/device_profiles";
            let query = request.uri().query().unwrap_or_default();
            let is_named = query == format!("name={PROFILE}");
            let profile = json!({"name": PROFILE, "uuid": Uuid::from_u128(0xdd), "groups": [{"resources:PGPU": "1"}]});
            let found: Vec<Value> = is_named.then_some(profile).into_iter().collect();
            let answer = json!({ "device_profiles": found }).to_string();
            async move {
                match is_known {
                    true => Ok(Response::new(Bytes::from(answer))),
                    false => Err(refused()),
                }
            }
        }))
    }
}

/// A fake Neutron with one port on one network.
#[derive(Clone, Default)]
pub(crate) struct Neutron(Arc<Mutex<Option<(Uuid, &'static str)>>>);

/// The port of the fake Neutron.
pub(crate) const PORT: Uuid = Uuid::from_u128(0xaa << 96);

impl Neutron {
    /// Gives the port to a server, with this address.
    pub(crate) fn set_port(&self, server: Uuid, address: &'static str) {
        let mut port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *port = Some((server, address));
    }

    fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let port = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (network, subnet) = (Uuid::from_u128(0xbb), Uuid::from_u128(0xcc));
        let query = request.uri().query().unwrap_or_default();
        let found = match (request.uri().path(), port) {
            ("/v2.0/ports", Some((server, address)))
                if query.contains(&format!("device_id={server}")) =>
            {
                let fixed_ip = json!({"subnet_id": subnet, "ip_address": address});
                vec![
                    json!({"id": PORT, "network_id": network, "mac_address": "fa:16:3e:00:00:01", "fixed_ips": [fixed_ip],
                        "device_id": server, "status": "ACTIVE", "binding:vif_type": "ovs", "binding:vnic_type": "normal"}),
                ]
            }
            ("/v2.0/networks", _) => {
                vec![json!({"id": network, "name": "private", "subnets": [subnet]})]
            }
            ("/v2.0/subnets", _) => {
                vec![
                    json!({"id": subnet, "network_id": network, "cidr": "192.0.2.0/24", "ip_version": 4}),
                ]
            }
            _ => Vec::new(),
        };
        let name = request.uri().path().rsplit('/').next().unwrap();
        Response::new(Bytes::from(json!({ name: found }).to_string()))
    }

    fn http(&self) -> HttpService {
        let neutron = self.clone();
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let answer = neutron.answer(&request);
            async move { Ok::<_, TransportError>(answer) }
        }))
    }
}

/// Whether a cloud has a network service.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NetworkUse {
    Neutron,
    Absent,
}

pub(crate) struct Cloud {
    /// The tables of the hosts.
    pub(crate) store: SqlStore,
    pub(crate) hosts: Hosts,
    pub(crate) journal: Arc<SqlBootJournal>,
    pub(crate) conductor: Conductor,
    pub(crate) agent: Agent,
    pub(crate) placement: Placement,
    pub(crate) accelerators: Accelerators,
    pub(crate) neutron: Neutron,
}

impl Cloud {
    pub(crate) async fn new() -> Self {
        Self::with(SqlBootJournal::in_memory().await.unwrap()).await
    }

    /// With the fake Neutron.
    pub(crate) async fn with_neutron() -> Self {
        let journal = SqlBootJournal::in_memory().await.unwrap();
        Self::over(journal, NetworkUse::Neutron).await
    }

    /// With this journal of the conductor.
    pub(crate) async fn with(journal: SqlBootJournal) -> Self {
        Self::over(journal, NetworkUse::Absent).await
    }

    async fn over(journal: SqlBootJournal, networks: NetworkUse) -> Self {
        let store = SqlStore::in_memory().await.unwrap();
        berth_hosts::prepare(&store).await.unwrap();
        let hosts = Hosts::new(store.clone(), HostsOptions::default());
        hosts.store_state(HOST, state()).await.unwrap();
        let journal = Arc::new(journal);
        let (agent, placement) = (Agent::default(), Placement::default());
        let (accelerators, neutron) = (Accelerators::default(), Neutron::default());
        let auth = || Auth::none("http://nobody").unwrap();
        let options = AdapterOptions::default();
        let scheduler = Scheduler::new(SchedulerOptions::default()).unwrap();
        let parts = ConductorParts {
            journal: Arc::clone(&journal) as Arc<dyn BootJournal>,
            placement: PlacementClient::new(placement.http(), auth(), &options),
            accelerators: AcceleratorClient::new(accelerators.http(), auth(), &options),
            networks: (networks == NetworkUse::Neutron)
                .then(|| NetworkClient::new(neutron.http(), auth(), &options)),
            agents: Arc::new(SingleAgent(GuestClient::new(
                agent.http(),
                auth(),
                &options,
            ))),
            scheduler: FilterScheduler::new(scheduler, hosts.clone()),
        };
        Self {
            store,
            hosts,
            journal,
            conductor: Conductor::open(parts, ConductorOptions::default()),
            agent,
            placement,
            accelerators,
            neutron,
        }
    }

    /// The parts of the API.
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
                (
                    ENCRYPTED_IMAGE,
                    with_properties(&image, &[("cinder_encryption_key_id", "8f2b")]),
                ),
                (
                    UEFI_IMAGE,
                    with_properties(
                        &image,
                        &[("hw_firmware_type", "uefi"), ("hw_numa_nodes", "1")],
                    ),
                ),
                (OTHER_IMAGE, image),
            ])),
            quota: None,
        };
        let options = ComputeOptions {
            most_at_once: 5,
            quotas: QuotaLimits::unlimited(),
            reconcile_interval: Duration::from_millis(5),
            consoles: ConsoleOptions {
                vnc: Some("http://proxy:6080/vnc_lite.html".to_owned()),
                serial: Some("ws://proxy:6083/".to_owned()),
                ..ConsoleOptions::default()
            },
            ..ComputeOptions::default()
        };
        (parts, options)
    }

    /// Sets the goal of a guest's boot on the host.
    pub(crate) async fn set_goal(&self, guest: Uuid, goal: &BootGoal) {
        self.set_progress(guest, HOST, StepState::Done, goal).await;
    }

    /// Sets the goal of a guest's boot and the state of its claim on a node.
    pub(crate) async fn set_progress(
        &self,
        guest: Uuid,
        node: &str,
        claim: StepState,
        goal: &BootGoal,
    ) {
        let guest = ConsumerUuid::from(guest);
        let body =
            json!({"allocations": {(Uuid::from_u128(2).to_string()): {"resources": {"VCPU": 1}}}});
        let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
        let chosen = ChosenHost {
            host: Uuid::from_u128(2).into(),
            node: NodeName::new(node).unwrap(),
            host_name: Some(node.to_owned()),
            cell: None,
            zone: None,
            candidate: Candidate::of_body(&body).unwrap(),
            limits: LimitsBody::default(),
        };
        let claimed = BootStepRecord {
            state: claim,
            detail: BootStepDetail::Claim(Box::new(chosen)),
        };
        self.journal
            .record_step(guest, 1, BootStep::Claim, &claimed)
            .await
            .unwrap();
        self.journal.set_goal(guest, goal).await.unwrap();
    }

    /// Records the fake Neutron's port as the bound port of a guest.
    pub(crate) async fn bind_port(&self, guest: Uuid) {
        let network = json!({"id": Uuid::from_u128(0xbb), "label": "private"});
        let vif =
            json!({"id": PORT, "address": "fa:16:3e:00:00:01", "type": "ovs", "network": network});
        let bound = BootStepRecord {
            state: StepState::Done,
            detail: BootStepDetail::Vifs(vec![serde_json::from_value(vif).unwrap()]),
        };
        let step = BootStep::PortBinding;
        let recorded = self.journal.record_step(guest.into(), 1, step, &bound);
        recorded.await.unwrap();
    }

    /// Removes the guest from the conductor's journal.
    pub(crate) async fn forget_guest(&self, guest: Uuid) {
        self.journal.delete_guest(guest.into()).await.unwrap();
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

//! The agent of the node: it builds guests in memory. Like the real one, it checks whether their accelerator requests
//! are bound; it also checks whether their allocations are claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::{AcceleratorClient, HttpService, PlacementClient, TransportError};
use berth_model::{ArqState, ArqUuid, ConsumerUuid};
use berth_wire::guest::{
    GuestAction, GuestBody, GuestBuild, InterfaceBody, NetworkFunctionBody, NetworkSource,
};
use berth_wire::network_info::VifBody;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde_json::json;
use tower::service_fn;
use uuid::Uuid;

use super::body_of;

/// How often a Placement is asked that gives no answer.
const PATIENCE: usize = 100;

/// How the agent is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AgentBehaviour {
    /// It builds every requested guest.
    #[default]
    Well,
    /// It does not accept requests.
    Refuses,
    /// It answers the first request with a conflict of unknown cause.
    ConflictsOnce,
    /// It has no room for the first request.
    NoRoomForOne,
    /// It accepts them and cannot build.
    CannotBuild,
    /// It fails to build the first guest.
    CannotBuildOne,
    /// It accepts them and cannot use their image.
    BadImage,
    /// It accepts them and has no room for their disks.
    NoDisks,
    /// It does not answer.
    Away,
    /// It never gets done.
    Slow,
    /// It takes a delete, and never gets done with it.
    SlowToDelete,
    /// Its journal is lost: it knows no guest, but observes the running ones.
    Forgetful,
    /// It takes a delete, and its journal is lost before it acts.
    ForgetsTheDelete,
    /// It attaches no ports, and detaches none.
    KeepsItsPorts,
}

#[derive(Clone)]
struct BuiltGuest {
    build: GuestBuild,
    status: &'static str,
    reason: Option<String>,
    blame: Option<&'static str>,
    /// The ports that were attached later.
    attached: BTreeSet<Uuid>,
    /// The ports that it was built with and no longer has.
    detached: BTreeSet<Uuid>,
    /// The direct ports that were bound to their functions.
    bound: BTreeSet<Uuid>,
    /// The functions that were selected for ports that are attached later.
    selected: Vec<NetworkFunctionBody>,
}

impl BuiltGuest {
    /// The functions of direct ports, in their order.
    fn functions(&self) -> Vec<NetworkFunctionBody> {
        let ports = self.build.networks.iter();
        let direct = ports.filter_map(|network| match &network.source {
            NetworkSource::Port(vif) if is_function(vif) => Some(&**vif),
            _ => None,
        });
        let functions = (0..).zip(direct);
        let functions = functions.map(|(number, vif)| function(number, vif));
        functions.chain(self.selected.iter().cloned()).collect()
    }

    fn unbound_functions(&self) -> Vec<NetworkFunctionBody> {
        let mut functions = self.functions();
        functions.retain(|function| !self.bound.contains(&function.port));
        functions
    }
}

/// Whether a port needs a network function.
fn is_function(vif: &VifBody) -> bool {
    ["direct", "macvtap", "direct-physical"].contains(&vif.vnic_type.as_str())
}

/// A function of the host's cards for this port: of the card 85:00.0, or the whole card 86:00.0.
fn function(number: u32, vif: &VifBody) -> NetworkFunctionBody {
    if vif.vnic_type == "direct-physical" {
        return NetworkFunctionBody {
            port: vif.id,
            pci_slot: "0000:86:00.0".to_owned(),
            pci_vendor_info: "8086:10c9".to_owned(),
            physical_network: "storage".to_owned(),
            pf_mac_address: Some("52:54:00:00:00:86".to_owned()),
            vf_num: None,
        };
    }
    NetworkFunctionBody {
        port: vif.id,
        pci_slot: format!("0000:85:10.{number}"),
        pci_vendor_info: "8086:10ca".to_owned(),
        physical_network: "storage".to_owned(),
        pf_mac_address: Some("52:54:00:00:00:85".to_owned()),
        vf_num: Some(number),
    }
}

/// Whether a virtual interface is bound to this function.
fn is_bound(vif: &VifBody, function: &NetworkFunctionBody) -> bool {
    let slot = vif.profile.as_ref().and_then(|it| it.get("pci_slot"));
    let slot = slot.and_then(|slot| slot.as_str());
    let vif_type = match function.vf_num {
        Some(_) => "hw_veb",
        None => "hostdev_physical",
    };
    vif.id == function.port && vif.vif_type == vif_type && slot == Some(&function.pci_slot)
}

#[derive(Default)]
struct AgentWorld {
    behaviour: AgentBehaviour,
    guests: BTreeMap<ConsumerUuid, BuiltGuest>,
    /// What must never be seen.
    broken: Vec<String>,
    builds: usize,
}

#[derive(Clone)]
pub struct BootAgent {
    world: Arc<Mutex<AgentWorld>>,
    placement: PlacementClient,
    accelerators: AcceleratorClient,
}

impl BootAgent {
    pub(crate) fn new(placement: PlacementClient, accelerators: AcceleratorClient) -> Self {
        Self {
            world: Arc::default(),
            placement,
            accelerators,
        }
    }

    fn world(&self) -> MutexGuard<'_, AgentWorld> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it is so.
    pub fn is(&self, behaviour: AgentBehaviour) {
        self.world().behaviour = behaviour;
    }

    /// What it builds, by guest.
    #[must_use]
    pub fn guests(&self) -> BTreeMap<ConsumerUuid, GuestBuild> {
        let world = self.world();
        let guests = world.guests.iter();
        guests
            .filter(|(_, built)| built.status != "failed")
            .map(|(uuid, built)| (*uuid, built.build.clone()))
            .collect()
    }

    /// The guest is gone there, past its conductor.
    pub fn forget(&self, guest: ConsumerUuid) {
        self.world().guests.remove(&guest);
    }

    /// Whether it knows the guest, in whatever state.
    #[must_use]
    pub fn knows(&self, guest: ConsumerUuid) -> bool {
        self.world().guests.contains_key(&guest)
    }

    /// Whether it was asked to delete the guest, and has not done so.
    #[must_use]
    pub fn is_deleting(&self, guest: ConsumerUuid) -> bool {
        let world = self.world();
        let guest = world.guests.get(&guest);
        guest.is_some_and(|it| it.status == "deleting")
    }

    /// What it saw that must never be.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        self.world().broken.clone()
    }

    pub(crate) fn http(&self) -> HttpService {
        let agent = self.clone();
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let agent = agent.clone();
            async move { agent.answer(request).await }
        }))
    }

    async fn answer(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        if self.world().behaviour == AgentBehaviour::Away {
            return Err(TransportError::Refused {
                peer: "agent.sock".to_owned(),
            });
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let one = path
            .strip_prefix("/v1/guests/")
            .and_then(|it| it.strip_suffix("/action").unwrap_or(it).parse().ok());
        Ok(match (method, one) {
            (Method::POST, None) => self.build(request.body()).await,
            (Method::GET, Some(guest)) => self.show(guest).await,
            (Method::DELETE, Some(guest)) => self.delete(guest).await,
            (Method::POST, Some(_)) if self.world().behaviour == AgentBehaviour::Slow => {
                std::future::pending().await
            }
            (Method::POST, Some(guest)) => self.act(guest, request.body()),
            _ => refusal(StatusCode::NOT_FOUND, "no_such_path", "no such path"),
        })
    }

    async fn build(&self, body: &Bytes) -> Response<Bytes> {
        let build: GuestBuild = match berth_wire::decode(body) {
            Ok(build) => build,
            Err(error) => {
                return refusal(StatusCode::BAD_REQUEST, "bad_request", &error.to_string());
            }
        };
        let uuid = ConsumerUuid::from(build.uuid);
        if self.world().behaviour == AgentBehaviour::Refuses {
            let sentence = "flavor.extra_specs.hw:numa_nodes: 9 is more than this host has";
            return refusal(StatusCode::BAD_REQUEST, "bad_request", sentence);
        }
        if self.world().behaviour == AgentBehaviour::ConflictsOnce {
            self.is(AgentBehaviour::Well);
            return answer(StatusCode::CONFLICT, &json!({}));
        }
        if self.world().behaviour == AgentBehaviour::NoRoomForOne {
            self.is(AgentBehaviour::Well);
            let sentence = "the host has no room: cell 0 lacks 2 CPUs";
            return refusal(StatusCode::CONFLICT, "no_room", sentence);
        }
        let known = self.world().guests.get(&uuid).cloned();
        if let Some(known) = known {
            return match known.build == build {
                true => answer(StatusCode::ACCEPTED, &shown(&known)),
                false => refusal(StatusCode::CONFLICT, "other", "another one has its UUID"),
            };
        }
        self.check_build(&build).await;
        let mut world = self.world();
        // Another request may have created the guest meanwhile.
        if world.guests.contains_key(&uuid) {
            return refusal(StatusCode::CONFLICT, "other", "another one has its UUID");
        }
        world.builds += 1;
        let built = BuiltGuest {
            build,
            status: "building",
            reason: None,
            blame: None,
            attached: BTreeSet::new(),
            detached: BTreeSet::new(),
            bound: BTreeSet::new(),
            selected: Vec::new(),
        };
        world.guests.insert(uuid, built.clone());
        answer(StatusCode::ACCEPTED, &shown(&built))
    }

    /// Attaches, detaches or binds ports.
    fn act(&self, guest: ConsumerUuid, body: &Bytes) -> Response<Bytes> {
        let mut world = self.world();
        if world.behaviour == AgentBehaviour::KeepsItsPorts {
            let sentence = "the guest did not release the interface";
            return refusal(StatusCode::CONFLICT, "hypervisor", sentence);
        }
        let Some(built) = world.guests.get_mut(&guest) else {
            return unknown();
        };
        let mut wrong = Vec::new();
        match berth_wire::decode(body) {
            Ok(GuestAction::BindPorts { ports }) => {
                for function in built.unbound_functions() {
                    if !ports.iter().any(|vif| is_bound(vif, &function)) {
                        wrong.push(format!("{guest}: {function:?} is not bound: {ports:?}"));
                    }
                    built.bound.insert(function.port);
                }
                if ports.len() != built.build.networks.len() {
                    wrong.push(format!("{guest} is bound to other ports than its own"));
                }
            }
            Ok(GuestAction::SelectFunction { port, .. }) => {
                if !built
                    .functions()
                    .iter()
                    .any(|function| function.port == port.id)
                {
                    built.selected.push(function(1, &port));
                }
            }
            Ok(GuestAction::AttachInterface { port }) => {
                let mut functions = built.selected.iter();
                let is_selected = functions.any(|function| is_bound(&port, function));
                if is_function(&port) != is_selected {
                    wrong.push(format!(
                        "{guest}: {port:?} is attached without its function"
                    ));
                }
                built.bound.insert(port.id);
                built.attached.insert(port.id);
            }
            Ok(GuestAction::DetachInterface { port }) => {
                built.selected.retain(|function| function.port != port);
                built.bound.remove(&port);
                if !built.attached.remove(&port) {
                    built.detached.insert(port);
                }
            }
            other => {
                let sentence = format!("not an action of this agent: {other:?}");
                return refusal(StatusCode::BAD_REQUEST, "bad_request", &sentence);
            }
        }
        let shown = shown(built);
        world.broken.extend(wrong);
        answer(StatusCode::ACCEPTED, &shown)
    }

    /// The ports that a guest has now.
    #[must_use]
    pub fn ports(&self, guest: ConsumerUuid) -> BTreeSet<Uuid> {
        let world = self.world();
        let Some(built) = world.guests.get(&guest) else {
            return BTreeSet::new();
        };
        let networks = built.build.networks.iter();
        let ports = networks.filter_map(|network| match &network.source {
            NetworkSource::Port(vif) => Some(vif.id),
            NetworkSource::Network(_) | NetworkSource::Bridge(_) => None,
        });
        let ports = ports.filter(|port| !built.detached.contains(port));
        ports.chain(built.attached.iter().copied()).collect()
    }

    /// The ports of a guest that were attached after it was built.
    #[must_use]
    pub fn attached(&self, guest: ConsumerUuid) -> BTreeSet<Uuid> {
        let world = self.world();
        let guest = world.guests.get(&guest);
        guest.map_or_else(BTreeSet::new, |built| built.attached.clone())
    }

    /// A guest that is being built has all that is its own.
    async fn check_build(&self, build: &GuestBuild) {
        let uuid = ConsumerUuid::from(build.uuid);
        let mut wrong = Vec::new();
        let mut held = self.placement.allocations(uuid).await;
        for _ in 0..PATIENCE {
            // A Placement that has too much to do says nothing of the claim.
            if held.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            held = self.placement.allocations(uuid).await;
        }
        let held = held.ok().flatten();
        let held = held.map(|held| held.resources).unwrap_or_default();
        let mut claimed: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for ((provider, class), amount) in held {
            let of_provider = claimed.entry(*provider.as_uuid()).or_default();
            of_provider.insert(class.to_string(), amount);
        }
        if claimed != build.allocations || claimed.is_empty() {
            wrong.push(format!("{uuid} is built without its claim"));
        }
        let reported = self.accelerators.arqs_of_instance(uuid).await;
        let bound = reported
            .unwrap_or_default()
            .into_iter()
            .filter_map(|reported| {
                let state = reported.arq.ok()?.state;
                let ours =
                    matches!(&state, ArqState::Bound(binding, _) if binding.hostname == build.node);
                ours.then_some(*reported.uuid.as_uuid())
            });
        let bound: BTreeSet<_> = bound.collect();
        if bound != build.accelerator_requests.iter().copied().collect() {
            wrong.push(format!("{uuid} is built without its devices"));
        }
        self.world().broken.extend(wrong);
    }

    async fn show(&self, guest: ConsumerUuid) -> Response<Bytes> {
        let (fails, requests) = {
            let mut world = self.world();
            let behaviour = world.behaviour.clone();
            let Some(built) = world.guests.get_mut(&guest) else {
                return unknown();
            };
            if behaviour == AgentBehaviour::Forgetful {
                return unknown();
            }
            let fails = match behaviour {
                AgentBehaviour::CannotBuild
                | AgentBehaviour::CannotBuildOne
                | AgentBehaviour::BadImage
                | AgentBehaviour::NoDisks => built.status == "building",
                _ => false,
            };
            if fails {
                built.status = "failed";
                let (reason, blame) = match behaviour {
                    AgentBehaviour::BadImage => {
                        ("its image cannot be used: it is no qcow2", Some("image"))
                    }
                    AgentBehaviour::NoDisks => {
                        ("its disks cannot be made on this host", Some("host"))
                    }
                    _ => ("device 0000:01:00.0 cannot be given to a guest", None),
                };
                built.reason = Some(reason.to_owned());
                built.blame = blame;
            } else if built.status == "building"
                && behaviour != AgentBehaviour::Slow
                && built.unbound_functions().is_empty()
            {
                built.status = "active";
            }
            let requests = built.build.accelerator_requests.clone();
            if fails && behaviour == AgentBehaviour::CannotBuildOne {
                world.behaviour = AgentBehaviour::Well;
            }
            (fails, requests)
        };
        if fails {
            // A failed spawn unbinds its requests and leaves them.
            let arqs = requests.into_iter().map(ArqUuid::from).collect();
            self.accelerators.unbind_arqs(&arqs).await.ok();
        }
        match self.world().guests.get(&guest) {
            Some(built) => answer(StatusCode::OK, &shown(built)),
            None => unknown(),
        }
    }

    async fn delete(&self, guest: ConsumerUuid) -> Response<Bytes> {
        let behaviour = self.world().behaviour.clone();
        if self.knows(guest) && behaviour == AgentBehaviour::Forgetful {
            let sentence = "guest instance-1 is on this host, and the journal does not know it";
            return refusal(StatusCode::CONFLICT, "guest_orphan", sentence);
        }
        if behaviour == AgentBehaviour::ForgetsTheDelete {
            self.is(AgentBehaviour::Forgetful);
            return answer(StatusCode::ACCEPTED, &json!({}));
        }
        if let Some(built) = self.world().guests.get_mut(&guest)
            && behaviour == AgentBehaviour::SlowToDelete
        {
            built.status = "deleting";
            return answer(StatusCode::ACCEPTED, &json!({}));
        }
        let Some(gone) = self.world().guests.remove(&guest) else {
            return unknown();
        };
        for arq in gone.build.accelerator_requests {
            self.accelerators.delete_arq(arq.into()).await.ok();
        }
        answer(StatusCode::ACCEPTED, &json!({}))
    }
}

fn interfaces(built: &BuiltGuest) -> Vec<InterfaceBody> {
    let networks = built.build.networks.iter();
    let networks = networks.filter(|network| match &network.source {
        NetworkSource::Port(vif) => !built.detached.contains(&vif.id),
        NetworkSource::Network(_) | NetworkSource::Bridge(_) => true,
    });
    let networks = networks.map(|network| InterfaceBody {
        network: match &network.source {
            NetworkSource::Network(name) | NetworkSource::Bridge(name) => name.clone(),
            NetworkSource::Port(vif) => vif.network.label.clone().unwrap_or_default(),
        },
        mac: network.mac.clone().unwrap_or_default(),
        addresses: Vec::new(),
    });
    networks.collect()
}

fn shown(built: &BuiltGuest) -> GuestBody {
    GuestBody {
        uuid: built.build.uuid,
        name: built.build.name.clone(),
        node: built.build.node.clone(),
        status: built.status.to_owned(),
        state: None,
        reason: built.reason.clone(),
        blame: built.blame.map(str::to_owned),
        dedicated_cpus: String::new(),
        host_cells: Vec::new(),
        interfaces: interfaces(built),
        unbound_functions: built.unbound_functions(),
        cells: Vec::new(),
        page_size_kib: None,
        image: None,
        accelerator_requests: built.build.accelerator_requests.clone(),
        devices: Vec::new(),
        steps: Vec::new(),
    }
}

fn unknown() -> Response<Bytes> {
    refusal(StatusCode::NOT_FOUND, "not_found", "there is no such guest")
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Response<Bytes> {
    let body = json!({"api": "berth/1", "error": {"code": code, "message": message}});
    answer(status, &body)
}

fn answer(status: StatusCode, body: &impl serde::Serialize) -> Response<Bytes> {
    let mut answer = Response::new(body_of(body));
    *answer.status_mut() = status;
    answer
}

//! The stage: an accelerator service, devices and a hypervisor in memory, a journal in SQLite, and a count of every crossing
//! between the agent and them, at any of which the agent can be killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use berth_client::{AcceleratorClient, AdapterOptions, Auth, HttpService, TransportError};
use berth_model::{
    Arq, ArqState, ArqUuid, AttachHandleInfo, Binding, ConsumerUuid, DeviceProfileName,
};
use berth_virt::guest_spec::{DesiredPower, DeviceOrigin, GuestDisks, GuestSpec, HostPath};
use berth_virt::{
    Destroyed, GuestError, GuestMark, GuestOnHost, GuestState, HeldDevice, HostDevice, HostEvents,
    HostView, ObserveError, PowerAction, Powered, Redefined, Spawned, VirtDriver,
};
use berth_wire::accelerator::{ArqBody, ArqList, BindPatch, PatchStep, read_patch};
use bytes::Bytes;
use http::{Method, Request, Response};
use tokio::sync::Notify;

use crate::guest::disks::{DiskPlan, InstancesPath};
use crate::guest::journal::{Answer, Claimed, Course, GuestRecord, Life, StepRecord, StepState};
use crate::guest::samples::{NODE, arq, guest, handle};
use crate::guest::way::host_device;
use crate::guest::{
    Accelerators, Accepted, Anew, BoundDevices, ExternalEvents, GuestFiles, GuestJournal,
    GuestRequest, GuestResources, Guests, GuestsParts, JournalError, Provision, Released,
    ResourceError, SpawnStep, SqlJournal,
};

/// What goes wrong. Numbers are those of requests and devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::guest) enum Mishap {
    BindFailed(u32),
    /// Request, host, guest.
    Bound(u32, &'static str, u32),
    TestPci(u32),
    Missing(u32),
    /// One more is bound for guest 1.
    Extra(u32),
    NeverBound(u32),
    ServiceAway,
    DeviceSick(u32),
    PrepareFails(u32),
    ResetFails(u32),
    /// It may pass.
    ResetHangs(u32),
    DefineFails,
    StartFails,
    HeldByForeigner(u32),
    NoImage,
    RedefineFails,
}

/// A bug that is planted, to see that it is caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// Steps act without a word in the journal before.
    ForgetsIntents,
    /// Devices are given back as the guest left them.
    SkipsResets,
    /// Guests that go stay on the hypervisor.
    KeepsGuests,
}

/// A device as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Device {
    /// For whom it was made ready.
    pub(super) prepared: Option<ConsumerUuid>,
    /// Who used it since its last reset.
    pub(super) used_by: BTreeSet<ConsumerUuid>,
}

#[derive(Default)]
pub(super) struct World {
    pub(super) arqs: BTreeMap<ArqUuid, Arq>,
    pub(super) guests: BTreeMap<ConsumerUuid, GuestOnHost>,
    pub(super) devices: BTreeMap<String, Device>,
    pub(super) mishaps: BTreeSet<Mishap>,
    pub(super) questions: usize,
    /// How often the host was booted.
    pub(super) boots: u32,
    /// A planted bug.
    pub(super) bug: Option<Bug>,
    /// Guests' files, by path, each with what was written into it: its image, and whose it is.
    pub(super) files: BTreeMap<String, String>,
    /// The document that the hypervisor has of each guest.
    pub(super) documents: BTreeMap<ConsumerUuid, GuestSpec>,
    /// What must never be seen.
    pub(super) broken: Vec<String>,
}

/// Where the agent is killed: at which crossing, and on which side of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kill {
    pub(super) at: usize,
    pub(super) after: bool,
}

/// What happens at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The agent is killed.
    Kill,
    /// Before: an error, and nothing is done. After: it is done, and an error is answered.
    Error,
}

/// What is answered by a crossing that fails.
trait Fails {
    fn failed() -> Self;
}

impl<T> Fails for Result<T, JournalError> {
    fn failed() -> Self {
        Err(JournalError::Damaged {
            path: "guests.db".to_owned(),
            reason: "the disk reports an input/output error".to_owned(),
        })
    }
}

impl<T> Fails for Result<T, TransportError> {
    fn failed() -> Self {
        Err(TransportError::Closed {
            reason: "connection reset by peer".to_owned(),
        })
    }
}

impl<T> Fails for Result<T, ResourceError> {
    fn failed() -> Self {
        Err(ResourceError::Failed {
            what: "sysfs".to_owned(),
            reason: "input/output error".to_owned(),
        })
    }
}

impl<T> Fails for Result<T, GuestError> {
    fn failed() -> Self {
        Err(GuestError::TimedOut {
            target: "stage".to_owned(),
            call: "call",
            limit: Duration::from_secs(1),
        })
    }
}

#[derive(Default)]
struct Crossings {
    fault: Option<Fault>,
    /// Since the stage was made.
    history: Vec<String>,
    /// Where the present life of the agent began in it.
    born: usize,
    /// Which life of the agent this is: what an earlier one left running acts no more.
    life: usize,
    kill: Option<Kill>,
    dead: bool,
}

/// Everything outside the agent, and what survives it.
#[derive(Clone)]
pub(in crate::guest) struct Stage {
    world: Arc<Mutex<World>>,
    crossings: Arc<Mutex<Crossings>>,
    died: Arc<Notify>,
    journal: Arc<SqlJournal>,
    files: Arc<GuestFiles>,
    life: usize,
}

impl Stage {
    pub(in crate::guest) async fn new() -> Self {
        Self {
            world: Arc::default(),
            crossings: Arc::default(),
            died: Arc::default(),
            journal: Arc::new(SqlJournal::in_memory().await.unwrap()),
            files: Arc::new(GuestFiles {
                image_directories: vec![HostPath::new("/images").unwrap()],
                kernel_directories: vec![HostPath::new("/images").unwrap()],
                ..GuestFiles::below(instances())
            }),
            life: 0,
        }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// A fresh agent before this stage.
    pub(in crate::guest) fn guests(&self) -> Guests<Hypervisor, Devices> {
        self.guests_waiting(Duration::from_millis(400))
    }

    pub(in crate::guest) fn guests_waiting(
        &self,
        binding_timeout: Duration,
    ) -> Guests<Hypervisor, Devices> {
        let life = self.crossings.lock().unwrap().life;
        let agent = Self {
            life,
            ..self.clone()
        };
        let stage = agent.clone();
        let http = HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let stage = stage.clone();
            async move { stage.service(request).await }
        }));
        let auth = Auth::none("http://cyborg").unwrap();
        let options = AdapterOptions::default();
        Guests::new(GuestsParts {
            journal: Arc::new(Seam(agent.clone())),
            driver: Arc::new(Hypervisor(agent.clone())),
            resources: Arc::new(Devices(agent.clone())),
            accelerators: Accelerators {
                client: Some(AcceleratorClient::new(http, auth, &options)),
                events: ExternalEvents::default(),
                binding_timeout,
            },
            boot_id: format!("boot-{}", self.world().boots),
        })
    }

    pub(super) fn journal(&self) -> &SqlJournal {
        &self.journal
    }

    // ---- kills ----

    pub(super) fn kill_at(&self, kill: Option<Kill>) {
        self.fault_at(kill, Fault::Kill);
    }

    pub(super) fn fault_at(&self, kill: Option<Kill>, fault: Fault) {
        let mut crossings = self.crossings.lock().unwrap();
        crossings.kill = kill;
        crossings.fault = Some(fault);
        crossings.dead = false;
        crossings.life += 1;
        crossings.born = crossings.history.len();
    }

    /// How many crossings the present life of the agent has had.
    pub(super) fn count(&self) -> usize {
        let crossings = self.crossings.lock().unwrap();
        crossings.history.len() - crossings.born
    }

    /// All crossings of all lives.
    pub(super) fn history(&self) -> Vec<String> {
        self.crossings.lock().unwrap().history.clone()
    }

    /// Until the agent is killed.
    pub(super) async fn dies(&self) {
        loop {
            let died = self.died.notified();
            if self.crossings.lock().unwrap().dead {
                return;
            }
            died.await;
        }
    }

    async fn cross<T: Fails>(&self, what: String, effect: impl Future<Output = T>) -> T {
        let number = {
            let mut crossings = self.crossings.lock().unwrap();
            if crossings.life == self.life && !crossings.dead {
                crossings.history.push(what);
            }
            crossings.history.len() - crossings.born
        };
        if self.strikes(number, false).await {
            return T::failed();
        }
        let result = effect.await;
        if self.strikes(number, true).await {
            return T::failed();
        }
        result
    }

    /// Whether an error strikes here; never returns where the agent is killed.
    async fn strikes(&self, at: usize, after: bool) -> bool {
        let dead = {
            let mut crossings = self.crossings.lock().unwrap();
            let present = crossings.life == self.life;
            if present && crossings.kill == Some(Kill { at, after }) {
                if crossings.fault == Some(Fault::Error) {
                    crossings.kill = None;
                    return true;
                }
                crossings.dead = true;
                self.died.notify_waiters();
            }
            crossings.dead || !present
        };
        if dead {
            std::future::pending::<()>().await;
        }
        false
    }

    // ---- the accelerator service ----

    fn put(&self, number: u32, state: ArqState) {
        let arq = Arq {
            uuid: arq(number),
            state,
            device_profile: DeviceProfileName::new("dp").unwrap(),
            group_id: 0,
            project_id: "project".to_owned(),
        };
        self.world().arqs.insert(arq.uuid, arq);
    }

    pub(in crate::guest) fn bind(&self, instance: u32, arqs: &[u32]) {
        for number in arqs {
            self.bind_to(instance, *number, *number);
        }
    }

    pub(super) fn bind_to(&self, instance: u32, number: u32, device: u32) {
        self.put(
            number,
            ArqState::Bound(binding(instance, NODE), handle(device)),
        );
    }

    pub(in crate::guest) fn start_binding(&self, instance: u32, arqs: &[u32]) {
        for number in arqs {
            self.put(*number, ArqState::BindStarted(binding(instance, NODE)));
        }
    }

    pub(in crate::guest) fn comes(&self, mishap: Mishap) {
        match mishap {
            Mishap::BindFailed(number) => self.put(number, ArqState::BindFailed(binding(1, NODE))),
            Mishap::NeverBound(number) => self.put(number, ArqState::BindStarted(binding(1, NODE))),
            Mishap::Bound(number, host, instance) => {
                self.put(
                    number,
                    ArqState::Bound(binding(instance, host), handle(number)),
                );
            }
            Mishap::Extra(number) => self.bind(1, &[number]),
            Mishap::TestPci(number) => {
                let mut fake = handle(number);
                fake.info = AttachHandleInfo::TestPci {
                    address: fake.info.address(),
                };
                self.put(number, ArqState::Bound(binding(1, NODE), fake));
            }
            Mishap::Missing(number) => {
                self.world().arqs.remove(&arq(number));
            }
            Mishap::HeldByForeigner(number) => self.foreign_guest(77, Some(number)),
            _ => {}
        }
        self.world().mishaps.insert(mishap);
    }

    pub(in crate::guest) fn heals(&self) {
        self.world().mishaps.clear();
    }

    pub(super) fn questions(&self) -> usize {
        self.world().questions
    }

    pub(super) fn is_bound(&self, number: u32) -> bool {
        let world = self.world();
        let arq = world.arqs.get(&arq(number));
        arq.is_some_and(|arq| matches!(arq.state, ArqState::Bound(..)))
    }

    /// All requests of guest 1 on this node are gone; others are as they were.
    pub(super) fn only_foreign_requests_are_left(&self) {
        let world = self.world();
        for arq in world.arqs.values() {
            let foreign = arq.state.binding().is_some_and(|binding| {
                binding.hostname != NODE
                    || binding.instance != guest(1)
                    // Bound beside those that the guest was asked for with: whoever did that ends it.
                    || world.mishaps.iter().any(|mishap| matches!(mishap, Mishap::Extra(_)))
            });
            assert!(foreign, "{arq:?} is left");
        }
    }

    async fn service(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let query = request.uri().query().unwrap_or_default().to_owned();
        let about = if query.is_empty() { "one" } else { "many" };
        let effect = async {
            if self.world().mishaps.contains(&Mishap::ServiceAway) {
                return Err(TransportError::Closed {
                    reason: "connection reset by peer".to_owned(),
                });
            }
            Ok(self.world().answer(&method, &path, &query, request.body()))
        };
        let kind = if method == Method::GET {
            "read"
        } else {
            "write"
        };
        self.cross(format!("http {kind} {method} {about}"), effect)
            .await
    }

    // ---- the hypervisor ----

    /// The host goes off and on: the agent with it, guests are off, devices are as the firmware leaves them.
    pub(in crate::guest) fn reboot_host(&self) {
        self.kill_at(None);
        let mut world = self.world();
        world.boots += 1;
        for found in world.guests.values_mut() {
            found.state = GuestState::ShutOff;
        }
        world.devices.clear();
    }

    /// The guest switches itself off.
    pub(super) fn guest_ends(&self, number: u32) {
        let mut world = self.world();
        world.guests.get_mut(&guest(number)).unwrap().state = GuestState::ShutOff;
    }

    /// The names of the devices with which a guest runs.
    pub(super) fn running(&self, number: u32) -> Vec<String> {
        let world = self.world();
        let running = world.guests.get(&guest(number));
        let running = running.filter(|found| found.state == GuestState::Running);
        running.map(names).unwrap_or_default()
    }

    pub(super) fn on_hypervisor(&self, number: u32) -> bool {
        self.world().guests.contains_key(&guest(number))
    }

    /// A guest that somebody made by hand.
    pub(super) fn foreign_guest(&self, number: u32, device: Option<u32>) {
        let device = device.map(|device| HeldDevice {
            device: HostDevice::Function(handle(device).info.address()),
            arq: None,
        });
        let foreign = GuestOnHost {
            name: "by-hand".to_owned(),
            state: GuestState::Running,
            owner: None,
            devices: device.into_iter().collect(),
        };
        self.world().guests.insert(guest(number), foreign);
    }
}

pub(super) fn names(found: &GuestOnHost) -> Vec<String> {
    let devices = found.devices.iter();
    devices
        .map(|held| match held.device {
            HostDevice::Function(address) => address.to_string(),
            HostDevice::Mdev(uuid) => uuid.to_string(),
        })
        .collect()
}

fn binding(instance: u32, host: &str) -> Binding {
    Binding {
        hostname: host.to_owned(),
        device_rp: "f9d7848a-7688-361f-8e4b-3e58185de5fe".parse().unwrap(),
        instance: guest(instance),
    }
}

fn reply(status: u16, body: Vec<u8>) -> Response<Bytes> {
    Response::builder()
        .status(status)
        .body(Bytes::from(body))
        .unwrap()
}

impl World {
    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        query: &str,
        body: &Bytes,
    ) -> Response<Bytes> {
        let missing = || reply(404, br#"{"error_message": "no such request"}"#.to_vec());
        if *method == Method::GET {
            self.questions += 1;
        }
        match (method, query.split_once('=')) {
            (&Method::GET, Some(("instance", uuid))) => {
                let instance: ConsumerUuid = uuid.parse().unwrap();
                let of_it = self.arqs.values().filter(|arq| {
                    let binding = arq.state.binding();
                    binding.is_some_and(|binding| binding.instance == instance)
                });
                let arqs = of_it.map(ArqBody::from).collect();
                reply(200, berth_wire::encode(&ArqList { arqs }))
            }
            (&Method::GET, _) => {
                let uuid: ArqUuid = path.rsplit('/').next().unwrap().parse().unwrap();
                match self.arqs.get(&uuid) {
                    Some(arq) => reply(200, berth_wire::encode(&ArqBody::from(arq))),
                    None => missing(),
                }
            }
            (&Method::DELETE, Some(("arqs", uuid))) => {
                match self.arqs.remove(&uuid.parse().unwrap()) {
                    Some(arq) => {
                        self.given_back(&arq);
                        reply(204, Vec::new())
                    }
                    None => missing(),
                }
            }
            (&Method::PATCH, _) => {
                let body: BTreeMap<String, Vec<PatchStep>> = berth_wire::decode(body).unwrap();
                for (uuid, patch) in read_patch(&body).unwrap() {
                    assert_eq!(patch, BindPatch::Unbind);
                    let Some(arq) = self.arqs.get_mut(&uuid) else {
                        return missing();
                    };
                    if arq.state.binding().is_none() {
                        // As the real one: it is not bound.
                        return reply(400, Vec::new());
                    }
                    let before = arq.clone();
                    arq.state = ArqState::Unbound;
                    self.given_back(&before);
                }
                reply(202, Vec::new())
            }
            other => panic!("nobody asks {other:?} {path}"),
        }
    }

    /// From now on the service may give the device to somebody else.
    fn given_back(&mut self, arq: &Arq) {
        let Some(handle) = arq.state.attach_handle() else {
            return;
        };
        let name = handle.info.address().to_string();
        let here = arq
            .state
            .binding()
            .is_some_and(|binding| binding.hostname == NODE);
        let device = self.devices.entry(name.clone()).or_default();
        if here && !device.used_by.is_empty() {
            self.broken
                .push(format!("S5: {name} was given back without a reset"));
        }
        if here
            && self
                .guests
                .values()
                .any(|found| found.owner.is_some() && names(found).contains(&name))
        {
            self.broken
                .push(format!("S4: {name} was given back while a guest has it"));
        }
    }
}

/// The journal behind the count of crossings.
struct Seam(Stage);

impl Seam {
    fn write<'a, T: Send + 'a>(&'a self, what: String, effect: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(self.0.cross(format!("store write {what}"), effect))
    }
}

impl GuestJournal for Seam {
    fn path(&self) -> String {
        self.0.journal.path()
    }

    fn guests(&self) -> Answer<'_, Vec<GuestRecord>> {
        Box::pin(
            self.0
                .cross("store read guests".to_owned(), self.0.journal.guests()),
        )
    }

    fn guest(&self, uuid: ConsumerUuid) -> Answer<'_, Option<GuestRecord>> {
        Box::pin(
            self.0
                .cross("store read guest".to_owned(), self.0.journal.guest(uuid)),
        )
    }

    fn accept<'a>(&'a self, request: &'a GuestRequest) -> Answer<'a, Accepted> {
        self.write("accept".to_owned(), self.0.journal.accept(request))
    }

    fn turn<'a>(&'a self, uuid: ConsumerUuid, course: &'a Course) -> Answer<'a, ()> {
        let word = match course {
            Course::Spawn => "spawn",
            Course::Undo { .. } => "undo",
            Course::Destroy => "destroy",
        };
        self.write(format!("turn {word}"), self.0.journal.turn(uuid, course))
    }

    fn want(&self, uuid: ConsumerUuid, power: DesiredPower) -> Answer<'_, ()> {
        self.write("want".to_owned(), self.0.journal.want(uuid, power))
    }

    fn note<'a>(
        &'a self,
        uuid: ConsumerUuid,
        step: SpawnStep,
        record: &'a StepRecord,
    ) -> Answer<'a, ()> {
        let intent = matches!(record.state, StepState::Begun | StepState::Undoing);
        if intent && self.0.world().bug == Some(Bug::ForgetsIntents) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let what = format!("{step} {}", record.state.as_str());
        self.write(what, self.0.journal.note(uuid, step, record))
    }

    fn live<'a>(
        &'a self,
        uuid: ConsumerUuid,
        life: &'a Life,
        steps: &'a [(SpawnStep, StepRecord)],
    ) -> Answer<'a, ()> {
        let steps_said = steps
            .iter()
            .map(|(step, record)| format!(" {step} {}", record.state.as_str()));
        let what = format!("live{}", steps_said.collect::<String>());
        self.write(what, self.0.journal.live(uuid, life, steps))
    }

    fn claim<'a>(
        &'a self,
        uuid: ConsumerUuid,
        names: &'a BTreeSet<String>,
        devices: &'a BoundDevices,
    ) -> Answer<'a, Claimed> {
        let effect = self.0.journal.claim(uuid, names, devices);
        self.write("bind done".to_owned(), effect)
    }

    fn give_back<'a>(&'a self, uuid: ConsumerUuid, released: &'a Released) -> Answer<'a, ()> {
        let effect = self.0.journal.give_back(uuid, released);
        self.write("prepare undone".to_owned(), effect)
    }

    fn disclaim(&self, uuid: ConsumerUuid) -> Answer<'_, ()> {
        self.write("bind undoing".to_owned(), self.0.journal.disclaim(uuid))
    }

    fn forget(&self, uuid: ConsumerUuid) -> Answer<'_, ()> {
        self.write("forget".to_owned(), self.0.journal.forget(uuid))
    }
}

/// Devices as the kernel has them.
pub(in crate::guest) struct Devices(Stage);

fn devices_of(spec: &GuestSpec) -> impl Iterator<Item = String> {
    spec.devices
        .as_slice()
        .iter()
        .map(|attached| match host_device(&attached.device) {
            HostDevice::Function(address) => address.to_string(),
            HostDevice::Mdev(uuid) => uuid.to_string(),
        })
}

fn number(name: &str) -> u32 {
    u32::from_str_radix(&name[5..7], 16).unwrap()
}

impl GuestResources for Devices {
    fn files(&self) -> &GuestFiles {
        &self.0.files
    }

    async fn check(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut world = self.0.world();
            for name in devices_of(spec) {
                let sick = world.mishaps.contains(&Mishap::DeviceSick(number(&name)));
                let device = world.devices.entry(name.clone()).or_default();
                let other = device.prepared.is_some_and(|owner| owner != spec.uuid);
                if sick || other {
                    return Err(ResourceError::Refused {
                        what: name,
                        reason: "its link is down".to_owned(),
                    });
                }
            }
            Ok(())
        };
        self.0.cross("sysfs read check".to_owned(), effect).await
    }

    async fn prepare(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut world = self.0.world();
            make_disks(&mut world, &guest);
            for name in devices_of(spec) {
                if world.mishaps.contains(&Mishap::PrepareFails(number(&name))) {
                    return Err(ResourceError::Failed {
                        what: name,
                        reason: "no such function".to_owned(),
                    });
                }
                let device = world.devices.entry(name.clone()).or_default();
                if device.prepared.is_some_and(|owner| owner != spec.uuid) {
                    world
                        .broken
                        .push(format!("S3: {name} was made ready for two guests"));
                } else {
                    device.prepared = Some(spec.uuid);
                }
            }
            Ok(())
        };
        self.0.cross("sysfs write prepare".to_owned(), effect).await
    }

    async fn release(&self, guest: Provision<'_>) -> Result<Released, ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut released = Released::default();
            let mut world = self.0.world();
            for name in devices_of(spec) {
                let holder = world
                    .guests
                    .iter()
                    .find(|(_, found)| names(found).contains(&name));
                if let Some((holder, _)) = holder {
                    let broken = format!("{name} was reset in the hands of {holder}");
                    world.broken.push(broken);
                }
                if world.mishaps.contains(&Mishap::ResetFails(number(&name))) {
                    let reason = "its configuration reads all ones".to_owned();
                    released.spoilt.insert(name, reason);
                    continue;
                }
                if world.mishaps.contains(&Mishap::ResetHangs(number(&name))) {
                    return Err(ResourceError::Failed {
                        what: name,
                        reason: "the reset did not come back".to_owned(),
                    });
                }
                if world.bug == Some(Bug::SkipsResets) {
                    world.devices.entry(name).or_default().prepared = None;
                    continue;
                }
                world.devices.insert(name.clone(), Device::default());
                released.clean.insert(name);
            }
            Ok(released)
        };
        let released = self
            .0
            .cross("sysfs write release".to_owned(), effect)
            .await?;
        let folder = format!("/instances/{}/", spec.uuid);
        let mut world = self.0.world();
        world.files.retain(|path, _| !path.starts_with(&folder));
        Ok(released)
    }

    fn lay_out(&self, guest: ConsumerUuid, plan: &DiskPlan) -> Result<GuestDisks, ResourceError> {
        Ok(instances().disks(guest, plan).unwrap())
    }

    async fn fetch(&self, _: &DiskPlan) -> Result<(), ResourceError> {
        let effect = async {
            match self.0.world().mishaps.contains(&Mishap::NoImage) {
                true => Err(ResourceError::Refused {
                    what: "an image".to_owned(),
                    reason: "its checksum is another".to_owned(),
                }),
                false => Ok(()),
            }
        };
        self.0.cross("images write fetch".to_owned(), effect).await
    }

    async fn remove(&self, guest: ConsumerUuid, files: &[HostPath]) -> Result<(), ResourceError> {
        let effect = async {
            let mut world = self.0.world();
            let found = world.guests.get(&guest);
            if found.is_some_and(|found| found.state != GuestState::ShutOff) {
                world
                    .broken
                    .push("files were removed under a running guest".to_owned());
            }
            for file in files {
                world.files.remove(file.as_str());
            }
            Ok(())
        };
        self.0.cross("sysfs write remove".to_owned(), effect).await
    }
}

/// Where guests' files lie here.
pub(in crate::guest) fn instances() -> InstancesPath {
    InstancesPath::new(HostPath::new("/instances").unwrap())
}

/// Makes what is not there; what is lost is seen.
fn make_disks(world: &mut World, guest: &Provision<'_>) {
    let root = guest.spec.disks.root().into_iter().map(|disk| (disk, true));
    let others = guest.spec.disks.ephemeral().iter();
    for (disk, is_root) in root.chain(others.map(|disk| (disk, false))) {
        let path = disk.path.as_str().to_owned();
        if world.files.contains_key(&path) {
            continue;
        }
        let is_new = match guest.anew {
            Anew::Nothing => false,
            Anew::Root => is_root,
            Anew::All => true,
        };
        if guest.ran && !is_new {
            world
                .broken
                .push(format!("{path} was made anew over a tenant's state"));
        }
        let base = disk.base.as_ref();
        let content = base.map_or_else(|| "empty".to_owned(), |base| base.path.to_string());
        world.files.insert(path, content);
    }
}

/// A hypervisor.
pub(in crate::guest) struct Hypervisor(Stage);

impl Hypervisor {
    fn refused(uuid: ConsumerUuid, call: &'static str) -> GuestError {
        GuestError::Refused {
            uuid,
            call,
            reason: "no".to_owned(),
        }
    }

    fn spawn_now(&self, spec: &GuestSpec) -> Result<Spawned, GuestError> {
        let mut world = self.0.world();
        let wanted: BTreeSet<_> = spec
            .devices
            .as_slice()
            .iter()
            .map(|attached| HeldDevice {
                device: host_device(&attached.device),
                arq: match attached.origin {
                    DeviceOrigin::Arq(arq) => Some(arq),
                    DeviceOrigin::Flavor => None,
                },
            })
            .collect();
        if let Some(found) = world.guests.get(&spec.uuid) {
            if found.owner.is_none() || found.devices != wanted {
                return Err(GuestError::Another {
                    uuid: spec.uuid,
                    difference: "its devices".to_owned(),
                });
            }
        } else {
            if world.mishaps.contains(&Mishap::DefineFails) {
                return Err(Self::refused(spec.uuid, "virDomainDefineXML"));
            }
            let defined = GuestOnHost {
                name: spec.name.to_string(),
                state: GuestState::ShutOff,
                owner: Some(GuestMark {
                    project: spec.owner.project.to_string(),
                    consumer: spec.owner.consumer,
                    requests: wanted.iter().filter_map(|held| held.arq).collect(),
                }),
                devices: wanted,
            };
            world.guests.insert(spec.uuid, defined);
            world.documents.insert(spec.uuid, spec.clone());
        }
        if spec.power == DesiredPower::Running {
            if world.mishaps.contains(&Mishap::StartFails) {
                return Err(Self::refused(spec.uuid, "virDomainCreate"));
            }
            for name in devices_of(spec) {
                let device = world.devices.entry(name.clone()).or_default();
                if device.prepared != Some(spec.uuid) {
                    world.broken.push(format!(
                        "a guest started on {name}, which is not ready for it"
                    ));
                    continue;
                }
                device.used_by.insert(spec.uuid);
                if device.used_by.len() > 1 {
                    world
                        .broken
                        .push(format!("S5: {name} had two owners without a reset"));
                }
            }
            if let Some(found) = world.guests.get_mut(&spec.uuid) {
                found.state = GuestState::Running;
            }
        }
        Ok(Spawned::Spawned)
    }
}

impl VirtDriver for Hypervisor {
    fn name(&self) -> &'static str {
        "stage"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        panic!("guests ask for guests");
    }

    fn watch(&self) -> HostEvents {
        panic!("guests watch nothing")
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<Spawned, GuestError> {
        let effect = async { self.spawn_now(spec) };
        self.0.cross("driver write spawn".to_owned(), effect).await
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<Destroyed, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            if world.bug == Some(Bug::KeepsGuests) {
                return Ok(Destroyed::Destroyed);
            }
            world.documents.remove(&uuid);
            match world.guests.remove(&uuid) {
                Some(_) => Ok(Destroyed::Destroyed),
                None => Ok(Destroyed::NotThere),
            }
        };
        self.0
            .cross("driver write destroy".to_owned(), effect)
            .await
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        let effect = async { Ok(self.0.world().guests.clone()) };
        self.0.cross("driver read guests".to_owned(), effect).await
    }

    async fn redefine(&self, spec: &GuestSpec) -> Result<Redefined, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            let uuid = spec.uuid;
            if world.mishaps.contains(&Mishap::RedefineFails) {
                return Err(Self::refused(uuid, "virDomainDefineXML"));
            }
            match world.guests.get(&uuid).map(|found| found.state) {
                None => return Ok(Redefined::NotThere),
                Some(GuestState::ShutOff) => {}
                Some(state) => return Err(GuestError::NotOff { uuid, state }),
            }
            world.documents.insert(uuid, spec.clone());
            Ok(Redefined::Redefined)
        };
        self.0
            .cross("driver write redefine".to_owned(), effect)
            .await
    }

    async fn suspend(&self, uuid: ConsumerUuid) -> Result<Powered, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            let Some(found) = world.guests.get_mut(&uuid) else {
                return Ok(Powered::NotThere);
            };
            found.holds_nothing_for(uuid, "be suspended", "a device has a state")?;
            found.state = GuestState::ShutOff;
            Ok(Powered::Done)
        };
        self.0
            .cross("driver write suspend".to_owned(), effect)
            .await
    }

    async fn power(&self, uuid: ConsumerUuid, action: PowerAction) -> Result<Powered, GuestError> {
        let effect = async {
            let mut world = self.0.world();
            if action == PowerAction::Start && world.mishaps.contains(&Mishap::StartFails) {
                return Err(Self::refused(uuid, "virDomainCreate"));
            }
            let Some(found) = world.guests.get_mut(&uuid) else {
                return Ok(Powered::NotThere);
            };
            found.state = match action {
                PowerAction::Stop { .. } => GuestState::ShutOff,
                PowerAction::Pause => GuestState::Paused,
                _ => GuestState::Running,
            };
            Ok(Powered::Done)
        };
        self.0.cross("driver write power".to_owned(), effect).await
    }
}

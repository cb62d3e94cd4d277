//! A test harness for the instances of an agent: an in-memory accelerator service, devices and hypervisor, and an
//! in-memory SQLite journal, with fault injection at each call between the agent and these.
//!
//! A test creates a [`FaultHarness`], gets an agent's [`Guests`] from it, and may kill that agent, or make a call fail, before or
//! after the effect of any numbered call ([`FaultPoint`]). The harness checks invariants such as "no device has two owners without
//! a reset" (`violations`), and can plant bugs to prove that the checks find them ([`PlantedBug`]).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hypervisor;
mod journal;
mod resources;
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use berth_agent_images::{Checksum, DiskPlan, ImageLocation, ImageSource, InstancesPath};
use berth_agent_journal::samples::request;
use berth_agent_journal::{GuestJournal as _, GuestRequest, JournalError, SqlJournal};
use berth_client::{AcceleratorClient, AdapterOptions, Auth, HttpService, TransportError};
use berth_model::{Arq, ArqUuid, ConsumerUuid};
use berth_virt::guest_spec::{DiskFormat, GuestSpec, HostPath};
use berth_virt::{GuestError, GuestOnHost};
use bytes::Bytes;
use http::Request;
use tokio::sync::Notify;

use crate::accelerators::Accelerators;
use uuid::Uuid;

use crate::external_events::ExternalEvents;
use crate::fault_harness::journal::FaultJournal;
use crate::files::GuestFiles;
use crate::guests::{Guests, GuestsParts};
use crate::resources::ResourceError;

pub use hypervisor::{SimulatedHypervisor, device_names};
pub use resources::{SimulatedResources, instances};

/// A condition that makes operations fail. Numbers are those of requests and devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimulatedFailure {
    BindFailed(u32),
    Bound(u32, &'static str, u32),
    TestPci(u32),
    Missing(u32),
    /// One more request is bound for guest 1.
    Extra(u32),
    NeverBound(u32),
    ServiceAway,
    DeviceUnhealthy(u32),
    PrepareFails(u32),
    /// The hypervisor attaches no interfaces.
    AttachFails,
    /// Ports cannot be unplugged.
    UnplugFails,
    /// Plugged ports do not work, and nothing ends the wait for them.
    PortNeverWorks,
    /// Plugged ports do not work until `vif_plugging_timeout` ends, which is fatal.
    PortTimesOut,
    ResetFails(u32),
    ResetHangs(u32),
    DefineFails,
    StartFails,
    HeldByForeigner(u32),
    NoImage,
    /// The download of an image never ends.
    EndlessImage,
    RedefineFails,
    /// The next agent has no accelerator service configured.
    NoService,
}

/// A bug in the simulated environment, to test that the invariants detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// The journal loses the records that a step has begun.
    ForgetsIntents,
    /// Devices are released without a reset.
    SkipsResets,
    /// Removed guests remain on the hypervisor.
    KeepsGuests,
    /// Unplugged ports remain on the switch.
    KeepsPorts,
}

/// The kernel's state of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimulatedDevice {
    /// The guest that the device is prepared for.
    pub prepared: Option<ConsumerUuid>,
    /// The guests that used it since its last reset.
    pub used_by: BTreeSet<ConsumerUuid>,
}

#[derive(Default)]
pub struct SimulatedWorld {
    pub arqs: BTreeMap<ArqUuid, Arq>,
    pub guests: BTreeMap<ConsumerUuid, GuestOnHost>,
    pub devices: BTreeMap<String, SimulatedDevice>,
    pub failures: BTreeSet<SimulatedFailure>,
    /// How many GET requests the accelerator service received.
    pub get_requests: usize,
    /// How often unused files were removed.
    pub removals_of_unused_files: usize,
    /// How often the host was booted.
    pub boots: u32,
    pub bug: Option<PlantedBug>,
    /// Guests' files by path, with their content: the image and the owner.
    pub files: BTreeMap<String, String>,
    /// The guests with stored secrets.
    pub stored_secrets: BTreeSet<ConsumerUuid>,
    /// The ports on the switch, with their guests.
    pub plugged: BTreeMap<Uuid, ConsumerUuid>,
    /// The definition of each guest.
    pub documents: BTreeMap<ConsumerUuid, GuestSpec>,
    /// The bus of the switch above all devices; it changes with a boot that numbers buses otherwise.
    pub switch_bus: u8,
    /// Additional memory for a guest's next start, in MiB.
    pub next_memory: BTreeMap<ConsumerUuid, u64>,
    /// Where the screens of all guests are; `None`: they have none.
    pub screens: Option<SocketAddr>,
    /// The violated invariants. A test checks that there are none.
    pub violations: Vec<String>,
}

/// A call between agent and environment, and whether before or after its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultPoint {
    pub at: usize,
    pub after: bool,
}

/// What happens at a fault point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    Kill,
    /// Before the effect: the effect does not happen. After it: it happened, and the call returns an error.
    Error,
}

/// The error that a failing call returns.
trait InjectedError {
    fn failed() -> Self;
}

impl<T> InjectedError for Result<T, JournalError> {
    fn failed() -> Self {
        Err(JournalError::Damaged {
            path: "guests.db".to_owned(),
            reason: "the disk reports an input/output error".to_owned(),
        })
    }
}

impl<T> InjectedError for Result<T, TransportError> {
    fn failed() -> Self {
        Err(TransportError::Closed {
            reason: "connection reset by peer".to_owned(),
        })
    }
}

impl<T> InjectedError for Result<T, ResourceError> {
    fn failed() -> Self {
        Err(ResourceError::Failed {
            what: "sysfs".to_owned(),
            reason: "input/output error".to_owned(),
        })
    }
}

impl<T> InjectedError for Result<T, GuestError> {
    fn failed() -> Self {
        Err(GuestError::TimedOut {
            target: "simulated hypervisor".to_owned(),
            call: "call",
            limit: Duration::from_secs(1),
        })
    }
}

#[derive(Default)]
struct FaultPoints {
    fault: Option<InjectedFault>,
    /// All calls since the harness was created.
    history: Vec<String>,
    /// The index of the current agent's first call in `history`.
    run_start: usize,
    /// The number of the current agent. Calls of earlier agents have no effect.
    agent_number: usize,
    kill: Option<FaultPoint>,
    dead: bool,
}

/// The simulated environment of an agent. It survives the agent.
#[derive(Clone)]
pub struct FaultHarness {
    world: Arc<Mutex<SimulatedWorld>>,
    points: Arc<Mutex<FaultPoints>>,
    died: Arc<Notify>,
    journal: Arc<SqlJournal>,
    files: Arc<GuestFiles>,
    agent_number: usize,
}

impl FaultHarness {
    pub async fn new() -> Self {
        Self {
            world: Arc::default(),
            points: Arc::default(),
            died: Arc::default(),
            journal: Arc::new(SqlJournal::in_memory().await.unwrap()),
            files: Arc::new(GuestFiles {
                image_directories: vec![HostPath::new("/images").unwrap()],
                kernel_directories: vec![HostPath::new("/images").unwrap()],
                ..GuestFiles::below(instances())
            }),
            agent_number: 0,
        }
    }

    /// The same harness, with the guests' files below another folder than `/instances`.
    pub fn below(self, instances: InstancesPath) -> Self {
        let files = Arc::new(GuestFiles::below(instances));
        Self { files, ..self }
    }

    /// Journals a request without checks, as an earlier release might have.
    pub async fn journaled(&self, request: &GuestRequest) {
        self.journal.accept(request).await.unwrap();
    }

    /// The content of a guest's file, if it exists.
    pub fn file(&self, path: &str) -> Option<String> {
        self.world().files.get(path).cloned()
    }

    pub fn world(&self) -> MutexGuard<'_, SimulatedWorld> {
        self.world.lock().unwrap()
    }

    /// A new agent in this environment.
    pub fn guests(&self) -> Guests<SimulatedHypervisor, SimulatedResources> {
        self.guests_waiting(Duration::from_millis(400))
    }

    pub fn guests_waiting(
        &self,
        binding_timeout: Duration,
    ) -> Guests<SimulatedHypervisor, SimulatedResources> {
        let agent_number = self.points.lock().unwrap().agent_number;
        let agent = Self {
            agent_number,
            ..self.clone()
        };
        let harness = agent.clone();
        let http = HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let harness = harness.clone();
            async move { harness.service(request).await }
        }));
        let auth = Auth::none("http://cyborg").unwrap();
        let options = AdapterOptions::default();
        let has_service = !self.world().failures.contains(&SimulatedFailure::NoService);
        Guests::new(GuestsParts {
            journal: Arc::new(FaultJournal(agent.clone())),
            driver: Arc::new(SimulatedHypervisor(agent.clone())),
            resources: Arc::new(SimulatedResources(agent.clone())),
            accelerators: Accelerators {
                client: has_service.then(|| AcceleratorClient::new(http, auth, &options)),
                events: ExternalEvents::default(),
                binding_timeout,
            },
            boot_id: format!("boot-{}", self.world().boots),
            max_concurrent_builds: 10,
        })
    }

    pub fn journal(&self) -> &SqlJournal {
        &self.journal
    }

    // ---- fault injection ----

    /// Kills the current agent. The next one runs without faults.
    pub fn kill_agent(&self) {
        self.kill_at(None);
    }

    /// Kills the current agent, and the next one at this point (`None`: never).
    pub fn kill_at(&self, kill: Option<FaultPoint>) {
        self.fault_at(kill, InjectedFault::Kill);
    }

    /// Kills the current agent, and injects a fault into the next one at this point (`None`: never).
    pub fn fault_at(&self, kill: Option<FaultPoint>, fault: InjectedFault) {
        let mut points = self.points.lock().unwrap();
        points.kill = kill;
        points.fault = Some(fault);
        points.dead = false;
        points.agent_number += 1;
        points.run_start = points.history.len();
    }

    /// Number of calls of the current agent.
    pub fn count(&self) -> usize {
        let points = self.points.lock().unwrap();
        points.history.len() - points.run_start
    }

    /// All calls of all agents.
    pub fn history(&self) -> Vec<String> {
        self.points.lock().unwrap().history.clone()
    }

    /// Waits until the agent is killed.
    pub async fn wait_for_kill(&self) {
        loop {
            let died = self.died.notified();
            if self.points.lock().unwrap().dead {
                return;
            }
            died.await;
        }
    }

    /// Runs the effect of a call, unless the test injects a fault before it. A fault after the effect hides its result.
    ///
    /// `call` is the name of the call in the history: the component, `read` or `write`, and the operation.
    async fn inject<T: InjectedError>(&self, call: String, effect: impl Future<Output = T>) -> T {
        let number = {
            let mut points = self.points.lock().unwrap();
            if points.agent_number == self.agent_number && !points.dead {
                points.history.push(call);
            }
            points.history.len() - points.run_start
        };
        if self.fails_at(number, false).await {
            return T::failed();
        }
        let result = effect.await;
        if self.fails_at(number, true).await {
            return T::failed();
        }
        result
    }

    /// Whether the call must fail here. Never returns if the agent is killed.
    async fn fails_at(&self, at: usize, after: bool) -> bool {
        let dead = {
            let mut points = self.points.lock().unwrap();
            let present = points.agent_number == self.agent_number;
            if present && points.kill == Some(FaultPoint { at, after }) {
                if points.fault == Some(InjectedFault::Error) {
                    points.kill = None;
                    return true;
                }
                points.dead = true;
                self.died.notify_waiters();
            }
            points.dead || !present
        };
        if dead {
            std::future::pending::<()>().await;
        }
        false
    }
}

pub fn image(letter: char) -> ImageSource {
    let location = HostPath::new(&format!("/images/{letter}.raw")).unwrap();
    let checksum: Checksum = format!("sha256:{}", letter.to_string().repeat(64))
        .parse()
        .unwrap();
    ImageSource::new(
        ImageLocation::Path(location),
        Some(checksum),
        DiskFormat::Raw,
    )
    .unwrap()
}

pub fn base(letter: char) -> String {
    let base = instances().image(&image(letter).key()).unwrap();
    base.path.to_string()
}

/// A guest with two devices, a root disk and an ephemeral one.
pub fn with_disks() -> GuestRequest {
    let plan = DiskPlan::new(Some(image('a')), 2, vec![1], None).unwrap();
    let plain = request(1, &[1, 2]);
    let mut spec = plain.spec().clone();
    spec.disks = instances().disks(spec.uuid, &plan).unwrap();
    let arqs = plain.arqs().iter().copied().collect();
    let request = GuestRequest::new(plain.node().clone(), arqs, spec).unwrap();
    request.with_disks(plan).unwrap()
}

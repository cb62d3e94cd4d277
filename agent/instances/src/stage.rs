//! The stage: an accelerator service, devices and a hypervisor in memory, a journal in SQLite, and a count of every crossing
//! between the agent and them, at any of which the agent can be killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod devices;
mod hypervisor;
mod journal;
mod service;

use std::collections::{BTreeMap, BTreeSet};
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
use crate::external_events::ExternalEvents;
use crate::files::GuestFiles;
use crate::guests::{Guests, GuestsParts};
use crate::resources::ResourceError;
use crate::stage::journal::Seam;

pub use devices::{Devices, instances};
pub use hypervisor::Hypervisor;
pub use hypervisor::names;

/// What goes wrong. Numbers are those of requests and devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    BindFailed(u32),
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
    ResetHangs(u32),
    DefineFails,
    StartFails,
    HeldByForeigner(u32),
    NoImage,
    /// An image comes, and comes.
    EndlessImage,
    RedefineFails,
    /// The next agent is told of no accelerator service.
    NoService,
}

/// A bug that is planted, to see that it is caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Steps act without a word in the journal before.
    ForgetsIntents,
    /// Devices are given back as the guest left them.
    SkipsResets,
    /// Guests that go stay on the hypervisor.
    KeepsGuests,
}

/// A device as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// For whom it was made ready.
    pub prepared: Option<ConsumerUuid>,
    /// Who used it since its last reset.
    pub used_by: BTreeSet<ConsumerUuid>,
}

#[derive(Default)]
pub struct World {
    pub arqs: BTreeMap<ArqUuid, Arq>,
    pub guests: BTreeMap<ConsumerUuid, GuestOnHost>,
    pub devices: BTreeMap<String, Device>,
    pub mishaps: BTreeSet<Mishap>,
    pub questions: usize,
    /// How often what no guest uses was removed.
    pub tidied: usize,
    /// How often the host was booted.
    pub boots: u32,
    pub bug: Option<Bug>,
    /// Guests' files, by path, each with what was written into it: its image, and whose it is.
    pub files: BTreeMap<String, String>,
    /// For which guests something is kept that the journal must not have.
    pub kept: BTreeSet<ConsumerUuid>,
    /// The document that the hypervisor has of each guest.
    pub documents: BTreeMap<ConsumerUuid, GuestSpec>,
    /// Memory that somebody gave guests for their next start, in MiB.
    pub next_memory: BTreeMap<ConsumerUuid, u64>,
    /// What must never be seen.
    pub broken: Vec<String>,
}

/// Where the agent is killed: at which crossing, and on which side of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    pub at: usize,
    pub after: bool,
}

/// What happens at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
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
pub struct Stage {
    world: Arc<Mutex<World>>,
    crossings: Arc<Mutex<Crossings>>,
    died: Arc<Notify>,
    journal: Arc<SqlJournal>,
    files: Arc<GuestFiles>,
    life: usize,
}

impl Stage {
    pub async fn new() -> Self {
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

    /// The same, with guests' files below another folder than `/instances`.
    pub fn below(self, instances: InstancesPath) -> Self {
        let files = Arc::new(GuestFiles::below(instances));
        Self { files, ..self }
    }

    /// A guest that a journal of an earlier release has, whatever it says.
    pub async fn journaled(&self, request: &GuestRequest) {
        self.journal.accept(request).await.unwrap();
    }

    /// What was written into a guest's file; none where it is not there.
    pub fn file(&self, path: &str) -> Option<String> {
        self.world().files.get(path).cloned()
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// A fresh agent before this stage.
    pub fn guests(&self) -> Guests<Hypervisor, Devices> {
        self.guests_waiting(Duration::from_millis(400))
    }

    pub fn guests_waiting(&self, binding_timeout: Duration) -> Guests<Hypervisor, Devices> {
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
        let is_told = !self.world().mishaps.contains(&Mishap::NoService);
        Guests::new(GuestsParts {
            journal: Arc::new(Seam(agent.clone())),
            driver: Arc::new(Hypervisor(agent.clone())),
            resources: Arc::new(Devices(agent.clone())),
            accelerators: Accelerators {
                client: is_told.then(|| AcceleratorClient::new(http, auth, &options)),
                events: ExternalEvents::default(),
                binding_timeout,
            },
            boot_id: format!("boot-{}", self.world().boots),
        })
    }

    pub fn journal(&self) -> &SqlJournal {
        &self.journal
    }

    // ---- kills ----

    pub fn kill_at(&self, kill: Option<Kill>) {
        self.fault_at(kill, Fault::Kill);
    }

    pub fn fault_at(&self, kill: Option<Kill>, fault: Fault) {
        let mut crossings = self.crossings.lock().unwrap();
        crossings.kill = kill;
        crossings.fault = Some(fault);
        crossings.dead = false;
        crossings.life += 1;
        crossings.born = crossings.history.len();
    }

    /// How many crossings the present life of the agent has had.
    pub fn count(&self) -> usize {
        let crossings = self.crossings.lock().unwrap();
        crossings.history.len() - crossings.born
    }

    /// All crossings of all lives.
    pub fn history(&self) -> Vec<String> {
        self.crossings.lock().unwrap().history.clone()
    }

    /// Until the agent is killed.
    pub async fn dies(&self) {
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

//! The runs of the agent's and of the conductor's process: how each is composed, and how it restarts after a kill.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use berth_agent::host_state::{NodeFacts, node_state};
use berth_agent_devices::report::Scrub;
use berth_agent_devices::{
    DeviceConditions as _, DeviceManager, DeviceManagerParts, DeviceOptions,
};
use berth_agent_images::InstancesPath;
use berth_agent_instances::reconcile::Reconciler;
use berth_agent_instances::{
    Accelerators, BuildContext, BuildOptions, ExternalEvents, GuestFiles, GuestManager as _,
    GuestResources, Guests, GuestsParts, HostResources,
};
use berth_agent_journal::GuestJournal as _;
use berth_agent_tracker::complete::Service;
use berth_agent_tracker::node_identity::{self, UuidSource};
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::propose::ResourceTracker;
use berth_agent_tracker::report_client::ReportClient;
use berth_agent_tracker::{startup, tick};
use berth_client::{AdapterOptions, Auth, GuestClient, HttpService, TransportError};
use berth_conductor::{Conductor, ConductorOptions, ConductorParts};
use berth_model::{NodeName, ProviderTree};
use berth_virt::guest_spec::{CpuModel, HostPath};
use berth_virt::{HostView, VirtDriver};
use berth_wire::host_state::{HostStateBody, ServiceBody};
use bytes::Bytes;
use http::Request;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::api::{ComputeProcess, without_disks};
use super::effects::{CloudProcess, ProcessGate};
use super::hardware::Hardware;
use super::{ComputeNode, GuestCloud};
use crate::fault::{
    FaultStage, GatedBootJournal, GatedDriver, GatedGuestJournal, GatedHosts, GatedHttp, busy,
};
use crate::host_states;
use crate::node::COMPUTE_ID;

/// How long a process is down after a kill.
pub(super) const RESTART: Duration = Duration::from_secs(1);
/// How often the agent observes its host and compares its guests.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long Placement and the accelerator service may queue a request after its caller gave up: shorter than
/// [`LATE_GRACE`].
const QUEUE: Duration = Duration::from_secs(90);
/// How long the conductor looks for what comes late.
const LATE_GRACE: Duration = Duration::from_secs(120);
/// The pause after a pass that failed.
const PAUSE: Duration = Duration::from_secs(5);

type Driver = GatedDriver<Hardware>;
type HostGuests = Guests<Driver, HostResources<Driver>>;

/// A signal that one run of a process has ended.
#[derive(Clone, Default)]
pub(super) struct ProcessExit(Arc<watch::Sender<bool>>);

impl ProcessExit {
    fn cancel(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn cancelled(&self) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.0.subscribe().wait_for(|ended| *ended).await;
    }
}

/// A running process.
pub(super) struct RunningProcess<T> {
    gate: ProcessGate,
    pub(super) process: T,
    end: ProcessExit,
}

impl<T> RunningProcess<T> {
    pub(super) fn new(gate: ProcessGate, process: T, end: ProcessExit) -> Self {
        Self { gate, process, end }
    }

    pub(super) fn end(&self) {
        self.gate.end();
        self.end.cancel();
    }
}

/// The running process. None while it is down.
pub(super) type CurrentProcess<T> = Arc<watch::Sender<Option<Arc<RunningProcess<T>>>>>;

/// The parts of a conductor's process that other processes call.
pub(super) struct Controller {
    pub(super) conductor: Conductor,
    pub(super) compute: Option<ComputeProcess>,
}

/// The parts of an agent's process that other processes call.
pub(super) struct AgentEndpoint {
    pub(super) routes: HttpService,
}

impl GuestCloud {
    /// Runs each process, and restarts it after each kill, until the cloud is dropped.
    pub(super) fn begin(&self) {
        for service in &self.services {
            self.spawn_service(service);
        }
        for node in self.nodes.iter() {
            let (cloud, node) = (self.clone(), Arc::clone(node));
            self.spawn(async move {
                loop {
                    let gate = cloud.effects.gate_of(node.process);
                    let stage = cloud.stage(&gate);
                    let end = ProcessExit::default();
                    let living = cloud.agent_lives(&node, &stage, &gate, &end);
                    tokio::select! {
                        biased;
                        () = stage.killed() => {}
                        () = end.cancelled() => {}
                        () = living => {}
                    }
                    gate.end();
                    end.cancel();
                    node.agent.send_replace(None);
                    if gate.is_cut() {
                        node.boot().await;
                    }
                    sleep(RESTART).await;
                }
            });
        }
        let cloud = self.clone();
        self.spawn(async move {
            loop {
                let gate = cloud.effects.gate_of(CloudProcess::Conductor);
                let stage = cloud.stage(&gate);
                let end = ProcessExit::default();
                let conductor = cloud.a_conductor(&stage);
                let api = cloud.api.as_ref();
                let compute = api.map(|api| api.begin(&conductor, &cloud.hosts, &end));
                let process = Controller {
                    conductor: conductor.clone(),
                    compute: compute.clone(),
                };
                let life = RunningProcess::new(gate.clone(), process, end.clone());
                cloud.conductor.send_replace(Some(Arc::new(life)));
                let serving = async {
                    match &compute {
                        Some(compute) => compute.keep(&end).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = stage.killed() => {}
                    () = end.cancelled() => {}
                    () = conductor.run(std::future::pending()) => {}
                    () = serving => {}
                }
                gate.end();
                end.cancel();
                cloud.conductor.send_replace(None);
                sleep(RESTART).await;
            }
        });
        let cloud = self.clone();
        self.spawn(async move {
            loop {
                sleep(INTERVAL).await;
                cloud.requests_grow_old(INTERVAL).await;
            }
        });
    }

    pub(super) fn stage(&self, gate: &ProcessGate) -> FaultStage {
        FaultStage::of_nested_effects(Arc::new(gate.clone()), self.clock.clone(), gate.over())
    }

    /// One process of an agent, as the program puts it together.
    async fn agent_lives(
        &self,
        node: &ComputeNode,
        stage: &FaultStage,
        gate: &ProcessGate,
        end: &ProcessExit,
    ) {
        let hardware = Arc::clone(&node.hardware);
        let driver = Arc::new(GatedDriver::around(hardware, stage, None));
        let gated = |http| GatedHttp::around_a_queue(http, stage, QUEUE);
        let placement = self.placement_through(gated);
        let service = self.accelerators_through(gated);
        let journal = Arc::new(GatedGuestJournal::around(
            Arc::new(node.guests_db.clone()),
            stage,
        ));
        let opened = DeviceManager::open(DeviceManagerParts {
            driver: Arc::clone(&driver),
            register: node.guests_db.devices(),
            journal: Arc::clone(&journal) as _,
            service: Some(service.clone()),
            options: DeviceOptions {
                interval: INTERVAL,
                scrub: Scrub::Always,
                seed: 1,
            },
        });
        let Ok(devices) = opened.await else {
            return;
        };
        let known: Arc<Mutex<Option<Arc<ProviderTree>>>> = Arc::default();
        let trees = Arc::clone(&known);
        let instances = InstancesPath::new(HostPath::new("/instances").expect("a path"));
        let guests: HostGuests = Guests::new(GuestsParts {
            journal,
            driver: Arc::clone(&driver),
            resources: Arc::new(HostResources::new(
                Arc::clone(&driver),
                GuestFiles::below(instances.clone()),
            )),
            accelerators: Accelerators {
                client: Some(service),
                events: ExternalEvents::default(),
                binding_timeout: Duration::from_secs(300),
            },
            boot_id: format!("boot-{}", node.boots()),
            max_concurrent_builds: 10,
        })
        .with_build_context(BuildContext {
            options: BuildOptions {
                instances,
                cpu_model: CpuModel::Default,
                kernel_directories: Vec::new(),
            },
            provider_trees: Arc::new(move |_| trees.lock().expect("no panic").clone()),
            device_conditions: Some(Arc::new(devices.clone())),
        });
        let reconciler = Reconciler::new(
            guests.clone(),
            Some(devices.clone()),
            Some(placement.clone()),
        );
        let process = AgentEndpoint {
            routes: dying_with(routes(&reconciler), end),
        };
        let life = RunningProcess::new(gate.clone(), process, end.clone());
        node.agent.send_replace(Some(Arc::new(life)));
        let device_tasks = devices.run(Some(guests.completed_reconciles()), Default::default());
        let keeping = reconciler.run(INTERVAL, Default::default());
        let passing = async {
            let mut tracker: Option<ResourceTracker<Driver>> = None;
            let mut changes = devices.changes();
            loop {
                let passed = self.pass(node, &driver, &placement, &devices, &mut tracker);
                let passed = passed.await;
                let tree = tracker.as_ref().and_then(|it| it.report().known_tree());
                *known.lock().expect("no panic") = tree.cloned().map(Arc::new);
                if let (Some(view), Some(tree)) = (&passed, tree) {
                    self.report_state(node, view, tree).await;
                }
                let pause = if passed.is_some() { INTERVAL } else { PAUSE };
                tokio::select! {
                    () = sleep(pause) => {}
                    _ = futures_util::StreamExt::next(&mut changes) => {}
                    () = node.plugged.notified() => {}
                }
            }
        };
        tokio::select! {
            () = device_tasks => {}
            () = keeping => {}
            () = passing => {}
        }
    }

    /// A look and a pass; what was seen, where it worked.
    async fn pass(
        &self,
        node: &ComputeNode,
        driver: &Arc<Driver>,
        placement: &berth_client::PlacementClient,
        devices: &DeviceManager<Driver>,
        tracker: &mut Option<ResourceTracker<Driver>>,
    ) -> Option<HostView> {
        let observation = devices.begin_observation();
        let mut view = driver.observe().await.ok()?;
        devices.overlay(observation, &mut view);
        let missing = devices.take_missing();
        let now = Instant::now();
        if let Some(tracker) = tracker {
            tracker.forget_if_missing(&missing.into_values().flatten().collect());
            let ticked = tick::reconcile(tracker, &view, Service::Enabled, now).await;
            return ticked.is_ok().then_some(view);
        }
        let name = NodeName::new(node.name).expect("a node's name");
        let options = TrackerOptions::default();
        let source = UuidSource::File(COMPUTE_ID.to_owned());
        let identity =
            node_identity::identify(&name, &source, &node.files, placement, options.rename);
        let identity = identity.await.ok()?;
        let report = ReportClient::new(placement.clone(), name.clone(), identity.root, &options);
        let mut made = ResourceTracker::new(Arc::clone(driver), name, report, options);
        let started =
            startup::reconcile(&mut made, &view, Service::Enabled, now, None, &|_, _| {}).await;
        started.ok()?;
        *tracker = Some(made);
        Some(view)
    }

    /// What the agent's own loop tells the scheduler of its host.
    async fn report_state(&self, of: &ComputeNode, view: &HostView, tree: &ProviderTree) {
        let node = NodeName::new(of.name).expect("a node's name");
        let records = busy(of.guests_db.guests()).await.expect("a journal");
        let facts = NodeFacts {
            node: &node,
            hypervisor: &view.hypervisor,
            seen: view.nodes.get(&node).expect("the driver shows it"),
            tree,
            records: &records.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
            host_ip: None,
            failed_builds: 0,
            metrics: None,
        };
        let body = HostStateBody {
            service: ServiceBody::default(),
            nodes: vec![node_state(&facts)],
        };
        let reported = busy(self.hosts.store_state(of.name, body)).await;
        reported.expect("a state");
    }

    fn a_conductor(&self, stage: &FaultStage) -> Conductor {
        let gated = |http| GatedHttp::around(http, stage);
        let queueing = |http| GatedHttp::around_a_queue(http, stage, QUEUE);
        let agents = self.nodes.iter().map(|node| {
            let auth = Auth::none("http://agent").expect("an endpoint");
            let routes = gated(without_disks(whoever_lives(node)));
            let client = GuestClient::new(routes, auth, &AdapterOptions::default());
            (node.name.to_owned(), client)
        });
        let agents: BTreeMap<_, _> = agents.collect();
        let parts = ConductorParts {
            journal: Arc::new(GatedBootJournal::around(
                Arc::clone(&self.conductor_db) as _,
                stage,
            )),
            placement: self.placement_through(queueing),
            accelerators: self.accelerators_through(queueing),
            networks: None,
            agents: Arc::new(agents),
            scheduler: host_states::scheduler(GatedHosts::around(
                self.hosts.clone(),
                stage,
                &self.keeps_members,
            )),
        };
        let options = ConductorOptions {
            retry_timeout: Duration::from_secs(600),
            orphan_grace: LATE_GRACE,
            retry_delay: PAUSE,
            ..ConductorOptions::default()
        };
        Conductor::open(parts, options)
    }
}

/// The routes of an agent's instances and of their comparison.
fn routes<D: VirtDriver, R: GuestResources>(reconciler: &Reconciler<D, R>) -> Router {
    let routes = berth_agent_api::instances::routes(reconciler.guests());
    routes.merge(berth_agent_api::reconcile::routes(reconciler))
}

/// The routes of the agent that lives, whichever that is.
fn whoever_lives(node: &ComputeNode) -> HttpService {
    let (present, is_cut_off) = (Arc::clone(&node.agent), Arc::clone(&node.is_cut_off));
    HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let present = present.borrow().clone();
        let present = present.filter(|_| !is_cut_off.load(Ordering::SeqCst));
        async move {
            match present {
                Some(life) => life.process.routes.send(request).await,
                None => Err(TransportError::Refused {
                    peer: "agent.sock".to_owned(),
                }),
            }
        }
    }))
}

/// The routes of a process: once it has ended, connections to it are closed.
pub(super) fn dying_with(routes: Router, end: &ProcessExit) -> HttpService {
    let http = HttpService::in_process::<_, Body, _>(routes, 8 << 20);
    refuse_after_exit(http, end)
}

/// The same of what answers for a process.
pub(super) fn refuse_after_exit(http: HttpService, end: &ProcessExit) -> HttpService {
    let end = end.clone();
    HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let (http, end) = (http.clone(), end.clone());
        async move {
            tokio::select! {
                biased;
                () = end.cancelled() => Err(TransportError::Closed {
                    reason: "connection reset by peer".to_owned(),
                }),
                answer = http.send(request) => answer,
            }
        }
    }))
}

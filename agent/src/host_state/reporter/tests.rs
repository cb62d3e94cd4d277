//! The loop against a service that listens on a port of this machine. Nothing here goes by how long something takes: each step waits
//! for what must come.

use std::sync::Mutex;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::put;
use berth_agent_api::NodeState;
use berth_agent_journal::samples::{NODE, request};
use berth_agent_journal::{GuestJournal, SqlJournal};
use berth_agent_tracker::disabled::{DisabledByOperator, DisabledInCloud};
use berth_client::{AdapterOptions, Auth, HostsClient, HttpService, TransportOptions};
use berth_model::{Inventory, Provider, ProviderName, ResourceClass};
use berth_virt::{HostEvents, ObserveError};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::*;
use crate::host_state::service::{HostStateOptions, OwnHostName};

/// The behaviour of the service.
#[derive(Default)]
struct ServiceBehaviour {
    /// Part of state identifiers; changes when the service loses its states.
    epoch: u64,
    refuses: bool,
    disabled: Option<&'static str>,
}

/// A report that the service received.
#[derive(Debug, PartialEq)]
enum ReceivedReport {
    State(String, Value),
    Seen(Value),
}

/// A service that takes states.
struct FakeHostService {
    behaviour: Arc<Mutex<ServiceBehaviour>>,
    received: mpsc::UnboundedReceiver<ReceivedReport>,
    sender: mpsc::UnboundedSender<ReceivedReport>,
    port: u16,
    serving: Option<JoinHandle<()>>,
}

type ServiceState = (
    Arc<Mutex<ServiceBehaviour>>,
    mpsc::UnboundedSender<ReceivedReport>,
);
type FakeAnswer = (StatusCode, axum::Json<Value>);

fn answer(behaviour: &ServiceBehaviour) -> FakeAnswer {
    let named =
        json!({"state": behaviour.epoch.to_string(), "disabled_reason": behaviour.disabled});
    match behaviour.refuses {
        true => (StatusCode::SERVICE_UNAVAILABLE, axum::Json(json!({}))),
        false => (StatusCode::OK, axum::Json(named)),
    }
}

async fn state(
    State((behaviour, sender)): State<ServiceState>,
    Path(host): Path<String>,
    axum::Json(body): axum::Json<Value>,
) -> FakeAnswer {
    let behaviour = behaviour.lock().unwrap();
    if !behaviour.refuses {
        sender.send(ReceivedReport::State(host, body)).unwrap();
    }
    answer(&behaviour)
}

async fn seen(
    State((behaviour, sender)): State<ServiceState>,
    axum::Json(body): axum::Json<Value>,
) -> FakeAnswer {
    let behaviour = behaviour.lock().unwrap();
    let is_known = body["state"] == json!(behaviour.epoch.to_string());
    if !is_known && !behaviour.refuses {
        return (StatusCode::CONFLICT, axum::Json(json!({})));
    }
    if !behaviour.refuses {
        sender.send(ReceivedReport::Seen(body)).unwrap();
    }
    answer(&behaviour)
}

impl FakeHostService {
    /// A port that nobody listens on yet.
    async fn away() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (sender, received) = mpsc::unbounded_channel();
        Self {
            behaviour: Arc::default(),
            received,
            sender,
            port: listener.local_addr().unwrap().port(),
            serving: None,
        }
    }

    async fn here() -> Self {
        let mut scheduler = Self::away().await;
        scheduler.come().await;
        scheduler
    }

    async fn come(&mut self) {
        let service_state: ServiceState = (Arc::clone(&self.behaviour), self.sender.clone());
        let api = Router::new()
            .route("/internal/v1/hosts/{host}/state", put(state))
            .route("/internal/v1/hosts/{host}/seen", put(seen))
            .with_state(service_state);
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        self.serving = Some(tokio::spawn(async move {
            axum::serve(listener, api).await.unwrap();
        }));
    }

    fn be(&self, change: impl FnOnce(&mut ServiceBehaviour)) {
        change(&mut self.behaviour.lock().unwrap());
    }

    async fn next_report(&mut self) -> ReceivedReport {
        self.received.recv().await.unwrap()
    }

    /// The next whole state; signs of life before it are passed over.
    async fn next_state(&mut self) -> Value {
        loop {
            if let ReceivedReport::State(host, body) = self.next_report().await {
                assert_eq!(host, NODE);
                return body;
            }
        }
    }

    fn client(&self) -> HostsClient {
        let http = HttpService::network(&TransportOptions::default()).unwrap();
        let auth = Auth::none(&format!("http://127.0.0.1:{}", self.port)).unwrap();
        HostsClient::new(http, auth, &AdapterOptions::default())
    }
}

/// A driver that only measures.
struct Idle;

impl VirtDriver for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        std::future::pending().await
    }

    fn watch(&self) -> HostEvents {
        Box::pin(futures_util::stream::pending())
    }

    async fn host_cpu_stats(&self) -> Result<Option<HostCpuStats>, ObserveError> {
        Ok(Some(HostCpuStats {
            user: Duration::from_secs(1),
            idle: Duration::from_secs(3),
            ..HostCpuStats::default()
        }))
    }
}

/// The agent around the loop.
struct Agent {
    states: watch::Sender<Arc<AgentState>>,
    changes: watch::Sender<GuestChanges>,
    requests: mpsc::Receiver<AgentRequest>,
    failure: watch::Receiver<Option<String>>,
    own_name: OwnHostName,
    journal: SqlJournal,
    metrics: Metrics,
    _folder: tempfile::TempDir,
    _tasks: JoinSet<()>,
}

impl Agent {
    async fn reporting(scheduler: &FakeHostService, options: HostStateOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = SqlJournal::open(folder.path()).await.unwrap();
        let (states, shown) = watch::channel(Arc::new(AgentState::unknown("idle")));
        let (changes, changed) = watch::channel(GuestChanges::default());
        let (asked, requests) = mpsc::channel(4);
        let (failure_sender, failure) = watch::channel(None);
        let metrics = Metrics::default();
        let around = ReporterDeps {
            driver: Arc::new(Idle),
            states: shown,
            requests: asked,
            metrics: metrics.clone(),
            failure: failure_sender,
        };
        let own_name = OwnHostName::default();
        let service = HostStateService {
            client: scheduler.client(),
            journal: Arc::new(journal.clone()),
            changes: changed,
            own_name: own_name.clone(),
            options,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(HostStateReporter::new(around, service).run());
        Self {
            states,
            changes,
            requests,
            failure,
            own_name,
            journal,
            metrics,
            _folder: folder,
            _tasks: tasks,
        }
    }

    fn change(&self, change: impl FnOnce(&mut AgentState)) {
        self.states
            .send_modify(|state| change(Arc::make_mut(state)));
    }

    /// The service has reported its node.
    fn runs(&self) {
        self.change(|state| {
            state.phase = Phase::Running;
            state.view = Some(Arc::new(crate::service::samples::host(&[NODE])));
            let node = NodeName::new(NODE).unwrap();
            state.nodes.insert(
                node,
                NodeState {
                    phase: Phase::Running,
                    tree: Some(Arc::new(tree())),
                    ..NodeState::new()
                },
            );
        });
    }

    async fn has_reported(&mut self, has_reported: bool) {
        let change = self
            .failure
            .wait_for(|failure| failure.is_none() == has_reported);
        change.await.unwrap();
    }

    fn count(&self, request: &str, result: &str) -> u64 {
        let line = format!(
            "berth_host_state_requests_total{{request=\"{request}\",result=\"{result}\"}} "
        );
        let text = self.metrics.render();
        let value = text.lines().find_map(|it| it.strip_prefix(&line));
        value.unwrap().parse().unwrap()
    }
}

fn tree() -> ProviderTree {
    let uuid = "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01".parse().unwrap();
    let mut root = Provider::root(uuid, ProviderName::new(NODE).unwrap());
    let inventory = Inventory::of(8).unwrap();
    root.inventories.insert(ResourceClass::VCPU, inventory);
    ProviderTree::new(root)
}

/// Signs of life follow each other at once.
fn eager() -> HostStateOptions {
    HostStateOptions {
        report_interval: Duration::from_millis(20),
        ..HostStateOptions::default()
    }
}

#[tokio::test]
async fn a_host_is_reported_once_and_again_only_when_it_changed() {
    let mut scheduler = FakeHostService::here().await;
    let agent = Agent::reporting(&scheduler, eager()).await;
    assert!(!agent.own_name.is(NODE));
    // Before the node is reported there is nothing to tell.
    agent.change(|state| state.phase = Phase::Running);
    agent.runs();
    let reported = scheduler.next_state().await;
    assert_eq!(reported["nodes"][0]["hypervisor_hostname"], NODE);
    assert_eq!(reported["service"]["disabled_reason"], Value::Null);
    assert!(agent.own_name.is(NODE) && !agent.own_name.is("compute3"));
    for _ in 0..3 {
        // Something that the scheduler does not know of.
        agent.change(|state| state.consumers = Some((1, 2)));
        let name = json!({"state": "0"});
        assert_eq!(scheduler.next_report().await, ReceivedReport::Seen(name));
    }
    // A guest is asked for, and its build fails.
    agent.journal.accept(&request(1, &[])).await.unwrap();
    agent.changes.send_modify(|it| it.count += 1);
    let reported = scheduler.next_state().await;
    assert_eq!(
        (
            &reported["nodes"][0]["vcpus_used"],
            &reported["nodes"][0]["num_io_ops"]
        ),
        (&json!(1), &json!(1))
    );
    agent.changes.send_modify(|it| it.failed_builds = 1);
    let reported = scheduler.next_state().await;
    assert_eq!(reported["nodes"][0]["failed_builds"], 1);
    // An operator disables the host.
    let since = std::time::SystemTime::now();
    let disabled = DisabledByOperator::new("new GPU", since, None).unwrap();
    agent.change(|state| state.disabled = Some(disabled));
    let reported = scheduler.next_state().await;
    assert_eq!(reported["service"]["disabled_reason"], "new GPU");
    agent.change(|state| {
        state.disabled = None;
        state.unobserved = Some("libvirtd is away".to_owned());
    });
    let reported = scheduler.next_state().await;
    assert_eq!(reported["service"]["disabled_reason"], HYPERVISOR_AWAY);
}

#[tokio::test]
async fn a_scheduler_that_lost_the_state_gets_all_of_it() {
    let mut scheduler = FakeHostService::here().await;
    let agent = Agent::reporting(&scheduler, eager()).await;
    agent.runs();
    let first = scheduler.next_state().await;
    scheduler.be(|behaviour| behaviour.epoch = 7);
    let again = scheduler.next_state().await;
    assert_eq!(first, again);
    assert_eq!(
        scheduler.next_report().await,
        ReceivedReport::Seen(json!({"state": "7"}))
    );
    assert_eq!(agent.count("seen", "unknown"), 1);
    assert_eq!(agent.count("state", "taken"), 2);
}

#[tokio::test]
async fn a_scheduler_that_is_away_gets_the_state_when_it_comes_and_health_shows_it_meanwhile() {
    let mut scheduler = FakeHostService::away().await;
    let mut agent = Agent::reporting(&scheduler, eager()).await;
    agent.runs();
    agent.has_reported(false).await;
    let why = agent.failure.borrow().clone().unwrap();
    assert!(
        why.contains("reporting the state of") && why.contains(NODE),
        "{why}"
    );
    let hint = "; check that the service is running, and that its URL is right: [conductor] endpoint_override";
    assert!(why.ends_with(hint), "{why}");
    scheduler.come().await;
    let reported = scheduler.next_state().await;
    assert_eq!(reported["nodes"][0]["vcpus"], 8);
    agent.has_reported(true).await;
    // It goes, and comes back with the same state.
    scheduler.be(|behaviour| behaviour.refuses = true);
    agent.has_reported(false).await;
    agent.changes.send_modify(|it| it.failed_builds = 3);
    scheduler.be(|behaviour| behaviour.refuses = false);
    let reported = scheduler.next_state().await;
    assert_eq!(reported["nodes"][0]["failed_builds"], 3);
    agent.has_reported(true).await;
    assert!(agent.count("state", "failed") >= 1);
}

#[tokio::test]
async fn what_an_operator_of_the_cloud_wants_is_handed_on_until_it_is_so() {
    let mut scheduler = FakeHostService::here().await;
    scheduler.be(|behaviour| behaviour.disabled = Some("moved"));
    let mut agent = Agent::reporting(&scheduler, eager()).await;
    agent.runs();
    let body = scheduler.next_state().await;
    // Said again as long as nothing came of it.
    for _ in 0..2 {
        let Some(AgentRequest::SetDisabledInCloud { reason }) = agent.requests.recv().await else {
            panic!("the service is asked for nothing else");
        };
        assert_eq!(reason.as_deref(), Some("moved"));
    }
    let now = std::time::SystemTime::now();
    agent.change(|state| state.disabled_in_cloud = Some(DisabledInCloud::new("moved", now)));
    // It is the cloud's own word, which the cloud is not told.
    for _ in 0..3 {
        assert!(matches!(
            scheduler.next_report().await,
            ReceivedReport::Seen(_)
        ));
    }
    assert_eq!(body["service"]["disabled_reason"], Value::Null);
    while agent.requests.try_recv().is_ok() {}
    scheduler.be(|behaviour| behaviour.disabled = None);
    let Some(AgentRequest::SetDisabledInCloud { reason }) = agent.requests.recv().await else {
        panic!("the service is asked for nothing else");
    };
    assert_eq!(reason, None);
}

#[tokio::test]
async fn what_the_cpus_did_is_measured_where_a_monitor_is_enabled() {
    let mut scheduler = FakeHostService::here().await;
    let options = HostStateOptions {
        monitors: [Monitor::CpuVirtDriver].into(),
        ..eager()
    };
    let agent = Agent::reporting(&scheduler, options).await;
    agent.runs();
    let reported = scheduler.next_state().await;
    let metrics = &reported["nodes"][0]["metrics"];
    assert_eq!(metrics["cpu.user.time"], 1e9);
    assert_eq!(metrics["cpu.percent"], 25.0);
}

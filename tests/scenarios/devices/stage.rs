//! A node with accelerator devices, the built-in Placement and the built-in accelerator service, advanced pass by pass.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use berth_accelerator::{
    AcceleratorApiOptions, EventNotifier, deliver_events, end_late_programmings, prepare, router,
    watch_providers,
};
use berth_agent_api::devices as api;
use berth_agent_devices::report::Scrub;
use berth_agent_devices::{DeviceConditions, DeviceManager, DeviceManagerParts, DeviceOptions};
use berth_agent_journal::SqlJournal;
use berth_agent_tracker::tick;
use berth_client::{
    AcceleratorClient, AdapterOptions, Auth, ComputeClient, HttpExchange, HttpService,
    RequestObserver, Secret, TransportError,
};
use berth_model::{ConsumerUuid, NodeName, PciAddress, ProviderUuid, ResourceClass, Trait};
use berth_store::SqlStore;
use berth_tests::cloud::Cloud;
use berth_tests::host::Host;
use berth_tests::node::{Node, NodeProcess};
use berth_tests::wait::{poll_until, within};
use berth_virt::{
    DeviceCondition, DeviceError, DeviceOwner, DeviceReset, DeviceType, GuestError, GuestMark,
    GuestOnHost, HeldDevice, HostDeviceId, HostEvents, HostView, ObserveError, OfferedDevice,
    OfferedHandle, PowerState, UnfitReason, VirtDriver, WantedDevice,
};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use uuid::Uuid;

pub(super) const NODE: &str = "gpu-01";

/// How often unchanged devices are reported to the service.
pub(super) const INTERVAL: Duration = Duration::from_hours(1);

/// The n-th device's address.
pub(super) fn address(n: u8) -> PciAddress {
    format!("0000:{:02x}:00.0", 0x80 + n).parse().unwrap()
}

/// The n-th function of the n-th card.
pub(super) fn function(n: u8, part: u8) -> PciAddress {
    format!("0000:{:02x}:10.{part}", 0x80 + n).parse().unwrap()
}

/// An accelerator's device: a whole GPU.
pub(super) fn card(n: u8) -> OfferedDevice {
    OfferedDevice {
        address: address(n),
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner: DeviceOwner::Accelerator,
        device_type: DeviceType::Gpu,
        model: None,
        numa_node: Some(0),
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: ResourceClass::PGPU,
        class_origin: berth_virt::ClassOrigin::Configured,
        traits: BTreeSet::from([Trait::new("CUSTOM_NVIDIA_1EB8").unwrap()]),
        handles: vec![OfferedHandle::Function(address(n))],
        unit: berth_virt::DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition: DeviceCondition::Fit,
    }
}

/// A card of which four virtual functions are offered.
pub(super) fn parted(n: u8) -> OfferedDevice {
    let functions = (0..4).map(|part| OfferedHandle::Function(function(n, part)));
    OfferedDevice {
        handles: functions.collect(),
        ..card(n)
    }
}

/// An operator's program that does this.
pub(super) fn hook(folder: &std::path::Path, script: &str) -> berth_hook::Hook {
    let [text, program] = ["text", "hook"].map(|name| folder.join(name));
    std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Copied by another process: what this one has open for writing, another test's child may hold when it is started.
    let copied = std::process::Command::new("cp")
        .args([&text, &program])
        .status();
    assert!(copied.unwrap().success());
    berth_hook::Hook {
        name: "hook",
        program,
        deadline: Duration::from_secs(60),
    }
}

pub(super) fn sick(device: OfferedDevice, reason: UnfitReason) -> OfferedDevice {
    OfferedDevice {
        condition: DeviceCondition::Unfit { reason },
        ..device
    }
}

/// What the host does with devices, and what it did.
#[derive(Debug, Default)]
pub(super) struct Cards {
    /// Devices with a failing reset, and the failure.
    pub(super) broken: Mutex<BTreeMap<String, UnfitReason>>,
    /// Resets that were made.
    pub(super) resets: Mutex<Vec<String>>,
    /// Guests of the hypervisor.
    pub(super) guests: Mutex<BTreeMap<ConsumerUuid, PciAddress>>,
    /// Resets never return: the process is killed during them.
    pub(super) stuck: Mutex<bool>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VirtDriver for Cards {
    fn name(&self) -> &'static str {
        "cards"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        Ok(Host::new(NODE).view())
    }

    fn watch(&self) -> HostEvents {
        Box::pin(futures_util::stream::pending())
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        let guests = locked(&self.guests).clone();
        let guest = |(uuid, address): (ConsumerUuid, PciAddress)| {
            let device = HostDeviceId::Function(address);
            let on_host = GuestOnHost {
                name: format!("guest-{uuid}"),
                state: PowerState::Running,
                owner: Some(GuestMark {
                    project: "p".to_owned(),
                    consumer: uuid,
                    requests: BTreeSet::new(),
                }),
                devices: BTreeSet::from([HeldDevice {
                    device,
                    arq: None,
                    is_interface: false,
                }]),
                unreadable: None,
                hardware: None,
                stuck: None,
                ended_by_hypervisor: false,
            };
            (uuid, on_host)
        };
        Ok(guests.into_iter().map(guest).collect())
    }

    async fn reset_device(&self, wanted: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        let device = wanted.host_device();
        let name = match device {
            HostDeviceId::Function(address) => address.to_string(),
            HostDeviceId::Mdev(uuid) => uuid.to_string(),
        };
        if *locked(&self.stuck) {
            std::future::pending::<()>().await;
        }
        let broken = locked(&self.broken).get(&name).copied();
        locked(&self.resets).push(name);
        match broken {
            Some(cause) => Err(DeviceError::Quarantined {
                device,
                cause,
                reason: "the reset did not take".to_owned(),
            }),
            None => Ok(DeviceReset::Reset { driver: None }),
        }
    }
}

/// Requests to the accelerator service, as `METHOD route`.
#[derive(Debug, Default)]
struct ServiceRequests(Mutex<Vec<String>>);

impl RequestObserver for ServiceRequests {
    fn observed(&self, exchange: &HttpExchange<'_>) {
        locked(&self.0).push(format!("{} {}", exchange.method, exchange.route));
    }
}

pub(super) struct DeviceStage {
    pub(super) cloud: Cloud,
    pub(super) cards: Arc<Cards>,
    pub(super) devices: DeviceManager<Cards>,
    node: Node,
    life: NodeProcess,
    host: Host,
    service: Router,
    requests: Arc<ServiceRequests>,
    folder: tempfile::TempDir,
    journal: SqlJournal,
    store: SqlStore,
}

impl DeviceStage {
    /// A node that offers these devices, after its start and its first report.
    pub(super) async fn with(shown: Vec<OfferedDevice>) -> Self {
        Self::under(AcceleratorApiOptions::default(), shown).await
    }

    /// The same with service options.
    pub(super) async fn under(options: AcceleratorApiOptions, shown: Vec<OfferedDevice>) -> Self {
        let store = SqlStore::in_memory().await.unwrap();
        prepare(&store).await.unwrap();
        let service = router(store.clone(), options);
        Self {
            store,
            ..Self::with_service(service, shown).await
        }
    }

    /// The same with a proxy in front of the service: while `not_found_once` is set, it answers 404 once.
    pub(super) async fn behind(not_found_once: Arc<AtomicBool>, shown: Vec<OfferedDevice>) -> Self {
        let store = SqlStore::in_memory().await.unwrap();
        prepare(&store).await.unwrap();
        let service = router(store.clone(), AcceleratorApiOptions::default());
        let before = Router::new().fallback(move |request: Request<Body>| async move {
            match not_found_once.swap(false, Ordering::SeqCst) {
                true => StatusCode::NOT_FOUND.into_response(),
                false => service.oneshot(request).await.into_response(),
            }
        });
        Self {
            store,
            ..Self::with_service(before, shown).await
        }
    }

    /// The same with a service that answers its first long poll with a 503.
    pub(super) async fn losing_a_wait(shown: Vec<OfferedDevice>) -> Self {
        let store = SqlStore::in_memory().await.unwrap();
        prepare(&store).await.unwrap();
        let service = router(store.clone(), AcceleratorApiOptions::default());
        let loses = Arc::new(AtomicBool::new(true));
        let before = Router::new().fallback(move |request: Request<Body>| async move {
            let is_wait = request.uri().path().ends_with("/changes");
            match is_wait && loses.swap(false, Ordering::SeqCst) {
                true => StatusCode::SERVICE_UNAVAILABLE.into_response(),
                false => service.oneshot(request).await.into_response(),
            }
        });
        Self {
            store,
            ..Self::with_service(before, shown).await
        }
    }

    /// The same with any accelerator service.
    pub(super) async fn with_service(service: Router, shown: Vec<OfferedDevice>) -> Self {
        let cloud = Cloud::in_process().await;
        let host = Host::new(NODE).with(|node| node.devices = shown);
        let node = Node::new(&Host::new(NODE));
        let life = node.start(&cloud).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let journal = SqlJournal::open(folder.path()).await.unwrap();
        let (cards, requests) = (Arc::<Cards>::default(), Arc::<ServiceRequests>::default());
        let devices = opened(&cards, &journal, &service, &requests).await;
        let mut stage = Self {
            cloud,
            cards,
            devices,
            node,
            life,
            host,
            service,
            requests,
            folder,
            journal,
            store: SqlStore::in_memory().await.unwrap(),
        };
        stage.round().await;
        stage
    }

    /// The agent's process is killed and started again.
    pub(super) async fn restart(&mut self) {
        // Whatever of the last life has the file lets go of it.
        let nothing = SqlJournal::in_memory().await.unwrap();
        self.devices = opened(&self.cards, &nothing, &self.service, &self.requests).await;
        self.journal.close().await;
        self.journal = nothing;
        *locked(&self.cards.stuck) = false;
        self.journal = SqlJournal::open(self.folder.path()).await.unwrap();
        self.devices = opened(&self.cards, &self.journal, &self.service, &self.requests).await;
    }

    /// The host shows these from now on.
    pub(super) fn show(&mut self, shown: Vec<OfferedDevice>) {
        self.host = self.host.clone().with(|node| node.devices = shown);
    }

    /// What a look brings now.
    pub(super) fn view(&self) -> HostView {
        self.host.view()
    }

    /// The host shows the n-th guest with this device from now on.
    pub(super) fn show_guest(&mut self, n: u32, device: PciAddress) {
        self.host = self.host.clone().guest_as(n, |guest| {
            guest.functions.insert(device);
        });
    }

    /// A look and a pass over the node.
    pub(super) async fn pass(&mut self) {
        let observation = self.devices.begin_observation();
        let mut view = self.view();
        self.devices.overlay(observation, &mut view);
        let missing = self.devices.take_missing().into_values();
        self.life
            .tracker
            .forget_if_missing(&missing.flatten().collect());
        let (service, now) = (self.node.service, Instant::now());
        tick::reconcile(&mut self.life.tracker, &view, service, now)
            .await
            .unwrap();
    }

    /// A pass, a report, what it asks for, and the pass and the report that follow from it.
    pub(super) async fn round(&mut self) {
        for _ in 0..2 {
            self.pass().await;
            self.devices.send_reports().await.unwrap();
            self.devices.clean_all_unclean().await;
            self.devices.send_reports().await.unwrap();
        }
        self.pass().await;
    }

    /// Something was released, so the report is due.
    pub(super) async fn stirred(&mut self) {
        self.devices.request_report();
        self.round().await;
    }

    /// The requests to the accelerator service since the last call of this.
    pub(super) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.requests.0))
    }

    /// The resets since the last call of this.
    pub(super) fn take_resets(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.cards.resets))
    }

    pub(super) fn journal(&self) -> &SqlJournal {
        &self.journal
    }

    /// The provider of a device: `total reserved ...`, and its traits.
    pub(super) async fn provider(&self, n: u8) -> Option<(String, BTreeSet<String>)> {
        let rows = self.cloud.rows().await;
        let row = rows.providers.get(provider_name(n).as_str())?;
        let inventory = row.inventories.get("PGPU").cloned().unwrap_or_default();
        let amounts: Vec<_> = inventory.split(' ').take(2).collect();
        Some((amounts.join(" "), row.traits.clone()))
    }

    /// What an operator asks of the agent.
    pub(super) async fn admin(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        asked(api::routes(&self.devices), method, path, body).await
    }

    /// The accelerator service looks which providers Placement has, once.
    pub(super) async fn run_service_checks(&self) {
        let stopped = CancellationToken::new();
        let (store, placement) = (self.store.clone(), self.cloud.placement());
        let period = Duration::from_millis(1);
        let looking = watch_providers(store, placement, period, stopped.clone().cancelled_owned());
        let looking = tokio::spawn(looking);
        let path = format!("/internal/v1/hosts/{NODE}/devices");
        poll_until("the service misses a provider", async || {
            let (_, known) = self.ask("GET", &path, Value::Null).await;
            match known["devices"][0]["deployables"][0]["provider_missing"] == json!(true) {
                true => Ok(()),
                false => Err(known),
            }
        })
        .await;
        stopped.cancel();
        looking.await.unwrap();
    }

    /// The devices kept as the service keeps them; ends with the token.
    pub(super) fn keep(&self) -> (CancellationToken, tokio::task::JoinHandle<()>) {
        let stop = CancellationToken::new();
        let task = tokio::spawn(self.devices.run(None, stop.clone()));
        (stop, task)
    }

    /// The accelerator service ends what is programmed too late.
    pub(super) fn watch_the_clock(&self) -> tokio::task::JoinHandle<()> {
        let ending = end_late_programmings(
            self.store.clone(),
            EventNotifier::default(),
            std::future::pending(),
        );
        tokio::spawn(ending)
    }

    /// The next events about requests that the service tells a compute API: `request status`.
    pub(super) async fn next_events(&self) -> Vec<String> {
        let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
        let receiver =
            HttpService::new(tower::service_fn(move |request: Request<bytes::Bytes>| {
                let body: Value = serde_json::from_slice(request.body()).unwrap();
                sender.send(body).unwrap();
                let answer = bytes::Bytes::from_static(b"{\"events\": []}");
                async move { Ok::<_, TransportError>(http::Response::new(answer)) }
            }));
        let auth = Auth::admin_token("http://compute/v2.1", &Secret::from("t".to_owned())).unwrap();
        let client = ComputeClient::new(receiver, auth, &AdapterOptions::default());
        let stop = CancellationToken::new();
        let ended = stop.clone().cancelled_owned();
        let delivering =
            deliver_events(self.store.clone(), client, EventNotifier::default(), ended);
        let delivering = tokio::spawn(delivering);
        let body = within("an event arrives", received.recv()).await.unwrap();
        stop.cancel();
        delivering.await.unwrap();
        let event = |event: &Value| {
            let [tag, status] = ["tag", "status"].map(|key| event[key].as_str().unwrap());
            format!("{tag} {status}")
        };
        body["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(event)
            .collect()
    }

    /// The next pass reads Placement again.
    pub(super) fn forget_tree(&mut self) {
        self.life.tracker.forget();
    }

    /// What an operator or the conductor asks of the accelerator service.
    pub(super) async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        asked(self.service.clone(), method, path, body).await
    }

    /// A new request for a GPU.
    pub(super) async fn request(&self) -> String {
        let group = json!([{"name": "gpu", "groups": [{"resources:PGPU": "1"}]}]);
        // It may be there already.
        self.ask("POST", "/v2/device_profiles", group).await;
        let body = json!({"device_profile_name": "gpu"});
        let (status, made) = self.ask("POST", "/v2/accelerator_requests", body).await;
        assert_eq!(status, 201, "{made}");
        made["arqs"][0]["uuid"].as_str().unwrap().to_owned()
    }

    /// Binds a request to the n-th device for a guest; its state afterwards.
    pub(super) async fn bind(&self, arq: &str, n: u8, guest: ConsumerUuid) -> String {
        let add = |path: &str, value: String| json!({"path": path, "op": "add", "value": value});
        let steps = json!([
            add("/hostname", NODE.to_owned()),
            add("/device_rp_uuid", provider_uuid(n).to_string()),
            add("/instance_uuid", guest.to_string()),
        ]);
        self.ask("PATCH", "/v2/accelerator_requests", json!({ arq: steps }))
            .await;
        self.state(arq).await
    }

    pub(super) async fn state(&self, arq: &str) -> String {
        let path = format!("/v2/accelerator_requests/{arq}");
        let (_, request) = self.ask("GET", &path, Value::Null).await;
        request["state"].as_str().unwrap_or("gone").to_owned()
    }

    pub(super) async fn wait_until_binds(&self, n: u8, guest: ConsumerUuid, wanted: &str) {
        poll_until(&format!("a bind of device {n} is {wanted}"), async || {
            let (_, state) = self.binds(n, guest).await;
            if state == wanted { Ok(()) } else { Err(state) }
        })
        .await;
    }

    /// Waits until the journal has a cleaning under way.
    pub(super) async fn wait_for_cleaning(&self) {
        let register = self.journal().devices();
        poll_until("the cleaning is in the journal", async || {
            match register.read().await.unwrap() {
                kept if kept.running_resets.is_empty() => Err(kept),
                _ => Ok(()),
            }
        })
        .await;
    }

    /// Creates a request and binds it; returns its state. A failed request is deleted again.
    pub(super) async fn binds(&self, n: u8, guest: ConsumerUuid) -> (String, String) {
        let arq = self.request().await;
        let state = self.bind(&arq, n, guest).await;
        if state == "BindFailed" {
            self.delete(&arq).await;
        }
        (arq, state)
    }

    pub(super) async fn delete(&self, arq: &str) {
        let path = format!("/v2/accelerator_requests?arqs={arq}");
        let (status, _) = self.ask("DELETE", &path, Value::Null).await;
        assert_eq!(status, 204);
    }

    /// The UUIDs of the service's devices, by address.
    pub(super) async fn known(&self) -> BTreeMap<String, ReportedCard> {
        let path = format!("/internal/v1/hosts/{NODE}/devices");
        let (_, known) = self.ask("GET", &path, Value::Null).await;
        let devices = known["devices"].as_array().cloned().unwrap_or_default();
        let card = |device: &Value| {
            let handle = &device["deployables"][0]["attach_handles"][0];
            let card = ReportedCard {
                uuid: device["uuid"].as_str().unwrap().to_owned(),
                vanished: device["vanished"] == json!(true),
                unclean: handle["unclean"] == json!(true),
            };
            (device["name"].as_str().unwrap().to_owned(), card)
        };
        devices.iter().map(card).collect()
    }
}

/// A device as the service has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedCard {
    pub(super) uuid: String,
    pub(super) vanished: bool,
    pub(super) unclean: bool,
}

async fn opened(
    cards: &Arc<Cards>,
    journal: &SqlJournal,
    service: &Router,
    requests: &Arc<ServiceRequests>,
) -> DeviceManager<Cards> {
    let http = HttpService::in_process::<_, Body, _>(service.clone(), 8 << 20);
    let token = Secret::from("admin".to_owned());
    let auth = Auth::admin_token("http://accelerator", &token).unwrap();
    let options = AdapterOptions {
        observer: Some(Arc::clone(requests) as _),
        ..AdapterOptions::default()
    };
    let parts = DeviceManagerParts {
        driver: Arc::clone(cards),
        register: journal.devices(),
        journal: Arc::new(journal.clone()),
        service: Some(AcceleratorClient::new(http, auth, &options)),
        options: DeviceOptions {
            interval: INTERVAL,
            scrub: Scrub::Always,
            seed: 1,
        },
    };
    DeviceManager::open(parts).await.unwrap()
}

/// The name of the n-th device's provider.
pub(super) fn provider_name(n: u8) -> berth_model::ProviderName {
    NodeName::new(NODE).unwrap().deployable_name(address(n))
}

/// Its UUID, which is Cyborg's.
pub(super) fn provider_uuid(n: u8) -> ProviderUuid {
    ProviderUuid::of_deployable(&provider_name(n))
}

pub(super) fn guest(n: u32) -> ConsumerUuid {
    Uuid::from_u128(0x6e57_0000 + u128::from(n)).into()
}

async fn asked(router: Router, method: &str, path: &str, body: Value) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-auth-token", "admin")
        .header("content-type", "application/json")
        .header("openstack-api-version", "accelerator 2.3")
        .body(match body {
            Value::Null => Body::empty(),
            body => Body::from(body.to_string()),
        });
    let answer = router.oneshot(request.unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

//! [`BootStage`]: the environment of a conductor for boot tests. It consists of one host with eight GPUs, a Placement and
//! an accelerator service with the host's providers and devices, and an agent that builds guests in memory.
//!
//! ```text
//! test -> Conductor -- effects --> Placement, accelerator service, agent, journal, hosts
//! ```
//!
//! An *effect* is one call of the conductor to its environment. [`ConductorEffects`] numbers the effects, and a test can
//! kill the conductor or inject an error before or after each one. The functions of [`BootStage`] call the environment
//! directly: they are not effects.
//!
//! # Cleaning of devices
//!
//! The host cleans a device between two guests, and the accelerator service must not assign it before that. Both sides
//! use three fields of an attach handle:
//!
//! | field | set by | meaning |
//! |---|---|---|
//! | `scrubbed` | host | the host cleans this device after each release |
//! | `releases` | service | the number of the last release; a new device has one release and no `cleaned`, so it is unclean |
//! | `cleaned` | host | the last release after which the host cleaned the device |
//!
//! The device is clean, and may be assigned, when `cleaned` equals `releases`. No host runs in these tests, so
//! [`BootStage::dirty_devices`] and [`BootStage::clean_devices`] send its reports.

mod agent;
mod effects;
mod hosts;
mod journal;
mod judge;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use berth_accelerator::{AcceleratorApiOptions, prepare, router};
use berth_client::{
    AcceleratorClient, AdapterOptions, Auth, GuestClient, HttpService, NetworkClient,
    PlacementClient, Secret,
};
use berth_conductor::journal::{BootJournal as _, SqlBootJournal};
use berth_conductor::{BootRequest, Conductor, ConductorOptions, ConductorParts, SingleAgent};
use berth_hosts::{Hosts, ServerGroupPolicy};
use berth_model::{
    ConsumerUuid, Inventory, Provider, ProviderName, ProviderUuid, ResourceClass, Trait,
};
use berth_store::SqlStore;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::ServiceExt as _;
use uuid::Uuid;

pub use agent::{AgentBehaviour, BootAgent};
pub use effects::{BootFault, ConductorEffects, EffectSide, PortBug};

use crate::cloud::Cloud;
use crate::host_states::{self, ReportedHost};
use crate::wait::poll_until;

/// The only host.
pub const NODE: &str = "compute1";
/// The bridge of the host with a guaranteed bandwidth.
pub const BRIDGE: &str = "br-storage";
/// The number of GPUs of the host.
pub const GPUS: u8 = 8;

/// The environment of a conductor. It outlives the conductor: a test can kill one and start another on the same stage.
#[derive(Clone)]
pub struct BootStage {
    cloud: Cloud,
    service: Router,
    /// The agent of the node.
    pub agent: BootAgent,
    /// The record of the conductor's effects, and the fault to inject into them.
    pub effects: ConductorEffects,
    /// The scheduler's database: the reported state of the host, and the server groups.
    pub hosts: Hosts,
    /// A server group with anti-affinity. There is one host, so a second guest of the group has no valid host.
    pub apart: Uuid,
    journal: Arc<SqlBootJournal>,
    /// The network service with an account; by default there is none.
    networks: Option<(HttpService, Auth)>,
    /// The tasks that send the host's heartbeats.
    _alive: Arc<JoinSet<()>>,
}

impl BootStage {
    /// A new environment with the built-in Placement.
    pub async fn new() -> Self {
        Self::over(Cloud::in_process().await).await
    }

    /// A new environment with this Placement, which has no provider with these names yet.
    ///
    /// # Panics
    /// The Placement or the accelerator service refuses a request.
    pub async fn over(cloud: Cloud) -> Self {
        let store = SqlStore::in_memory().await.expect("memory");
        prepare(&store).await.expect("an empty database");
        let service = router(store, AcceleratorApiOptions::default());
        let journal = SqlBootJournal::in_memory().await.expect("memory");
        let hosts = host_states::hosts_of(&host_states::store().await);
        let mut alive = JoinSet::new();
        host_states::report(&hosts, &reported_host(), &mut alive).await;
        let stage = Self {
            agent: BootAgent::new(cloud.placement(), accelerators(&service, None)),
            cloud,
            service,
            effects: ConductorEffects::default(),
            apart: host_states::group(&hosts, "apart", ServerGroupPolicy::AntiAffinity).await,
            hosts,
            journal: Arc::new(journal),
            networks: None,
            _alive: Arc::new(alive),
        };
        stage.report().await;
        stage
    }

    /// Adds a network service.
    #[must_use]
    pub fn with_networks(self, http: HttpService, auth: Auth) -> Self {
        Self {
            networks: Some((http, auth)),
            ..self
        }
    }

    /// Creates what a real agent would report: the providers, the devices and the device profiles of the tests.
    async fn report(&self) {
        let placement = self.cloud.placement();
        let gpu_trait = Trait::known("CUSTOM_GPU");
        placement.ensure_trait(&gpu_trait).await.expect("a trait");
        let root = Provider::root(self::root(), name(NODE));
        let of_root = [
            (ResourceClass::VCPU, 64),
            (ResourceClass::MEMORY_MB, 65_536),
            (ResourceClass::DISK_GB, 1000),
        ];
        let traits = [Trait::known("COMPUTE_ACCELERATORS")];
        self.provider(root.clone(), &of_root, &traits).await;
        let mut devices = Vec::new();
        for n in 0..GPUS {
            let gpu = Provider::child(gpu(n), name(&gpu_name(n)), root.uuid());
            self.provider(
                gpu,
                &[(ResourceClass::PGPU, 1)],
                &[Trait::OWNER_CYBORG, gpu_trait.clone()],
            )
            .await;
            devices.push(device(n));
        }
        let path = format!("/internal/v1/hosts/{NODE}/devices");
        self.ask("PUT", &path, json!({ "devices": devices })).await;
        for (profile, groups) in [
            (
                "gpu",
                json!([{"resources:PGPU": "1", "trait:CUSTOM_GPU": "required"}]),
            ),
            (
                "two",
                json!([{"resources:PGPU": "1"}, {"resources:PGPU": "1"}]),
            ),
            ("pair", json!([{"resources:PGPU": "2"}])),
            (
                "fast",
                json!([{"resources:PGPU": "1", "trait:CUSTOM_FAST": "required"}]),
            ),
        ] {
            let body = json!([{"name": profile, "groups": groups}]);
            self.ask("POST", "/v2/device_profiles", body).await;
        }
        let fast = Trait::known("CUSTOM_FAST");
        placement.ensure_trait(&fast).await.expect("a trait");
    }

    /// Adds a network card of the host with virtual functions for ports on this physical network.
    pub async fn add_network_card(&self, physical_network: &str, functions: u64) {
        let on_network = Trait::physical_network(physical_network);
        let ensured = self.cloud.placement().ensure_trait(&on_network).await;
        ensured.expect("a trait");
        let card = format!("{NODE}_0000:85:00.0");
        let uuid = Uuid::new_v3(&Uuid::NAMESPACE_DNS, card.as_bytes());
        let card = Provider::child(uuid.into(), name(&card), root());
        self.provider(
            card,
            &[(ResourceClass::SRIOV_NET_VF, functions)],
            &[on_network],
        )
        .await;
    }

    /// Adds what Neutron's Open vSwitch agent reports: the packet rate of the host, and the bandwidth of its bridge to this
    /// physical network.
    pub async fn add_bandwidth(&self, physical_network: &str) {
        let traits = [
            Trait::physical_network(physical_network),
            Trait::known("CUSTOM_VNIC_TYPE_NORMAL"),
        ];
        for one in &traits {
            let ensured = self.cloud.placement().ensure_trait(one).await;
            ensured.expect("a trait");
        }
        let agent = format!("{NODE}:Open vSwitch agent");
        let bridge = format!("{agent}:{BRIDGE}");
        let agent = Provider::child(switch_agent(), name(&agent), root());
        let rate = ResourceClass::new("NET_PACKET_RATE_KILOPACKET_PER_SEC").expect("a class");
        self.provider(agent, &[(rate, 100)], &traits[1..]).await;
        let bridge = Provider::child(self::bridge(), name(&bridge), switch_agent());
        let bandwidth = ["NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"];
        let bandwidth =
            bandwidth.map(|class| (ResourceClass::new(class).expect("a class"), 10_000));
        self.provider(bridge, &bandwidth, &traits).await;
    }

    /// The host has a network card that ports get as a whole, on this physical network.
    pub async fn add_whole_card(&self, physical_network: &str) {
        let class = ResourceClass::CUSTOM_SRIOV_NET_PF;
        let ensured = self.cloud.placement().ensure_resource_class(&class).await;
        ensured.expect("a resource class");
        let card = format!("{NODE}_0000:86:00.0");
        let uuid = Uuid::new_v3(&Uuid::NAMESPACE_DNS, card.as_bytes());
        let card = Provider::child(uuid.into(), name(&card), root());
        let on_network = Trait::physical_network(physical_network);
        self.provider(card, &[(class, 1)], &[on_network]).await;
    }

    async fn provider(&self, made: Provider, amounts: &[(ResourceClass, u64)], traits: &[Trait]) {
        let placement = self.cloud.placement();
        let made = placement.create_provider(&made).await.expect("a provider");
        let inventories = amounts
            .iter()
            .map(|(class, total)| (class.clone(), Inventory::of(*total).expect("an amount")));
        let generation = made.generation.expect("a generation");
        let generation = placement
            .put_inventories(made.uuid(), generation, &inventories.collect())
            .await
            .expect("inventories");
        let traits = traits.iter().cloned().collect();
        let put = placement.put_traits(made.uuid(), generation, &traits).await;
        put.expect("traits");
    }

    /// Makes these devices unclean: the accelerator service does not assign them before
    /// [`clean_devices`](Self::clean_devices).
    ///
    /// The first report omits them, so that the service deletes them. The second report has all devices. The service
    /// takes these for new ones, which are unclean because their previous user is unknown.
    pub async fn dirty_devices(&self, dirty: &[u8]) {
        let staying = (0..GPUS).filter(|n| !dirty.contains(n)).map(device);
        self.report_devices(staying.collect()).await;
        self.report_devices(
            (0..GPUS)
                .map(|n| match dirty.contains(&n) {
                    true => scrubbed_device(n, &Value::Null),
                    false => device(n),
                })
                .collect(),
        )
        .await;
    }

    /// Makes all devices clean.
    ///
    /// The service answers the first report with the `releases` of each device. The second report repeats them as
    /// `cleaned`.
    pub async fn clean_devices(&self) {
        let unclean = (0..GPUS).map(|n| scrubbed_device(n, &Value::Null));
        let known = self.report_devices(unclean.collect()).await;
        let cleaned = (0..GPUS).map(|n| {
            let name = device(n)["name"].clone();
            let mut devices = known["devices"].as_array().into_iter().flatten();
            let known = devices.find(|device| device["name"] == name);
            let releases =
                known.map(|device| &device["deployables"][0]["attach_handles"][0]["releases"]);
            scrubbed_device(n, releases.unwrap_or(&Value::Null))
        });
        self.report_devices(cleaned.collect()).await;
    }

    /// Sends the complete list of the host's devices to the accelerator service; returns the service's state of them.
    async fn report_devices(&self, devices: Vec<Value>) -> Value {
        let path = format!("/internal/v1/hosts/{NODE}/devices");
        self.ask("PUT", &path, json!({ "devices": devices })).await
    }

    /// Disables every device in the accelerator service, as an operator would. Placement still offers them, because
    /// nothing in these tests updates its inventories.
    pub async fn disable_devices(&self) {
        let devices = self.ask("GET", "/v2/devices", Value::Null).await;
        for device in devices["devices"].as_array().into_iter().flatten() {
            let path = format!(
                "/v2/devices/{}/disable",
                device["uuid"].as_str().unwrap_or_default()
            );
            self.ask("POST", &path, Value::Null).await;
        }
    }

    /// Enables every device again.
    pub async fn enable_devices(&self) {
        let devices = self.ask("GET", "/v2/devices", Value::Null).await;
        for device in devices["devices"].as_array().into_iter().flatten() {
            let path = format!(
                "/v2/devices/{}/enable",
                device["uuid"].as_str().unwrap_or_default()
            );
            self.ask("POST", &path, Value::Null).await;
        }
    }

    /// Sends a request directly to the accelerator service.
    ///
    /// # Panics
    /// The service refuses it.
    pub async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let request = axum::http::Request::builder()
            .method(method)
            .uri(path)
            .header("x-auth-token", "admin")
            .header("openstack-api-version", "accelerator 2.3")
            .header("content-type", "application/json")
            .body(match body {
                Value::Null => Body::empty(),
                body => Body::from(body.to_string()),
            });
        let answer = self.service.clone().oneshot(request.expect("a request"));
        let answer = answer.await.expect("an answer");
        let status = answer.status();
        let bytes = answer
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Starts a conductor in this environment, as a new process would: with the stored journal, and nothing in memory.
    #[must_use]
    pub fn conductor(&self) -> Conductor {
        self.conductor_with(impatient())
    }

    /// Starts a conductor with these options; see [`conductor`](Self::conductor).
    #[must_use]
    pub fn conductor_with(&self, options: ConductorOptions) -> Conductor {
        let effects = self.effects.of_current_process();
        let placement = self
            .cloud
            .decorated(|http| effects.in_front_of("placement", http))
            .placement();
        let agent = effects.in_front_of("agent", self.agent.http());
        let auth = Auth::none("http://agent").expect("an endpoint");
        let networks = self.networks.clone().map(|(http, auth)| {
            NetworkClient::new(effects.in_front_of("network", http), auth, &once())
        });
        let parts = ConductorParts {
            journal: Arc::new(journal::FaultyBootJournal::new(
                Arc::clone(&self.journal),
                effects.clone(),
            )),
            placement,
            accelerators: accelerators(&self.service, Some(&effects)),
            networks,
            agents: Arc::new(SingleAgent(GuestClient::new(agent, auth, &once()))),
            scheduler: host_states::scheduler(hosts::FaultyCloudHosts::new(
                self.hosts.clone(),
                effects,
            )),
        };
        Conductor::open(parts, options)
    }

    /// Deletes the guest's allocations directly in Placement.
    ///
    /// # Panics
    /// Placement refuses.
    pub async fn forget_allocations(&self, guest: ConsumerUuid) {
        let deleted = self.cloud.placement().delete_allocations(guest).await;
        deleted.expect("a delete");
    }

    /// Whether a conductor owns the guest.
    ///
    /// # Panics
    /// The database cannot be read.
    pub async fn owns(&self, guest: ConsumerUuid) -> bool {
        let owned = self.hosts.owned_guests().await.expect("owned guests");
        owned.iter().any(|owned| owned.instance == *guest.as_uuid())
    }

    /// The journal, without fault injection.
    #[must_use]
    pub fn journal(&self) -> &SqlBootJournal {
        &self.journal
    }

    /// Waits until the agent has accepted the guest.
    ///
    /// On a busy machine, an effect before that may time out, for example while it waits for the journal's only
    /// connection. The boot is then blocked until its conductor resumes it. No task does that in these tests, so this
    /// function does.
    ///
    /// # Panics
    /// The agent does not accept the guest in time.
    pub async fn wait_for_build(&self, conductor: &Conductor, guest: ConsumerUuid) {
        poll_until("the agent takes the guest", async || {
            if self.agent.knows(guest) {
                return Ok(());
            }
            let state = self.state_of(conductor, guest).await;
            if conductor.blocked_reason(guest).is_some() {
                // Where the journal cannot be read, the next poll asks again.
                conductor.resume().await.ok();
            }
            Err(state)
        })
        .await;
    }

    /// Waits until the guest's boot is blocked.
    ///
    /// # Panics
    /// The boot is not blocked in time.
    pub async fn wait_until_blocked(&self, conductor: &Conductor, guest: ConsumerUuid) {
        poll_until("the boot is blocked", async || {
            match conductor.blocked_reason(guest).is_some() {
                true => Ok(()),
                false => Err(self.state_of(conductor, guest).await),
            }
        })
        .await;
    }

    /// Describes the state of a boot, for the message of a failed test.
    async fn state_of(&self, conductor: &Conductor, guest: ConsumerUuid) -> String {
        // Read the journal directly: a poll must not be counted as an effect.
        let record = match self.journal.guest(guest).await {
            Ok(Some(record)) => format!(
                "attempt {}, {:?}, failures {:?}, steps {:?}",
                record.attempt, record.goal, record.failures, record.steps
            ),
            Ok(None) => "none".to_owned(),
            Err(error) => error.to_string(),
        };
        let blocked = conductor.blocked_reason(guest);
        let history = self.effects.history();
        format!("blocked: {blocked:?}; record: {record}; effects: {history:?}")
    }

    /// A client of Placement without fault injection.
    #[must_use]
    pub fn placement(&self) -> PlacementClient {
        self.cloud.placement()
    }

    /// A client of the accelerator service without fault injection.
    #[must_use]
    pub fn accelerators(&self) -> AcceleratorClient {
        accelerators(&self.service, None)
    }
}

/// Options with short delays, so that tests do not wait for retries.
#[must_use]
pub fn impatient() -> ConductorOptions {
    ConductorOptions {
        poll_interval: Duration::from_millis(1),
        retry_timeout: Duration::from_secs(600),
        delete_timeout: Duration::from_secs(5),
        retry_delay: Duration::from_millis(1),
        max_retry_delay: Duration::from_millis(2),
        orphan_grace: Duration::ZERO,
        ..ConductorOptions::default()
    }
}

/// Options of a client that sends each request once.
pub(crate) fn once() -> AdapterOptions {
    // The default has no retries.
    AdapterOptions::default()
}

pub(crate) fn accelerators(
    service: &Router,
    effects: Option<&ConductorEffects>,
) -> AcceleratorClient {
    let http = HttpService::in_process::<_, Body, _>(service.clone(), 8 << 20);
    let http = match effects {
        Some(effects) => effects.in_front_of("accelerator", http),
        None => http,
    };
    let token = Secret::from("admin".to_owned());
    let auth = Auth::admin_token("http://accelerator", &token).expect("an endpoint");
    AcceleratorClient::new(http, auth, &once())
}

/// A request for a guest with a device profile.
#[must_use]
pub fn request(number: u32, profile: &str) -> BootRequest {
    asked(&body(number, profile))
}

/// A request for a guest with a device profile, as a member of a server group.
#[must_use]
pub fn request_in(group: Uuid, number: u32, profile: &str) -> BootRequest {
    let mut body = body(number, profile);
    body["scheduler_hints"] = json!({"group": [group.to_string()]});
    asked(&body)
}

fn body(number: u32, profile: &str) -> Value {
    json!({
        "uuid": guest(number).to_string(),
        "name": format!("vm{number}"),
        "flavor": {"name": "small", "vcpus": 2, "ram_mb": 512, "disk_gb": 10},
        "device_profile": profile,
        "config_drive": {"user_data": "c2VjcmV0"},
    })
}

/// Parses the body of a boot request.
///
/// # Panics
/// The body is not a valid boot request.
#[must_use]
pub fn asked(body: &Value) -> BootRequest {
    let body = berth_wire::decode(body.to_string().as_bytes()).expect("a body");
    BootRequest::new(body, Uuid::new_v4()).expect("a request")
}

#[must_use]
pub fn guest(number: u32) -> ConsumerUuid {
    Uuid::from_u128(0x1000_0000_0000_4000_8000_0000_0000_0000 + u128::from(number)).into()
}

/// The UUID of the host's root provider.
#[must_use]
pub fn root() -> ProviderUuid {
    Uuid::from_u128(0x2000_0000_0000_4000_8000_0000_0000_0001).into()
}

/// The state that the host's agent would report to the scheduler.
fn reported_host() -> ReportedHost {
    ReportedHost {
        name: NODE.to_owned(),
        node: *root().as_uuid(),
        vcpus: 64,
        memory_mb: 65_536,
        local_gb: 1000,
    }
}

/// The namespace in which Neutron's Open vSwitch driver derives the UUIDs of its providers.
const SWITCH_AGENTS: Uuid = Uuid::from_u128(0x87ee_7d5c_73bb_11e8_9008_c4d9_87b2_a692);

/// The provider of the host's Open vSwitch agent.
#[must_use]
pub fn switch_agent() -> ProviderUuid {
    Uuid::new_v5(&SWITCH_AGENTS, NODE.as_bytes()).into()
}

/// The provider of the host's bridge.
#[must_use]
pub fn bridge() -> ProviderUuid {
    let name = format!("{NODE}:{BRIDGE}");
    Uuid::new_v5(&SWITCH_AGENTS, name.as_bytes()).into()
}

/// The UUID of the n-th GPU's provider.
#[must_use]
pub fn gpu(n: u8) -> ProviderUuid {
    Uuid::new_v3(&Uuid::NAMESPACE_DNS, gpu_name(n).as_bytes()).into()
}

fn gpu_name(n: u8) -> String {
    format!("{NODE}_0000:{:02x}:00.0", n + 1)
}

fn name(text: &str) -> ProviderName {
    ProviderName::new(text).expect("a name")
}

/// The n-th GPU, as a host reports one that it does not clean.
fn device(n: u8) -> Value {
    let bus = format!("{:02x}", n + 1);
    json!({
        "name": format!("0000:{bus}:00.0"),
        "type": "GPU",
        "vendor": "10de",
        "deployables": [{
            "name": gpu_name(n),
            "rp_uuid": gpu(n).to_string(),
            "resource_class": "PGPU",
            "traits": ["OWNER_CYBORG", "CUSTOM_GPU"],
            "attach_handles": [{
                "attach_type": "PCI",
                "attach_info": {"domain": "0000", "bus": bus, "device": "00", "function": "0"},
            }],
        }],
    })
}

/// The n-th GPU, as a host reports one that it cleans after each release. `cleaned` is the last release after which
/// it did; null if it has not cleaned the device yet.
fn scrubbed_device(n: u8, cleaned: &Value) -> Value {
    let mut device = device(n);
    let handle = &mut device["deployables"][0]["attach_handles"][0];
    handle["scrubbed"] = json!(true);
    handle["cleaned"] = cleaned.clone();
    device
}

fn body_of(value: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(value).expect("JSON").into()
}

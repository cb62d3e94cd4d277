//! The cloud that all tests of this folder share.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use berth_agent_tracker::report_client::ReportClient;
use berth_client::keystone::system_clock;
use berth_client::{
    AcceleratorClient, AcceleratorError, AdapterOptions, Auth, AuthOptions, AuthType, HttpService,
    IdentityClient, PlacementClient, Secret, TransportOptions,
};
use berth_model::{
    ArqPhase, ArqUuid, Binding, ConsumerUuid, DeviceProfileName, PciAddress, ProviderTree,
    ProviderUuid,
};
use berth_tests::cloud::Cloud as PlacementCloud;
use berth_tests::host::Host;
use berth_tests::node::{Node, NodeProcess};
use berth_tests::peer::{Credentials, CyborgSettings, PciFunction, RealCyborg};
use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use serde_json::json;
use tower::service_fn;
use uuid::Uuid;

use crate::real_cyborg::nova::Nova;

pub(crate) const NODE: &str = "acc-01";

/// The host's functions; the last ones are each of a kind of its own.
pub(crate) const FUNCTIONS: [PciFunction; 15] = [
    function("0000:21:00.0"),
    function("0000:22:00.0"),
    function("0000:23:00.0"),
    function("0000:24:00.0"),
    function("0000:25:00.0"),
    function("0000:26:00.0"),
    function("0000:27:00.0"),
    function("0000:29:00.0"),
    PciFunction {
        address: "0000:28:00.0",
        ids: "10de:20b7",
    },
    PciFunction {
        address: "0000:2a:00.0",
        ids: "10de:20b8",
    },
    PciFunction {
        address: "0000:2b:00.0",
        ids: "10de:20b9",
    },
    PciFunction {
        address: "0000:2c:00.0",
        ids: "10de:20ba",
    },
    PciFunction {
        address: "0000:2d:00.0",
        ids: "10de:20bb",
    },
    PciFunction {
        address: "0000:2e:00.0",
        ids: "10de:20bc",
    },
    PciFunction {
        address: "0000:2f:00.0",
        ids: "10de:20bd",
    },
];
/// The function that the profile of this name asks for.
pub(crate) const ONLY: usize = 8;
/// The same for the profile `cut`.
pub(crate) const CUT: usize = 9;
/// The same for the profile `killed`.
pub(crate) const KILLED: usize = 10;

/// The same for the profile `adrift`.
pub(crate) const ADRIFT: usize = 13;
/// The same for the profile `rowless`.
pub(crate) const ROWLESS: usize = 14;

const fn function(address: &'static str) -> PciFunction {
    PciFunction {
        address,
        ids: "10de:1eb8",
    }
}

pub(crate) struct Cloud {
    pub(crate) cyborg: RealCyborg,
    pub(crate) nova: Nova,
    /// The node as the agent reports it, and its present life; it was there before Cyborg's agent.
    pub(crate) node: tokio::sync::Mutex<(Node, NodeProcess)>,
    /// The node's tree in Placement with Cyborg's devices.
    tree: Arc<ProviderTree>,
    http: HttpService,
    /// A session with Keystone for each account.
    sessions: Mutex<HashMap<String, Auth>>,
    /// Where the connections of that life are looked after.
    _runtime: tokio::runtime::Runtime,
}

impl Cloud {
    /// The one of this process.
    pub(crate) fn shared() -> &'static Self {
        static CLOUD: OnceLock<Cloud> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = STARTING.lock().expect("no test panicked while starting it");
        CLOUD.get_or_init(|| {
            // What it waits for must not wait for the runtime of the test that came first.
            let started = std::thread::spawn(Self::start);
            started.join().expect("the cloud starts")
        })
    }

    fn start() -> Self {
        let nova = Nova::start();
        let settings = CyborgSettings {
            host: NODE,
            root: NODE,
            functions: FUNCTIONS.to_vec(),
        };
        let mut cyborg = RealCyborg::start(settings, &nova.url()).expect("Cyborg starts");
        nova.open(&identity(&cyborg));
        let node = Node::new(&Host::new(NODE).quality("COMPUTE_ACCELERATORS"));
        let placement = placement_of(&cyborg);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let life = runtime.block_on(node.start(&placement));
        let life = life.expect("the node is reported");
        cyborg.discover().expect("Cyborg finds the host's devices");
        let of_pci = json!({"resources:CUSTOM_PCI": "1"});
        cyborg.profile("pci", &of_pci).expect("a profile");
        let of_two = json!({"resources:CUSTOM_PCI": "2"});
        cyborg.profile("two", &of_two).expect("a profile");
        let fake = json!({"resources:FPGA": "1"});
        cyborg.profile("fake", &fake).expect("a profile");
        cyborg.profile("fake-too", &fake).expect("a profile");
        for (profile, product) in [
            ("only", "20B7"),
            ("cut", "20B8"),
            ("killed", "20B9"),
            ("adrift", "20BC"),
            ("rowless", "20BD"),
            ("card", "1111"),
        ] {
            let group = json!({
                "resources:CUSTOM_PCI": "1",
                format!("trait:CUSTOM_PCI_PRODUCT_ID_{product}"): "required",
            });
            cyborg.profile(profile, &group).expect("a profile");
        }
        let root = runtime.block_on(node.root());
        let client = placement.placement();
        let mut report = ReportClient::new(client, node.name.clone(), root, &node.options);
        let tree = runtime.block_on(report.current_tree(tokio::time::Instant::now()));
        Self {
            cyborg,
            nova,
            node: tokio::sync::Mutex::new((node, life)),
            tree: Arc::new(tree.expect("Placement tells the tree")),
            http: HttpService::network(&TransportOptions::default()).expect("no files are named"),
            sessions: Mutex::default(),
            _runtime: runtime,
        }
    }

    /// Placement, with a token of Keystone's.
    pub(crate) fn placement(&self) -> PlacementCloud {
        placement_of(&self.cyborg)
    }

    /// The node's tree in Placement, devices included.
    pub(crate) fn tree(&self) -> Arc<ProviderTree> {
        Arc::clone(&self.tree)
    }

    pub(crate) fn placement_client(&self) -> PlacementClient {
        let who = self.cyborg.keystone().berth();
        let options = options(&self.cyborg, &who, "placement");
        let auth = self.session(&who, &options);
        PlacementClient::new(self.http.clone(), auth, &AdapterOptions::from(&options))
    }

    /// The accelerator service, for `berth`.
    pub(crate) fn accelerators(&self) -> AcceleratorClient {
        self.accelerators_of(&self.cyborg.keystone().berth())
    }

    /// The same for another account.
    pub(crate) fn accelerators_of(&self, who: &Credentials) -> AcceleratorClient {
        let options = options(&self.cyborg, who, "accelerator");
        self.asking(who, &options, self.http.clone())
    }

    /// The same at another URL.
    pub(crate) fn accelerators_at(&self, url: &str) -> AcceleratorClient {
        let who = self.cyborg.keystone().berth();
        let mut options = options(&self.cyborg, &who, "accelerator");
        options.endpoint_override = Some(url.to_owned());
        self.asking(&who, &options, self.http.clone())
    }

    /// The same behind a decorated way to it.
    pub(crate) fn accelerators_through(
        &self,
        decorate: impl FnOnce(HttpService) -> HttpService,
    ) -> AcceleratorClient {
        let who = self.cyborg.keystone().berth();
        let options = options(&self.cyborg, &who, "accelerator");
        self.asking(&who, &options, decorate(self.http.clone()))
    }

    fn asking(
        &self,
        who: &Credentials,
        options: &AuthOptions,
        http: HttpService,
    ) -> AcceleratorClient {
        let auth = self.session(who, options);
        AcceleratorClient::new(http, auth, &AdapterOptions::from(options))
    }

    /// The account's session, for the service of these options. An account logs in once.
    fn session(&self, who: &Credentials, options: &AuthOptions) -> Auth {
        let account = format!("{who:?}");
        let mut sessions = self.sessions.lock().expect("no test panicked with it");
        let session = sessions.entry(account).or_insert_with(|| {
            let adapter = AdapterOptions::from(options);
            Auth::from_options(options, &self.http, system_clock(), &adapter)
                .expect("the options are whole")
        });
        session.for_service(options)
    }

    /// New requests of a profile.
    pub(crate) async fn requests(&self, profile: &str) -> Vec<ArqUuid> {
        let profile = DeviceProfileName::new(profile).expect("a name");
        let made = self.accelerators().create_arqs(&profile).await;
        let made = made.expect("Cyborg makes them");
        made.iter().map(|arq| arq.uuid).collect()
    }

    /// Asks for a bind of them all to one provider.
    pub(crate) async fn bind(
        &self,
        arqs: &[ArqUuid],
        guest: ConsumerUuid,
        provider: ProviderUuid,
    ) -> Result<(), AcceleratorError> {
        self.bind_on(NODE, arqs, guest, provider).await
    }

    /// The same, with another host's name.
    pub(crate) async fn bind_on(
        &self,
        host: &str,
        arqs: &[ArqUuid],
        guest: ConsumerUuid,
        provider: ProviderUuid,
    ) -> Result<(), AcceleratorError> {
        let binding = Binding {
            hostname: host.to_owned(),
            device_rp: provider,
            instance: guest,
        };
        let bindings: BTreeMap<_, _> = arqs.iter().map(|arq| (*arq, binding.clone())).collect();
        self.accelerators().bind_arqs(&bindings).await
    }

    /// A new request of this profile that is bound for the guest.
    pub(crate) async fn bound(
        &self,
        profile: &str,
        guest: ConsumerUuid,
        provider: ProviderUuid,
    ) -> ArqUuid {
        let arqs = self.requests(profile).await;
        let bound = self.bind(&arqs, guest, provider).await;
        bound.expect("Cyborg binds it");
        arqs[0]
    }

    /// The states of these requests; none for a request that does not exist.
    pub(crate) async fn phases(&self, arqs: &[ArqUuid]) -> Vec<Option<ArqPhase>> {
        let client = self.accelerators();
        let mut phases = Vec::with_capacity(arqs.len());
        for arq in arqs {
            let reported = client.arq(*arq).await.expect("Cyborg answers");
            phases.push(reported.map(|reported| reported.arq.expect("a request").state.phase()));
        }
        phases
    }

    /// The provider has a handle to give: a bind to it succeeds.
    pub(crate) async fn assert_free(&self, function: usize) {
        let guest = new_guest();
        let arq = self.bound("pci", guest, provider(function)).await;
        let deleted = self.accelerators().delete_arq(arq).await;
        deleted.expect("Cyborg deletes it");
    }
}

/// A new guest's UUID.
pub(crate) fn new_guest() -> ConsumerUuid {
    Uuid::new_v4().into()
}

/// The address of a function.
pub(crate) fn address(function: usize) -> PciAddress {
    FUNCTIONS[function].address.parse().expect("an address")
}

/// The provider that Cyborg makes of a function.
pub(crate) fn provider(function: usize) -> ProviderUuid {
    named(&format!("{NODE}_{}", FUNCTIONS[function].address))
}

/// The provider of Cyborg's fake driver.
pub(crate) fn fake_provider() -> ProviderUuid {
    named(&format!("{NODE}_FakeDevice"))
}

/// The provider that Cyborg makes of a deployable's name.
pub(crate) fn named(name: &str) -> ProviderUuid {
    Uuid::new_v3(&Uuid::NAMESPACE_DNS, name.as_bytes()).into()
}

/// A client section of the configuration.
pub(crate) fn options(cyborg: &RealCyborg, who: &Credentials, service_type: &str) -> AuthOptions {
    let (Credentials::Password { username, password } | Credentials::Tenant { username, password }) =
        who
    else {
        unreachable!("the tests log in by password")
    };
    AuthOptions {
        auth_type: Some(AuthType::Password),
        auth_url: Some(cyborg.keystone().url()),
        username: Some(username.clone()),
        password: Some(Secret::from(password.clone())),
        user_domain_id: Some("default".to_owned()),
        project_name: Some(who.project().to_owned()),
        project_domain_id: Some("default".to_owned()),
        region_name: Some(cyborg.keystone().region().to_owned()),
        ..AuthOptions::for_service(service_type)
    }
}

fn identity(cyborg: &RealCyborg) -> IdentityClient {
    let options = options(cyborg, &cyborg.keystone().berth(), "identity");
    let http = HttpService::network(&options.transport()).expect("no files are named");
    IdentityClient::from_options(http, &options, system_clock()).expect("the options are whole")
}

/// The harness's clients show the token `admin`; here it is one of Keystone's.
fn placement_of(cyborg: &RealCyborg) -> PlacementCloud {
    let token = cyborg.keystone().kept_token(&cyborg.keystone().berth());
    let token: Arc<str> = token.expect("a token").into();
    let http = HttpService::network(&TransportOptions::default()).expect("no files are named");
    let http = HttpService::new(service_fn(move |mut request: Request<Bytes>| {
        let (http, token) = (http.clone(), Arc::clone(&token));
        async move {
            let token = HeaderValue::from_str(&token).expect("a token is a header");
            request.headers_mut().insert("x-auth-token", token);
            http.send(request).await
        }
    }));
    PlacementCloud::through(http, &cyborg.placement().url())
}

/// What Placement has of a provider below this path.
pub(crate) fn of_provider(cloud: &Cloud, provider: ProviderUuid, what: &str) -> serde_json::Value {
    let path = format!("/resource_providers/{provider}/{what}");
    let ask = cloud.cyborg.ask_placement(Method::GET, &path);
    let answer = ask.expect("a token").send().expect("Placement answers");
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    answer.json()
}

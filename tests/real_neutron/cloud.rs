//! The Keystone and the Neutron that tests share.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock};

use berth_client::{
    Auth, AuthOptions, AuthType, HttpService, NetworkClient, Secret, TransportOptions,
};
use berth_tests::boot::{BRIDGE, NODE};
use berth_tests::exchange::HttpCall;
use berth_tests::peer::{KeystoneSettings, PortEvents, RealKeystone, RealNeutron};
use berth_wire::neutron::{
    CreateNetworkBody, CreatePortBody, CreateSubnetBody, HostRouteRecord, NetworkRecord,
    SubnetRecord,
};
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// The host that is a chassis.
pub(super) const HOST: &str = "host-1";
/// Another one.
pub(super) const OTHER_HOST: &str = "host-2";

/// The name server of the subnets.
pub(super) const DNS: &str = "192.0.2.53";
/// A route of the subnets: where to, and through whom.
pub(super) const ROUTE: (&str, &str) = ("198.51.100.0/24", "192.0.2.2");

pub(super) struct NetworkCloud {
    pub(super) keystone: RealKeystone,
    pub(super) neutron: RealNeutron,
}

impl NetworkCloud {
    pub(super) fn shared() -> &'static Self {
        static CLOUD: OnceLock<NetworkCloud> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = STARTING.lock().expect("no test panicked while starting it");
        CLOUD.get_or_init(|| {
            let keystone = RealKeystone::start(KeystoneSettings::default());
            let keystone = keystone.expect("Keystone starts");
            let neutron = RealNeutron::start(&keystone, PortEvents::NotSent);
            let neutron = neutron.expect("Neutron starts");
            for host in [HOST, OTHER_HOST, NODE] {
                neutron.ovn.add_chassis(host).expect("a chassis");
            }
            neutron.add_sriov_agent(NODE, "storage").expect("an agent");
            let bridge = (BRIDGE, "storage");
            neutron.add_switch_agent(NODE, bridge).expect("an agent");
            Self { keystone, neutron }
        })
    }

    /// The client with the options of `[neutron]`, which finds Neutron in the catalog.
    pub(super) fn client(&self) -> NetworkClient {
        self.client_of("berth", "service")
    }

    /// The same as another user in one of its projects.
    pub(super) fn client_of(&self, user: &str, project: &str) -> NetworkClient {
        let options = AuthOptions {
            auth_type: Some(AuthType::Password),
            auth_url: Some(self.keystone.url()),
            username: Some(user.to_owned()),
            password: Some(Secret::from("test-only")),
            user_domain_name: Some("Default".to_owned()),
            project_name: Some(project.to_owned()),
            project_domain_name: Some("Default".to_owned()),
            region_name: Some(self.keystone.region().to_owned()),
            ..AuthOptions::for_service("network")
        };
        NetworkClient::from_options(&options, None).expect("the options are whole")
    }

    /// The way to Neutron without a login of its own, for a conductor whose requests are counted.
    pub(super) fn access(&self) -> (HttpService, Auth) {
        let http = HttpService::network(&TransportOptions::default());
        let token = self.keystone.kept_token(&self.keystone.berth());
        let token = Secret::from(token.expect("a token"));
        let auth = Auth::admin_token(&self.neutron.url(), &token);
        (
            http.expect("options without files are good"),
            auth.expect("the options are whole"),
        )
    }

    /// The project of the tests' ports.
    pub(super) fn tenant(&self) -> &str {
        self.keystone.tenant_project()
    }

    /// The project of the account of [`NetworkCloud::client`].
    pub(super) fn service_project(&self) -> String {
        let token = self.keystone.kept_token(&self.keystone.berth());
        let token = token.expect("a token");
        let ask = HttpCall::get(format!("{}/auth/tokens", self.keystone.url()))
            .header("x-auth-token", &token)
            .header("x-subject-token", &token);
        let answer = ask.send().expect("an answer").json();
        let project = answer["token"]["project"]["id"].as_str();
        project.expect("a project").to_owned()
    }

    /// A request with an administrator's token.
    pub(super) fn ask(&self, method: Method, path: &str, body: &Value) -> Value {
        let token = self.keystone.kept_token(&self.keystone.berth());
        let ask = HttpCall::new(method, format!("{}{path}", self.neutron.url()))
            .header("x-auth-token", &token.expect("a token"))
            .json(body);
        let answer = ask.send().expect("an answer");
        assert!(answer.status.is_success(), "{path}: {}", answer.text());
        answer.json()
    }

    /// A network of the tenant with a subnet on a VLAN of the physical network `storage`.
    pub(super) async fn vlan_network(&self, name: &str, cidr: &str) -> Uuid {
        /// A VLAN of the physical network has one network.
        static NEXT_VLAN: AtomicU16 = AtomicU16::new(100);
        let vlan = NEXT_VLAN.fetch_add(1, Ordering::Relaxed);
        let network = json!({"network": {
            "name": name,
            "tenant_id": self.tenant(),
            "provider:network_type": "vlan",
            "provider:physical_network": "storage",
            "provider:segmentation_id": vlan,
        }});
        let made = self.ask(Method::POST, "/v2.0/networks", &network);
        let id = made["network"]["id"].as_str().expect("an id");
        let subnet = json!({"subnet": {
            "network_id": id, "tenant_id": self.tenant(), "cidr": cidr, "ip_version": 4,
        }});
        self.ask(Method::POST, "/v2.0/subnets", &subnet);
        id.parse().expect("a UUID")
    }

    /// A network of this project with a subnet.
    pub(super) async fn network(
        &self,
        project: &str,
        name: &str,
        cidr: &str,
    ) -> (NetworkRecord, SubnetRecord) {
        let client = self.client();
        let network = CreateNetworkBody {
            name: name.to_owned(),
            tenant_id: Some(project.to_owned()),
            ..CreateNetworkBody::default()
        };
        let network = client.create_network(network).await.expect("a network");
        let subnet = CreateSubnetBody {
            network_id: network.id,
            cidr: cidr.to_owned(),
            ip_version: 4,
            tenant_id: Some(project.to_owned()),
            dns_nameservers: vec![DNS.to_owned()],
            host_routes: vec![HostRouteRecord {
                destination: ROUTE.0.to_owned(),
                nexthop: ROUTE.1.to_owned(),
            }],
        };
        let subnet = client.create_subnet(subnet).await.expect("a subnet");
        (network, subnet)
    }

    /// What a port of a new server is asked for with.
    pub(super) fn port_of(&self, network: Uuid, server: Uuid) -> CreatePortBody {
        CreatePortBody {
            network_id: network,
            tenant_id: self.tenant().to_owned(),
            device_id: server.to_string(),
            admin_state_up: true,
            ..CreatePortBody::default()
        }
    }
}

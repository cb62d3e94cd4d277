//! Client of the Networking API (Neutron v2.0): networks, ports and their bindings.
//!
//! All calls are sent with the service's own account, which must be an administrator: only administrators may bind ports.
//! Neutron then refuses nothing that a project may not have, so callers check it with [`SharedObjects`] and
//! [`port_of_project`]: a project may use its own objects and those that a policy shares with it.
//!
//! The options are those of `[neutron]`; the service type is `network`. Callers: the conductor, the compute API,
//! and `services/networks`, which decides for both.

mod collections;
mod error;
mod extensions;
mod network_info;
mod operators;
mod ownership;
mod ports;
mod responses;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_wire::neutron::{
    FloatingIpList, FloatingIpRecord, NetworkDocument, NetworkList, NetworkRecord, PortRecord,
    QosPolicyDocument, QosPolicyRecord, RbacPolicyList, SecurityGroupList, SecurityGroupRecord,
    SubnetList, SubnetRecord,
};
use berth_wire::query_string;
use http::Method;
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub use error::NetworkClientError;
pub use extensions::NetworkExtensions;
pub use network_info::{NetworkFacts, VifOrigin, network_info, physical_network};
pub use ownership::{SharedObjectType, SharedObjects, port_of_project};
pub use ports::{PortFilter, PortOutcome};

use collections::NetworkCollection;

use crate::adapter::AdapterCall;
use crate::answer::AdapterAnswer;
use crate::call::Repeat;
use crate::{
    Adapter, AdapterOptions, Auth, AuthOptions, ConnectError, HttpService, OptionsError,
    RequestObserver,
};

const SERVICE: &str = "network";
const NETWORKS: &str = "/v2.0/networks";
const ONE_NETWORK: &str = "/v2.0/networks/{network_id}";
const SUBNETS: &str = "/v2.0/subnets";
const FLOATING_IPS: &str = "/v2.0/floatingips";
const SECURITY_GROUPS: &str = "/v2.0/security-groups";
const QOS_POLICIES: &str = "/v2.0/qos/policies";
const ONE_QOS_POLICY: &str = "/v2.0/qos/policies/{policy_id}";
const RBAC_POLICIES: &str = "/v2.0/rbac-policies";

/// UUIDs in one query: a URL stays below 4 KiB, which every server accepts.
const UUIDS_PER_REQUEST: usize = 80;
/// The maximum number of pages of one list.
const PAGES: usize = 1000;

/// A client of the network service. Clones share connections and session.
#[derive(Clone)]
pub struct NetworkClient {
    adapter: Adapter,
}

/// The security groups that a project may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsableSecurityGroups {
    /// Those of the project.
    pub own: Vec<SecurityGroupRecord>,
    /// Those that other projects share with it. Their names are the other projects' choice.
    pub shared: Vec<SecurityGroupRecord>,
}

impl NetworkClient {
    /// The service through `http`; the endpoint of `auth` is its root, with or without `/v2.0`.
    #[must_use]
    pub fn new(http: HttpService, auth: Auth, options: &AdapterOptions) -> Self {
        Self::over(Adapter::new(SERVICE, http, auth, options))
    }

    /// The service over the network, all by the options of `[neutron]`. Nothing is sent yet.
    pub fn from_options(
        options: &AuthOptions,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, ConnectError> {
        Adapter::from_options(SERVICE, options, observer).map(Self::over)
    }

    /// Creates the client over a given HTTP service, such as a decorated one or a unix socket.
    pub fn from_options_over(
        http: HttpService,
        options: &AuthOptions,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, OptionsError> {
        Adapter::from_options_over(SERVICE, http, options, observer).map(Self::over)
    }

    fn over(adapter: Adapter) -> Self {
        Self { adapter }
    }

    /// Adds an observer of its requests.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn RequestObserver>) -> Self {
        Self {
            adapter: self.adapter.with_observer(observer),
        }
    }

    /// GET /v2.0/networks/{id}; `None` if it does not exist.
    pub async fn network(&self, id: Uuid) -> Result<Option<NetworkRecord>, NetworkClientError> {
        let path = format!("{NETWORKS}/{id}");
        let document = self.one(ONE_NETWORK, path, "a network").await?;
        Ok(document.map(|document: NetworkDocument| document.network))
    }

    /// GET /v2.0/networks?id=…: those of them that exist, in no order.
    pub async fn networks(
        &self,
        ids: &BTreeSet<Uuid>,
    ) -> Result<Vec<NetworkRecord>, NetworkClientError> {
        self.list_by_ids::<NetworkList>(NETWORKS, "id", ids).await
    }

    /// GET /v2.0/networks?name=N: the networks of all projects with this name.
    pub async fn networks_named(
        &self,
        name: &str,
    ) -> Result<Vec<NetworkRecord>, NetworkClientError> {
        self.list::<NetworkList>(NETWORKS, query_string([("name", name)]))
            .await
    }

    /// All networks that a project may use: its own and those shared with it, without duplicates, in the order of their
    /// UUIDs.
    pub async fn networks_usable_by(
        &self,
        project: &str,
    ) -> Result<Vec<NetworkRecord>, NetworkClientError> {
        let own = query_string([("tenant_id", project)]);
        let mut networks = self.list::<NetworkList>(NETWORKS, own).await?;
        let shared = self
            .shared_with(project, SharedObjectType::Network, &BTreeSet::new())
            .await?;
        networks.retain(|network| shared.may_use_network(network));
        let known: BTreeSet<_> = networks.iter().map(|network| network.id).collect();
        let others = shared.ids().difference(&known).copied().collect();
        networks.extend(self.networks(&others).await?);
        networks.sort_by_key(|network| network.id);
        Ok(networks)
    }

    /// GET /v2.0/rbac-policies: which objects are shared with a project, or with all. Without `of`, all of them.
    pub async fn shared_with(
        &self,
        project: &str,
        object_type: SharedObjectType,
        of: &BTreeSet<Uuid>,
    ) -> Result<SharedObjects, NetworkClientError> {
        let mut ids = BTreeSet::new();
        for some in chunks(of) {
            let mut query = vec![
                ("object_type", object_type.as_str().to_owned()),
                ("action", "access_as_shared".to_owned()),
                ("target_tenant", "*".to_owned()),
                ("target_tenant", project.to_owned()),
            ];
            query.extend(some.iter().map(|id| ("object_id", id.to_string())));
            let policies = self
                .list::<RbacPolicyList>(RBAC_POLICIES, query_string(query))
                .await?;
            let policies = policies.into_iter().filter(|policy| {
                policy.action == "access_as_shared"
                    && policy.object_type == object_type.as_str()
                    && ["*", project].contains(&policy.target_tenant.as_str())
            });
            ids.extend(policies.map(|policy| policy.object_id));
        }
        Ok(SharedObjects::new(project, ids))
    }

    /// GET /v2.0/qos/policies/{id}; `None` if it does not exist.
    pub async fn qos_policy(
        &self,
        id: Uuid,
    ) -> Result<Option<QosPolicyRecord>, NetworkClientError> {
        let path = format!("{QOS_POLICIES}/{id}");
        let document = self.one(ONE_QOS_POLICY, path, "a QoS policy").await?;
        Ok(document.map(|document: QosPolicyDocument| document.policy))
    }

    /// GET /v2.0/subnets?id=…: those of them that exist, in no order.
    pub async fn subnets(
        &self,
        ids: &BTreeSet<Uuid>,
    ) -> Result<Vec<SubnetRecord>, NetworkClientError> {
        self.list_by_ids::<SubnetList>(SUBNETS, "id", ids).await
    }

    /// GET /v2.0/floatingips?port_id=…: the floating addresses that lead to these ports.
    pub async fn floating_ips(
        &self,
        ports: &BTreeSet<Uuid>,
    ) -> Result<Vec<FloatingIpRecord>, NetworkClientError> {
        self.list_by_ids::<FloatingIpList>(FLOATING_IPS, "port_id", ports)
            .await
    }

    /// All that [`network_info`] needs to know about these ports.
    pub async fn facts(&self, ports: Vec<PortRecord>) -> Result<NetworkFacts, NetworkClientError> {
        let ids = ports.iter().map(|port| port.id).collect();
        let networks = ports.iter().map(|port| port.network_id).collect();
        let fixed_ips = ports.iter().flat_map(|port| &port.fixed_ips);
        let subnets = fixed_ips.map(|ip| ip.subnet_id).collect();
        Ok(NetworkFacts {
            networks: self.networks(&networks).await?,
            subnets: self.subnets(&subnets).await?,
            floating_ips: self.floating_ips(&ids).await?,
            dhcp_ports: self.dhcp_ports(&networks).await?,
            ports,
        })
    }

    /// All security groups that a project may use, without rules.
    pub async fn security_groups_usable_by(
        &self,
        project: &str,
    ) -> Result<UsableSecurityGroups, NetworkClientError> {
        let fields = [("fields", "id"), ("fields", "name")];
        let own = query_string([("tenant_id", project)].into_iter().chain(fields));
        let own = self.list::<SecurityGroupList>(SECURITY_GROUPS, own).await?;
        let shared = self
            .shared_with(project, SharedObjectType::SecurityGroup, &BTreeSet::new())
            .await?;
        let known: BTreeSet<_> = own.iter().map(|group| group.id).collect();
        let others = shared.ids().difference(&known).copied().collect();
        let shared = self
            .list_by_ids::<SecurityGroupList>(SECURITY_GROUPS, "id", &others)
            .await?;
        Ok(UsableSecurityGroups { own, shared })
    }

    /// GET /v2.0/security-groups?id=…: those of them that exist, with their rules, in no order.
    pub async fn security_groups(
        &self,
        ids: &BTreeSet<Uuid>,
    ) -> Result<Vec<SecurityGroupRecord>, NetworkClientError> {
        self.list_by_ids::<SecurityGroupList>(SECURITY_GROUPS, "id", ids)
            .await
    }

    /// The whole list, page after page.
    async fn list<C: NetworkCollection>(
        &self,
        route: &'static str,
        query: String,
    ) -> Result<Vec<C::Record>, NetworkClientError> {
        let mut records = Vec::new();
        let mut marker = None;
        for _ in 0..PAGES {
            let marker_query = marker.map(|id: Uuid| format!("marker={id}"));
            let query: Vec<_> = Some(query.clone())
                .filter(|query| !query.is_empty())
                .into_iter()
                .chain(marker_query)
                .collect();
            let path = format!("{route}?{}", query.join("&"));
            let call = AdapterCall::new(Method::GET, route, path, None);
            let page: C = responses::parsed(self.ask(call).await?, C::EXPECTED)?;
            let (page, next) = page.into_page();
            marker = page.last().map(C::id).filter(|_| next);
            records.extend(page);
            if marker.is_none() {
                break;
            }
        }
        Ok(records)
    }

    /// The list for a query with UUIDs; empty without a UUID.
    async fn list_by_ids<C: NetworkCollection>(
        &self,
        route: &'static str,
        key: &'static str,
        ids: &BTreeSet<Uuid>,
    ) -> Result<Vec<C::Record>, NetworkClientError> {
        let mut records = Vec::new();
        if ids.is_empty() {
            return Ok(records);
        }
        for some in chunks(ids) {
            let query = query_string(some.iter().map(|id| (key, id.to_string())));
            records.extend(self.list::<C>(route, query).await?);
        }
        Ok(records)
    }

    /// One object; `None` if it does not exist.
    async fn one<T: DeserializeOwned>(
        &self,
        route: &'static str,
        path: String,
        expected: &'static str,
    ) -> Result<Option<T>, NetworkClientError> {
        let call = AdapterCall::new(Method::GET, route, path, None);
        match responses::unless_not_found(self.ask(call).await?)? {
            Some(answer) => responses::parsed(answer, expected).map(Some),
            None => Ok(None),
        }
    }

    async fn ask(&self, call: AdapterCall) -> Result<AdapterAnswer, NetworkClientError> {
        Ok(self.adapter.call(call).await?)
    }
}

/// A call with a body.
fn write(
    method: Method,
    route: &'static str,
    path: String,
    body: Option<Vec<u8>>,
    repeat: Repeat,
) -> AdapterCall {
    AdapterCall {
        repeat,
        ..AdapterCall::new(method, route, path, body)
    }
}

/// The UUIDs in pieces that fit a URL; one empty piece if there are none.
fn chunks(ids: &BTreeSet<Uuid>) -> Vec<Vec<Uuid>> {
    let ids: Vec<_> = ids.iter().copied().collect();
    match ids.is_empty() {
        true => vec![ids],
        false => ids.chunks(UUIDS_PER_REQUEST).map(<[_]>::to_vec).collect(),
    }
}

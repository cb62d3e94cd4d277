//! Networks, subnets, routers, floating addresses, extensions, and with whom networks are shared.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::accelerator::DocumentLink;

/// A network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRecord {
    pub id: Uuid,
    #[serde(default)]
    pub name: String,
    /// The owning project.
    #[serde(default)]
    pub tenant_id: String,
    #[serde(default = "yes")]
    pub admin_state_up: bool,
    /// Whether it is shared with the project of the token, which is the service's project.
    #[serde(default)]
    pub shared: bool,
    #[serde(default, rename = "router:external")]
    pub external: bool,
    #[serde(default)]
    pub subnets: Vec<Uuid>,
    /// In bytes.
    #[serde(default)]
    pub mtu: Option<u64>,
    /// The default of its ports; `None` without the extension `port-security`.
    #[serde(default)]
    pub port_security_enabled: Option<bool>,
    /// `""` or `None`: names of its ports are not published.
    #[serde(default)]
    pub dns_domain: Option<String>,
    /// The QoS policy of its ports without one of their own.
    #[serde(default)]
    pub qos_policy_id: Option<Uuid>,
    #[serde(default, rename = "provider:physical_network")]
    pub physical_network: Option<String>,
    /// `geneve`, `vlan`, `flat` and others.
    #[serde(default, rename = "provider:network_type")]
    pub network_type: Option<String>,
    /// Only of networks with several segments; then the network itself has no type.
    #[serde(default)]
    pub segments: Option<Vec<SegmentRecord>>,
}

fn yes() -> bool {
    true
}

/// A segment of a network with several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRecord {
    #[serde(default, rename = "provider:physical_network")]
    pub physical_network: Option<String>,
    #[serde(default, rename = "provider:network_type")]
    pub network_type: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkDocument {
    pub network: NetworkRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkList {
    pub networks: Vec<NetworkRecord>,
    /// A link `next` says that there are more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks_links: Vec<DocumentLink>,
}

/// A subnet of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetRecord {
    pub id: Uuid,
    pub network_id: Uuid,
    #[serde(default)]
    pub tenant_id: String,
    pub cidr: String,
    /// 4 or 6.
    #[serde(default)]
    pub ip_version: Option<u8>,
    #[serde(default)]
    pub gateway_ip: Option<String>,
    #[serde(default)]
    pub enable_dhcp: bool,
    #[serde(default)]
    pub ipv6_address_mode: Option<String>,
    #[serde(default)]
    pub dns_nameservers: Vec<String>,
    #[serde(default)]
    pub host_routes: Vec<HostRouteRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRouteRecord {
    /// A CIDR.
    pub destination: String,
    pub nexthop: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetDocument {
    pub subnet: SubnetRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetList {
    pub subnets: Vec<SubnetRecord>,
    /// A link `next` says that there are more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets_links: Vec<DocumentLink>,
}

/// A floating address, which leads to a fixed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIpRecord {
    pub id: Uuid,
    pub floating_ip_address: String,
    /// `None` while it leads nowhere.
    #[serde(default)]
    pub fixed_ip_address: Option<String>,
    #[serde(default)]
    pub port_id: Option<Uuid>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIpList {
    pub floatingips: Vec<FloatingIpRecord>,
    /// A link `next` says that there are more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub floatingips_links: Vec<DocumentLink>,
}

/// A router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterRecord {
    pub id: Uuid,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub tenant_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterDocument {
    pub router: RouterRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterList {
    pub routers: Vec<RouterRecord>,
    /// A link `next` says that there are more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers_links: Vec<DocumentLink>,
}

/// PUT /v2.0/routers/{id}/add_router_interface and /remove_router_interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterInterfaceBody {
    pub subnet_id: Uuid,
}

/// An extension of the API that the service has loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtensionRecord {
    /// Its name in code, such as `port-resource-request-groups`.
    pub alias: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtensionList {
    pub extensions: Vec<ExtensionRecord>,
}

/// A rule that shares an object with a project or with all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RbacPolicyRecord {
    pub id: Uuid,
    pub object_id: Uuid,
    /// `network`, `security_group` and others.
    #[serde(default)]
    pub object_type: String,
    /// `access_as_shared` or `access_as_external`.
    #[serde(default)]
    pub action: String,
    /// A project, or `*` for all.
    #[serde(default)]
    pub target_tenant: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RbacPolicyList {
    pub rbac_policies: Vec<RbacPolicyRecord>,
    /// A link `next` says that there are more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rbac_policies_links: Vec<DocumentLink>,
}

/// POST /v2.0/networks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CreateNetworkBody {
    pub name: String,
    /// By default the token's project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
    #[serde(
        default,
        rename = "router:external",
        skip_serializing_if = "Option::is_none"
    )]
    pub external: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateNetworkDocument {
    pub network: CreateNetworkBody,
}

/// POST /v2.0/subnets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateSubnetBody {
    pub network_id: Uuid,
    pub cidr: String,
    /// 4 or 6.
    pub ip_version: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_nameservers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_routes: Vec<HostRouteRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateSubnetDocument {
    pub subnet: CreateSubnetBody,
}

/// POST /v2.0/routers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CreateRouterBody {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateRouterDocument {
    pub router: CreateRouterBody,
}

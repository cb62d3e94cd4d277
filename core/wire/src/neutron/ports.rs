//! Ports and their bindings.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::PortResourceRequest;
use crate::accelerator::DocumentLink;
use crate::network_info::Extras;

/// A port as an administrator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRecord {
    pub id: Uuid,
    pub network_id: Uuid,
    #[serde(default)]
    pub name: String,
    /// The owning project.
    #[serde(default)]
    pub tenant_id: String,
    pub mac_address: String,
    #[serde(default)]
    pub fixed_ips: Vec<FixedIpRecord>,
    /// The server that it belongs to; `""` if none.
    #[serde(default)]
    pub device_id: String,
    /// `compute:ZONE`, `network:dhcp` and others; `""` if none.
    #[serde(default)]
    pub device_owner: String,
    #[serde(default)]
    pub description: String,
    /// `ACTIVE`, `DOWN` or `BUILD`.
    #[serde(default)]
    pub status: String,
    #[serde(default = "yes")]
    pub admin_state_up: bool,
    #[serde(default)]
    pub security_groups: Vec<Uuid>,
    /// `None` without the extension `port-security`.
    #[serde(default)]
    pub port_security_enabled: Option<bool>,
    #[serde(default, rename = "binding:host_id")]
    pub host_id: Option<String>,
    /// `unbound`, `binding_failed`, or how the interface is plugged: `ovs`, `hw_veb` and others.
    #[serde(default, rename = "binding:vif_type")]
    pub vif_type: Option<String>,
    #[serde(default, rename = "binding:vif_details")]
    pub vif_details: Option<Extras>,
    #[serde(default, rename = "binding:vnic_type")]
    pub vnic_type: Option<String>,
    #[serde(default, rename = "binding:profile")]
    pub profile: Option<Extras>,
    #[serde(default)]
    pub dns_name: Option<String>,
    /// Changes with the port; `None` without the extension `standard-attr-revisions`.
    #[serde(default)]
    pub revision_number: Option<u64>,
    /// What it needs from Placement; `None` if nothing.
    #[serde(default)]
    pub resource_request: Option<PortResourceRequest>,
}

fn yes() -> bool {
    true
}

/// An address of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedIpRecord {
    pub subnet_id: Uuid,
    pub ip_address: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortDocument {
    pub port: PortRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortList {
    pub ports: Vec<PortRecord>,
    /// A link `next` says that there are more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports_links: Vec<DocumentLink>,
}

/// POST /v2.0/ports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CreatePortBody {
    pub network_id: Uuid,
    pub tenant_id: String,
    pub device_id: String,
    pub admin_state_up: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// By default Neutron chooses the addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed_ips: Vec<RequestedFixedIp>,
    /// By default the project's group `default`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<Uuid>,
    #[serde(
        default,
        rename = "binding:vnic_type",
        skip_serializing_if = "Option::is_none"
    )]
    pub vnic_type: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatePortDocument {
    pub port: CreatePortBody,
}

/// An address that a new port shall have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedFixedIp {
    pub ip_address: String,
}

/// PUT /v2.0/ports/{id}: a server gets the port, on no host yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivePortBody {
    pub device_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivePortDocument {
    pub port: GivePortBody,
}

/// PUT /v2.0/ports/{id}: the port gets these security groups instead of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurePortBody {
    pub security_groups: BTreeSet<Uuid>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurePortDocument {
    pub port: SecurePortBody,
}

/// PUT /v2.0/ports/{id}: a server on a host gets the port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindPortBody {
    pub device_id: String,
    /// `compute:ZONE`.
    pub device_owner: String,
    #[serde(rename = "binding:host_id")]
    pub host_id: String,
    /// By default the profile stays as it is.
    #[serde(
        default,
        rename = "binding:profile",
        skip_serializing_if = "Option::is_none"
    )]
    pub profile: Option<Extras>,
    /// Only with the extension `dns-integration`, and on networks without `dns_domain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindPortDocument {
    pub port: BindPortBody,
}

/// PUT /v2.0/ports/{id}: the port is left by its server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnbindPortBody {
    pub device_id: String,
    pub device_owner: String,
    /// Null: on no host.
    #[serde(rename = "binding:host_id")]
    pub host_id: Option<String>,
    #[serde(rename = "binding:profile")]
    pub profile: Extras,
    /// Only with the extension `dns-integration`, and on networks without `dns_domain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnbindPortDocument {
    pub port: UnbindPortBody,
}

/// One binding of a port, of the extension `binding-extended`. A port has at most one active binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortBindingRecord {
    pub host: String,
    #[serde(default)]
    pub vif_type: Option<String>,
    #[serde(default)]
    pub vif_details: Option<Extras>,
    #[serde(default)]
    pub vnic_type: Option<String>,
    #[serde(default)]
    pub profile: Option<Extras>,
    /// `ACTIVE` or `INACTIVE`.
    #[serde(default)]
    pub status: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortBindingList {
    pub bindings: Vec<PortBindingRecord>,
}

//! Nova's network model: the virtual interfaces (VIFs) of a server with their networks, subnets and addresses.
//!
//! The JSON is what Nova keeps in `instance_info_caches.network_info` (`nova/network/model.py`, Nova 34). Conductors send
//! it to agents, agents write it into config drives, and the compute API shows addresses from it. Keys of `meta`,
//! `details` and `profile` that Berth does not know are kept.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Values by name, as Neutron and Nova extend their objects.
pub type Extras = BTreeMap<String, Value>;

/// A virtual interface: a Neutron port, as bound to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VifBody {
    /// The port's UUID.
    pub id: Uuid,
    /// The MAC address.
    pub address: String,
    /// The network, with the subnets and addresses of the port.
    pub network: VifNetworkBody,
    /// The port's `binding:vif_type`, such as `ovs` or `hw_veb`. It decides how the interface is plugged.
    #[serde(rename = "type")]
    pub vif_type: String,
    /// The port's `binding:vif_details`, such as `bridge_name` and `ovs_create_tap`.
    #[serde(default)]
    pub details: Extras,
    /// The host's name of the tap or network device: `tap` and the first 11 characters of the port's UUID.
    #[serde(default)]
    pub devname: Option<String>,
    /// The `iface-id` of the Open vSwitch interface; by default the port's UUID.
    #[serde(default)]
    pub ovs_interfaceid: Option<String>,
    #[serde(default)]
    pub qbh_params: Option<Value>,
    #[serde(default)]
    pub qbg_params: Option<Value>,
    /// Whether the port was `ACTIVE` when the cache was refreshed.
    #[serde(default)]
    pub active: bool,
    /// The port's `binding:vnic_type`: `normal`, `direct`, `direct-physical`, `macvtap` and others.
    #[serde(default = "normal_vnic")]
    pub vnic_type: String,
    /// The port's `binding:profile`, such as `pci_slot` of an SR-IOV function.
    #[serde(default)]
    pub profile: Option<Extras>,
    /// Whether the port existed before the server. Such a port is unbound, not deleted, with the server.
    #[serde(default)]
    pub preserve_on_delete: bool,
    /// Whether the host, not the hypervisor, creates the tap.
    #[serde(default)]
    pub delegate_create: bool,
    /// `tag` is the tenant's tag of the interface.
    #[serde(default)]
    pub meta: Extras,
}

fn normal_vnic() -> String {
    "normal".to_owned()
}

/// Whether a `binding:profile` asks for a trusted function. Neutron stores the value as its user wrote it.
#[must_use]
pub fn asks_for_trust(profile: &Extras) -> bool {
    match profile.get("trusted") {
        Some(Value::Bool(word)) => *word,
        Some(Value::String(word)) => {
            ["1", "t", "true", "on", "y", "yes"].contains(&word.to_ascii_lowercase().as_str())
        }
        _ => false,
    }
}

impl VifBody {
    /// The tenant's tag of the interface.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.meta.get("tag")?.as_str()
    }

    /// Whether the port's profile asks for a trusted function.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.profile.as_ref().is_some_and(asks_for_trust)
    }

    /// All fixed addresses of the port.
    pub fn fixed_ips(&self) -> impl Iterator<Item = &FixedIpBody> {
        self.network.subnets.iter().flat_map(|subnet| &subnet.ips)
    }
}

/// A network, as far as a virtual interface needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VifNetworkBody {
    pub id: Uuid,
    /// The bridge that the interface is plugged into, such as `br-int`.
    #[serde(default)]
    pub bridge: Option<String>,
    /// The network's name, which the compute API shows as the key of `addresses`.
    #[serde(default)]
    pub label: Option<String>,
    /// The subnets from which the port has an address.
    #[serde(default)]
    pub subnets: Vec<VifSubnetBody>,
    /// `mtu` in bytes, `tenant_id`, `physical_network`, `tunneled`, `injected`.
    #[serde(default)]
    pub meta: Extras,
}

impl VifNetworkBody {
    /// The network's MTU in bytes; `None` if Neutron did not report one.
    #[must_use]
    pub fn mtu(&self) -> Option<u64> {
        self.meta.get("mtu").and_then(Value::as_u64)
    }
}

/// A subnet with the port's addresses in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VifSubnetBody {
    #[serde(default)]
    pub cidr: Option<String>,
    #[serde(default)]
    pub dns: Vec<IpBody>,
    /// The gateway; its address is null if the subnet has none.
    #[serde(default)]
    pub gateway: Option<IpBody>,
    /// The port's addresses in this subnet.
    #[serde(default)]
    pub ips: Vec<FixedIpBody>,
    #[serde(default)]
    pub routes: Vec<VifRouteBody>,
    /// 4 or 6.
    #[serde(default)]
    pub version: Option<u8>,
    /// `dhcp_server`, `ipv6_address_mode`.
    #[serde(default)]
    pub meta: Extras,
}

/// An IP address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IpBody {
    #[serde(default)]
    pub address: Option<String>,
    /// `gateway`, `dns`, `floating`, `fixed`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// 4 or 6.
    #[serde(default)]
    pub version: Option<u8>,
    #[serde(default)]
    pub meta: Extras,
}

/// A fixed address with the floating addresses that lead to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FixedIpBody {
    #[serde(flatten)]
    pub ip: IpBody,
    #[serde(default)]
    pub floating_ips: Vec<IpBody>,
}

/// A host route of a subnet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VifRouteBody {
    #[serde(default)]
    pub cidr: Option<String>,
    #[serde(default)]
    pub gateway: Option<IpBody>,
    #[serde(default)]
    pub interface: Option<String>,
    #[serde(default)]
    pub meta: Extras,
}

//! Neutron ports of a build: how each is connected, and the content of `network_data.json`. Pure.

use std::net::IpAddr;

use berth_model::PciAddress;
use berth_virt::guest_spec::{GuestPort, Label, LinkName, PlugSignal, PortConnection};
use berth_wire::conductor::FunctionVnicType;
use berth_wire::network_info::{IpBody, VifBody, VifRouteBody, VifSubnetBody};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::create::error::BuildError;

/// The integration bridge of Neutron's drivers, if the binding names none.
const INTEGRATION_BRIDGE: &str = "br-int";

/// Link types that guests know from `network_data.json`. Others are shown as `phy`.
const SHOWN_LINK_TYPES: [&str; 8] = [
    "bridge",
    "dvs",
    "hw_veb",
    "hyperv",
    "ovs",
    "tap",
    "vhostuser",
    "vif",
];

/// The `binding:vif_type` of a bound port that is a virtual function of a network card (SR-IOV).
const HW_VEB: &str = "hw_veb";
/// That of a bound port that is a whole network card.
const HOSTDEV_PHYSICAL: &str = "hostdev_physical";

/// The `binding:vif_type` of such a port when it is bound.
fn bound_type(kind: FunctionVnicType) -> &'static str {
    match kind {
        FunctionVnicType::Direct | FunctionVnicType::Macvtap => HW_VEB,
        FunctionVnicType::DirectPhysical => HOSTDEV_PHYSICAL,
    }
}

/// The kind of a port that needs a network function; `None` for other ports.
pub(super) fn function_kind(vif: &VifBody) -> Option<FunctionVnicType> {
    FunctionVnicType::of(&vif.vnic_type)
}

/// A port that gets a function of a network card. It is bound when the function has been selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectPort {
    pub(in crate::create) port: Uuid,
    /// The physical network that the card must be connected to.
    pub(in crate::create) physical_network: String,
    pub(in crate::create) kind: FunctionVnicType,
    /// Whether the card's virtual functions must be ones that the host may trust.
    pub(in crate::create) trusted: bool,
}

/// A port of this kind that is not bound yet. `field` names the interface in errors.
///
/// Errors: it is bound, or its network has no physical network.
pub(super) fn unbound(
    vif: &VifBody,
    kind: FunctionVnicType,
    field: &str,
) -> Result<DirectPort, BuildError> {
    let (port, vnic) = (vif.id, kind.as_str());
    if vif.vif_type != "unbound" {
        let found = &vif.vif_type;
        let reason = format!(
            "port {port} with binding:vnic_type {vnic} is bound (binding:vif_type is {found}); expected an unbound one: this agent \
             selects its function first"
        );
        return Err(BuildError::field(field, reason));
    }
    let physical = vif.network.meta.get("physical_network");
    match physical.and_then(Value::as_str) {
        Some(name) if !name.is_empty() => Ok(DirectPort {
            port,
            physical_network: name.to_owned(),
            kind,
            trusted: vif.is_trusted(),
        }),
        _ => {
            let network = vif.network.id;
            let reason = format!(
                "port {port} with binding:vnic_type {vnic} is on network {network}, which has no physical network \
                 (provider:physical_network)"
            );
            Err(BuildError::field(field, reason))
        }
    }
}

/// The port of this kind that is bound to a function. `field` names the interface in errors.
pub(super) fn function(
    vif: &VifBody,
    kind: FunctionVnicType,
    field: &str,
) -> Result<GuestPort, BuildError> {
    let refuse = |reason: String| {
        let port = vif.id;
        BuildError::field(field, format!("port {port} {reason}"))
    };
    let expected = bound_type(kind);
    if vif.vif_type != expected {
        let (vnic, found) = (kind.as_str(), &vif.vif_type);
        return Err(refuse(format!(
            "with binding:vnic_type {vnic} is bound with binding:vif_type {found}; this agent connects those of Neutron's mechanism \
             driver sriovnicswitch ({expected})"
        )));
    }
    let profile = vif.profile.as_ref();
    let slot = profile.and_then(|profile| profile.get("pci_slot"));
    let slot = slot.and_then(Value::as_str).unwrap_or_default();
    let address: PciAddress = slot.parse().map_err(|_| {
        refuse(format!(
            "has pci_slot {slot:?} in binding:profile; expected a PCI address"
        ))
    })?;
    // Neutron writes it as text.
    let vlan = match vif.details.get("vlan") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.parse::<u16>().ok()),
        Some(other) => Some(other.as_u64().and_then(|vlan| u16::try_from(vlan).ok())),
    };
    let vlan = match vlan {
        Some(None) => {
            return Err(refuse(
                "has an invalid VLAN in binding:vif_details".to_owned(),
            ));
        }
        // A flat network.
        Some(Some(0)) | None => None,
        Some(vlan) => vlan,
    };
    let trusted = vif.is_trusted();
    let connection = match kind {
        FunctionVnicType::Direct => PortConnection::NetworkFunction {
            address,
            vlan,
            trusted,
        },
        FunctionVnicType::Macvtap => PortConnection::Macvtap {
            address,
            vlan,
            trusted,
        },
        FunctionVnicType::DirectPhysical => PortConnection::PhysicalFunction { address },
    };
    guest_port(vif, field, connection)
}

/// The port of a bound virtual interface. `field` names the interface in errors.
///
/// Errors: the binding names a mechanism that this agent does not have.
pub(super) fn port(vif: &VifBody, field: &str) -> Result<GuestPort, BuildError> {
    let refuse = |reason: String| {
        let port = vif.id;
        BuildError::field(field, format!("port {port} {reason}"))
    };
    let kind = vif.vif_type.as_str();
    if matches!(kind, "binding_failed" | "unbound") {
        return Err(refuse(format!(
            "is not bound to this host (binding:vif_type is {kind}): no mechanism driver of Neutron serves the host"
        )));
    }
    if vif.vnic_type != "normal" {
        let vnic = &vif.vnic_type;
        return Err(refuse(format!(
            "has binding:vnic_type {vnic}; this agent connects ports with binding:vnic_type normal, direct, macvtap and \
             direct-physical"
        )));
    }
    if kind != "ovs" {
        return Err(refuse(format!(
            "is bound with binding:vif_type {kind}; this agent connects ports of Open vSwitch (ovs)"
        )));
    }
    let is_hybrid = vif.details.get("ovs_hybrid_plug").and_then(Value::as_bool);
    if is_hybrid == Some(true) {
        return Err(refuse(
            "is bound with ovs_hybrid_plug, a Linux bridge between guest and switch, which this agent does not have; \
             use Neutron's firewall_driver openvswitch, or OVN"
                .to_owned(),
        ));
    }
    let in_details = vif.details.get("bridge_name").and_then(Value::as_str);
    let bridge = in_details.or(vif.network.bridge.as_deref());
    let bridge = LinkName::new(bridge.unwrap_or(INTEGRATION_BRIDGE));
    let connection = PortConnection::OpenVswitch {
        bridge: bridge.map_err(|error| BuildError::field(field, error))?,
        signal: signal(vif),
    };
    guest_port(vif, field, connection)
}

/// The port of a virtual interface with this connection.
fn guest_port(
    vif: &VifBody,
    field: &str,
    connection: PortConnection,
) -> Result<GuestPort, BuildError> {
    let refuse = |reason: String| {
        let port = vif.id;
        BuildError::field(field, format!("port {port} {reason}"))
    };
    let invalid = |error: &dyn std::fmt::Display| BuildError::field(field, error);
    let label = vif.network.label.as_deref();
    let own_name = vif.network.id.to_string();
    let addresses = vif
        .fixed_ips()
        .filter_map(|fixed| fixed.ip.address.as_ref());
    let addresses = addresses.map(|text| {
        text.parse::<IpAddr>()
            .map_err(|_| refuse(format!("has the invalid IP address {text:?}")))
    });
    let mtu = vif.network.mtu().map(u32::try_from).transpose();
    GuestPort::new(
        vif.id,
        Label::new(label.filter(|label| !label.is_empty()).unwrap_or(&own_name))
            .map_err(|error| invalid(&error))?,
        addresses.collect::<Result<_, _>>()?,
        mtu.map_err(|_| refuse("has an invalid MTU".to_owned()))?,
        connection,
    )
    .map_err(|error| invalid(&error))
}

/// Who marks in the switch's database that an interface works.
fn signal(vif: &VifBody) -> PlugSignal {
    let drivers = vif.details.get("bound_drivers").and_then(Value::as_object);
    let mut names = drivers.into_iter().flat_map(|drivers| drivers.values());
    match names.any(|name| name == "ovn") {
        true => PlugSignal::OvnInstalled,
        false => PlugSignal::VlanTag,
    }
}

/// The content of `network_data.json`, as Nova writes it: the first IPv4 and IPv6 subnet of each interface.
pub(super) fn network_data(vifs: &[&VifBody]) -> Value {
    let (mut links, mut networks, mut services) = (Vec::new(), Vec::new(), Vec::new());
    for vif in vifs {
        let mut subnets = Vec::new();
        for version in [4, 6] {
            let mut all = vif.network.subnets.iter();
            subnets.extend(all.find(|subnet| subnet.version == Some(version)));
        }
        if subnets.is_empty() {
            continue;
        }
        let number = links.len();
        let id = vif.devname.clone();
        let id = id.unwrap_or_else(|| format!("interface{number}"));
        links.push(link(vif, &id));
        for subnet in subnets.into_iter().filter(|it| !it.ips.is_empty()) {
            let number = networks.len();
            networks.push(network(vif, subnet, number, &id));
            for service in dns(subnet) {
                if !services.contains(&service) {
                    services.push(service);
                }
            }
        }
    }
    json!({"links": links, "networks": networks, "services": services})
}

fn link(vif: &VifBody, id: &str) -> Value {
    // A port that needs a function is not bound yet.
    let kind = match function_kind(vif) {
        Some(kind) => bound_type(kind),
        None => vif.vif_type.as_str(),
    };
    let subnets = &vif.network.subnets;
    // A DHCP server announces the MTU.
    let by_dhcp = subnets.iter().any(|it| it.meta.contains_key("dhcp_server"));
    json!({
        "id": id,
        "vif_id": vif.id,
        "type": if SHOWN_LINK_TYPES.contains(&kind) { kind } else { "phy" },
        "mtu": vif.network.mtu().filter(|_| !by_dhcp),
        "ethernet_mac_address": vif.address,
    })
}

fn network(vif: &VifBody, subnet: &VifSubnetBody, number: usize, link: &str) -> Value {
    let version = subnet.version.unwrap_or(4);
    let id = format!("network{number}");
    let set = |key: &str| subnet.meta.get(key).filter(|value| !value.is_null());
    let mode = set("ipv6_address_mode").and_then(Value::as_str);
    let is_dhcp = set("dhcp_server").is_some() || set("enable_dhcp") == Some(&json!(true));
    if mode.is_none() && is_dhcp {
        return json!({
            "id": id,
            "type": format!("ipv{version}_dhcp"),
            "link": link,
            "network_id": vif.network.id,
        });
    }
    let (length, any) = (prefix_length(subnet.cidr.as_deref()), any_address(version));
    let gateway = subnet.gateway.as_ref();
    let gateway = gateway.and_then(|gateway| gateway.address.as_deref());
    let default =
        gateway.map(|gateway| json!({"network": any, "netmask": any, "gateway": gateway}));
    let routes = subnet.routes.iter().filter_map(route);
    let routes: Vec<_> = default.into_iter().chain(routes).collect();
    let address = subnet.ips.first();
    json!({
        "id": id,
        "type": match mode {
            Some(mode) => format!("ipv{version}_{mode}"),
            None => format!("ipv{version}"),
        },
        "link": link,
        "ip_address": address.and_then(|fixed| fixed.ip.address.as_deref()),
        "netmask": length.map(|length| netmask(version, length)),
        "routes": routes,
        "network_id": vif.network.id,
        "services": dns(subnet),
    })
}

fn route(route: &VifRouteBody) -> Option<Value> {
    let (network, length) = route.cidr.as_deref()?.split_once('/')?;
    let version = if network.contains(':') { 6 } else { 4 };
    Some(json!({
        "network": network,
        "netmask": netmask(version, length.parse().ok()?),
        "gateway": route.gateway.as_ref()?.address,
    }))
}

fn dns(subnet: &VifSubnetBody) -> Vec<Value> {
    let servers = subnet
        .dns
        .iter()
        .filter_map(|IpBody { address, .. }| address.as_ref());
    let services = servers.map(|address| json!({"type": "dns", "address": address}));
    services.collect()
}

fn any_address(version: u8) -> &'static str {
    if version == 6 { "::" } else { "0.0.0.0" }
}

fn prefix_length(cidr: Option<&str>) -> Option<u32> {
    cidr?.split_once('/')?.1.parse().ok()
}

/// The netmask of a prefix, as an address.
fn netmask(version: u8, length: u32) -> String {
    if version == 6 {
        let bits = u128::MAX.checked_shl(128_u32.saturating_sub(length));
        return std::net::Ipv6Addr::from(bits.unwrap_or_default()).to_string();
    }
    let bits = u32::MAX.checked_shl(32_u32.saturating_sub(length));
    std::net::Ipv4Addr::from(bits.unwrap_or_default()).to_string()
}

#[cfg(test)]
mod tests;

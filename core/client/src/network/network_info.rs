//! Nova's network_info of a server from what Neutron reports: a pure function.

use std::net::IpAddr;

use berth_wire::network_info::{
    Extras, FixedIpBody, IpBody, VifBody, VifNetworkBody, VifRouteBody, VifSubnetBody,
};
use berth_wire::neutron::{
    FloatingIpRecord, NetworkRecord, PortRecord, SegmentRecord, SubnetRecord,
};
use uuid::Uuid;

/// The maximum length of a device's name on the host, in characters. Nova's `NIC_NAME_LEN`.
const DEVICE_NAME: usize = 14;
/// The integration bridge, if the binding of a port names no bridge.
const INTEGRATION_BRIDGE: &str = "br-int";
/// The `device_owner` of DHCP servers' ports.
const DHCP: &str = "network:dhcp";

/// What Neutron reports about a server's ports. Objects of other ports do no harm.
#[derive(Debug, Clone, Default)]
pub struct NetworkFacts {
    pub ports: Vec<PortRecord>,
    pub networks: Vec<NetworkRecord>,
    pub subnets: Vec<SubnetRecord>,
    pub floating_ips: Vec<FloatingIpRecord>,
    /// The DHCP servers' ports of the networks. OVN has none.
    pub dhcp_ports: Vec<PortRecord>,
}

/// One of a server's ports, and what Neutron does not know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VifOrigin {
    pub port: Uuid,
    /// Whether the port existed before the server.
    pub preserve_on_delete: bool,
    /// The tenant's tag of the interface.
    pub tag: Option<String>,
}

/// The virtual interfaces of a server in the order of `origins`, without ports that no longer exist.
#[must_use]
pub fn network_info(facts: &NetworkFacts, origins: &[VifOrigin]) -> Vec<VifBody> {
    let found = origins.iter().filter_map(|origin| {
        let port = facts.ports.iter().find(|port| port.id == origin.port)?;
        Some(vif(facts, port, origin))
    });
    found.collect()
}

fn vif(facts: &NetworkFacts, port: &PortRecord, origin: &VifOrigin) -> VifBody {
    let details = port.vif_details.clone().unwrap_or_default();
    let vif_type = port.vif_type.clone();
    let plug = PlugTarget::of(vif_type.as_deref(), &details, port);
    let tag = origin.tag.clone().map(|tag| ("tag".to_owned(), tag.into()));
    VifBody {
        id: port.id,
        address: port.mac_address.clone(),
        network: network(facts, port, plug.bridge),
        vif_type: vif_type.unwrap_or_else(|| "unbound".to_owned()),
        details,
        devname: Some(shortened(format!("tap{}", port.id))),
        ovs_interfaceid: plug.is_ovs.then(|| port.id.to_string()),
        qbh_params: None,
        qbg_params: None,
        active: !port.admin_state_up || port.status == "ACTIVE",
        vnic_type: port
            .vnic_type
            .clone()
            .unwrap_or_else(|| "normal".to_owned()),
        profile: Some(port.profile.clone().unwrap_or_default()),
        preserve_on_delete: origin.preserve_on_delete,
        // Whether the tap is created by the host or with the domain is decided by `ovs_create_tap` of the details.
        delegate_create: true,
        meta: tag.into_iter().collect(),
    }
}

/// What the interface is plugged into.
struct PlugTarget {
    bridge: Option<String>,
    /// Whether it is an interface of Open vSwitch with an `iface-id`.
    is_ovs: bool,
}

impl PlugTarget {
    fn of(vif_type: Option<&str>, details: &Extras, port: &PortRecord) -> Self {
        let is_set = |key: &str| details.get(key).and_then(|it| it.as_bool()) == Some(true);
        let named = |default: &str| {
            let name = details.get("bridge_name").and_then(|name| name.as_str());
            Some(shortened(name.unwrap_or(default).to_owned()))
        };
        match vif_type {
            Some("ovs" | "agilio_ovs") => Self {
                bridge: named(INTEGRATION_BRIDGE),
                is_ovs: true,
            },
            Some("vhostuser") if is_set("vhostuser_ovs_plug") => Self {
                bridge: named(INTEGRATION_BRIDGE),
                is_ovs: true,
            },
            Some("vhostuser") if is_set("vhostuser_fp_plug") => Self {
                bridge: named(&format!("brq{}", port.network_id)),
                is_ovs: false,
            },
            // The port group's name contains the network's id.
            Some("dvs") => Self {
                bridge: Some(port.network_id.to_string()),
                is_ovs: false,
            },
            _ => Self {
                bridge: None,
                is_ovs: false,
            },
        }
    }
}

fn network(facts: &NetworkFacts, port: &PortRecord, bridge: Option<String>) -> VifNetworkBody {
    let mut networks = facts.networks.iter();
    let network = networks.find(|network| network.id == port.network_id);
    let tenant = network.map_or(&port.tenant_id, |network| &network.tenant_id);
    let (physical_network, tunneled) = network.map_or((None, false), physical_network);
    let meta = [
        ("injected", false.into()),
        ("tenant_id", tenant.clone().into()),
        ("mtu", network.and_then(|network| network.mtu).into()),
        ("physical_network", physical_network.into()),
        ("tunneled", tunneled.into()),
    ];
    VifNetworkBody {
        id: port.network_id,
        bridge,
        label: network.map(|network| network.name.clone()),
        subnets: subnets(facts, port),
        meta: extras(meta),
    }
}

/// The physical network, and whether packets travel in a tunnel between hosts. Of several segments the first with a
/// physical network counts.
#[must_use]
pub fn physical_network(network: &NetworkRecord) -> (Option<String>, bool) {
    let is_tunnel = |kind: Option<&str>| matches!(kind, Some("vxlan" | "gre" | "geneve"));
    let segments = network.segments.as_deref().unwrap_or_default();
    let is_named = |segment: &&SegmentRecord| segment.physical_network.is_some();
    if let Some(segment) = segments.iter().find(is_named) {
        return (segment.physical_network.clone(), false);
    }
    let mut kinds = segments.iter().map(|segment| &segment.network_type);
    let tunneled =
        is_tunnel(network.network_type.as_deref()) || kinds.any(|kind| is_tunnel(kind.as_deref()));
    (network.physical_network.clone(), tunneled)
}

/// The subnets of the port's addresses, in the order of the addresses.
fn subnets(facts: &NetworkFacts, port: &PortRecord) -> Vec<VifSubnetBody> {
    let mut ids: Vec<Uuid> = Vec::new();
    for fixed in &port.fixed_ips {
        if !ids.contains(&fixed.subnet_id) {
            ids.push(fixed.subnet_id);
        }
    }
    let known = |id| facts.subnets.iter().find(|subnet| subnet.id == id);
    let records = ids.into_iter().filter_map(known);
    records.map(|record| subnet(facts, port, record)).collect()
}

fn subnet(facts: &NetworkFacts, port: &PortRecord, record: &SubnetRecord) -> VifSubnetBody {
    let of_subnet = port.fixed_ips.iter().filter(|ip| ip.subnet_id == record.id);
    let ips = of_subnet.map(|fixed| FixedIpBody {
        ip: ip(&fixed.ip_address, "fixed"),
        floating_ips: floating_ips(facts, port, &fixed.ip_address),
    });
    let routes = record.host_routes.iter().map(|route| VifRouteBody {
        cidr: Some(route.destination.clone()),
        gateway: Some(ip(&route.nexthop, "gateway")),
        interface: None,
        meta: Extras::new(),
    });
    let gateway = match &record.gateway_ip {
        Some(address) => ip(address, "gateway"),
        None => IpBody {
            address: None,
            kind: Some("gateway".to_owned()),
            version: None,
            meta: Extras::new(),
        },
    };
    let mut meta = extras([("enable_dhcp", record.enable_dhcp.into())]);
    if let Some(mode) = &record.ipv6_address_mode {
        meta.insert("ipv6_address_mode".to_owned(), mode.clone().into());
    }
    if let Some(server) = dhcp_server(facts, record) {
        meta.insert("dhcp_server".to_owned(), server.into());
    }
    VifSubnetBody {
        cidr: Some(record.cidr.clone()),
        dns: record
            .dns_nameservers
            .iter()
            .map(|it| ip(it, "dns"))
            .collect(),
        gateway: Some(gateway),
        ips: ips.collect(),
        routes: routes.collect(),
        version: record.ip_version,
        meta,
    }
}

fn floating_ips(facts: &NetworkFacts, port: &PortRecord, fixed: &str) -> Vec<IpBody> {
    let leading_here = facts.floating_ips.iter().filter(|floating| {
        floating.port_id == Some(port.id) && floating.fixed_ip_address.as_deref() == Some(fixed)
    });
    leading_here
        .map(|floating| ip(&floating.floating_ip_address, "floating"))
        .collect()
}

/// The address of a DHCP server in the subnet. Of several the last counts, as in Nova.
fn dhcp_server(facts: &NetworkFacts, subnet: &SubnetRecord) -> Option<String> {
    let servers = facts
        .dhcp_ports
        .iter()
        .filter(|port| port.network_id == subnet.network_id && port.device_owner == DHCP);
    let mut addresses = servers.filter_map(|port| {
        let mut ips = port.fixed_ips.iter();
        ips.find(|ip| ip.subnet_id == subnet.id)
    });
    addresses.next_back().map(|ip| ip.ip_address.clone())
}

fn ip(address: &str, kind: &str) -> IpBody {
    let version = address.parse().ok().map(|address| match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    });
    IpBody {
        address: Some(address.to_owned()),
        kind: Some(kind.to_owned()),
        version,
        meta: Extras::new(),
    }
}

fn extras<const N: usize>(pairs: [(&str, serde_json::Value); N]) -> Extras {
    let pairs = pairs.into_iter();
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn shortened(name: String) -> String {
    name.chars().take(DEVICE_NAME).collect()
}

#[cfg(test)]
mod tests;

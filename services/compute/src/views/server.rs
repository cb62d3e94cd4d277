//! The JSON documents of servers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_http::ApiRequest;
use berth_store::SqlTimestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha224};

use crate::microversions::{
    CERTIFICATES, HOST_STATUS, LOCKED, LOCKED_REASON, REBUILD_KEY, SERVER_ATTRIBUTES,
    SERVER_DESCRIPTION, SERVER_FLAVOR, SERVER_GROUPS_SHOWN, STRICT, TAGS,
};
use crate::paging::links;
use crate::server_state::{TaskState, VmState};
use crate::server_status::{ServerFault, ServerWithStatus};
use crate::servers::{ROOT_DEVICE, Zones, launched_at, zone};

/// What the caller may see of servers, and the state of their hosts.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerVisibility {
    /// Hosts, nodes and other attributes that only operators see.
    pub(crate) attributes: bool,
    /// Whether the state of the host is shown.
    pub(crate) host_status: bool,
    /// Extra specs in flavors.
    pub(crate) extra_specs: bool,
    pub(crate) details: bool,
    pub(crate) zones: Zones,
    /// The state of each host, in Nova's terms.
    pub(crate) hosts: BTreeMap<String, &'static str>,
}

/// The kind of response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    List,
    Show,
    /// The response to an update.
    Update,
    /// The response to a rebuild.
    Rebuild,
}

impl Within {
    /// Whether the document is complete. Before 2.75 responses to changes have fewer fields.
    fn is_whole(self, call: &ApiRequest) -> bool {
        match self {
            Self::List | Self::Show => true,
            Self::Update | Self::Rebuild => call.version.has(STRICT),
        }
    }
}

/// Fields that responses to changes have from 2.75 on.
const WHOLE: [&str; 10] = [
    "OS-EXT-AZ:availability_zone",
    "config_drive",
    "key_name",
    "OS-SRV-USG:launched_at",
    "OS-SRV-USG:terminated_at",
    "OS-EXT-STS:task_state",
    "OS-EXT-STS:vm_state",
    "OS-EXT-STS:power_state",
    "os-extended-volumes:volumes_attached",
    "security_groups",
];

/// The time format of most Nova documents: whole seconds with `Z`.
pub(crate) fn moment(moment: SqlTimestamp) -> String {
    let text = moment.to_string();
    format!("{}Z", text.get(..19).unwrap_or(&text).replace(' ', "T"))
}

/// The time format with microseconds and without a zone.
pub(crate) fn precise(moment: SqlTimestamp) -> String {
    moment.to_string().replace(' ', "T")
}

/// The entry in a list without details.
pub(crate) fn summary(call: &ApiRequest, known: &ServerWithStatus) -> Value {
    let id = known.server.uuid.to_string();
    json!({"id": id, "name": known.server.name, "links": links(call, "servers", &id)})
}

pub(crate) fn document(
    call: &ApiRequest,
    known: &ServerWithStatus,
    visibility: &ServerVisibility,
    within: Within,
) -> Value {
    let (server, state) = (&known.server, &known.state);
    let id = server.uuid.to_string();
    let host = known
        .placement
        .as_ref()
        .map(|placement| placement.host.as_str());
    let shown = json!({
        "id": id,
        "name": server.name,
        "status": state.status(),
        "tenant_id": server.project_id,
        "user_id": server.user_id,
        "metadata": server.metadata,
        "hostId": host_id(&server.project_id, host),
        "image": image(call, known),
        "flavor": flavor(call, known, visibility),
        "created": moment(server.created_at),
        "updated": moment(server.updated_at.unwrap_or(server.created_at)),
        "addresses": addresses(known, AddressDetail::Whole),
        "accessIPv4": access_address(server.access_ip_v4.as_ref(), known, IpAddr::is_ipv4),
        "accessIPv6": access_address(server.access_ip_v6.as_ref(), known, IpAddr::is_ipv6),
        "links": links(call, "servers", &id),
        "OS-DCF:diskConfig": server.disk_config,
        "OS-EXT-AZ:availability_zone": zone(known, &visibility.zones).unwrap_or_default(),
        "config_drive": "True",
        "key_name": server.key_name,
        "OS-SRV-USG:launched_at": launched_at(known).map(precise),
        "OS-SRV-USG:terminated_at": null,
        "OS-EXT-STS:task_state": state.task_state.and_then(TaskState::nova_name),
        "OS-EXT-STS:vm_state": state.vm_state.as_str(),
        "OS-EXT-STS:power_state": state.power_number(),
        "os-extended-volumes:volumes_attached": [],
    });
    let Value::Object(mut shown) = shown else {
        return Value::Null;
    };
    if !known.security_groups.is_empty() {
        let groups = known.security_groups.iter();
        let groups = groups.map(|name| json!({ "name": name }));
        let groups: Vec<_> = groups.collect();
        shown.insert("security_groups".to_owned(), json!(groups));
    }
    if matches!(state.status(), "ACTIVE" | "BUILD" | "REBUILD") {
        shown.insert("progress".to_owned(), json!(0));
    }
    if let Some(fault) = known
        .fault
        .as_ref()
        .filter(|_| state.vm_state == VmState::Error)
    {
        shown.insert("fault".to_owned(), fault_of(known, fault, visibility));
    }
    if within.is_whole(call) {
        attributes(call, known, visibility, &mut shown);
    } else {
        let stays = |key: &str| {
            key == "key_name" && within == Within::Rebuild && call.version.has(REBUILD_KEY)
        };
        shown.retain(|key, _| !WHOLE.contains(&key.as_str()) || stays(key));
    }
    of_version(call, known, visibility, within, &mut shown);
    Value::Object(shown)
}

/// How much is shown of an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressDetail {
    /// Also the interface, as in the document of a server.
    Whole,
    /// The address alone, as in the list of addresses.
    Address,
}

/// The addresses by network. A network without known addresses has an empty list: clients take a server without any
/// network for a failed one.
pub(crate) fn addresses(known: &ServerWithStatus, detail: AddressDetail) -> Value {
    let mut networks: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let address = |text: &str, mac: &str, kind: &str| {
        let version = if text.contains(':') { 6 } else { 4 };
        let mut address = json!({"version": version, "addr": text});
        if detail == AddressDetail::Whole {
            address["OS-EXT-IPS-MAC:mac_addr"] = json!(mac);
            address["OS-EXT-IPS:type"] = json!(kind);
        }
        address
    };
    for vif in &known.vifs {
        let label = vif.network.label.as_deref().unwrap_or_default();
        let shown = networks.entry(label).or_default();
        let fixed = vif.fixed_ips().map(|ip| (&ip.ip, "fixed"));
        let floating = vif.fixed_ips().flat_map(|ip| &ip.floating_ips);
        let all = fixed.chain(floating.map(|ip| (ip, "floating")));
        shown.extend(all.filter_map(|(ip, kind)| {
            let text = ip.address.as_deref()?;
            Some(address(text, &vif.address, kind))
        }));
    }
    for interface in known.interfaces_without_port() {
        let shown = networks.entry(&interface.network).or_default();
        let texts = interface.addresses.iter();
        shown.extend(texts.map(|text| address(text, &interface.mac, "fixed")));
    }
    json!(networks)
}

/// The address that its owner stored. Without one, a server with ports has none, as in Nova: clients add a floating address
/// to such a server. A server on a network of the host has the first address that its host knows.
fn access_address(
    stored: Option<&String>,
    known: &ServerWithStatus,
    is_version: fn(&IpAddr) -> bool,
) -> String {
    let links = known.interfaces_without_port();
    let links = links.filter(|_| known.vifs.is_empty());
    let mut all = links
        .flat_map(|it| &it.addresses)
        .filter(|text| text.parse().is_ok_and(|address| is_version(&address)));
    stored.or_else(|| all.next()).cloned().unwrap_or_default()
}

/// An anonymous id of the host. It lets a project see whether two of its servers share a host.
pub(crate) fn host_id(project_id: &str, host: Option<&str>) -> String {
    match host {
        None => String::new(),
        Some(host) => format!("{:x}", Sha224::digest(format!("{project_id}{host}"))),
    }
}

fn image(call: &ApiRequest, known: &ServerWithStatus) -> Value {
    match known.server.image {
        None => json!(""),
        Some(image) => {
            let id = image.to_string();
            let href = call.absolute(&format!("/images/{id}"));
            json!({"id": id, "links": [{"rel": "bookmark", "href": href}]})
        }
    }
}

fn flavor(call: &ApiRequest, known: &ServerWithStatus, visibility: &ServerVisibility) -> Value {
    let flavor = &known.server.flavor;
    if !call.version.has(SERVER_FLAVOR) {
        let href = call.absolute(&format!("/flavors/{}", flavor.flavorid));
        return json!({"id": flavor.flavorid, "links": [{"rel": "bookmark", "href": href}]});
    }
    let body = &flavor.body;
    let mut shown = json!({
        "vcpus": body.vcpus,
        "ram": body.ram_mb,
        "disk": body.disk_gb,
        "ephemeral": body.ephemeral_gb,
        "swap": flavor.swap,
        "original_name": body.name,
    });
    if visibility.extra_specs {
        shown["extra_specs"] = json!(body.extra_specs);
    }
    shown
}

fn fault_of(known: &ServerWithStatus, fault: &ServerFault, visibility: &ServerVisibility) -> Value {
    let server = &known.server;
    let at = server.settled_at.unwrap_or(server.created_at);
    let mut shown = json!({"code": 500, "created": moment(at), "message": fault.message});
    if visibility.details {
        shown["details"] = json!(fault.details);
    }
    shown
}

fn attributes(
    call: &ApiRequest,
    known: &ServerWithStatus,
    visibility: &ServerVisibility,
    shown: &mut Map<String, Value>,
) {
    if !visibility.attributes {
        return;
    }
    let mut put = |key: &str, value: Value| {
        shown.insert(format!("OS-EXT-SRV-ATTR:{key}"), value);
    };
    let server = &known.server;
    let placement = known.placement.as_ref();
    put("host", json!(placement.map(|placement| &placement.host)));
    put(
        "hypervisor_hostname",
        json!(placement.map(|placement| placement.node.as_str())),
    );
    put("instance_name", json!(server.instance_name()));
    if call.version.has(SERVER_ATTRIBUTES) {
        put("reservation_id", json!(server.reservation_id));
        put("launch_index", json!(server.launch_index));
        put("hostname", json!(server.hostname));
        put("kernel_id", json!(""));
        put("ramdisk_id", json!(""));
        put("root_device_name", json!(ROOT_DEVICE));
        // User data may contain secrets and is not stored after the hand-over.
        put("user_data", Value::Null);
    }
}

/// Adds the fields of later microversions.
fn of_version(
    call: &ApiRequest,
    known: &ServerWithStatus,
    visibility: &ServerVisibility,
    within: Within,
    shown: &mut Map<String, Value>,
) {
    let server = &known.server;
    let mut put = |since, key: &str, value: Value| {
        if call.version.has(since) {
            shown.insert(key.to_owned(), value);
        }
    };
    put(LOCKED, "locked", json!(server.lock.is_some()));
    if visibility.host_status && within.is_whole(call) {
        let host = known.placement.as_ref().map(|placement| &placement.host);
        let status = host.and_then(|host| visibility.hosts.get(host));
        put(HOST_STATUS, "host_status", json!(status.unwrap_or(&"")));
    }
    put(SERVER_DESCRIPTION, "description", json!(server.description));
    put(TAGS, "tags", json!(server.tags));
    put(CERTIFICATES, "trusted_image_certificates", Value::Null);
    if within != Within::List {
        let groups: Vec<String> = server
            .server_group
            .iter()
            .map(ToString::to_string)
            .collect();
        put(SERVER_GROUPS_SHOWN, "server_groups", json!(groups));
    }
    let reason = server.lock.as_ref().and_then(|lock| lock.reason.as_ref());
    put(LOCKED_REASON, "locked_reason", json!(reason));
}

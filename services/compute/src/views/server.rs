//! A server as it is told.

use std::collections::BTreeMap;

use berth_http::Call;
use berth_store::Moment;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha224};

use crate::courses::{KnownServer, ServerFault};
use crate::microversions::{
    CERTIFICATES, HOST_STATUS, LOCKED, LOCKED_REASON, REBUILD_KEY, SERVER_ATTRIBUTES,
    SERVER_DESCRIPTION, SERVER_FLAVOR, SERVER_GROUPS_SHOWN, STRICT, TAGS,
};
use crate::paging::links;
use crate::server_state::VmState;
use crate::servers::{ROOT_DEVICE, Zones, launched_at, zone};

/// What a caller may see of servers, and what is known of their hosts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sight {
    /// Hosts, nodes and what else only operators see.
    pub(crate) attributes: bool,
    /// How a server's host is.
    pub(crate) host_status: bool,
    /// Extra specs inside flavors.
    pub(crate) extra_specs: bool,
    /// What is behind a fault.
    pub(crate) details: bool,
    /// The availability zone of each host.
    pub(crate) zones: Zones,
    /// How each host is, in Nova's word.
    pub(crate) hosts: BTreeMap<String, &'static str>,
}

/// Where a server is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    List,
    Show,
    /// In the answer to a change of it.
    Update,
    /// In the answer to a rebuild.
    Rebuild,
}

impl Within {
    /// Whether it has all that a server by itself has: a change is answered with less before 2.75.
    fn is_whole(self, call: &Call) -> bool {
        match self {
            Self::List | Self::Show => true,
            Self::Update | Self::Rebuild => call.version.has(STRICT),
        }
    }
}

/// What the answer to a change has from 2.75 on.
const WHOLE: [&str; 9] = [
    "OS-EXT-AZ:availability_zone",
    "config_drive",
    "key_name",
    "OS-SRV-USG:launched_at",
    "OS-SRV-USG:terminated_at",
    "OS-EXT-STS:task_state",
    "OS-EXT-STS:vm_state",
    "OS-EXT-STS:power_state",
    "os-extended-volumes:volumes_attached",
];

/// A moment as most of Nova's documents have it.
pub(crate) fn moment(moment: Moment) -> String {
    let text = moment.to_string();
    format!("{}Z", text.get(..19).unwrap_or(&text).replace(' ', "T"))
}

/// A moment with its parts of a second, and without a zone.
pub(crate) fn precise(moment: Moment) -> String {
    moment.to_string().replace(' ', "T")
}

/// As a list without details has it.
pub(crate) fn brief(call: &Call, known: &KnownServer) -> Value {
    let id = known.server.uuid.to_string();
    json!({"id": id, "name": known.server.name, "links": links(call, "servers", &id)})
}

pub(crate) fn whole(call: &Call, known: &KnownServer, sight: &Sight, within: Within) -> Value {
    let (server, state) = (&known.server, &known.state);
    let id = server.uuid.to_string();
    let host = known.place.as_ref().map(|place| place.host.as_str());
    let shown = json!({
        "id": id,
        "name": server.name,
        "status": state.status(),
        "tenant_id": server.project_id,
        "user_id": server.user_id,
        "metadata": server.metadata,
        "hostId": host_id(&server.project_id, host),
        "image": image(call, known),
        "flavor": flavor(call, known, sight),
        "created": moment(server.created_at),
        "updated": moment(server.updated_at.unwrap_or(server.created_at)),
        "addresses": {},
        "accessIPv4": server.access_ip_v4.clone().unwrap_or_default(),
        "accessIPv6": server.access_ip_v6.clone().unwrap_or_default(),
        "links": links(call, "servers", &id),
        "OS-DCF:diskConfig": server.disk_config,
        "OS-EXT-AZ:availability_zone": zone(known, &sight.zones).unwrap_or_default(),
        "config_drive": "True",
        "key_name": server.key_name,
        "OS-SRV-USG:launched_at": launched_at(known).map(precise),
        "OS-SRV-USG:terminated_at": null,
        "OS-EXT-STS:task_state": state.task_state.map(|task| task.as_str()),
        "OS-EXT-STS:vm_state": state.vm_state.as_str(),
        "OS-EXT-STS:power_state": state.power_state.number(),
        "os-extended-volumes:volumes_attached": [],
    });
    let Value::Object(mut shown) = shown else {
        return Value::Null;
    };
    if matches!(state.status(), "ACTIVE" | "BUILD" | "REBUILD") {
        shown.insert("progress".to_owned(), json!(0));
    }
    if let Some(fault) = known
        .fault
        .as_ref()
        .filter(|_| state.vm_state == VmState::Error)
    {
        shown.insert("fault".to_owned(), fault_of(known, fault, sight));
    }
    if within.is_whole(call) {
        attributes(call, known, sight, &mut shown);
    } else {
        let stays = |key: &str| {
            key == "key_name" && within == Within::Rebuild && call.version.has(REBUILD_KEY)
        };
        shown.retain(|key, _| !WHOLE.contains(&key.as_str()) || stays(key));
    }
    of_version(call, known, sight, within, &mut shown);
    Value::Object(shown)
}

/// What a host is called to those who may not know its name: two servers of a project see whether they share one.
pub(crate) fn host_id(project_id: &str, host: Option<&str>) -> String {
    match host {
        None => String::new(),
        Some(host) => format!("{:x}", Sha224::digest(format!("{project_id}{host}"))),
    }
}

fn image(call: &Call, known: &KnownServer) -> Value {
    match known.server.image {
        None => json!(""),
        Some(image) => {
            let id = image.to_string();
            let href = call.absolute(&format!("/images/{id}"));
            json!({"id": id, "links": [{"rel": "bookmark", "href": href}]})
        }
    }
}

fn flavor(call: &Call, known: &KnownServer, sight: &Sight) -> Value {
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
    if sight.extra_specs {
        shown["extra_specs"] = json!(body.extra_specs);
    }
    shown
}

fn fault_of(known: &KnownServer, fault: &ServerFault, sight: &Sight) -> Value {
    let server = &known.server;
    let at = server.settled_at.unwrap_or(server.created_at);
    let mut shown = json!({"code": 500, "created": moment(at), "message": fault.message});
    if sight.details {
        shown["details"] = json!(fault.details);
    }
    shown
}

fn attributes(call: &Call, known: &KnownServer, sight: &Sight, shown: &mut Map<String, Value>) {
    if !sight.attributes {
        return;
    }
    let mut put = |key: &str, value: Value| {
        shown.insert(format!("OS-EXT-SRV-ATTR:{key}"), value);
    };
    let server = &known.server;
    let place = known.place.as_ref();
    put("host", json!(place.map(|place| &place.host)));
    put(
        "hypervisor_hostname",
        json!(place.map(|place| place.node.as_str())),
    );
    put("instance_name", json!(server.instance_name()));
    if call.version.has(SERVER_ATTRIBUTES) {
        put("reservation_id", json!(server.reservation_id));
        put("launch_index", json!(server.launch_index));
        put("hostname", json!(server.hostname));
        put("kernel_id", json!(""));
        put("ramdisk_id", json!(""));
        put("root_device_name", json!(ROOT_DEVICE));
        // It may hold secrets: nobody keeps it once the guest has it.
        put("user_data", Value::Null);
    }
}

/// What came with later versions.
fn of_version(
    call: &Call,
    known: &KnownServer,
    sight: &Sight,
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
    if sight.host_status && within.is_whole(call) {
        let host = known.place.as_ref().map(|place| &place.host);
        let status = host.and_then(|host| sight.hosts.get(host));
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

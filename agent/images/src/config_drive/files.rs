//! Lays out the files of a config drive: OpenStack's and EC2's layout as Nova writes them, and NoCloud's, all on every
//! drive. The volume label selects the layout that the guest reads.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_client::Secret;
use berth_model::KeyPairType;
use berth_virt::guest_spec::{CpuPinning, GuestSpec, VcpuPin};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config_drive::content::{ConfigDriveParts, PublicKey};

/// A version of OpenStack's layout, by the release of Nova that began it. Each adds files or keys to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DriveVersion {
    Folsom,
    Grizzly,
    Havana,
    Liberty,
    NewtonOne,
    NewtonTwo,
    Ocata,
    Rocky,
    Victoria,
    Epoxy,
}

const VERSIONS: [(&str, DriveVersion); 10] = [
    ("2012-08-10", DriveVersion::Folsom),
    ("2013-04-04", DriveVersion::Grizzly),
    ("2013-10-17", DriveVersion::Havana),
    ("2015-10-15", DriveVersion::Liberty),
    ("2016-06-30", DriveVersion::NewtonOne),
    ("2016-10-06", DriveVersion::NewtonTwo),
    ("2017-02-22", DriveVersion::Ocata),
    ("2018-08-27", DriveVersion::Rocky),
    ("2020-10-14", DriveVersion::Victoria),
    ("2025-04-04", DriveVersion::Epoxy),
];

/// The versions of EC2's layout that Nova writes by default (`config_drive_skip_versions`).
const EC2_VERSIONS: [&str; 2] = ["2009-04-04", "latest"];

/// The directories of OpenStack's layout.
fn directories() -> impl Iterator<Item = (&'static str, DriveVersion)> {
    VERSIONS
        .into_iter()
        .chain([("latest", DriveVersion::Epoxy)])
}

/// The layout that guests read (`config_drive_layout`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigDriveFormat {
    #[default]
    OpenStack,
    NoCloud,
}

impl ConfigDriveFormat {
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::OpenStack => "config-2",
            Self::NoCloud => "cidata",
        }
    }
}

/// Nova's file names.
const META_DATA: &str = "meta_data.json";
const USER_DATA: &str = "user_data";
const VENDOR_DATA: &str = "vendor_data.json";
const VENDOR_DATA_2: &str = "vendor_data2.json";
const NETWORK_DATA: &str = "network_data.json";

/// All files by path. `seed` is random data for the guest's random number generator.
pub(crate) fn files(
    parts: &ConfigDriveParts,
    spec: &GuestSpec,
    seed: &[u8],
) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut put = |path: String, content: Vec<u8>| files.insert(path, content);
    let text = |value: &Value| value.to_string().into_bytes();
    let user_data = parts.user_data.as_ref().map(|data| data.reveal().to_vec());
    let empty = json!({});
    let vendor_data = parts.vendor_data.as_ref().unwrap_or(&empty);
    let own;
    let network_data = match &parts.network_data {
        Some(given) => given,
        None => {
            own = network_data(spec);
            &own
        }
    };
    for (directory, version) in directories() {
        let path = |name: &str| format!("openstack/{directory}/{name}");
        let meta_data = meta_data(parts, spec, seed, version);
        put(path(META_DATA), text(&meta_data));
        if let Some(user_data) = &user_data {
            put(path(USER_DATA), user_data.clone());
        }
        if version >= DriveVersion::Havana {
            put(path(VENDOR_DATA), text(vendor_data));
        }
        if version >= DriveVersion::Liberty {
            put(path(NETWORK_DATA), text(network_data));
        }
        if version >= DriveVersion::NewtonTwo {
            // Nova's default provider, StaticJSON, has this name.
            put(path(VENDOR_DATA_2), text(&json!({"static": vendor_data})));
        }
    }
    for version in EC2_VERSIONS {
        put(
            format!("ec2/{version}/meta-data.json"),
            text(&ec2(parts, spec)),
        );
        if let Some(user_data) = &user_data {
            put(format!("ec2/{version}/user-data"), user_data.clone());
        }
    }
    put("meta-data".to_owned(), text(&no_cloud(parts, spec)));
    put("user-data".to_owned(), user_data.unwrap_or_default());
    if parts.vendor_data.is_some() {
        put("vendor-data".to_owned(), text(vendor_data));
    }
    put("network-config".to_owned(), text(&network_config(spec)));
    files
}

fn meta_data(
    parts: &ConfigDriveParts,
    spec: &GuestSpec,
    seed: &[u8],
    version: DriveVersion,
) -> Value {
    let mut document = json!({
        "uuid": spec.uuid.to_string(),
        "hostname": parts.hostname,
        "name": parts.name.as_ref().unwrap_or(&parts.hostname),
        "launch_index": parts.launch_index,
        "availability_zone": parts.availability_zone,
    });
    // Nova leaves out what a server does not have.
    if !parts.metadata.is_empty() {
        document["meta"] = json!(parts.metadata);
    }
    if !parts.public_keys.is_empty() {
        let keys = parts.public_keys.iter();
        let by_name = keys.clone().map(|key| (&key.name, &key.public_key));
        document["public_keys"] = json!(by_name.collect::<BTreeMap<_, _>>());
        let listed = keys.map(
            |key| json!({"name": key.name, "type": key.kind().as_str(), "data": key.public_key}),
        );
        document["keys"] = json!(listed.collect::<Vec<_>>());
    }
    if let Some(password) = parts.admin_password.as_ref().map(Secret::reveal) {
        document["admin_pass"] = json!(password);
    }
    if version >= DriveVersion::Grizzly {
        document["random_seed"] = json!(STANDARD.encode(seed));
    }
    if version >= DriveVersion::Liberty {
        let project = parts.project_id.as_deref();
        document["project_id"] = json!(project.unwrap_or(spec.owner.project.as_str()));
    }
    if version >= DriveVersion::NewtonOne {
        // Devices with tags, VLANs or trust; Berth's guests have none of these.
        document["devices"] = json!([]);
    }
    if version >= DriveVersion::Victoria {
        document["dedicated_cpus"] = json!(dedicated_cpus(spec));
    }
    document
}

/// The guest's virtual CPUs that have a CPU of the host to themselves.
fn dedicated_cpus(spec: &GuestSpec) -> Vec<u32> {
    let pins = spec.topology.pinning().map(CpuPinning::pins);
    let numbered = (0..).zip(pins.unwrap_or_default());
    let dedicated = numbered.filter(|(_, pin)| matches!(pin, VcpuPin::Dedicated(_)));
    dedicated.map(|(vcpu, _)| vcpu).collect()
}

/// The guest's name for its swap disk: the last of its further disks.
fn swap_device(spec: &GuestSpec) -> Option<String> {
    let others = spec.disks.ephemeral();
    let is_swap = others.last()?.path.as_str().ends_with("/disk.swap");
    let letter = ('b'..='z').nth(others.len() - 1)?;
    let bus = spec.machine.bus_of_disks();
    is_swap.then(|| format!("{}{letter}", bus.device_prefix()))
}

/// The metadata in EC2's form. Addresses are empty, because Berth assigns none.
fn ec2(parts: &ConfigDriveParts, spec: &GuestSpec) -> Value {
    let id = |kind: &str, uuid: &str| format!("{kind}-{}", uuid.get(..8).unwrap_or(uuid));
    let uuid = spec.uuid.to_string();
    let bus = spec.machine.bus_of_disks();
    let root = format!("{}a", bus.device_prefix());
    let mut mapping = json!({"ami": root, "root": format!("/dev/{root}")});
    if let Some(swap) = swap_device(spec) {
        // cloud-init uses the swap space that it finds here.
        mapping["swap"] = json!(swap);
    }
    let mut document = json!({
        "ami-id": parts.image_id.as_deref().map(|image| id("ami", image)),
        "ami-launch-index": parts.launch_index,
        // Nova writes this text, too.
        "ami-manifest-path": "FIXME",
        "block-device-mapping": mapping,
        "hostname": parts.hostname,
        "instance-action": "none",
        "instance-id": id("i", &uuid),
        "instance-type": parts.flavor,
        "local-hostname": parts.hostname,
        "local-ipv4": null,
        "placement": {"availability-zone": parts.availability_zone},
        "public-hostname": parts.hostname,
        "public-ipv4": "",
        "reservation-id": parts.reservation_id,
        "security-groups": [],
    });
    if let Some(key) = ssh_keys(parts).next() {
        document["public-keys"] = json!({"0": {"openssh-key": key.public_key}});
    }
    document
}

/// The keys that a guest can write into `authorized_keys`.
fn ssh_keys(parts: &ConfigDriveParts) -> impl Iterator<Item = &PublicKey> {
    let keys = parts.public_keys.iter();
    keys.filter(|key| key.kind() == KeyPairType::Ssh)
}

/// Network data that lets every interface use DHCP.
fn network_data(spec: &GuestSpec) -> Value {
    let macs = || spec.interfaces.as_slice().iter().enumerate();
    let links: Vec<_> = macs()
        .map(|(n, i)| {
            json!({"id": format!("interface{n}"), "type": "phy", "mtu": null, "ethernet_mac_address": i.mac.to_string()})
        })
        .collect();
    let networks: Vec<_> = macs()
        .map(|(n, _)| {
            json!({"id": format!("network{n}"), "type": "ipv4_dhcp", "link": format!("interface{n}"), "network_id": format!("network{n}")})
        })
        .collect();
    json!({"links": links, "networks": networks, "services": []})
}

fn no_cloud(parts: &ConfigDriveParts, spec: &GuestSpec) -> Value {
    let keys: Vec<_> = ssh_keys(parts).map(|key| &key.public_key).collect();
    json!({
        "instance-id": spec.uuid.to_string(),
        "local-hostname": parts.hostname,
        "public-keys": keys,
        "meta": parts.metadata,
    })
}

fn network_config(spec: &GuestSpec) -> Value {
    let interfaces = spec.interfaces.as_slice().iter().enumerate();
    let ethernets: BTreeMap<_, _> = interfaces
        .map(|(n, i)| {
            let config = json!({"match": {"macaddress": i.mac.to_string()}, "dhcp4": true});
            (format!("interface{n}"), config)
        })
        .collect();
    json!({"version": 2, "ethernets": ethernets})
}

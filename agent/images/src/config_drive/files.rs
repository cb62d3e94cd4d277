//! Lays out the files of a config drive: OpenStack's layout and NoCloud's, both on every drive. The volume label
//! selects the layout that the guest reads.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_client::Secret;
use berth_virt::guest_spec::GuestSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config_drive::content::ConfigDriveParts;

/// The versions of OpenStack's layout that guests look for. Their content is the same.
const VERSIONS: [&str; 3] = ["2015-10-15", "2018-08-27", "latest"];

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
    let meta_data = text(&meta_data(parts, spec, seed));
    let own;
    let network_data = match &parts.network_data {
        Some(given) => given,
        None => {
            own = network_data(spec);
            &own
        }
    };
    for version in VERSIONS {
        let path = |name: &str| format!("openstack/{version}/{name}");
        put(path("meta_data.json"), meta_data.clone());
        put(path("network_data.json"), text(network_data));
        put(path("vendor_data.json"), text(vendor_data));
        if let Some(user_data) = &user_data {
            put(path("user_data"), user_data.clone());
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

fn meta_data(parts: &ConfigDriveParts, spec: &GuestSpec, seed: &[u8]) -> Value {
    let keys = parts.public_keys.iter();
    let public_keys: BTreeMap<_, _> = keys.clone().map(|k| (&k.name, &k.public_key)).collect();
    let keys: Vec<_> = keys
        .map(|k| json!({"name": k.name, "type": "ssh", "data": k.public_key}))
        .collect();
    let mut document = json!({
        "uuid": spec.uuid.to_string(),
        "hostname": parts.hostname,
        "name": parts.name.as_ref().unwrap_or(&parts.hostname),
        "project_id": parts.project_id.as_deref().unwrap_or(spec.owner.project.as_str()),
        "launch_index": 0,
        "meta": parts.metadata,
        "public_keys": public_keys,
        "keys": keys,
        "devices": [],
        "dedicated_cpus": [],
        "random_seed": STANDARD.encode(seed),
    });
    if let Some(password) = parts.admin_password.as_ref().map(Secret::reveal) {
        document["admin_pass"] = json!(password);
    }
    document
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
    let keys: Vec<_> = parts.public_keys.iter().map(|k| &k.public_key).collect();
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

//! Each extra spec and image property that hosts honour, from a build to the document that libvirt gets.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use berth_agent_instances::build_bench::{Bench, build, uuid};
use berth_libvirt::{GuestXmlOptions, guest_xml};
use berth_model::{MemoryEncryption, known_extra_spec};
use serde_json::json;

use effects::EFFECTS;

#[path = "../../core/model/src/machine/tests/effects.rs"]
mod effects;

/// The keys that decide which devices of the host a guest gets, and where its PCI tree has them. This guest has none.
const OF_DEVICES: [&str; 4] = [
    "berth:pci_topology",
    "berth_pci_topology",
    "hw:pci_numa_affinity_policy",
    "hw_pci_numa_affinity_policy",
];

type Pairs = BTreeMap<String, String>;

fn pairs(text: &str) -> Pairs {
    let pairs = text.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        (key.to_owned(), value.to_owned())
    });
    pairs.collect()
}

/// The document of a guest with every kind of disk and an interface, or why the host refuses the guest.
async fn document(specs: &Pairs, properties: &Pairs) -> Result<String, String> {
    let mut bench = Bench::new(2, 16, "0-3,16-19");
    bench.huge_pages = [(2048, 512)].into();
    bench.encryption_contexts = [
        (MemoryEncryption::AmdSev, 16),
        (MemoryEncryption::AmdSevEs, 16),
    ]
    .into();
    let guests = bench.guests().await;
    let body = build(
        1,
        json!({
            "flavor": {"name": "f", "vcpus": 4, "ram_mb": 1024, "disk_gb": 5, "ephemeral_gb": 1, "extra_specs": specs},
            "image": {"location": {"glance": uuid(9).to_string()}, "format": "qcow2", "properties": properties},
            "networks": [{"source": {"bridge": "br0"}}],
            "config_drive": {},
        }),
    );
    let accepted = guests.build(&body).await;
    accepted.map_err(|error| error.to_string())?;
    guests.reconcile_instance(uuid(1)).await;
    let options = GuestXmlOptions {
        vnc_listen: Some(IpAddr::from(Ipv4Addr::LOCALHOST)),
        ..GuestXmlOptions::default()
    };
    guest_xml(&bench.running(1), &options).map_err(|error| error.to_string())
}

#[tokio::test]
async fn each_key_that_hosts_honour_changes_the_document_that_libvirt_gets() {
    let mut unchanged = Vec::new();
    for (key, value, specs, properties) in EFFECTS {
        let (mut specs, mut properties) = (pairs(specs), pairs(properties));
        let without = document(&specs, &properties).await;
        let place = match known_extra_spec(key) {
            Some(_) => &mut specs,
            None => &mut properties,
        };
        place.insert((*key).to_owned(), (*value).to_owned());
        let with = document(&specs, &properties).await;
        let text = with
            .as_ref()
            .unwrap_or_else(|error| panic!("{key}: {error}"));
        assert!(text.starts_with("<domain"), "{text}");
        if without == with {
            unchanged.push(*key);
        }
    }
    assert_eq!(unchanged, OF_DEVICES);
}

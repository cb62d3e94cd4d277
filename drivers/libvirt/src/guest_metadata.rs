//! Ownership of a guest: our element in libvirt's `<metadata>`.
//!
//! libvirt stores it unchanged, so that a guest is recognised after any restart, even by an agent that lost its
//! journal. Written by `guest_xml`, read by `guest` and `guests`. Nova's element next to it ([`NovaInstance`]) is for others:
//! telemetry agents and exporters read instances from it.

use std::collections::BTreeSet;

use berth_model::{ArqUuid, ConsumerUuid};
use berth_virt::guest_spec::GuestSpec;
use roxmltree::Node;
use serde::Serialize;

use crate::xml::{self, Reader, XmlError};

/// The element's namespace; a new meaning gets a new number.
pub(crate) const NAMESPACE: &str = "urn:berth:guest:1";

/// The owner of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuestMetadata {
    /// The instance's UUID: the guest's own, unless the document was copied.
    pub(crate) uuid: ConsumerUuid,
    pub(crate) project: String,
    /// The consumer that holds its allocations.
    pub(crate) consumer: ConsumerUuid,
    /// The accelerator requests (ARQs) of its devices.
    pub(crate) requests: BTreeSet<ArqUuid>,
}

/// The element in its XML form.
#[derive(Serialize)]
pub(crate) struct MetadataElement {
    #[serde(rename = "@xmlns:berth")]
    namespace: &'static str,
    #[serde(rename = "berth:uuid")]
    uuid: String,
    #[serde(rename = "berth:project")]
    project: String,
    #[serde(rename = "berth:consumer")]
    consumer: String,
    #[serde(rename = "berth:request")]
    requests: Vec<String>,
}

impl GuestMetadata {
    pub(crate) fn of(spec: &GuestSpec) -> Self {
        let devices = spec.devices.as_slice().iter();
        Self {
            uuid: spec.uuid,
            project: spec.owner.project.as_str().to_owned(),
            consumer: spec.owner.consumer,
            requests: devices
                .filter_map(|attached| attached.origin.arq())
                .collect(),
        }
    }

    pub(crate) fn element(&self) -> MetadataElement {
        MetadataElement {
            namespace: NAMESPACE,
            uuid: self.uuid.to_string(),
            project: self.project.clone(),
            consumer: self.consumer.to_string(),
            requests: self.requests.iter().map(ToString::to_string).collect(),
        }
    }

    /// Reads it from a guest's document; `None` if the guest is not ours.
    pub(crate) fn read(
        reader: &Reader<'_>,
        domain: Node<'_, '_>,
    ) -> Result<Option<Self>, XmlError> {
        let ours = |node: &Node<'_, '_>| {
            node.is_element()
                && node.tag_name().namespace() == Some(NAMESPACE)
                && node.tag_name().name() == "guest"
        };
        let Some(guest) =
            xml::find(domain, &["metadata"]).and_then(|metadata| metadata.children().find(ours))
        else {
            return Ok(None);
        };
        let consumer = |element, name: &str| {
            reader.required(element, xml::text(guest, &[name]), "a UUID", |text| {
                text.parse().ok()
            })
        };
        let requests = xml::children(guest, "request").map(|request| {
            reader.required("metadata/guest/request", request.text(), "a UUID", |text| {
                text.parse().ok()
            })
        });
        Ok(Some(Self {
            uuid: consumer("metadata/guest/uuid", "uuid")?,
            project: xml::text(guest, &["project"])
                .unwrap_or_default()
                .to_owned(),
            consumer: consumer("metadata/guest/consumer", "consumer")?,
            requests: requests.collect::<Result<_, _>>()?,
        }))
    }
}

/// The namespace of Nova's element.
const NOVA: &str = "http://openstack.org/xmlns/libvirt/nova/1.1";

/// Nova's description of an instance, as far as Berth knows it.
#[derive(Serialize)]
pub(crate) struct NovaInstance {
    #[serde(rename = "@xmlns:nova")]
    namespace: &'static str,
    #[serde(rename = "nova:package")]
    package: NovaPackage,
    #[serde(rename = "nova:name")]
    name: String,
    #[serde(rename = "nova:flavor")]
    flavor: NovaFlavor,
    #[serde(rename = "nova:owner")]
    owner: NovaOwner,
    #[serde(rename = "nova:root", skip_serializing_if = "Option::is_none")]
    root: Option<NovaRoot>,
    #[serde(rename = "nova:ports", skip_serializing_if = "Option::is_none")]
    ports: Option<NovaPorts>,
}

#[derive(Serialize)]
struct NovaPackage {
    #[serde(rename = "@version")]
    version: &'static str,
}

#[derive(Serialize)]
struct NovaFlavor {
    #[serde(rename = "@name")]
    name: String,
    /// In MiB.
    #[serde(rename = "nova:memory")]
    memory: u64,
    /// In GiB, like the ephemeral disk.
    #[serde(rename = "nova:disk")]
    disk: u64,
    /// In MiB.
    #[serde(rename = "nova:swap")]
    swap: u64,
    #[serde(rename = "nova:ephemeral")]
    ephemeral: u64,
    #[serde(rename = "nova:vcpus")]
    vcpus: u32,
}

#[derive(Serialize)]
struct NovaOwner {
    #[serde(rename = "nova:user", skip_serializing_if = "Option::is_none")]
    user: Option<NovaIdentity>,
    #[serde(rename = "nova:project")]
    project: NovaIdentity,
}

/// A user or a project. Its name is unknown to the host.
#[derive(Serialize)]
struct NovaIdentity {
    #[serde(rename = "@uuid")]
    uuid: String,
}

#[derive(Serialize)]
struct NovaRoot {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@uuid")]
    uuid: String,
}

/// The Neutron ports of the guest.
#[derive(Serialize)]
struct NovaPorts {
    #[serde(rename = "nova:port")]
    ports: Vec<NovaPort>,
}

#[derive(Serialize)]
struct NovaPort {
    #[serde(rename = "@uuid")]
    uuid: String,
    #[serde(rename = "nova:ip")]
    addresses: Vec<NovaIp>,
}

#[derive(Serialize)]
struct NovaIp {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@address")]
    address: String,
    #[serde(rename = "@ipVersion")]
    version: u8,
}

fn nova_ports(spec: &GuestSpec) -> Option<NovaPorts> {
    let ports = spec.interfaces.ports().map(|(_, port)| NovaPort {
        uuid: port.id().hyphenated().to_string(),
        addresses: port
            .addresses()
            .iter()
            .map(|address| NovaIp {
                kind: "fixed",
                address: address.to_string(),
                version: if address.is_ipv4() { 4 } else { 6 },
            })
            .collect(),
    });
    let ports: Vec<_> = ports.collect();
    (!ports.is_empty()).then_some(NovaPorts { ports })
}

impl NovaInstance {
    /// The element of a guest; `None` if it has no description.
    pub(crate) fn of(spec: &GuestSpec) -> Option<Self> {
        let description = spec.description.as_ref()?;
        Some(Self {
            namespace: NOVA,
            package: NovaPackage {
                version: concat!("Berth ", env!("CARGO_PKG_VERSION")),
            },
            name: description.name.as_str().to_owned(),
            flavor: NovaFlavor {
                name: description.flavor.as_str().to_owned(),
                memory: spec.topology.memory_mib(),
                disk: description.root_gib,
                swap: description.swap_mib,
                ephemeral: description.ephemeral_gib,
                vcpus: spec.topology.vcpus(),
            },
            owner: NovaOwner {
                user: description.user.as_ref().map(|user| NovaIdentity {
                    uuid: user.as_str().to_owned(),
                }),
                project: NovaIdentity {
                    uuid: spec.owner.project.as_str().to_owned(),
                },
            },
            root: description.image.map(|image| NovaRoot {
                kind: "image",
                uuid: image.hyphenated().to_string(),
            }),
            ports: nova_ports(spec),
        })
    }
}

//! Ownership of a guest: our element in libvirt's `<metadata>`.
//!
//! libvirt stores it unchanged, so that a guest is recognised after any restart, even by an agent that lost its
//! journal. Written by `guest_xml`, read by `guest` and `guests`.

use std::collections::BTreeSet;

use berth_model::{ArqUuid, ConsumerUuid};
use berth_virt::guest_spec::{DeviceOrigin, GuestSpec};
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
                .filter_map(|attached| match attached.origin {
                    DeviceOrigin::Arq(uuid) => Some(uuid),
                    DeviceOrigin::Flavor => None,
                })
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

//! Parses a node device's document: a card that supports mediated devices, or a mediated device. Pure.

use std::collections::BTreeMap;

use berth_model::PciAddress;
use roxmltree::Node;
use uuid::Uuid;

use crate::xml::{self, Reader, XmlError};

/// The relevant part of a node device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeDevice {
    /// A PCI function with a driver that offers mediated devices.
    MdevParent(MdevParentFunction),
    Mdev(Mdev),
    /// Any other device, also a parent of mediated devices that is not a PCI function: its provider could not be named.
    Other,
}

/// A PCI function with a driver that offers mediated devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MdevParentFunction {
    pub(crate) address: PciAddress,
    /// Its NUMA cell, if the host reports it.
    pub(crate) numa_node: Option<u32>,
    /// How many more devices of each type can be created.
    pub(crate) available: BTreeMap<String, u64>,
}

/// A mediated device that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mdev {
    pub(crate) uuid: Uuid,
    pub(crate) type_id: String,
    /// The parent function; `None` if the parent is not a PCI function.
    pub(crate) parent: Option<PciAddress>,
}

impl NodeDevice {
    pub(crate) fn read(text: &str) -> Result<Self, XmlError> {
        let reader = Reader::new("a node device", "device", text)?;
        let device = reader.root();
        for capability in xml::children(device, "capability") {
            match capability.attribute("type") {
                Some("pci") => return mdev_parent(&reader, device, capability),
                Some("mdev") => return mdev(&reader, device, capability).map(Self::Mdev),
                _ => {}
            }
        }
        Ok(Self::Other)
    }
}

fn mdev_parent(
    reader: &Reader<'_>,
    device: Node<'_, '_>,
    pci: Node<'_, '_>,
) -> Result<NodeDevice, XmlError> {
    let types = xml::children(pci, "capability")
        .find(|capability| capability.attribute("type") == Some("mdev_types"));
    let Some(types) = types else {
        return Ok(NodeDevice::Other);
    };
    let mut available = BTreeMap::new();
    for one in xml::children(types, "type") {
        let id = reader.required("type/@id", one.attribute("id"), "a type's name", |id| {
            (!id.is_empty()).then(|| id.to_owned())
        })?;
        let left = reader.required(
            "type/availableInstances",
            xml::text(one, &["availableInstances"]),
            "a number",
            |text| text.parse().ok(),
        )?;
        available.insert(id, left);
    }
    let address = reader.required(
        "name",
        xml::text(device, &["name"]),
        "pci_ and an address",
        |name| PciAddress::from_nodedev_name(name).ok(),
    )?;
    Ok(NodeDevice::MdevParent(MdevParentFunction {
        address,
        numa_node: xml::find(pci, &["numa"])
            .and_then(|numa| numa.attribute("node"))
            .and_then(|node| node.parse().ok()),
        available,
    }))
}

fn mdev(
    reader: &Reader<'_>,
    device: Node<'_, '_>,
    capability: Node<'_, '_>,
) -> Result<Mdev, XmlError> {
    // libvirt before 7.3 states the UUID only within the name.
    let uuid = xml::text(capability, &["uuid"])
        .map(str::to_owned)
        .or_else(|| uuid_in_name(xml::text(device, &["name"])?));
    let type_id = xml::find(capability, &["type"]).and_then(|one| one.attribute("id"));
    Ok(Mdev {
        uuid: reader.required("capability/uuid", uuid.as_deref(), "a UUID", |text| {
            Uuid::parse_str(text).ok()
        })?,
        type_id: reader.required("capability/type/@id", type_id, "a type's name", |id| {
            (!id.is_empty()).then(|| id.to_owned())
        })?,
        parent: xml::text(device, &["parent"])
            .and_then(|name| PciAddress::from_nodedev_name(name).ok()),
    })
}

/// Parses `mdev_` and the UUID with underscores; since libvirt 7.3 the parent's address follows.
fn uuid_in_name(name: &str) -> Option<String> {
    let groups: Vec<&str> = name.strip_prefix("mdev_")?.split('_').take(5).collect();
    Some(groups.join("-"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GPU: &str = "<device><name>pci_0000_81_00_0</name>
      <path>/sys/devices/pci0000:80/0000:81:00.0</path><parent>computer</parent><driver><name>nvidia</name></driver>
      <capability type='pci'><class>0x030200</class><domain>0</domain><bus>129</bus><slot>0</slot><function>0</function>
        <product id='0x1eb8'>T4</product><vendor id='0x10de'>NVIDIA</vendor>
        <capability type='mdev_types'>
          <type id='nvidia-222'><name>GRID T4-1B</name><deviceAPI>vfio-pci</deviceAPI><availableInstances>15</availableInstances></type>
          <type id='nvidia-223'><deviceAPI>vfio-pci</deviceAPI><availableInstances>0</availableInstances></type>
        </capability>
        <iommuGroup number='12'><address domain='0x0000' bus='0x81' slot='0x00' function='0x0'/></iommuGroup>
        <numa node='1'/></capability></device>";

    const MDEV: &str = "<device><name>mdev_4b20d080_1b54_4048_85b3_a6a62d165c01_0000_81_00_0</name>
      <parent>pci_0000_81_00_0</parent><driver><name>vfio_mdev</name></driver>
      <capability type='mdev'><type id='nvidia-222'/><uuid>4b20d080-1b54-4048-85b3-a6a62d165c01</uuid>
        <parent_addr>0000:81:00.0</parent_addr><iommuGroup number='30'/></capability></device>";

    #[test]
    fn a_card_states_what_is_left_of_each_type() {
        assert_eq!(
            NodeDevice::read(GPU).unwrap(),
            NodeDevice::MdevParent(MdevParentFunction {
                address: "0000:81:00.0".parse().unwrap(),
                numa_node: Some(1),
                available: [("nvidia-222".to_owned(), 15), ("nvidia-223".to_owned(), 0)].into(),
            })
        );
    }

    #[test]
    fn a_part_states_its_type_and_card_and_older_libvirt_names_it_only() {
        let expected = NodeDevice::Mdev(Mdev {
            uuid: Uuid::parse_str("4b20d080-1b54-4048-85b3-a6a62d165c01").unwrap(),
            type_id: "nvidia-222".to_owned(),
            parent: Some("0000:81:00.0".parse().unwrap()),
        });
        assert_eq!(NodeDevice::read(MDEV).unwrap(), expected);
        let older = MDEV
            .replace("_0000_81_00_0</name>", "</name>")
            .replace("<uuid>4b20d080-1b54-4048-85b3-a6a62d165c01</uuid>", "");
        assert_eq!(NodeDevice::read(&older).unwrap(), expected);
    }

    #[test]
    fn other_devices_are_no_concern() {
        for text in [
            "<device><name>computer</name><capability type='system'/></device>",
            "<device><name>pci_0000_00_00_0</name><capability type='pci'><class>0x1</class></capability></device>",
            "<device><name>mtty_mtty</name><capability type='mdev_types'><type id='mtty-1'/></capability></device>",
        ] {
            assert_eq!(NodeDevice::read(text).unwrap(), NodeDevice::Other, "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, named) in [
            (GPU.replace(">15<", ">many<"), "type/availableInstances"),
            (GPU.replace("pci_0000_81_00_0", "card0"), "name"),
            (
                MDEV.replace("<type id='nvidia-222'/>", ""),
                "capability/type/@id",
            ),
            (MDEV.replace("4b20d080", "x"), "capability/uuid"),
        ] {
            let error = NodeDevice::read(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            mdev in any::<bool>(), at in 0usize..900, cut in 0usize..60, put in "[<>/'a-z0-9 &;=-]{0,12}|\\PC{0,8}"
        ) {
            let text = if mdev { MDEV } else { GPU };
            let (at, end) = (at.min(text.len()), (at + cut).min(text.len()));
            let _ = NodeDevice::read(&format!("{}{put}{}", &text[..at], &text[end..]));
            let _ = NodeDevice::read(&put);
        }
    }
}

//! A guest's network interfaces.

use std::collections::BTreeSet;

use berth_model::MacAddress;
use serde::{Deserialize, Serialize};

use super::error::GuestSpecError;
use super::port::GuestPort;
use super::text::{self, checked_text};

checked_text!(
    /// The name of a Linux bridge or of a libvirt network.
    LinkName,
    "interfaces.source",
    "1 to 64 letters, digits, _, -, . and : are a bridge's or a network's name",
    |text| {
        (1..=64).contains(&text.len())
            && text != "."
            && text != ".."
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
    }
);

/// The network that an interface is connected to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterfaceSource {
    /// One of libvirt's networks.
    Network(LinkName),
    /// A Linux bridge of the host, at most 15 bytes.
    Bridge(LinkName),
    /// A Neutron port, which the agent plugs.
    Port(Box<GuestPort>),
}

/// A network interface of a guest, connected to one network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestInterface {
    /// Its Ethernet address, unique among the guest's interfaces.
    #[serde(with = "text")]
    pub mac: MacAddress,
    /// The network it is connected to.
    pub source: InterfaceSource,
}

/// A guest's interfaces, each with a unique address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<GuestInterface>", into = "Vec<GuestInterface>")]
pub struct GuestInterfaces(Vec<GuestInterface>);

impl GuestInterfaces {
    /// The interfaces in their order; none for a guest without a network. Fails if two have one Ethernet address or one
    /// port, or a bridge's name is longer than the 15 bytes that Linux takes.
    pub fn new(interfaces: Vec<GuestInterface>) -> Result<Self, GuestSpecError> {
        let mut macs = BTreeSet::new();
        let mut ports = BTreeSet::new();
        for interface in &interfaces {
            if !macs.insert(interface.mac) {
                return Err(GuestSpecError::Twice {
                    field: "interfaces.mac",
                    what: interface.mac.to_string(),
                });
            }
            // Two ports with one tap would differ only in the last characters of their UUIDs.
            if let InterfaceSource::Port(port) = &interface.source
                && !ports.insert(port.tap())
            {
                return Err(GuestSpecError::Twice {
                    field: "interfaces.port",
                    what: port.id().to_string(),
                });
            }
            if let InterfaceSource::Bridge(name) = &interface.source
                && name.as_str().len() > 15
            {
                return Err(GuestSpecError::text(
                    "interfaces.source",
                    name.as_str(),
                    "a bridge's name has at most 15 bytes",
                ));
            }
        }
        Ok(Self(interfaces))
    }

    /// The interfaces in their order.
    #[must_use]
    pub fn as_slice(&self) -> &[GuestInterface] {
        &self.0
    }

    /// The interfaces that are Neutron ports.
    pub fn ports(&self) -> impl Iterator<Item = (&GuestInterface, &GuestPort)> {
        self.0
            .iter()
            .filter_map(|interface| match &interface.source {
                InterfaceSource::Port(port) => Some((interface, &**port)),
                InterfaceSource::Network(_) | InterfaceSource::Bridge(_) => None,
            })
    }
}

impl TryFrom<Vec<GuestInterface>> for GuestInterfaces {
    type Error = GuestSpecError;

    fn try_from(interfaces: Vec<GuestInterface>) -> Result<Self, GuestSpecError> {
        Self::new(interfaces)
    }
}

impl From<GuestInterfaces> for Vec<GuestInterface> {
    fn from(interfaces: GuestInterfaces) -> Self {
        interfaces.0
    }
}

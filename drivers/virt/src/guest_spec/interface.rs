//! A guest's network interfaces.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

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

/// An Ethernet address of one interface (not a group's, not all zeros).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

impl FromStr for MacAddress {
    type Err = GuestSpecError;

    fn from_str(text: &str) -> Result<Self, GuestSpecError> {
        let refuse = || {
            GuestSpecError::text(
                "interfaces.mac",
                text,
                "six pairs of hexadecimal digits with : between them are expected, the second digit even, not all 0",
            )
        };
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(refuse)?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(refuse());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| refuse())?;
        }
        if parts.next().is_some() || bytes[0] & 1 == 1 || bytes == [0; 6] {
            return Err(refuse());
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

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

//! [`GuestPort`]: a Neutron port of a guest, and how its interface is connected on this host.

use std::fmt;
use std::net::IpAddr;

use berth_model::PciAddress;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::GuestSpecError;
use super::interface::LinkName;
use super::name::Label;
use super::text;

/// A Neutron port that is bound to this host. Its interface is connected ("plugged") before the guest starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PortRecord", into = "PortRecord")]
pub struct GuestPort {
    id: Uuid,
    network: Label,
    addresses: Vec<IpAddr>,
    mtu: Option<u32>,
    connection: PortConnection,
}

/// How the interface of a port is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PortConnection {
    /// By a tap that the agent creates and adds to an Open vSwitch bridge.
    OpenVswitch {
        /// The bridge, such as `br-int`.
        bridge: LinkName,
        /// Who reports that the port works.
        signal: PlugSignal,
    },
    /// By a virtual function of a network card (SR-IOV), which is one of the guest's devices. The hypervisor sets the port's MAC
    /// address and VLAN at the physical function when the guest starts.
    NetworkFunction {
        /// The function's address on the host.
        #[serde(with = "text")]
        address: PciAddress,
        /// The VLAN of the port's network, 1 to 4094; `None`: untagged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vlan: Option<u16>,
        /// Whether the function may receive all traffic and change its MAC address. The agent sets it at the physical function.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        trusted: bool,
    },
    /// By a macvtap of a virtual function, which is one of the guest's devices and stays on its network driver. The agent sets
    /// MAC address, VLAN and trust at the physical function.
    Macvtap {
        /// The function's address on the host.
        #[serde(with = "text")]
        address: PciAddress,
        /// The VLAN of the port's network, 1 to 4094; `None`: untagged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vlan: Option<u16>,
        /// As for [`PortConnection::NetworkFunction`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        trusted: bool,
    },
    /// By a whole network card, a physical function that is one of the guest's devices. The port has the card's MAC address.
    PhysicalFunction {
        /// The function's address on the host.
        #[serde(with = "text")]
        address: PciAddress,
    },
}

/// Who reports that a plugged port works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlugSignal {
    /// `ovn-controller` of this host, by `ovn-installed` of the interface in the switch's database.
    OvnInstalled,
    /// Neutron's Open vSwitch agent of this host, by the VLAN tag of the port in the switch's database: the agent sets it just
    /// before it reports the port as up. 4095 is the tag of a port without a network.
    VlanTag,
}

impl GuestPort {
    /// A port.
    ///
    /// `network` is the name of its Neutron network, `addresses` are its fixed IP addresses, and `mtu` is the network's
    /// MTU in bytes, 68 to 65,535 (`None`: the kernel's default).
    ///
    /// Fails if the UUID is nil, the MTU or the VLAN is out of range, or the bridge's name is longer than the 15 bytes that
    /// Linux takes.
    pub fn new(
        id: Uuid,
        network: Label,
        addresses: Vec<IpAddr>,
        mtu: Option<u32>,
        connection: PortConnection,
    ) -> Result<Self, GuestSpecError> {
        if id.is_nil() {
            let text = id.to_string();
            let expected = "the nil UUID cannot identify a port";
            return Err(GuestSpecError::text("interfaces.port.id", &text, expected));
        }
        if let Some(found) = mtu.filter(|mtu| !(68..=65_535).contains(mtu)) {
            return Err(GuestSpecError::Number {
                field: "interfaces.port.mtu",
                found: found.into(),
                expected: "an MTU is 68 to 65535 bytes",
            });
        }
        match &connection {
            PortConnection::OpenVswitch { bridge, .. } if bridge.as_str().len() > 15 => {
                let expected = "a bridge's name has at most 15 bytes";
                return Err(GuestSpecError::text(
                    "interfaces.port.bridge",
                    bridge.as_str(),
                    expected,
                ));
            }
            PortConnection::NetworkFunction {
                vlan: Some(vlan), ..
            }
            | PortConnection::Macvtap {
                vlan: Some(vlan), ..
            } if !(1..=4094).contains(vlan) => {
                return Err(GuestSpecError::Number {
                    field: "interfaces.port.vlan",
                    found: (*vlan).into(),
                    expected: "a VLAN is 1 to 4094",
                });
            }
            PortConnection::OpenVswitch { .. }
            | PortConnection::NetworkFunction { .. }
            | PortConnection::Macvtap { .. }
            | PortConnection::PhysicalFunction { .. } => {}
        }
        Ok(Self {
            id,
            network,
            addresses,
            mtu,
            connection,
        })
    }

    /// The port's UUID in Neutron.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The name of the port's network in Neutron.
    #[must_use]
    pub fn network(&self) -> &Label {
        &self.network
    }

    /// The port's fixed IP addresses.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The MTU of the port's network in bytes; `None`: the kernel's default.
    #[must_use]
    pub fn mtu(&self) -> Option<u32> {
        self.mtu
    }

    /// How the interface is connected.
    #[must_use]
    pub fn connection(&self) -> &PortConnection {
        &self.connection
    }

    /// The function that connects the port; `None` if it is connected otherwise.
    #[must_use]
    pub fn network_function(&self) -> Option<PciAddress> {
        match self.connection {
            PortConnection::NetworkFunction { address, .. }
            | PortConnection::Macvtap { address, .. }
            | PortConnection::PhysicalFunction { address } => Some(address),
            PortConnection::OpenVswitch { .. } => None,
        }
    }

    /// Whether the port is a whole network card. The hypervisor's definition has such a card as a device, not as an interface.
    #[must_use]
    pub fn is_physical(&self) -> bool {
        matches!(self.connection, PortConnection::PhysicalFunction { .. })
    }

    /// The name of the port's tap: `tap` and the first 11 characters of its UUID, as in Nova and Neutron.
    #[must_use]
    pub fn tap(&self) -> TapName {
        let uuid = self.id.hyphenated().to_string();
        TapName(format!("tap{}", uuid.get(..11).unwrap_or(&uuid)))
    }
}

/// The name of a port's tap, at most 14 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TapName(String);

impl TapName {
    /// The tap of a port by its name; `None` if it is not the name of such a tap.
    #[must_use]
    pub fn of_port_tap(name: &str) -> Option<Self> {
        let id = name.strip_prefix("tap")?;
        let is_hex = |(at, byte): (usize, u8)| match at {
            8 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        let is_name = id.len() == 11 && id.bytes().enumerate().all(is_hex);
        is_name.then(|| Self(name.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Serialised form of [`GuestPort`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortRecord {
    id: Uuid,
    network: Label,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
    connection: PortConnection,
}

impl TryFrom<PortRecord> for GuestPort {
    type Error = GuestSpecError;

    fn try_from(record: PortRecord) -> Result<Self, GuestSpecError> {
        let PortRecord {
            id,
            network,
            addresses,
            mtu,
            connection,
        } = record;
        Self::new(id, network, addresses, mtu, connection)
    }
}

impl From<GuestPort> for PortRecord {
    fn from(port: GuestPort) -> Self {
        Self {
            id: port.id,
            network: port.network,
            addresses: port.addresses,
            mtu: port.mtu,
            connection: port.connection,
        }
    }
}

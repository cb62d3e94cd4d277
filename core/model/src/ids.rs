//! Identifiers. Each kind has its own type, so that a consumer cannot be used as a provider.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use crate::{LinkGroupName, PciAddress};

/// The text is not a UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a UUID (expected 32 hexadecimal digits, usually in five groups)")]
pub struct UuidError {
    text: String,
}

macro_rules! uuid_kind {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// The identifier as a bare UUID.
            #[must_use]
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl FromStr for $name {
            type Err = UuidError;

            fn from_str(text: &str) -> Result<Self, UuidError> {
                Uuid::parse_str(text)
                    .map(Self)
                    .map_err(|_| UuidError { text: text.chars().take(80).collect() })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.hyphenated(), f)
            }
        }
    };
}

uuid_kind!(
    /// A resource provider's UUID.
    ProviderUuid
);
uuid_kind!(
    /// A consumer's UUID: the UUID of an instance or a migration.
    ConsumerUuid
);
uuid_kind!(
    /// An accelerator request's UUID.
    ArqUuid
);
uuid_kind!(
    /// An attach handle's UUID. For a mediated device, it is the UUID of the device.
    AttachHandleUuid
);
uuid_kind!(
    /// A Placement aggregate's UUID.
    AggregateUuid
);

impl ProviderUuid {
    /// The UUID that Berth gives the child `name` of this root: version 5 of the root's UUID and the name. Creating
    /// a child is therefore idempotent, and a child that Berth created is recognised by its UUID.
    #[must_use]
    pub fn child(&self, name: &ProviderName) -> ProviderUuid {
        ProviderUuid(Uuid::new_v5(&self.0, name.as_str().as_bytes()))
    }

    /// The UUID that Cyborg gives the provider of a deployable: version 3 of the name in the DNS name space. A takeover of a host from
    /// Cyborg keeps these providers.
    #[must_use]
    pub fn of_deployable(name: &ProviderName) -> ProviderUuid {
        ProviderUuid(Uuid::new_v3(&Uuid::NAMESPACE_DNS, name.as_str().as_bytes()))
    }
}

impl ProviderUuid {
    /// Whether Cyborg derived it from the name of a deployable. Only Cyborg makes UUIDs of version 3.
    #[must_use]
    pub fn is_of_a_deployable(&self) -> bool {
        self.0.get_version() == Some(uuid::Version::Md5)
    }
}

/// Placement's optimistic-lock counter of a provider or a consumer. It has no arithmetic: only an answer of Placement
/// makes one, so a conflict cannot be resolved by incrementing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(i64);

impl Generation {
    /// The generation in an answer of Placement.
    #[must_use]
    pub const fn answered(value: i64) -> Self {
        Self(value)
    }

    /// The number to send to Placement.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Placement would refuse the name of a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot name a provider: 1 to 200 characters are allowed, this has {length}")]
pub struct ProviderNameError {
    name: String,
    length: usize,
}

/// A provider's name: 1 to 200 characters, unique in one Placement (openstack-placement, resource_providers.name).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderName(Arc<str>);

impl ProviderName {
    /// Checks the length. Fails if the name is empty or longer than 200 characters.
    pub fn new(name: &str) -> Result<Self, ProviderNameError> {
        let length = name.chars().count();
        if length == 0 || length > 200 {
            let name = name.chars().take(80).collect();
            return Err(ProviderNameError { name, length });
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ProviderName {
    type Err = ProviderNameError;

    fn from_str(text: &str) -> Result<Self, ProviderNameError> {
        Self::new(text)
    }
}

/// The text cannot be the name of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} cannot name a node: 1 to 160 characters without white space or control characters are allowed"
)]
pub struct NodeNameError {
    name: String,
}

/// A hypervisor node's name, which is also its root provider's. At most 160 characters, so that the children's names
/// (node name, underscore, device) stay within a provider name's 200.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(ProviderName);

impl NodeName {
    /// Checks length and characters. Fails if the name is empty, longer than 160 characters, or holds white
    /// space or control characters.
    pub fn new(name: &str) -> Result<Self, NodeNameError> {
        let bad = || NodeNameError {
            name: name.chars().take(80).collect(),
        };
        if name.chars().count() > 160 || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(bad());
        }
        ProviderName::new(name).map(Self).map_err(|_| bad())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The name of this node's root provider, which is the same.
    #[must_use]
    pub fn root_name(&self) -> &ProviderName {
        &self.0
    }

    /// The name of a child provider of this node: `<node>_<suffix>` (Nova's pattern, for example
    /// `gpu-01_pci_0000_84_00_0`). Fails if the suffix makes the name longer than a provider's name may be.
    pub fn child_name(&self, suffix: &str) -> Result<ProviderName, ProviderNameError> {
        ProviderName::new(&format!("{}_{suffix}", self.as_str()))
    }

    /// The name of the provider of a PCI device of this node, as Nova gives it: `gpu-01_0000:AB:00.0`, the
    /// address in upper case.
    #[must_use]
    pub fn pci_device_name(&self, address: PciAddress) -> ProviderName {
        self.short_name(&address.to_string().to_ascii_uppercase())
    }

    /// The name of the provider of a deployable of this node, as most of Cyborg's drivers give it: `gpu-01_0000:ab:00.0`.
    #[must_use]
    pub fn deployable_name(&self, address: PciAddress) -> ProviderName {
        self.short_name(&address.to_string())
    }

    /// The name of the provider of a Fabric Manager partition of this node: `gpu-01_fabric_3`.
    #[must_use]
    pub fn fabric_partition_name(&self, id: u32) -> ProviderName {
        self.short_name(&format!("fabric_{id}"))
    }

    /// The name of the provider of a link group of this node: `gpu-01_link-nvlink0`. A group's name has no underscore, so the end
    /// of a provider's name shows what it stands for.
    #[must_use]
    pub fn link_group_name(&self, group: &LinkGroupName) -> ProviderName {
        self.short_name(&format!("link-{group}"))
    }

    /// A node's name has at most 160 characters, an address or a partition 17, and a link group 37, so a provider's 200 are never
    /// exceeded.
    fn short_name(&self, suffix: &str) -> ProviderName {
        ProviderName(format!("{}_{suffix}", self.as_str()).into())
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for NodeName {
    type Err = NodeNameError;

    fn from_str(text: &str) -> Result<Self, NodeNameError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_childs_uuid_depends_on_its_root_and_its_name_alone() {
        let root: ProviderUuid = "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01".parse().unwrap();
        let other: ProviderUuid = "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c02".parse().unwrap();
        let gpu = ProviderName::new("gpu-01_pci_0000_84_00_0").unwrap();
        let numa = ProviderName::new("gpu-01_numa0").unwrap();
        assert_eq!(root.child(&gpu), root.child(&gpu));
        assert_ne!(root.child(&gpu), root.child(&numa));
        assert_ne!(root.child(&gpu), other.child(&gpu));
    }

    #[test]
    fn names_out_of_range_are_refused_with_the_range() {
        assert!(ProviderName::new("").is_err());
        assert!(
            ProviderName::new(&"a".repeat(201))
                .unwrap_err()
                .to_string()
                .contains("200")
        );
        assert!(ProviderName::new(&"é".repeat(200)).is_ok());
        assert!(NodeName::new("two words").is_err());
        assert!(NodeName::new(&"n".repeat(161)).is_err());
    }

    #[test]
    fn a_deployables_uuid_is_the_one_that_cyborg_makes_of_its_name() {
        let measured = ProviderName::new("compute1_FakeDevice").unwrap();
        assert_eq!(
            ProviderUuid::of_deployable(&measured).to_string(),
            "f9d7848a-7688-361f-8e4b-3e58185de5fe"
        );
    }

    #[test]
    fn the_longest_node_has_room_for_the_longest_address_and_link_group() {
        let node = NodeName::new(&"x".repeat(160)).unwrap();
        let address = "ffffffff:ff:1f.7".parse().unwrap();
        for name in [
            node.pci_device_name(address),
            node.deployable_name(address),
            node.fabric_partition_name(u32::MAX),
            node.link_group_name(&LinkGroupName::new(&"g".repeat(32)).unwrap()),
        ] {
            assert_eq!(ProviderName::new(name.as_str()), Ok(name));
        }
    }
}

//! [`QuotaLimits`]: what is limited, and how far. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use berth_model::ResourceClass;

/// The prefix of a resource class, as in Nova's unified limits.
const CLASS: &str = "class:";

/// What a quota limits, by Nova's names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaResource {
    /// Servers of a project.
    Instances,
    /// Processors of the flavors of a project's servers.
    Cores,
    /// Memory of the flavors of a project's servers in MiB.
    Ram,
    /// Metadata items of a server.
    MetadataItems,
    /// Key pairs of a user.
    KeyPairs,
    /// Server groups of a project.
    ServerGroups,
    /// Servers of a server group.
    ServerGroupMembers,
    /// What a project's servers claim of a resource class, as in Nova's unified limits: `class:VGPU`.
    Class(ResourceClass),
}

/// The text names nothing that a quota limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a resource class: write CLASS as Placement does, for example class:VGPU")]
pub struct UnknownQuotaResource(String);

impl QuotaResource {
    /// Those of Nova's quota sets.
    pub const OF_QUOTA_SETS: [Self; 7] = [
        Self::Cores,
        Self::Instances,
        Self::KeyPairs,
        Self::MetadataItems,
        Self::Ram,
        Self::ServerGroupMembers,
        Self::ServerGroups,
    ];

    #[must_use]
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Instances => "instances",
            Self::Cores => "cores",
            Self::Ram => "ram",
            Self::MetadataItems => "metadata_items",
            Self::KeyPairs => "key_pairs",
            Self::ServerGroups => "server_groups",
            Self::ServerGroupMembers => "server_group_members",
            Self::Class(class) => return Cow::Owned(format!("{CLASS}{}", class.as_str())),
        })
    }

    /// The largest limit that the resource can have.
    #[must_use]
    pub fn largest_limit(&self) -> QuotaLimit {
        match self {
            Self::MetadataItems => QuotaLimit::AtMost(MAX_METADATA_ITEMS),
            _ => QuotaLimit::Unlimited,
        }
    }
}

impl fmt::Display for QuotaResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl FromStr for QuotaResource {
    type Err = UnknownQuotaResource;

    fn from_str(text: &str) -> Result<Self, UnknownQuotaResource> {
        if let Some(known) = Self::OF_QUOTA_SETS.into_iter().find(|it| it.name() == text) {
            return Ok(known);
        }
        let class = text
            .strip_prefix(CLASS)
            .and_then(|class| class.parse().ok());
        class
            .map(Self::Class)
            .ok_or_else(|| UnknownQuotaResource(text.to_owned()))
    }
}

/// A limit. The smaller one comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaLimit {
    AtMost(u64),
    Unlimited,
}

impl QuotaLimit {
    /// Of Nova's number: a negative one means unlimited.
    #[must_use]
    pub fn from_number(number: i64) -> Self {
        u64::try_from(number).map_or(Self::Unlimited, Self::AtMost)
    }

    /// Nova's number: -1 for unlimited.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::AtMost(most) => i64::try_from(most).unwrap_or(i64::MAX),
            Self::Unlimited => -1,
        }
    }

    #[must_use]
    pub fn allows(self, amount: u64) -> bool {
        Self::AtMost(amount) <= self
    }
}

/// The most metadata items of a server: what a config drive has room for.
pub const MAX_METADATA_ITEMS: u64 = 128;

/// All limits of a project. What is not listed is unlimited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLimits(BTreeMap<QuotaResource, QuotaLimit>);

/// Nova's defaults.
impl Default for QuotaLimits {
    fn default() -> Self {
        let limits = [
            (QuotaResource::Instances, 10),
            (QuotaResource::Cores, 20),
            (QuotaResource::Ram, 50 * 1024),
            (QuotaResource::MetadataItems, MAX_METADATA_ITEMS),
            (QuotaResource::KeyPairs, 100),
            (QuotaResource::ServerGroups, 10),
            (QuotaResource::ServerGroupMembers, 10),
        ];
        let limits = limits.map(|(resource, most)| (resource, QuotaLimit::AtMost(most)));
        Self(limits.into())
    }
}

impl QuotaLimits {
    /// No limit but that of metadata.
    #[must_use]
    pub fn unlimited() -> Self {
        Self(BTreeMap::new())
    }

    /// With another limit for a resource.
    #[must_use]
    pub fn with(mut self, resource: QuotaResource, limit: QuotaLimit) -> Self {
        self.0.insert(resource, limit);
        self
    }

    #[must_use]
    pub fn of(&self, resource: &QuotaResource) -> QuotaLimit {
        let limit = self.0.get(resource).copied();
        let limit = limit.unwrap_or(QuotaLimit::Unlimited);
        limit.min(resource.largest_limit())
    }

    /// Those of quota sets, and then the resource classes that have a limit of their own.
    pub fn all(&self) -> impl Iterator<Item = (QuotaResource, QuotaLimit)> {
        let named = QuotaResource::OF_QUOTA_SETS.into_iter();
        named.chain(self.classes().cloned()).map(|resource| {
            let limit = self.of(&resource);
            (resource, limit)
        })
    }

    /// The resource classes that have a limit of their own.
    pub fn classes(&self) -> impl Iterator<Item = &QuotaResource> {
        let all = self.0.keys();
        all.filter(|resource| matches!(resource, QuotaResource::Class(_)))
    }

    /// The limits on a project's servers.
    pub fn of_servers(&self) -> impl Iterator<Item = (QuotaResource, QuotaLimit)> {
        let named = [
            QuotaResource::Cores,
            QuotaResource::Instances,
            QuotaResource::Ram,
        ];
        let all = named.into_iter().chain(self.classes().cloned());
        all.map(|resource| {
            let limit = self.of(&resource);
            (resource, limit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_written_as_nova_and_placement_write_it() {
        for name in [
            "instances",
            "ram",
            "server_group_members",
            "class:VGPU",
            "class:CUSTOM_FPGA_X",
        ] {
            let resource: QuotaResource = name.parse().unwrap();
            assert_eq!(resource.to_string(), name);
        }
        for name in ["servers", "class:", "class:vgpu", "VGPU", "class:NOT_KNOWN"] {
            let wrong = name.parse::<QuotaResource>();
            assert!(wrong.is_err(), "{name}");
        }
    }

    #[test]
    fn minus_one_is_unlimited_and_larger_than_every_number() {
        assert_eq!(QuotaLimit::from_number(-1), QuotaLimit::Unlimited);
        assert_eq!(QuotaLimit::Unlimited.number(), -1);
        assert!(QuotaLimit::AtMost(u64::MAX) < QuotaLimit::Unlimited);
        assert!(QuotaLimit::AtMost(3).allows(3) && !QuotaLimit::AtMost(3).allows(4));
        assert!(QuotaLimit::Unlimited.allows(u64::MAX));
    }

    #[test]
    fn metadata_is_never_unlimited() {
        let limits = QuotaLimits::unlimited();
        assert_eq!(
            limits.of(&QuotaResource::MetadataItems),
            QuotaLimit::AtMost(128)
        );
        assert_eq!(limits.of(&QuotaResource::Cores), QuotaLimit::Unlimited);
    }
}

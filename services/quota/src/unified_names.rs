//! The names of quotas in Nova's unified limits. Pure.

use std::borrow::Cow;

use crate::limits::QuotaResource;

/// The names of quotas without effect: files cannot be injected, so their limit is 0.
pub const UNIFIED_FILE_LIMITS: [&str; 3] = [
    "server_injected_file_content_bytes",
    "server_injected_file_path_bytes",
    "server_injected_files",
];

impl QuotaResource {
    /// The name in unified limits. The classes `VCPU` and `MEMORY_MB` have none, because unified limits call `cores` and
    /// `ram` so.
    #[must_use]
    pub fn unified_name(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Instances => Cow::Borrowed("servers"),
            Self::Cores => Cow::Borrowed("class:VCPU"),
            Self::Ram => Cow::Borrowed("class:MEMORY_MB"),
            Self::MetadataItems => Cow::Borrowed("server_metadata_items"),
            Self::KeyPairs => Cow::Borrowed("server_key_pairs"),
            Self::ServerGroups | Self::ServerGroupMembers => self.name(),
            Self::Class(class) if matches!(class.as_str(), "VCPU" | "MEMORY_MB") => return None,
            Self::Class(_) => self.name(),
        })
    }

    /// The quota with a name in unified limits.
    #[must_use]
    pub fn of_unified_name(name: &str) -> Option<Self> {
        let mut named = Self::OF_QUOTA_SETS.into_iter();
        let named = named.find(|it| it.unified_name().as_deref() == Some(name));
        let class = || {
            let parsed: Option<Self> = name.parse().ok();
            parsed.filter(|it| matches!(it, Self::Class(_)))
        };
        named.or_else(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quota_has_novas_unified_name_and_is_found_by_it() {
        for (name, unified) in [
            ("instances", "servers"),
            ("cores", "class:VCPU"),
            ("ram", "class:MEMORY_MB"),
            ("metadata_items", "server_metadata_items"),
            ("key_pairs", "server_key_pairs"),
            ("server_groups", "server_groups"),
            ("server_group_members", "server_group_members"),
            ("class:PCPU", "class:PCPU"),
            ("class:CUSTOM_FPGA", "class:CUSTOM_FPGA"),
        ] {
            let resource: QuotaResource = name.parse().unwrap();
            assert_eq!(resource.unified_name().as_deref(), Some(unified));
            assert_eq!(QuotaResource::of_unified_name(unified), Some(resource));
        }
        for name in ["instances", "cores", "class:vgpu", "class:", "VGPU"] {
            assert_eq!(QuotaResource::of_unified_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_class_whose_unified_name_means_a_quota_of_flavors_has_none() {
        for class in ["class:VCPU", "class:MEMORY_MB"] {
            let resource: QuotaResource = class.parse().unwrap();
            assert_eq!(resource.unified_name(), None);
        }
    }
}

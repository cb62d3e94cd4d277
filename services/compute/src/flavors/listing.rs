//! Filters and sorts lists of flavors; pure. All flavors are read, because there are few.

use std::cmp::Ordering;

use super::ComputeFlavor;

/// The sort key, named after its column in Nova's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlavorSortKey {
    CreatedAt,
    Description,
    /// Equal for all flavors: none is disabled.
    Disabled,
    EphemeralGb,
    FlavorId,
    Id,
    IsPublic,
    MemoryMb,
    Name,
    RootGb,
    RxtxFactor,
    Swap,
    UpdatedAt,
    /// Equal for all flavors.
    VcpuWeight,
    Vcpus,
}

impl FlavorSortKey {
    /// Parses the column name.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "created_at" => Self::CreatedAt,
            "description" => Self::Description,
            "disabled" => Self::Disabled,
            "ephemeral_gb" => Self::EphemeralGb,
            "flavorid" => Self::FlavorId,
            "id" => Self::Id,
            "is_public" => Self::IsPublic,
            "memory_mb" => Self::MemoryMb,
            "name" => Self::Name,
            "root_gb" => Self::RootGb,
            "rxtx_factor" => Self::RxtxFactor,
            "swap" => Self::Swap,
            "updated_at" => Self::UpdatedAt,
            "vcpu_weight" => Self::VcpuWeight,
            "vcpus" => Self::Vcpus,
            _ => return None,
        })
    }

    fn compare(self, one: &ComputeFlavor, other: &ComputeFlavor) -> Ordering {
        let (a, b) = (&one.properties, &other.properties);
        match self {
            Self::CreatedAt => one.created_at.cmp(&other.created_at),
            Self::Description => a.description.cmp(&b.description),
            Self::Disabled | Self::VcpuWeight => Ordering::Equal,
            Self::EphemeralGb => a.ephemeral_gb.cmp(&b.ephemeral_gb),
            Self::FlavorId => a.flavorid.cmp(&b.flavorid),
            Self::Id => one.id.cmp(&other.id),
            Self::IsPublic => a.is_public.cmp(&b.is_public),
            Self::MemoryMb => a.memory_mb.cmp(&b.memory_mb),
            Self::Name => a.name.cmp(&b.name),
            Self::RootGb => a.root_gb.cmp(&b.root_gb),
            Self::RxtxFactor => a.rxtx_factor.total_cmp(&b.rxtx_factor),
            Self::Swap => a.swap.cmp(&b.swap),
            Self::UpdatedAt => one.updated_at.cmp(&other.updated_at),
            Self::Vcpus => a.vcpus.cmp(&b.vcpus),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SortDirection {
    Ascending,
    Descending,
}

/// Selects flavors by visibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Publicity {
    All,
    /// Flavors that the project may use.
    For(Option<String>),
    /// Flavors that are not public.
    Private,
}

/// The filters and the order of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlavorQuery {
    pub(crate) publicity: Publicity,
    /// The minimum memory in MiB.
    pub(crate) min_ram: i64,
    /// The minimum root disk in GiB.
    pub(crate) min_disk: i64,
    pub(crate) key: FlavorSortKey,
    pub(crate) order: SortDirection,
}

impl FlavorQuery {
    /// Returns the selected flavors in order. Equal flavors are ordered by row number.
    pub(crate) fn apply(&self, flavors: Vec<ComputeFlavor>) -> Vec<ComputeFlavor> {
        let mut selected: Vec<ComputeFlavor> = flavors
            .into_iter()
            .filter(|one| self.matches(one))
            .collect();
        selected.sort_by(|one, other| {
            let order = self.key.compare(one, other).then(one.id.cmp(&other.id));
            match self.order {
                SortDirection::Ascending => order,
                SortDirection::Descending => order.reverse(),
            }
        });
        selected
    }

    fn matches(&self, flavor: &ComputeFlavor) -> bool {
        let is_visible = match &self.publicity {
            Publicity::All => true,
            Publicity::For(project) => flavor.is_for(project.as_deref()),
            Publicity::Private => !flavor.properties.is_public,
        };
        is_visible
            && flavor.properties.memory_mb >= self.min_ram
            && flavor.properties.root_gb >= self.min_disk
    }
}

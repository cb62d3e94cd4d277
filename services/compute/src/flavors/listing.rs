//! Which flavors a list has, and in which order; pure. There are few: they are read whole.

use std::cmp::Ordering;

use super::Flavor;

/// What flavors are sorted by. Each is told by its column in Nova's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SortKey {
    CreatedAt,
    Description,
    /// No flavor is disabled: all are alike.
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
    /// No flavor has one: all are alike.
    VcpuWeight,
    Vcpus,
}

impl SortKey {
    /// The key of this word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
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

    fn compare(self, one: &Flavor, other: &Flavor) -> Ordering {
        let (a, b) = (&one.made, &other.made);
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

/// Which way flavors are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Ascending,
    Descending,
}

/// Which flavors are meant, by whose they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Publicity {
    All,
    /// Those that the project may use.
    For(Option<String>),
    /// Those that not all may use.
    Private,
}

/// A list as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Select {
    pub(crate) publicity: Publicity,
    /// At least so much memory, in MiB.
    pub(crate) min_ram: i64,
    /// At least so large a root disk, in GiB.
    pub(crate) min_disk: i64,
    pub(crate) key: SortKey,
    pub(crate) order: Order,
}

impl Select {
    /// The flavors of the list, in its order; those that are alike by their number.
    pub(crate) fn of(&self, flavors: Vec<Flavor>) -> Vec<Flavor> {
        let mut meant: Vec<Flavor> = flavors.into_iter().filter(|one| self.has(one)).collect();
        meant.sort_by(|one, other| {
            let order = self.key.compare(one, other).then(one.id.cmp(&other.id));
            match self.order {
                Order::Ascending => order,
                Order::Descending => order.reverse(),
            }
        });
        meant
    }

    fn has(&self, flavor: &Flavor) -> bool {
        let theirs = match &self.publicity {
            Publicity::All => true,
            Publicity::For(project) => flavor.is_for(project.as_deref()),
            Publicity::Private => !flavor.made.is_public,
        };
        theirs && flavor.made.memory_mb >= self.min_ram && flavor.made.root_gb >= self.min_disk
    }
}

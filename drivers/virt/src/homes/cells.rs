//! Distributes an allocation over NUMA cells: by the guest's cells, or to any one cell.

use std::collections::BTreeMap;

use berth_model::{Home, HomelessReason, Homes, Provider, ProviderUuid, ResourceClass};

use super::{HomeQuery, at};
use crate::provider_tree::cell_name;
use crate::{GuestCell, GuestCpuPolicy, GuestView, guest_allocations};

/// Amounts by class; several if an allocation is split (VCPU into VCPU and PCPU).
pub(super) type Parts = Vec<(ResourceClass, u64)>;

/// The resource of a guest's cells that is distributed.
#[derive(Debug, Clone, Copy)]
pub(super) enum CellShare {
    /// CPUs. Those covered by another allocation are subtracted from the first cells.
    Cpus {
        /// The number of CPUs to subtract.
        taken: u64,
    },
    /// Memory of the cells, in MiB.
    Memory,
}

impl CellShare {
    fn of(self, cell: &GuestCell) -> u64 {
        match self {
            CellShare::Cpus { .. } => cell.vcpus,
            CellShare::Memory => cell.memory_mib,
        }
    }

    fn subtracted(self) -> u64 {
        match self {
            CellShare::Cpus { taken } => taken,
            CellShare::Memory => 0,
        }
    }

    /// What the consumer already holds of the resource on a cell's provider.
    fn held_on(self, query: &HomeQuery<'_>, provider: ProviderUuid) -> u64 {
        let classes = match self {
            CellShare::Cpus { .. } => vec![ResourceClass::VCPU, ResourceClass::PCPU],
            CellShare::Memory => vec![ResourceClass::MEMORY_MB],
        };
        let held = classes.iter().flat_map(|class| query.allocated(class));
        held.filter(|(place, _)| *place == provider)
            .map(|(_, amount)| amount)
            .sum()
    }
}

/// The homes of `parts` on the cells of a guest.
pub(super) fn spread(
    query: &HomeQuery<'_>,
    guest: &GuestView,
    parts: Parts,
    share: CellShare,
) -> Homes {
    let cells = if guest.cells.is_empty() {
        match one_cell_for_all(query, guest) {
            Some(cell) => vec![cell],
            None => return any_of(query, parts),
        }
    } else {
        guest.cells.clone()
    };
    on_cells(query, &cells, parts, share)
}

/// Moves all parts to the first cell with room for them and the rest of the guest.
pub(super) fn any_of(query: &HomeQuery<'_>, parts: Parts) -> Homes {
    let Some((class, _)) = parts.into_iter().next() else {
        return Homes::Nowhere(HomelessReason::Unknown);
    };
    let cells = providers(query);
    let offering = |cell: &&Provider| cell.inventories.contains_key(&class);
    let choices: Vec<_> = cells
        .values()
        .copied()
        .filter(offering)
        .map(Provider::uuid)
        .collect();
    match (choices.is_empty(), cells.values().next()) {
        (true, Some(first)) => Homes::Nowhere(HomelessReason::NoRoom {
            provider: first.name.clone(),
        }),
        _ => Homes::AnyOf {
            class,
            providers: choices,
        },
    }
}

/// The cells' providers in the wanted tree, by cell number.
pub(super) fn providers<'a>(query: &HomeQuery<'a>) -> BTreeMap<u32, &'a Provider> {
    query
        .seen
        .cells
        .iter()
        .filter_map(|cell| {
            let name = cell_name(query.node, cell.id).ok()?;
            Some((cell.id, query.tree.by_name(&name)?))
        })
        .collect()
}

/// A guest with pinned and shared CPUs but without NUMA placement: both classes must go to the same cell, which "any of
/// several" cannot express. The guest gets the cell left for it after all guests are counted, or the first one.
fn one_cell_for_all(query: &HomeQuery<'_>, guest: &GuestView) -> Option<GuestCell> {
    if !matches!(guest.cpu_policy, GuestCpuPolicy::Mixed { .. }) {
        return None;
    }
    let claims = guest_allocations(query.seen, query.node, query.tree);
    let mut guests = query.seen.guests.iter();
    let (uuid, _) = guests.find(|(_, other)| std::ptr::eq(*other, guest))?;
    let claimed = claims.get(uuid)?;
    let cells = providers(query);
    let is_claimed =
        |cell: &Provider| (claimed.keys()).any(|(provider, _)| *provider == cell.uuid());
    let chosen = cells.iter().find(|(_, cell)| is_claimed(cell));
    let (id, _) = chosen.or_else(|| cells.iter().next())?;
    Some(GuestCell {
        host_cell: *id,
        vcpus: guest.vcpus,
        memory_mib: guest.memory_mib,
    })
}

/// Fills the cells in the guest's order, minus what is already there. The remainder goes to the guest's first cell.
/// Shares of a cell unknown to the host do not move.
fn on_cells(query: &HomeQuery<'_>, cells: &[GuestCell], parts: Parts, share: CellShare) -> Homes {
    let providers = providers(query);
    let provider = |cell: &GuestCell| providers.get(&cell.host_cell).map(|p| p.uuid());
    let gone = cells.iter().find(|cell| provider(cell).is_none());
    let mut taken = share.subtracted();
    let mut shares = Vec::new();
    for cell in cells {
        let there = provider(cell).map_or(0, |provider| share.held_on(query, provider));
        let room = share.of(cell).saturating_sub(there);
        let free = room.saturating_sub(taken);
        taken = taken.saturating_sub(room);
        shares.extend(provider(cell).map(|provider| (provider, free)));
    }
    let (mut homes, left) = fill(&shares, parts);
    let Some(gone) = gone else {
        if let Some((first, _)) = shares.first() {
            homes.extend(left.into_iter().map(|(class, amount)| Home {
                provider: *first,
                class,
                amount,
            }));
        }
        return at(homes, HomelessReason::Unknown);
    };
    let device = format!("{}_numa{}", query.node, gone.host_cell);
    at(homes, HomelessReason::DeviceGone { device })
}

/// Distributes the parts over the shares in order, and returns the remainder.
fn fill(shares: &[(ProviderUuid, u64)], parts: Parts) -> (Vec<Home>, Parts) {
    let mut homes = Vec::new();
    let mut room: Vec<_> = shares.to_vec();
    let mut left = Parts::new();
    for (class, mut amount) in parts {
        for (provider, free) in &mut room {
            let taken = amount.min(*free);
            if taken > 0 {
                let class = class.clone();
                homes.push(Home {
                    provider: *provider,
                    class,
                    amount: taken,
                });
            }
            *free -= taken;
            amount -= taken;
        }
        if amount > 0 {
            left.push((class, amount));
        }
    }
    (homes, left)
}

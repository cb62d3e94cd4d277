//! Where CPUs move: VCPU or PCPU by the guest's policy, on the root or on the guest's cells.

use berth_model::{Home, HomelessReason, Homes, ProviderUuid, ResourceClass};

use super::cells::Parts;
use super::{HomeQuery, at, cells};
use crate::provider_tree::{cells_are_modelled, dedicated_are_pcpu};
use crate::{GuestCpuPolicy, GuestView, PcpuModel};

pub(super) fn homes(query: &HomeQuery<'_>) -> Homes {
    let guest = query.guest();
    let parts = parts(query, guest);
    match (place(query), guest) {
        (Some(provider), None) if stays_unoffered(query, provider, &parts) => {
            Homes::Nowhere(query.without_guest())
        }
        (Some(provider), _) => at(in_one_place(provider, parts), HomelessReason::Unknown),
        (None, Some(guest)) => cells::spread(query, guest, parts, share(query)),
        (None, None) => Homes::Nowhere(query.without_guest()),
    }
}

/// The provider for all units regardless of the guest's cells: the root if it has the CPUs, or the current cell.
fn place(query: &HomeQuery<'_>) -> Option<ProviderUuid> {
    let here = query.allocation.provider;
    if !cells_are_modelled(query.seen) {
        Some(query.root())
    } else if !query.is_on_root() && query.tree.get(here).is_some() {
        Some(here)
    } else {
        None
    }
}

/// The guest's CPUs, minus those of a PCPU allocation that moves at the same time.
fn share(query: &HomeQuery<'_>) -> cells::CellShare {
    let cells = cells::providers(query);
    let is_on_cell = |provider| cells.values().any(|cell| cell.uuid() == provider);
    let taken = if query.allocation.class == ResourceClass::PCPU {
        0
    } else {
        let pcpu = ResourceClass::PCPU;
        let pcpus = query.allocated(&pcpu);
        let leaving = pcpus.filter(|(provider, _)| !is_on_cell(*provider));
        leaving.map(|(_, amount)| amount).sum()
    };
    cells::CellShare::Cpus { taken }
}

/// Whether units of an unknown guest would stay in a class that is no longer offered there.
fn stays_unoffered(query: &HomeQuery<'_>, provider: ProviderUuid, parts: &Parts) -> bool {
    provider == query.allocation.provider
        && parts
            .iter()
            .any(|(class, _)| query.tree.inventory(provider, class).is_none())
}

fn in_one_place(provider: ProviderUuid, parts: Parts) -> Vec<Home> {
    parts
        .into_iter()
        .map(|(class, amount)| Home {
            provider,
            class,
            amount,
        })
        .collect()
}

/// The allocation split into its new classes, the pinned part first.
fn parts(query: &HomeQuery<'_>, guest: Option<&GuestView>) -> Parts {
    let amount = query.allocation.amount;
    let pinned = match query.seen.model.pcpu {
        PcpuModel::Vcpu => 0,
        PcpuModel::Pcpu if query.allocation.class == ResourceClass::PCPU => amount,
        PcpuModel::Pcpu if dedicated_are_pcpu(query.seen) => pinned(query, guest).min(amount),
        PcpuModel::Pcpu => 0,
    };
    let parts = [
        (ResourceClass::PCPU, pinned),
        (ResourceClass::VCPU, amount - pinned),
    ];
    parts.into_iter().filter(|(_, part)| *part > 0).collect()
}

/// The number of pinned CPUs among the units. For an unknown guest all count as shared.
fn pinned(query: &HomeQuery<'_>, guest: Option<&GuestView>) -> u64 {
    let Some(guest) = guest else {
        return 0;
    };
    match guest.cpu_policy {
        GuestCpuPolicy::Shared => 0,
        GuestCpuPolicy::Dedicated => u64::MAX,
        GuestCpuPolicy::Mixed { dedicated } => {
            let pcpu = ResourceClass::PCPU;
            let pcpus = query.allocated(&pcpu);
            let as_pcpu: u64 = pcpus.map(|(_, amount)| amount).sum();
            share_of_pinned(query, guest, dedicated.saturating_sub(as_pcpu))
        }
    }
}

/// This allocation's part of the pinned CPUs that the consumer holds as VCPU. They are distributed over all its
/// VCPU allocations in a fixed order, so that no CPU counts twice: first allocations that cannot stay VCPU, then
/// by the guest's cells.
fn share_of_pinned(query: &HomeQuery<'_>, guest: &GuestView, mut pinned: u64) -> u64 {
    let vcpu = &ResourceClass::VCPU;
    let cells = cells::providers(query);
    let position = |provider| {
        let mut own = guest.cells.iter().map(|cell| cells.get(&cell.host_cell));
        own.position(|cell| cell.is_some_and(|cell| cell.uuid() == provider))
            .unwrap_or(usize::MAX)
    };
    let mut held: Vec<_> = query.allocated(vcpu).collect();
    held.sort_by_key(|(provider, _)| {
        let stays = query.tree.inventory(*provider, vcpu).is_some();
        (stays, position(*provider), *provider)
    });
    for (provider, amount) in held {
        let here = pinned.min(amount);
        if provider == query.allocation.provider {
            return here;
        }
        pinned -= here;
    }
    0
}

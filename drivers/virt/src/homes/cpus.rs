//! Where CPUs move: VCPU or PCPU by the guest's policy, on the root or on the guest's cells.

use berth_model::{Home, HomelessReason, Homes, ProviderUuid, ResourceClass};

use super::cells::Parts;
use super::{Asked, at, cells};
use crate::provider_tree::{cells_are_modelled, dedicated_are_pcpu};
use crate::{CpuPolicy, GuestView, PcpuModel};

pub(super) fn homes(asked: &Asked<'_>) -> Homes {
    let guest = asked.guest();
    let parts = parts(asked, guest);
    match (place(asked), guest) {
        (Some(provider), None) if stays_unoffered(asked, provider, &parts) => {
            Homes::Nowhere(asked.without_guest())
        }
        (Some(provider), _) => at(in_one_place(provider, parts), HomelessReason::Unknown),
        (None, Some(guest)) => cells::spread(asked, guest, parts, share(asked)),
        (None, None) => Homes::Nowhere(asked.without_guest()),
    }
}

/// The provider for all units regardless of the guest's cells: the root if it has the CPUs, or the current cell.
fn place(asked: &Asked<'_>) -> Option<ProviderUuid> {
    let here = asked.allocation.provider;
    if !cells_are_modelled(asked.seen) {
        Some(asked.root())
    } else if !asked.is_on_root() && asked.tree.get(here).is_some() {
        Some(here)
    } else {
        None
    }
}

/// The guest's CPUs, minus those of a PCPU allocation that moves at the same time.
fn share(asked: &Asked<'_>) -> cells::Share {
    let cells = cells::providers(asked);
    let is_on_cell = |provider| cells.values().any(|cell| cell.uuid() == provider);
    let taken = if asked.allocation.class == ResourceClass::PCPU {
        0
    } else {
        let pcpu = ResourceClass::PCPU;
        let pcpus = asked.held(&pcpu);
        let leaving = pcpus.filter(|(provider, _)| !is_on_cell(*provider));
        leaving.map(|(_, amount)| amount).sum()
    };
    cells::Share::Cpus { taken }
}

/// Whether units of an unknown guest would stay in a class that is no longer offered there.
fn stays_unoffered(asked: &Asked<'_>, provider: ProviderUuid, parts: &Parts) -> bool {
    provider == asked.allocation.provider
        && parts
            .iter()
            .any(|(class, _)| asked.tree.inventory(provider, class).is_none())
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
fn parts(asked: &Asked<'_>, guest: Option<&GuestView>) -> Parts {
    let amount = asked.allocation.amount;
    let pinned = match asked.seen.model.pcpu {
        PcpuModel::Vcpu => 0,
        PcpuModel::Pcpu if asked.allocation.class == ResourceClass::PCPU => amount,
        PcpuModel::Pcpu if dedicated_are_pcpu(asked.seen) => pinned(asked, guest).min(amount),
        PcpuModel::Pcpu => 0,
    };
    let parts = [
        (ResourceClass::PCPU, pinned),
        (ResourceClass::VCPU, amount - pinned),
    ];
    parts.into_iter().filter(|(_, part)| *part > 0).collect()
}

/// The number of pinned CPUs among the units. For an unknown guest all count as shared.
fn pinned(asked: &Asked<'_>, guest: Option<&GuestView>) -> u64 {
    let Some(guest) = guest else {
        return 0;
    };
    match guest.cpu_policy {
        CpuPolicy::Shared => 0,
        CpuPolicy::Dedicated => u64::MAX,
        CpuPolicy::Mixed { dedicated } => {
            let pcpu = ResourceClass::PCPU;
            let pcpus = asked.held(&pcpu);
            let as_pcpu: u64 = pcpus.map(|(_, amount)| amount).sum();
            dealt_here(asked, guest, dedicated.saturating_sub(as_pcpu))
        }
    }
}

/// This allocation's part of the pinned CPUs that the consumer holds as VCPU. They are distributed over all its VCPU
/// allocations in a fixed order, so that no CPU counts twice: first those that cannot stay VCPU, then by the guest's
/// cells.
fn dealt_here(asked: &Asked<'_>, guest: &GuestView, mut pinned: u64) -> u64 {
    let vcpu = &ResourceClass::VCPU;
    let cells = cells::providers(asked);
    let position = |provider| {
        let mut own = guest.cells.iter().map(|cell| cells.get(&cell.host_cell));
        own.position(|cell| cell.is_some_and(|cell| cell.uuid() == provider))
            .unwrap_or(usize::MAX)
    };
    let mut held: Vec<_> = asked.held(vcpu).collect();
    held.sort_by_key(|(provider, _)| {
        let stays = asked.tree.inventory(*provider, vcpu).is_some();
        (stays, position(*provider), *provider)
    });
    for (provider, amount) in held {
        let here = pinned.min(amount);
        if provider == asked.allocation.provider {
            return here;
        }
        pinned -= here;
    }
    0
}

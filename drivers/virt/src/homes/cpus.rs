//! Homes of CPUs: VCPU or PCPU by the guest's policy, on the root or on the guest's cells.

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
            Homes::Nowhere(HomelessReason::NoGuest)
        }
        (Some(provider), _) => at(in_one_place(provider, parts), HomelessReason::Unknown),
        (None, Some(guest)) => cells::spread(asked, guest, parts, share(asked)),
        (None, None) => Homes::Nowhere(HomelessReason::NoGuest),
    }
}

/// The provider that all of it goes to, whatever the guest's cells are: the root where it has the CPUs, the cell it is on
/// already.
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

/// The guest's CPUs, less those that its PCPU allocation beside this one stands for.
fn share(asked: &Asked<'_>) -> cells::Share {
    let taken = if asked.allocation.class == ResourceClass::PCPU {
        0
    } else {
        held_as_pcpu(asked)
    };
    cells::Share::Cpus { taken }
}

/// Units of nobody known would stay as they are, in a class that is not offered there any more.
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

/// The allocation by the classes it has from now on, the pinned part first.
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

/// How many of the guest's CPUs are pinned and not held as PCPU already. Those of an unknown guest count as shared.
fn pinned(asked: &Asked<'_>, guest: Option<&GuestView>) -> u64 {
    match guest.map(|guest| guest.cpu_policy) {
        None | Some(CpuPolicy::Shared) => 0,
        Some(CpuPolicy::Dedicated) => u64::MAX,
        Some(CpuPolicy::Mixed { dedicated }) => dedicated.saturating_sub(held_as_pcpu(asked)),
    }
}

fn held_as_pcpu(asked: &Asked<'_>) -> u64 {
    let held = asked.all.of(&asked.allocation.consumer);
    held.into_iter()
        .flat_map(|held| &held.resources)
        .filter(|((provider, class), _)| {
            *class == ResourceClass::PCPU && asked.is_on_tree(*provider)
        })
        .map(|(_, amount)| amount)
        .sum()
}

//! Where virtual functions of network cards move: to the root, or to the cells of the cards of the guest's functions.

use std::collections::BTreeMap;

use berth_model::{Home, HomelessReason, Homes, PciAddress, ProviderUuid};

use super::{Asked, at, cells};
use crate::provider_tree::{card_cell, cell_name, cells_are_modelled};
use crate::{GuestView, VirtualFunctions};

pub(super) fn homes(asked: &Asked<'_>) -> Homes {
    if !cells_are_modelled(asked.seen) {
        return asked.whole(asked.root(), asked.allocation.class.clone());
    }
    let Some(guest) = asked.guest() else {
        return Homes::Nowhere(asked.without_guest());
    };
    let mut homes: BTreeMap<ProviderUuid, u64> = BTreeMap::new();
    for cell in cells_of(asked, guest) {
        *homes.entry(cell).or_insert(0) += 1;
    }
    if homes.is_empty() {
        let all = (asked.allocation.class.clone(), asked.allocation.amount);
        return cells::any_of(asked, vec![all]);
    }
    let homes = homes.into_iter().map(|(provider, amount)| Home {
        provider,
        class: asked.allocation.class.clone(),
        amount,
    });
    at(homes.collect(), HomelessReason::Unknown)
}

/// The cell of each of the guest's functions of this class, in the order of their addresses, at most the amount.
fn cells_of(asked: &Asked<'_>, guest: &GuestView) -> Vec<ProviderUuid> {
    let units = usize::try_from(asked.allocation.amount).unwrap_or(usize::MAX);
    let cells = guest.functions.iter().filter_map(|function| {
        let card = card_of(asked, *function)?;
        let name = cell_name(asked.node, card_cell(asked.seen, card)?).ok()?;
        Some(asked.tree.by_name(&name)?.uuid())
    });
    cells.take(units).collect()
}

fn card_of<'a>(asked: &Asked<'a>, function: PciAddress) -> Option<&'a VirtualFunctions> {
    let mut cards = asked.seen.functions.iter();
    cards.find(|card| card.class == asked.allocation.class && card.addresses.contains(&function))
}

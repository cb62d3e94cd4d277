//! Where virtual functions of network cards move: to the root, or to the cells of the cards of the guest's functions.

use std::collections::BTreeMap;

use berth_model::{Home, HomelessReason, Homes, PciAddress, ProviderUuid};

use super::{HomeQuery, at, cells};
use crate::provider_tree::{card_cell, cell_name, cells_are_modelled};
use crate::{GuestView, VirtualFunctions};

pub(super) fn homes(query: &HomeQuery<'_>) -> Homes {
    if !cells_are_modelled(query.seen) {
        return query.single_home(query.root(), query.allocation.class.clone());
    }
    let Some(guest) = query.guest() else {
        return Homes::Nowhere(query.without_guest());
    };
    let mut homes: BTreeMap<ProviderUuid, u64> = BTreeMap::new();
    for cell in cells_of(query, guest) {
        *homes.entry(cell).or_insert(0) += 1;
    }
    if homes.is_empty() {
        let all = (query.allocation.class.clone(), query.allocation.amount);
        return cells::any_of(query, vec![all]);
    }
    let homes = homes.into_iter().map(|(provider, amount)| Home {
        provider,
        class: query.allocation.class.clone(),
        amount,
    });
    at(homes.collect(), HomelessReason::Unknown)
}

/// The cell of each of the guest's functions of this class, in the order of their addresses, at most the amount.
fn cells_of(query: &HomeQuery<'_>, guest: &GuestView) -> Vec<ProviderUuid> {
    let units = usize::try_from(query.allocation.amount).unwrap_or(usize::MAX);
    let cells = guest.functions.iter().filter_map(|function| {
        let card = card_of(query, *function)?;
        let name = cell_name(query.node, card_cell(query.seen, card)?).ok()?;
        Some(query.tree.by_name(&name)?.uuid())
    });
    cells.take(units).collect()
}

fn card_of<'a>(query: &HomeQuery<'a>, function: PciAddress) -> Option<&'a VirtualFunctions> {
    let mut cards = query.seen.functions.iter();
    cards.find(|card| card.class == query.allocation.class && card.addresses.contains(&function))
}

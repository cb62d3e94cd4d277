//! Where memory moves: to the root, or to the guest's cells.

use berth_model::Homes;

use super::{HomeQuery, cells};
use crate::provider_tree::cells_are_modelled;

pub(super) fn homes(query: &HomeQuery<'_>) -> Homes {
    let class = query.allocation.class.clone();
    if !cells_are_modelled(query.seen) {
        return query.single_home(query.root(), class);
    }
    let Some(guest) = query.guest() else {
        return Homes::Nowhere(query.without_guest());
    };
    let parts = vec![(class, query.allocation.amount)];
    cells::spread(query, guest, parts, cells::CellShare::Memory)
}

//! Where memory moves: to the root, or to the guest's cells.

use berth_model::Homes;

use super::{Asked, cells};
use crate::provider_tree::cells_are_modelled;

pub(super) fn homes(asked: &Asked<'_>) -> Homes {
    let class = asked.allocation.class.clone();
    if !cells_are_modelled(asked.seen) {
        return asked.whole(asked.root(), class);
    }
    let Some(guest) = asked.guest() else {
        return Homes::Nowhere(asked.without_guest());
    };
    let parts = vec![(class, asked.allocation.amount)];
    cells::spread(asked, guest, parts, cells::Share::Memory)
}

//! Where a guest would be with each of several allocations: for whoever claims one of them and wants the devices near.
//!
//! It is the same fit and the same pick as a build's, without the lock and without a trace: what it says may not hold a moment
//! later, and the build itself decides.

use std::sync::Arc;

use berth_virt::VirtDriver;
use berth_wire::guest::{GuestBuild, PlaceBody, PlacesAsked};

use crate::create::error::BuildError;
use crate::create::parse::Asked;
use crate::create::usage::{held, taken};
use crate::create::{devices, host_check};
use crate::fit::{Affinity, NearDevice, Placed, fit};
use crate::guests::{Guests, GuestsError};
use crate::resources::GuestResources;

/// How many allocations are compared at once.
const MOST: usize = 64;

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Where the guest would be with each of the allocations, in their order.
    pub async fn places(&self, asked: &PlacesAsked) -> Result<Vec<PlaceBody>, BuildError> {
        let building = self.building.as_ref().ok_or(BuildError::NotHere)?;
        let found = asked.allocations.len();
        if !(1..=MOST).contains(&found) {
            let reason = format!("1 to {MOST} are expected, not {found}");
            return Err(BuildError::field("allocations", reason));
        }
        let with = |allocations| GuestBuild {
            allocations,
            ..asked.build.clone()
        };
        let all = asked.allocations.iter().cloned().map(with);
        let all = all.map(|build| Asked::of(&build, &building.options));
        let all: Vec<Asked> = all.collect::<Result<_, _>>()?;
        let Some(first) = all.first() else {
            return Ok(Vec::new());
        };
        let seen = self.look(building, &first.node).await?;
        host_check::cells(&first.limits, &seen)?;
        let tree = (building.trees)(&first.node);
        let journal = &self.inner.context.journal;
        let records = journal.guests().await.map_err(GuestsError::from)?;
        let records = || records.iter().map(Arc::as_ref);
        let own = records().filter(|record| record.request.node() == &first.node);
        let (taken, held) = (taken(records(), &seen), held(own, &seen));
        let place = |asked: &Asked| {
            let picks = devices::pick(asked, &seen, tree.as_deref(), &taken)?;
            let mut limits = asked.limits.clone();
            limits.host_cells = limits.host_cells.or(picks.host_cells);
            let placed = fit(&asked.placement, &seen, &held, &picks.near, &limits)?;
            Ok::<_, BuildError>(body(&placed, &picks.near))
        };
        let refused = |error: BuildError| PlaceBody {
            refused: Some(error.to_string()),
            ..PlaceBody::default()
        };
        let places = all.iter().map(|asked| place(asked).unwrap_or_else(refused));
        Ok(places.collect())
    }
}

fn body(placed: &Placed, near: &[NearDevice]) -> PlaceBody {
    let cells = placed.topology.cells().iter();
    let host_cells: Vec<u32> = cells.map(|cell| cell.host_cell).collect();
    let is_far = |device: &&NearDevice| {
        let elsewhere = |cell| !host_cells.is_empty() && !host_cells.contains(&cell);
        device.affinity != Affinity::None && device.cell.is_some_and(elsewhere)
    };
    PlaceBody {
        far: near.iter().filter(is_far).count(),
        host_cells,
        refused: None,
    }
}

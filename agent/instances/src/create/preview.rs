//! Shows where an instance would be placed with each of several allocations, so that a client can choose the one with
//! the nearest devices.
//!
//! Uses the same fit and device selection as a build, without the placement lock and without side effects. The result may be
//! outdated at once; the build decides.

use std::sync::Arc;

use berth_model::Affinity;
use berth_virt::VirtDriver;
use berth_wire::guest::{GuestBuild, PlaceBody, PlacesAsked};

use crate::create::error::BuildError;
use crate::create::parse::ParsedBuild;
use crate::create::usage::{devices_in_use, host_usage};
use crate::create::{devices, host_check};
use crate::fit::{GuestFit, NearDevice, fit};
use crate::guests::{Guests, GuestsError};
use crate::resources::GuestResources;

/// Maximum number of allocations per call.
const MOST: usize = 64;

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// The placement for each of the allocations, in their order.
    pub async fn preview_placements(
        &self,
        asked: &PlacesAsked,
    ) -> Result<Vec<PlaceBody>, BuildError> {
        let build_context = self.build_context.as_ref();
        let build_context = build_context.ok_or(BuildError::BuildsNotSupported)?;
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
        let all = all.map(|build| ParsedBuild::of(&build, &build_context.options));
        let all: Vec<ParsedBuild> = all.collect::<Result<_, _>>()?;
        let Some(first) = all.first() else {
            return Ok(Vec::new());
        };
        let seen = self.observe_node(build_context, &first.node).await?;
        host_check::check_cells(&first.limits, &seen)?;
        host_check::check_machine(&first.spec.machine, &seen)?;
        let tree = (build_context.provider_trees)(&first.node);
        let journal = &self.inner.context.journal;
        let records = journal.guests().await.map_err(GuestsError::from)?;
        let records = || records.iter().map(Arc::as_ref);
        let own = records().filter(|record| record.request.node() == &first.node);
        let (taken, held) = (devices_in_use(records(), &seen), host_usage(own, &seen));
        let place = |asked: &ParsedBuild| {
            let picks = devices::pick(asked, &seen, tree.as_deref(), &taken)?;
            let mut limits = asked.limits.clone();
            limits.host_cells = limits.host_cells.or(picks.host_cells);
            let placed = fit(&asked.placement, &seen, &held, &picks.near_devices, &limits)?;
            Ok::<_, BuildError>(body(&placed, &picks.near_devices))
        };
        let refused = |error: BuildError| PlaceBody {
            refused: Some(error.to_string()),
            ..PlaceBody::default()
        };
        let places = all.iter().map(|asked| place(asked).unwrap_or_else(refused));
        Ok(places.collect())
    }
}

fn body(placed: &GuestFit, near: &[NearDevice]) -> PlaceBody {
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

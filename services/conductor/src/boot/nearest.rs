//! Of a host's candidates those first whose devices are near the cells that the guest would be on.
//!
//! Placement knows no distances: which cells of the host have room, and on which of them a device hangs, its agent knows. So
//! it is asked where the guest would be with each candidate, before one is claimed. That is an order and no promise: the
//! agent decides when it builds, and one that does not answer changes nothing.

use std::time::Duration;

use berth_client::placement::Candidate;
use berth_model::NodeName;
use berth_wire::guest::{LimitsBody, PlaceBody, PlacesAsked};
use tokio::time::timeout;

use super::Requested;
use crate::way::Way;

/// How long an agent may take to compare them: others wait for their turn to search meanwhile.
const WITHIN: Duration = Duration::from_secs(3);

/// How many candidates an agent compares at once; those after them keep their places.
const MOST: usize = 64;

/// Extra specs with this in front may give a guest cells of its own; without cells everything is near.
const CELLS: &str = "hw:";

impl Requested {
    /// The host's candidates, those with the fewest far devices first, and last those that its agent would refuse.
    pub(super) async fn nearest_first(
        &self,
        way: &Way,
        node: &NodeName,
        limits: &LimitsBody,
        mut candidates: Vec<Candidate>,
    ) -> Vec<Candidate> {
        let flavor = &self.record.request.body().flavor;
        let has_cells = flavor.extra_specs.keys().any(|key| key.starts_with(CELLS));
        let Some(agent) = way.agents.agent(node) else {
            return candidates;
        };
        if candidates.len() < 2 || !has_cells {
            return candidates;
        }
        let rest = candidates.split_off(candidates.len().min(MOST));
        let asked = PlacesAsked {
            build: self.record.request.build_on(node, limits),
            allocations: candidates.iter().map(Candidate::by_provider).collect(),
        };
        let told = timeout(WITHIN, agent.places(&asked)).await;
        match told {
            Err(_) => tracing::debug!(%node, "an agent takes too long to compare candidates"),
            Ok(Ok(places)) if places.len() == candidates.len() => {
                candidates = ordered(candidates, &places);
            }
            Ok(Ok(places)) => {
                let told = places.len();
                tracing::debug!(%node, told, "an agent compared other candidates than it was asked");
            }
            Ok(Err(error)) => {
                tracing::debug!(%node, %error, "an agent does not compare candidates")
            }
        }
        candidates.extend(rest);
        candidates
    }
}

fn ordered(candidates: Vec<Candidate>, places: &[PlaceBody]) -> Vec<Candidate> {
    let distance = |place: &PlaceBody| match place.refused {
        Some(_) => usize::MAX,
        None => place.far,
    };
    let mut order: Vec<(usize, Candidate)> = places.iter().map(distance).zip(candidates).collect();
    order.sort_by_key(|(distance, _)| *distance);
    order.into_iter().map(|(_, candidate)| candidate).collect()
}

//! Orders a host's allocation candidates by NUMA distance between devices and CPUs.
//!
//! Placement has no NUMA distances. The host's agent knows which cells have room, and to which cell each device
//! belongs. So the conductor asks the agent to compare the candidates before one is claimed. The order is only a
//! preference: the agent decides again when it builds the guest. If the agent does not answer, the order is
//! unchanged.

use std::time::Duration;

use berth_client::placement::Candidate;
use berth_wire::guest::{LimitsBody, PlaceBody, PlacesAsked};
use tokio::time::timeout;

use super::RequestedBoot;
use crate::HostNode;
use crate::boot_context::BootContext;

/// Timeout of the agent's comparison; other guests wait for a search permit meanwhile.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of candidates to compare; the others follow in their order.
const MAX_COMPARED: usize = 64;

/// Prefix of the extra specs that may give a guest a NUMA topology. Without a topology, distances do not matter.
const NUMA_SPEC_PREFIX: &str = "hw:";

impl RequestedBoot {
    /// The host's candidates, sorted by the number of distant devices; candidates that the agent
    /// would refuse come last.
    pub(super) async fn order_by_numa_distance(
        &self,
        context: &BootContext,
        node: &HostNode,
        limits: &LimitsBody,
        mut candidates: Vec<Candidate>,
    ) -> Vec<Candidate> {
        let flavor = &self.record.request.body().flavor;
        let wants_numa = flavor
            .extra_specs
            .keys()
            .any(|key| key.starts_with(NUMA_SPEC_PREFIX));
        let Some(agent) = context.agents.agent(node) else {
            return candidates;
        };
        if candidates.len() < 2 || !wants_numa {
            return candidates;
        }
        let rest = candidates.split_off(candidates.len().min(MAX_COMPARED));
        let asked = PlacesAsked {
            build: self.record.request.build_on(&node.node, limits),
            allocations: candidates.iter().map(Candidate::by_provider).collect(),
        };
        let compared = timeout(COMPARE_TIMEOUT, agent.places(&asked)).await;
        match compared {
            Err(_) => {
                tracing::debug!(node = %node.node, "comparing candidates timed out at the agent")
            }
            Ok(Ok(places)) if places.len() == candidates.len() => {
                candidates = order_by_distance(candidates, &places);
            }
            Ok(Ok(places)) => {
                let answered = places.len();
                tracing::debug!(node = %node.node, answered, "the agent compared another number of candidates than requested");
            }
            Ok(Err(error)) => {
                tracing::debug!(node = %node.node, %error, "failed to compare candidates at the agent")
            }
        }
        candidates.extend(rest);
        candidates
    }
}

fn order_by_distance(candidates: Vec<Candidate>, places: &[PlaceBody]) -> Vec<Candidate> {
    let distance = |place: &PlaceBody| match place.refused {
        Some(_) => usize::MAX,
        None => place.far,
    };
    let mut order: Vec<(usize, Candidate)> = places.iter().map(distance).zip(candidates).collect();
    order.sort_by_key(|(distance, _)| *distance);
    order.into_iter().map(|(_, candidate)| candidate).collect()
}

//! Translates a request into the query string of Placement's `GET /allocation_candidates`.
//!
//! ```text
//! request -> pre-filters (aggregates, zone, image traits) -> request groups (flavor, image, devices) -> query string
//! ```
//!
//! The pre-filters turn what only the scheduler knows into aggregates and traits. The string is byte for byte the one that Nova
//! sends, so that logs of both can be compared. Only link groups, which Nova does not have, add parameters. A rebuild needs no
//! query.

mod cloud;
mod constraints;
mod error;
mod groups;
mod pci;
mod prefilters;
mod standard;
mod target;
mod translate;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::GroupSuffix;

use crate::options::SchedulerOptions;
use crate::request::{RequestSpec, aliases_of_one_link_group};

pub use cloud::{Cloud, ComputeNodeRef};
pub use constraints::MEMORY_ENCRYPTION_MODELS;
pub use error::PlacementQueryError;
pub use groups::ResourceGroup;

use prefilters::PrefilterDemands;
use translate::CpuClass;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementQuery {
    /// The query string for microversion 1.36, without the question mark.
    pub query: String,
    /// Whether the instance's CPUs are dedicated and therefore requested as PCPU.
    pub pinning_requested: bool,
    /// The same query with VCPU in place of PCPU, for hosts that report no PCPU. Its candidates come after those of
    /// `query`. `None` if no CPUs are dedicated, or if `[workarounds] disable_fallback_pcpu_query` is set.
    pub fallback_query: Option<String>,
}

/// Builds the query for a request.
///
/// Errors: Flavor and image contradict each other, or no host can satisfy the request. Placement need not be called in
/// either case.
pub fn placement_query(
    request: &RequestSpec,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
) -> Result<PlacementQuery, PlacementQueryError> {
    let outside = outside_groups(request, options, cloud)?;
    let demands = prefilters::demands(request, options, cloud, &outside)?;
    let outside = prefilters::owned(outside, request, cloud);
    let ask = |class| query(request, options, cloud, &demands, &outside, class);
    let (query, pinning_requested) = ask(CpuClass::Pcpu)?;
    let is_fallback = pinning_requested && !options.workarounds.disable_fallback_pcpu_query;
    let fallback_query = match is_fallback {
        true => Some(ask(CpuClass::Vcpu)?.0),
        false => None,
    };
    Ok(PlacementQuery {
        query,
        pinning_requested,
        fallback_query,
    })
}

/// What a request claims by resource class, over all of its groups. Dedicated CPUs are PCPU.
///
/// Errors: as [`placement_query`] of flavor and image.
pub fn claimed_resources(
    request: &RequestSpec,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
) -> Result<BTreeMap<String, i64>, PlacementQueryError> {
    let outside = outside_groups(request, options, cloud)?;
    let translated = translate::groups(request, &outside, CpuClass::Pcpu)?;
    let mut claimed = BTreeMap::new();
    for group in translated.groups.by_suffix.values() {
        for (class, amount) in &group.resources {
            let sum: &mut i64 = claimed.entry(class.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }
    Ok(claimed)
}

/// The groups that come from neither flavor nor image, by suffix.
fn outside_groups(
    request: &RequestSpec,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
) -> Result<Vec<(String, ResourceGroup)>, PlacementQueryError> {
    let mut outside = cloud.groups.to_vec();
    if options.filter_scheduler.pci_in_placement {
        outside.extend(pci::groups(&request.pci_requests)?);
    }
    Ok(outside)
}

/// The suffixes of groups whose providers must be below one link group, a set for each link group.
fn link_groups(
    request: &RequestSpec,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
) -> Result<Vec<BTreeSet<String>>, PlacementQueryError> {
    let mut link_groups = cloud.link_groups.to_vec();
    let aliases = aliases_of_one_link_group(&request.flavor)?;
    if options.filter_scheduler.pci_in_placement {
        link_groups.push(pci::suffixes(&request.pci_requests, &aliases));
    }
    link_groups.retain(|suffixes| !suffixes.is_empty());
    Ok(link_groups)
}

fn query(
    request: &RequestSpec,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
    demands: &PrefilterDemands,
    outside: &[(String, ResourceGroup)],
    class: CpuClass,
) -> Result<(String, bool), PlacementQueryError> {
    let mut translated = translate::groups(request, outside, class)?;
    let groups = &mut translated.groups;
    if !demands.aggregates.is_empty() {
        groups
            .unsuffixed()
            .aggregates
            .clone_from(&demands.aggregates);
    }
    if !demands.forbidden_aggregates.is_empty() {
        let forbidden = demands.forbidden_aggregates.iter().cloned();
        groups.unsuffixed().forbidden_aggregates.extend(forbidden);
    }
    let mut is_limited = !["group", "same_host", "different_host"]
        .iter()
        .any(|hint| request.hints.has(hint));
    match target::target(request, cloud)? {
        target::Target::Any => {}
        target::Target::One(uuid) => groups.unsuffixed().in_tree = Some(uuid),
        target::Target::Several => is_limited = false,
    }
    groups.link_groups = link_groups(request, options, cloud)?;
    groups.same_subtrees = cloud.same_subtrees.to_vec();
    for number in 0..groups.link_groups.len() {
        let suffix = GroupSuffix::of_link_group(number).to_string();
        if groups.by_suffix.contains_key(&suffix) {
            return Err(PlacementQueryError::SuffixTwice { suffix });
        }
    }
    let suffixed = groups.suffixed() + groups.link_groups.len();
    if suffixed >= 2 && groups.policy.is_none() && translated.suffixed_by_flavor <= 1 {
        groups.policy = Some("none".to_owned());
    }
    let limit = options.scheduler.max_placement_results;
    let query = groups.query(demands, is_limited.then_some(limit));
    Ok((query, translated.is_pinned))
}

#[cfg(test)]
mod tests;

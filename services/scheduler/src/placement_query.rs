//! What Placement is asked: GET /allocation_candidates, as a query string.
//!
//! A request first goes through the pre-filters, which turn what only the scheduler knows (the project's aggregates, the zone, the
//! image) into aggregates and traits; then flavor and image become request groups. The string is Nova's, letter by letter, so a
//! log of the one can be compared with a log of the other. A rebuild asks nothing. Caller: `replay`.

mod cloud;
mod constraints;
mod error;
mod groups;
mod pci;
mod prefilters;
mod standard;
mod target;
mod translate;

use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub use cloud::{Cloud, ComputeNodeRef};
pub(crate) use constraints::MEMORY_ENCRYPTION_MODELS;
pub use error::PlacementQueryError;
pub use groups::ResourceGroup;

use prefilters::Wishes;
use translate::CpuClass;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementQuery {
    /// The query string, without the question mark, for microversion 1.36.
    pub query: String,
    /// Whether the instance's CPUs are dedicated, and so are asked for as PCPU.
    pub pinning_requested: bool,
    /// The same with VCPU in place of PCPU, for hosts that tell no PCPU: its candidates come after those of `query`. None where no
    /// CPUs are dedicated, or `[workarounds] disable_fallback_pcpu_query` is set.
    pub fallback_query: Option<String>,
}

/// The question for a request.
///
/// # Errors
/// Flavor and image exclude each other, or no host can be right; either way Placement need not be asked.
pub fn placement_query(
    request: &RequestSpec,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
) -> Result<PlacementQuery, PlacementQueryError> {
    let outside = outside_groups(request, options, cloud)?;
    let wishes = prefilters::wishes(request, options, cloud, &outside)?;
    let outside = prefilters::owned(outside, request, cloud);
    let ask = |class| query(request, options, cloud, &wishes, &outside, class);
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

/// Groups that come from elsewhere than flavor and image, by suffix.
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

fn query(
    request: &RequestSpec,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
    wishes: &Wishes,
    outside: &[(String, ResourceGroup)],
    class: CpuClass,
) -> Result<(String, bool), PlacementQueryError> {
    let mut translated = translate::groups(request, outside, class)?;
    let groups = &mut translated.groups;
    if !wishes.aggregates.is_empty() {
        groups
            .unsuffixed()
            .aggregates
            .clone_from(&wishes.aggregates);
    }
    if !wishes.forbidden_aggregates.is_empty() {
        let forbidden = wishes.forbidden_aggregates.iter().cloned();
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
    if groups.suffixed() >= 2 && groups.policy.is_none() && translated.suffixed_by_flavor <= 1 {
        groups.policy = Some("none".to_owned());
    }
    let limit = options.scheduler.max_placement_results;
    let query = groups.query(wishes, is_limited.then_some(limit));
    Ok((query, translated.is_pinned))
}

#[cfg(test)]
mod tests;

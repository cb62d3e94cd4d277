//! `NumInstancesFilter`: the host must have fewer instances than `max_instances_per_host`.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct NumInstancesFilter;

impl Filter for NumInstancesFilter {
    fn name(&self) -> &'static str {
        "NumInstancesFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, options: &'a SchedulerOptions) -> FilterPlan<'a> {
        let limit = options.filter_scheduler.max_instances_per_host;
        FilterPlan::each(move |host: &mut ConsideredHost| is_below(host.state.num_instances, limit))
    }
}

/// The limit itself is too many already.
pub(super) fn is_below(num_instances: i64, limit: i64) -> Result<(), Reason> {
    if num_instances < limit {
        return Ok(());
    }
    Err(Reason::TooManyInstances {
        num_instances,
        max_instances_per_host: limit,
    })
}

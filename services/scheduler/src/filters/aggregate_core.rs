//! `AggregateCoreFilter`: like `CoreFilter`, with the allocation ratio of the host's aggregates.

use super::core::fits;
use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct AggregateCoreFilter;

impl Filter for AggregateCoreFilter {
    fn name(&self) -> &'static str {
        "AggregateCoreFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let own = host.state.aggregates.least_float("cpu_allocation_ratio");
            let ratio = own.unwrap_or(host.state.cpu_allocation_ratio);
            fits(host, &request.flavor, ratio)
        })
    }
}

//! `AggregateRamFilter`: like `RamFilter`, with the allocation ratio of the host's aggregates.

use super::ram::fits;
use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct AggregateRamFilter;

impl Filter for AggregateRamFilter {
    fn name(&self) -> &'static str {
        "AggregateRamFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let own = host.state.aggregates.least_float("ram_allocation_ratio");
            let ratio = own.unwrap_or(host.state.ram_allocation_ratio);
            fits(host, &request.flavor, ratio)
        })
    }
}

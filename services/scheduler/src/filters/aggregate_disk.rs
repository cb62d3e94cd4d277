//! `AggregateDiskFilter`: like `DiskFilter`, with the allocation ratio of the host's aggregates.

use super::disk::fits;
use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct AggregateDiskFilter;

impl Filter for AggregateDiskFilter {
    fn name(&self) -> &'static str {
        "AggregateDiskFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let own = host.state.aggregates.least_float("disk_allocation_ratio");
            let ratio = own.unwrap_or(host.state.disk_allocation_ratio);
            fits(host, &request.flavor, ratio)
        })
    }
}

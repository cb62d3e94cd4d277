//! `ExactDiskFilter`: the free disk must equal that of the flavor.

use super::disk::requested_mb;
use super::exact_core::exactly;
use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::reason::Resource;
use crate::request::RequestSpec;

pub(super) struct ExactDiskFilter;

impl Filter for ExactDiskFilter {
    fn name(&self) -> &'static str {
        "ExactDiskFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let requested = requested_mb(&request.flavor);
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let free = host.state.free_disk_mb;
            exactly(Resource::DiskMb, requested, free)?;
            host.limits.disk_gb = Some(as_float(host.state.total_usable_disk_gb));
            Ok(())
        })
    }
}

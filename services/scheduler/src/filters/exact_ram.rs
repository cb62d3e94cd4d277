//! `ExactRamFilter`: the free memory must equal that of the flavor.

use super::exact_core::exactly;
use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::reason::Resource;
use crate::request::RequestSpec;

pub(super) struct ExactRamFilter;

impl Filter for ExactRamFilter {
    fn name(&self) -> &'static str {
        "ExactRamFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let requested = request.flavor.memory_mb;
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let free = host.state.free_ram_mb;
            exactly(Resource::MemoryMb, requested, free)?;
            host.limits.memory_mb = Some(as_float(host.state.total_usable_ram_mb));
            Ok(())
        })
    }
}

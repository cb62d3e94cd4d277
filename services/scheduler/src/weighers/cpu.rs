//! `CPUWeigher`: CPUs that may still be promised.

use super::{Bounds, Multiplier, Weigher, WeigherPlan, free_share};
use crate::host_state::HostState;
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct CPUWeigher;

impl Weigher for CPUWeigher {
    fn name(&self) -> &'static str {
        "CPUWeigher"
    }

    fn module(&self) -> &'static str {
        "cpu"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("cpu_weight_multiplier", |options| {
            options.filter_scheduler.cpu_weight_multiplier
        })
    }

    fn bounds(&self) -> Bounds {
        Bounds::from(0.0)
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
        WeigherPlan::each(|host| promised(host) - as_float(host.vcpus_used))
            .unit(256.0)
            .share(|host| free_share(promised(host), as_float(host.vcpus_used)))
    }
}

/// CPUs that may be promised.
fn promised(host: &HostState) -> f64 {
    as_float(host.vcpus_total) * host.cpu_allocation_ratio
}

//! `HypervisorVersionWeigher`: newer hypervisors first.

use super::{Multiplier, Weigher, WeigherPlan};
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct HypervisorVersionWeigher;

impl Weigher for HypervisorVersionWeigher {
    fn name(&self) -> &'static str {
        "HypervisorVersionWeigher"
    }

    fn module(&self) -> &'static str {
        "hypervisor_version"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("hypervisor_version_weight_multiplier", |options| {
            options
                .filter_scheduler
                .hypervisor_version_weight_multiplier
        })
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
        const TEN: f64 = 10_000_000.0;
        WeigherPlan::each(|host| as_float(host.hypervisor_version.unwrap_or(0))).unit(TEN)
    }
}

//! `BuildFailureWeigher`: builds that failed in a row count against a host, so its multiplier is negated. Where
//! `consecutive_build_service_disable_threshold` is 0 they are not counted, and all hosts are alike.

use super::{Multiplier, Weigher, WeigherPlan};
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct BuildFailureWeigher;

impl Weigher for BuildFailureWeigher {
    fn name(&self) -> &'static str {
        "BuildFailureWeigher"
    }

    fn module(&self) -> &'static str {
        "compute"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("build_failure_weight_multiplier", |options| {
            options.filter_scheduler.build_failure_weight_multiplier
        })
        .against()
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, options: &'a SchedulerOptions) -> WeigherPlan<'a> {
        let threshold = options.compute.consecutive_build_service_disable_threshold;
        if threshold < 1 {
            return WeigherPlan::same(0.0);
        }
        let most = as_float(threshold);
        WeigherPlan::each(|host| as_float(host.failed_builds)).unit(most)
    }
}

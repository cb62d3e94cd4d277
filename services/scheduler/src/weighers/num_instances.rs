//! `NumInstancesWeigher`: instances on the host; negative multipliers spread them.

use super::{Multiplier, Weigher, WeigherPlan};
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct NumInstancesWeigher;

impl Weigher for NumInstancesWeigher {
    fn name(&self) -> &'static str {
        "NumInstancesWeigher"
    }

    fn module(&self) -> &'static str {
        "num_instances"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("num_instances_weight_multiplier", |options| {
            options.filter_scheduler.num_instances_weight_multiplier
        })
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, options: &'a SchedulerOptions) -> WeigherPlan<'a> {
        let most = as_float(options.filter_scheduler.max_instances_per_host);
        WeigherPlan::each(|host| as_float(host.num_instances)).unit(most)
    }
}

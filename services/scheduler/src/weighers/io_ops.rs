//! `IoOpsWeigher`: builds, moves and snapshots; its multiplier is negative unless an operator wants busy hosts.

use super::{Bounds, Multiplier, Weigher, WeigherPlan};
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct IoOpsWeigher;

impl Weigher for IoOpsWeigher {
    fn name(&self) -> &'static str {
        "IoOpsWeigher"
    }

    fn module(&self) -> &'static str {
        "io_ops"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("io_ops_weight_multiplier", |options| {
            options.filter_scheduler.io_ops_weight_multiplier
        })
    }

    fn bounds(&self) -> Bounds {
        Bounds::from(0.0)
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, options: &'a SchedulerOptions) -> WeigherPlan<'a> {
        let most = as_float(options.filter_scheduler.max_io_ops_per_host);
        WeigherPlan::each(|host| as_float(host.num_io_ops)).unit(most)
    }
}

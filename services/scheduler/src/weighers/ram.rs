//! `RAMWeigher`: free memory.

use super::{Bounds, Multiplier, Weigher, WeigherPlan, free_share};
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct RAMWeigher;

impl Weigher for RAMWeigher {
    fn name(&self) -> &'static str {
        "RAMWeigher"
    }

    fn module(&self) -> &'static str {
        "ram"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("ram_weight_multiplier", |options| {
            options.filter_scheduler.ram_weight_multiplier
        })
    }

    fn bounds(&self) -> Bounds {
        Bounds::from(0.0)
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
        const TIB: f64 = 1_048_576.0;
        WeigherPlan::each(|host| as_float(host.free_ram_mb))
            .unit(TIB)
            .share(|host| {
                let total = as_float(host.total_usable_ram_mb);
                let used = total - as_float(host.free_ram_mb);
                free_share(total * host.ram_allocation_ratio, used)
            })
    }
}

//! `DiskWeigher`: free disk.

use super::{Bounds, Multiplier, Weigher, WeigherPlan, free_share};
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct DiskWeigher;

impl Weigher for DiskWeigher {
    fn name(&self) -> &'static str {
        "DiskWeigher"
    }

    fn module(&self) -> &'static str {
        "disk"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("disk_weight_multiplier", |options| {
            options.filter_scheduler.disk_weight_multiplier
        })
    }

    fn bounds(&self) -> Bounds {
        Bounds::from(0.0)
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
        const TEN_TIB: f64 = 10_485_760.0;
        WeigherPlan::each(|host| as_float(host.free_disk_mb))
            .unit(TEN_TIB)
            .share(|host| {
                let total = as_float(host.total_usable_disk_gb) * 1024.0;
                let used = total - as_float(host.free_disk_mb);
                free_share(total * host.disk_allocation_ratio, used)
            })
    }
}

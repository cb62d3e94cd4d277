//! `DiskFilter`: the host must have enough free disk, at its allocation ratio.

use super::ram::at_most;
use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::reason::{Reason, Resource};
use crate::request::{RequestFlavor, RequestSpec};

pub(super) struct DiskFilter;

impl Filter for DiskFilter {
    fn name(&self) -> &'static str {
        "DiskFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let ratio = host.state.disk_allocation_ratio;
            fits(host, &request.flavor, ratio)
        })
    }
}

/// Checks whether the flavor fits, and sets the limit if it does.
pub(super) fn fits(
    host: &mut ConsideredHost,
    flavor: &RequestFlavor,
    ratio: f64,
) -> Result<(), Reason> {
    let total = host.state.total_usable_disk_gb.saturating_mul(1024);
    let used = total.saturating_sub(host.state.free_disk_mb);
    let limit = as_float(total) * ratio;
    let free = limit - as_float(used);
    at_most(Resource::DiskMb, requested_mb(flavor), total, free)?;
    host.limits.disk_gb = Some(limit / 1024.0);
    Ok(())
}

/// Root, ephemeral and swap together, in MiB.
pub(super) fn requested_mb(flavor: &RequestFlavor) -> i64 {
    let gb = flavor.root_gb.saturating_add(flavor.ephemeral_gb);
    gb.saturating_mul(1024).saturating_add(flavor.swap)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::limits;
    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn a_host_has_disk_for_the_flavor_and_a_limit_for_its_agent() {
        let aggregates = json!([{"metadata": {"disk_allocation_ratio": "2"}}]);
        let hosts = json!([
            {"total_disk_gb": 10, "free_disk_mb": 0, "disk_ratio": 1.5},
            {"total_disk_gb": 10, "free_disk_mb": -1, "disk_ratio": 1.5},
            {"total_disk_gb": 4, "free_disk_mb": 4096, "disk_ratio": 16.0},
            {"total_disk_gb": 10, "free_disk_mb": -5120, "disk_ratio": 1.5, "aggregates": aggregates},
        ]);
        let request = json!({"flavor": {"root_gb": 3, "ephemeral_gb": 1, "swap": 1024}});
        let (small, full) = ("total_too_small", "not_enough_free");
        for (name, last, limit) in [
            ("DiskFilter", full, None),
            ("AggregateDiskFilter", "", Some(20.0)),
        ] {
            let got = verdicts(name, &SchedulerOptions::default(), &request, &hosts);
            assert_eq!(got, ["", full, small, last], "{name}");
            let limits = limits(name, &SchedulerOptions::default(), &request, &hosts);
            let limits: Vec<_> = limits.iter().map(|it| it.disk_gb).collect();
            assert_eq!(limits, [Some(15.0), None, None, limit], "{name}");
        }
    }
}

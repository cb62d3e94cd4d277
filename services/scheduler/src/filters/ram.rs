//! `RamFilter`: the host must have enough free memory, at its allocation ratio.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::reason::{Reason, Resource};
use crate::request::{RequestFlavor, RequestSpec};

pub(super) struct RamFilter;

impl Filter for RamFilter {
    fn name(&self) -> &'static str {
        "RamFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let ratio = host.state.ram_allocation_ratio;
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
    let (resource, requested) = (Resource::MemoryMb, flavor.memory_mb);
    let total = host.state.total_usable_ram_mb;
    let used = total.saturating_sub(host.state.free_ram_mb);
    let limit = as_float(total) * ratio;
    at_most(resource, requested, total, limit - as_float(used))?;
    host.limits.memory_mb = Some(limit);
    Ok(())
}

/// Whether a request is at most the host's total and its free amount. A NaN ratio leaves no room.
pub(super) fn at_most(
    resource: Resource,
    requested: i64,
    total: i64,
    free: f64,
) -> Result<(), Reason> {
    if total < requested {
        return Err(Reason::TotalTooSmall {
            resource,
            requested,
            total,
        });
    }
    if free >= as_float(requested) {
        return Ok(());
    }
    Err(Reason::NotEnoughFree {
        resource,
        requested,
        free,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::limits;
    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn a_host_has_memory_for_the_flavor_and_a_limit_for_its_agent() {
        let aggregates = json!([{"metadata": {"ram_allocation_ratio": "2"}}]);
        let hosts = json!([
            {"total_ram_mb": 1024, "free_ram_mb": 100, "ram_ratio": 1.5},
            {"total_ram_mb": 1024, "free_ram_mb": 99, "ram_ratio": 1.5},
            {"total_ram_mb": 512, "free_ram_mb": 512, "ram_ratio": 16.0},
            {"total_ram_mb": 1024, "free_ram_mb": -400, "ram_ratio": 1.5, "aggregates": aggregates},
        ]);
        let request = json!({"flavor": {"memory_mb": 612}});
        let (small, full) = ("total_too_small", "not_enough_free");
        for (name, last, limit) in [
            ("RamFilter", full, None),
            ("AggregateRamFilter", "", Some(2048.0)),
        ] {
            let got = verdicts(name, &SchedulerOptions::default(), &request, &hosts);
            assert_eq!(got, ["", full, small, last], "{name}");
            let limits = limits(name, &SchedulerOptions::default(), &request, &hosts);
            let limits: Vec<_> = limits.iter().map(|it| it.memory_mb).collect();
            assert_eq!(limits, [Some(1536.0), None, None, limit], "{name}");
        }
    }
}

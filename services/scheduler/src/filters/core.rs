//! `CoreFilter`: the host must have enough free CPUs, at its allocation ratio. A host that does not report its CPUs
//! passes.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::reason::{Reason, Resource};
use crate::request::{RequestFlavor, RequestSpec};

pub(super) struct CoreFilter;

impl Filter for CoreFilter {
    fn name(&self) -> &'static str {
        "CoreFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let ratio = host.state.cpu_allocation_ratio;
            fits(host, &request.flavor, ratio)
        })
    }
}

/// Sets the limit, if any, and checks whether the flavor fits.
pub(super) fn fits(
    host: &mut ConsideredHost,
    flavor: &RequestFlavor,
    ratio: f64,
) -> Result<(), Reason> {
    let (resource, requested) = (Resource::Vcpu, flavor.vcpus);
    let total = host.state.vcpus_total;
    if total == 0 {
        return Ok(());
    }
    let limit = as_float(total) * ratio;
    if limit > 0.0 {
        host.limits.vcpu = Some(limit);
        if requested > total {
            return Err(Reason::TotalTooSmall {
                resource,
                requested,
                total,
            });
        }
    }
    let free = limit - as_float(host.state.vcpus_used);
    if free < as_float(requested) {
        return Err(Reason::NotEnoughFree {
            resource,
            requested,
            free,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::limits;
    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn a_host_has_cpus_for_the_flavor_and_a_limit_for_its_agent() {
        let aggregates = json!([{"metadata": {"cpu_allocation_ratio": "2"}},
            {"metadata": {"cpu_allocation_ratio": "3"}}]);
        let hosts = json!([
            {"vcpus_total": 4, "vcpus_used": 2, "cpu_ratio": 1.5},
            {"vcpus_total": 4, "vcpus_used": 4, "cpu_ratio": 1.5},
            {"vcpus_total": 2, "vcpus_used": 0, "cpu_ratio": 16.0},
            {"vcpus_total": 4, "vcpus_used": 0, "cpu_ratio": 0.0},
            {"vcpus_total": 0, "vcpus_used": 9},
            {"vcpus_total": 4, "vcpus_used": 5, "cpu_ratio": 1.0, "aggregates": aggregates},
        ]);
        let request = json!({"flavor": {"vcpus": 3}});
        let (small, full) = ("total_too_small", "not_enough_free");
        for (name, expected, limit) in [
            ("CoreFilter", ["", full, small, full, "", full], Some(4.0)),
            (
                "AggregateCoreFilter",
                ["", full, small, full, "", ""],
                Some(8.0),
            ),
        ] {
            let got = verdicts(name, &SchedulerOptions::default(), &request, &hosts);
            assert_eq!(got, expected, "{name}");
            let limits = limits(name, &SchedulerOptions::default(), &request, &hosts);
            let limits: Vec<_> = limits.iter().map(|it| it.vcpu).collect();
            let expected = [Some(6.0), Some(6.0), Some(32.0), None, None, limit];
            assert_eq!(limits, expected, "{name}");
        }
    }
}

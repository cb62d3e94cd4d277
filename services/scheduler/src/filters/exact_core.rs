//! `ExactCoreFilter`: the number of free CPUs must equal that of the flavor.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::reason::{Reason, Resource};
use crate::request::RequestSpec;

pub(super) struct ExactCoreFilter;

impl Filter for ExactCoreFilter {
    fn name(&self) -> &'static str {
        "ExactCoreFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let requested = request.flavor.vcpus;
        FilterPlan::each(move |host: &mut ConsideredHost| {
            // A host that does not report its CPUs may have any number.
            if host.state.vcpus_total == 0 {
                return Err(Reason::TotalTooSmall {
                    resource: Resource::Vcpu,
                    requested,
                    total: 0,
                });
            }
            let free = host.state.vcpus_total.saturating_sub(host.state.vcpus_used);
            exactly(Resource::Vcpu, requested, free)?;
            host.limits.vcpu = Some(as_float(host.state.vcpus_total));
            Ok(())
        })
    }
}

/// Whether the free amount equals the requested one.
pub(super) fn exactly(resource: Resource, requested: i64, free: i64) -> Result<(), Reason> {
    match free == requested {
        true => Ok(()),
        false => Err(Reason::NotExactlyFree {
            resource,
            requested,
            free,
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn exactly_so_much_is_free() {
        let hosts = json!([
            {"vcpus_total": 8, "vcpus_used": 6, "free_ram_mb": 512, "free_disk_mb": 2560},
            {"vcpus_total": 8, "vcpus_used": 5, "free_ram_mb": 513, "free_disk_mb": 2561},
            {"vcpus_total": 0, "vcpus_used": -2},
        ]);
        let flavor = json!({"vcpus": 2, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 1,
            "swap": 512});
        let (total, no) = ("total_too_small", "not_exactly_free");
        for (name, expected) in [
            ("ExactCoreFilter", ["", no, total]),
            ("ExactRamFilter", ["", no, no]),
            ("ExactDiskFilter", ["", no, no]),
        ] {
            let got = verdicts(
                name,
                &SchedulerOptions::default(),
                &json!({"flavor": flavor}),
                &hosts,
            );
            assert_eq!(got, expected, "{name}");
        }
    }
}

//! `NUMATopologyFilter`: the instance's NUMA cells must fit on cells of the host.
//!
//! Each allocation candidate is checked, because it determines which devices must be near. The allocation ratios used
//! are sent with the request, so that the host's agent checks with the same ones.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::{ConsideredHost, HostState, NumaLimits, NumaTopology};
use crate::numa::{NumaAsk, NumaReason, Offer};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct NUMATopologyFilter;

impl Filter for NUMATopologyFilter {
    fn name(&self) -> &'static str {
        "NUMATopologyFilter"
    }

    fn runs(&self) -> Runs {
        Runs {
            once_per_request: false,
            on_rebuild: false,
        }
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let ask = NumaAsk::new(request);
        let needs_threads = needs_threads(request);
        if ask.is_none() && !needs_threads {
            return FilterPlan::PassAll;
        }
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let checked = match &ask {
                _ if needs_threads && !has_threads(&host.state) => Err(NumaReason::NoThreads),
                None => Ok(()),
                Some(ask) => check(ask, host),
            };
            checked.map_err(Reason::NumaTopology)
        })
    }
}

/// Whether the flavor or the image wants dedicated CPUs, and either of them threads of one core together.
fn needs_threads(request: &RequestSpec) -> bool {
    let is_set_to = |spec: &str, property: &str, word: &str| {
        let image = request.image.as_ref();
        let of_image = image.and_then(|image| image.properties.get(property));
        let of_flavor = request.flavor.extra_specs.get(spec);
        of_flavor.is_some_and(|it| it == word) || of_image.is_some_and(|it| it == word)
    };
    is_set_to("hw:cpu_policy", "hw_cpu_policy", "dedicated")
        && is_set_to("hw:cpu_thread_policy", "hw_cpu_thread_policy", "require")
}

/// Whether cores have several threads, or this is unknown.
fn has_threads(host: &HostState) -> bool {
    cells(host).is_none_or(NumaTopology::has_threads)
}

/// A topology without cells counts as missing.
fn cells(host: &HostState) -> Option<&NumaTopology> {
    host.numa.as_ref().filter(|numa| !numa.cells.is_empty())
}

fn check(ask: &NumaAsk<'_>, host: &mut ConsideredHost) -> Result<(), NumaReason> {
    if cells(&host.state).is_none() {
        return Err(NumaReason::NoTopology);
    }
    let limits = NumaLimits {
        cpu_allocation_ratio: host.state.cpu_allocation_ratio,
        ram_allocation_ratio: host.state.ram_allocation_ratio,
    };
    let reads_candidates = ask.reads_mappings() && host.state.pci.is_some();
    let kept = host.keep_each_or_all(reads_candidates, |host, candidate| {
        ask.fit(Offer {
            numa: cells(host).ok_or(NumaReason::NoTopology)?,
            pci: host.pci.as_ref(),
            limits: Some(limits),
            mappings: &candidate.mappings,
        })
    });
    kept.map_err(|reason| reason.unwrap_or(NumaReason::NoCandidates))?;
    host.limits.numa = Some(limits);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::{limits, surviving, verdicts};
    use crate::host_state::NumaLimits;
    use crate::options::SchedulerOptions;

    const NAME: &str = "NUMATopologyFilter";

    #[test]
    fn cells_fit_by_the_ratios_of_the_host_which_its_agent_gets() {
        let cells = json!([{"id": 0, "cpuset": [0, 1], "memory": 512, "memory_usage": 512, "siblings": [[0], [1]]}]);
        let hosts = json!([
            {"numa": {"cells": cells}, "ram_ratio": 2.0, "cpu_ratio": 4.0},
            {"numa": {"cells": cells}, "ram_ratio": 1.5},
            {"numa": {"cells": cells}, "ram_ratio": 2.0, "candidates": []},
            {"numa": {"cells": []}},
            {},
        ]);
        let asked =
            json!({"flavor": {"extra_specs": {"hw:numa_nodes": "1"}}, "numa_from_flavor": true});
        let (options, out) = (SchedulerOptions::default(), "numa_topology");
        assert_eq!(
            verdicts(NAME, &options, &asked, &hosts),
            ["", out, out, out, out]
        );
        let numa: Vec<_> = limits(NAME, &options, &asked, &hosts)
            .iter()
            .map(|it| it.numa)
            .collect();
        let ratios = NumaLimits {
            cpu_allocation_ratio: 4.0,
            ram_allocation_ratio: 2.0,
        };
        assert_eq!(numa, [Some(ratios), None, None, None, None]);
        assert_eq!(
            surviving(NAME, &options, &asked, &hosts),
            [vec![0], vec![], vec![], vec![0], vec![0]]
        );
        assert_eq!(verdicts(NAME, &options, &json!({}), &hosts), [""; 5]);
    }

    #[test]
    fn required_threads_need_a_host_with_threads_whoever_wants_them() {
        let cell = |siblings| {
            json!({"cells": [
            {"id": 0, "cpuset": [0, 1], "pcpuset": [2, 3], "memory": 512, "siblings": siblings}]})
        };
        let hosts = json!([
            {"numa": cell(json!([[0, 1], [2, 3]]))},
            {"numa": cell(json!([[0], [1], [2], [3]]))},
            {},
        ]);
        let (flavor, image) = (
            json!({"hw:cpu_policy": "dedicated"}),
            json!({"hw_cpu_thread_policy": "require"}),
        );
        for numa_from_flavor in [true, false] {
            let asked = json!({"flavor": {"extra_specs": flavor}, "image": {"properties": image},
                "numa_from_flavor": numa_from_flavor});
            let last = if numa_from_flavor {
                "numa_topology"
            } else {
                ""
            };
            let got = verdicts(NAME, &SchedulerOptions::default(), &asked, &hosts);
            assert_eq!(got, ["", "numa_topology", last]);
        }
    }

    #[test]
    fn a_candidate_is_kept_where_its_devices_are_near() {
        let cell =
            |id| json!({"id": id, "cpuset": [id], "memory": 512 * (1 - id), "siblings": [[id]]});
        let pool = |node, provider: &str| {
            json!({"vendor_id": "8086", "product_id": "1520", "count": 1,
            "numa_node": node, "tags": {"rp_uuid": provider}})
        };
        let hosts = json!([{
            "numa": {"cells": [cell(0), cell(1)]}, "pci_pools": [pool(0, "near"), pool(1, "far")],
            "candidates": [{"mappings": {"r-0": ["far"]}}, {"mappings": {"r-0": ["near"]}}],
        }]);
        let asked = json!({
            "flavor": {"extra_specs": {"hw:numa_nodes": "1"}}, "numa_from_flavor": true,
            "pci_requests": [{"count": 1, "spec": [{"vendor_id": "8086"}], "request_id": "r", "alias_name": "a"}],
        });
        let left = surviving(NAME, &SchedulerOptions::default(), &asked, &hosts);
        assert_eq!(left, [vec![1]]);
    }
}

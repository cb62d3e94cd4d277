//! `PciPassthroughFilter`: the host must have the requested devices.
//!
//! Each allocation candidate is checked, because it may name the devices' providers. Candidates that the host's pools
//! cannot serve are removed.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::pci::{DeviceLocality, PciAsk, PciReason};
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct PciPassthroughFilter;

impl Filter for PciPassthroughFilter {
    fn name(&self) -> &'static str {
        "PciPassthroughFilter"
    }

    fn runs(&self) -> Runs {
        Runs {
            once_per_request: false,
            on_rebuild: false,
        }
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let ask = PciAsk::new(&request.pci_requests);
        match ask.is_empty() {
            true => FilterPlan::PassAll,
            false => FilterPlan::each(move |host: &mut ConsideredHost| {
                check(&ask, host).map_err(Reason::PciPassthrough)
            }),
        }
    }
}

fn check(ask: &PciAsk<'_>, host: &mut ConsideredHost) -> Result<(), PciReason> {
    if host.state.pci.is_none() {
        return Err(PciReason::NoPools);
    }
    let kept = host.keep_each_or_all(ask.reads_mappings(), |host, candidate| match &host.pci {
        Some(pools) => ask.fit(pools, &candidate.mappings, DeviceLocality::Anywhere),
        None => Err(PciReason::NoPools),
    });
    kept.map_err(|reason| reason.unwrap_or(PciReason::NoCandidates))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::{surviving, verdicts};
    use crate::options::SchedulerOptions;

    #[test]
    fn a_host_has_the_devices_and_candidates_that_say_where() {
        let pools = json!([{"vendor_id": "8086", "product_id": "1520", "count": 2, "tags": {"rp_uuid": "p"}}]);
        let candidate = |provider: &str| json!({"mappings": {"r-0": [provider]}});
        let hosts = json!([
            {"pci_pools": pools, "candidates": [candidate("p")]},
            {"pci_pools": pools, "candidates": [candidate("q"), candidate("p"), candidate("x")]},
            {"pci_pools": pools, "candidates": [candidate("q")]},
            {"pci_pools": pools, "candidates": []},
            {"pci_pools": []},
            {"pci_pools": null},
        ]);
        let (name, options) = ("PciPassthroughFilter", SchedulerOptions::default());
        let asked = |alias| {
            json!({"pci_requests": [{
            "count": 1, "spec": [{"vendor_id": "8086"}], "request_id": "r", "alias_name": alias}]})
        };
        let out = "pci_passthrough";
        let alias = asked(json!("a"));
        assert_eq!(
            verdicts(name, &options, &alias, &hosts),
            ["", "", out, out, out, out]
        );
        assert_eq!(
            surviving(name, &options, &alias, &hosts),
            [vec![0], vec![1], vec![], vec![], vec![], vec![0]]
        );
        let port = asked(json!(null));
        assert_eq!(
            verdicts(name, &options, &port, &hosts),
            ["", "", "", out, out, out]
        );
        assert_eq!(
            surviving(name, &options, &port, &hosts),
            [vec![0], vec![0, 1, 2], vec![0], vec![], vec![], vec![0]]
        );
        assert_eq!(verdicts(name, &options, &json!({}), &hosts), [""; 6]);
    }
}

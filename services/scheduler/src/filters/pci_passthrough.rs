//! `PciPassthroughFilter`: the host has the devices that are asked for.
//!
//! Each allocation candidate is looked at, since it may say from which providers the devices are; those that the host's pools do
//! not serve are out.

use super::{Filter, Plan, Runs};
use crate::host_state::{ConsideredHost, HostState};
use crate::options::Options;
use crate::pci::{Mappings, Near, PciAsk, PciReason};
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

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a Options) -> Plan<'a> {
        let ask = PciAsk::new(&request.pci_requests);
        match ask.is_empty() {
            true => Plan::PassAll,
            false => Plan::each(move |host: &mut ConsideredHost| {
                check(&ask, host).map_err(Reason::PciPassthrough)
            }),
        }
    }
}

fn check(ask: &PciAsk<'_>, host: &mut ConsideredHost) -> Result<(), PciReason> {
    if host.state.pci.is_none() {
        return Err(PciReason::NoPools);
    }
    let fit = |host: &HostState, mappings: &Mappings| match &host.pci {
        Some(pools) => ask.fit(pools, mappings, Near::Anywhere),
        None => Err(PciReason::NoPools),
    };
    let kept = match ask.reads_mappings() {
        true => host.keep(|host, candidate| fit(host, &candidate.mappings)),
        false => {
            let all = fit(&host.state, &Mappings::new());
            host.keep(|_, _| all.clone())
        }
    };
    kept.map_err(|reason| reason.unwrap_or(PciReason::NoCandidates))
}

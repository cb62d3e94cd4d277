//! `NUMATopologyFilter`: the cells of the instance fit on cells of the host.
//!
//! Each allocation candidate is looked at, since the devices that must be near may be of it. The allocation ratios by which the
//! cells were looked at go with the request, so that the host's agent looks again by the same.

use super::{Filter, Plan, Runs};
use crate::host_state::{ConsideredHost, HostState, NumaLimits, NumaTopology};
use crate::numa::{NumaAsk, NumaReason, Offer};
use crate::options::Options;
use crate::pci::Mappings;
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

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a Options) -> Plan<'a> {
        let ask = NumaAsk::new(request);
        let needs_threads = needs_threads(request);
        if ask.is_none() && !needs_threads {
            return Plan::PassAll;
        }
        Plan::each(move |host: &mut ConsideredHost| {
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
    let says = |spec: &str, property: &str, word: &str| {
        let image = request.image.as_ref();
        let of_image = image.and_then(|image| image.properties.get(property));
        let of_flavor = request.flavor.extra_specs.get(spec);
        of_flavor.is_some_and(|it| it == word) || of_image.is_some_and(|it| it == word)
    };
    says("hw:cpu_policy", "hw_cpu_policy", "dedicated")
        && says("hw:cpu_thread_policy", "hw_cpu_thread_policy", "require")
}

/// Whether cores have several threads, or nobody knows.
fn has_threads(host: &HostState) -> bool {
    cells(host).is_none_or(NumaTopology::has_threads)
}

/// A topology without cells is none.
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
    let fit = |host: &HostState, mappings: &Mappings| {
        ask.fit(Offer {
            numa: cells(host).ok_or(NumaReason::NoTopology)?,
            pci: host.pci.as_ref(),
            limits: Some(limits),
            mappings,
        })
    };
    let kept = match ask.reads_mappings() && host.state.pci.is_some() {
        true => host.keep(|host, candidate| fit(host, &candidate.mappings)),
        false => {
            let all = fit(&host.state, &Mappings::new());
            host.keep(|_, _| all.clone())
        }
    };
    kept.map_err(|reason| reason.unwrap_or(NumaReason::NoCandidates))?;
    host.limits.numa = Some(limits);
    Ok(())
}

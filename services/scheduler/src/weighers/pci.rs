//! `PCIWeigher`: hosts with few free PCI devices first, so that the others stay free for requests with devices. The
//! request is ignored.

use super::{Multiplier, Weigher, WeigherPlan};
use crate::host_state::{HostState, PciPools};
use crate::numbers::as_float;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct PCIWeigher;

impl Weigher for PCIWeigher {
    fn name(&self) -> &'static str {
        "PCIWeigher"
    }

    fn module(&self) -> &'static str {
        "pci"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("pci_weight_multiplier", |options| {
            options.filter_scheduler.pci_weight_multiplier
        })
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
        WeigherPlan::each(|host| as_float(MOST - free_devices(host).min(MOST - 1)))
            .unit(as_float(MOST))
    }
}

/// More free devices than this less one count no more.
const MOST: i64 = 100;

fn free_devices(host: &HostState) -> i64 {
    host.pci.as_ref().map_or(0, PciPools::free)
}

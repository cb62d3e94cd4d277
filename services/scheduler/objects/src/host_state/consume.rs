//! The effect of a claim on a host's NUMA cells and devices.

use super::{HostState, NumaLimits};
use crate::numa::{CellStrategy, NumaAsk, Offer};
use crate::pci::{DeviceLocality, Mappings, PciAsk};
use crate::reason::Reason;
use crate::request::RequestSpec;

impl HostState {
    /// Subtracts the NUMA cells and PCI devices of an instance from this host. Works without a previous filter run:
    /// takes what is available and reports the rest as error. `limits` are those that the filter set, `mappings` those
    /// of the claimed candidate.
    pub fn consume_numa_and_pci(
        &mut self,
        request: &RequestSpec,
        mappings: &Mappings,
        limits: Option<NumaLimits>,
        packing: CellStrategy,
    ) -> Result<(), Reason> {
        let mut refused = Ok(());
        let mut taken = None;
        if let (Some(numa), Some(ask)) = (&self.numa, NumaAsk::new(request)) {
            let offer = Offer {
                numa,
                pci: self.pci.as_ref(),
                limits,
                mappings,
            };
            match ask.take(offer, packing) {
                Ok(after) => taken = Some(after),
                Err(reason) => refused = Err(Reason::NumaTopology(reason)),
            }
        }
        if let Some(pools) = &mut self.pci {
            let near = match &taken {
                Some((host, chosen)) => DeviceLocality::Cells {
                    host,
                    chosen: *chosen,
                },
                None => DeviceLocality::Anywhere,
            };
            let devices = PciAsk::new(&request.pci_requests).take(pools, mappings, near);
            refused = refused.and(devices.map_err(Reason::PciPassthrough));
        }
        if let Some((after, _)) = taken {
            self.numa = Some(after);
        }
        refused
    }
}

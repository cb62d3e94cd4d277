//! Checks that this host has the NUMA cells, CPUs and networks that a request names, before the request is journaled.
//! Otherwise the hypervisor would fail at the start.

use std::collections::BTreeSet;
use std::fmt;

use berth_model::AddressWidth;
use berth_virt::guest_spec::{GuestInterfaces, GuestTopology, MachineOptions, VcpuPin};
use berth_virt::{CpuSet, NodeView, VirtDriver};

use crate::create::error::BuildError;
use crate::fit::Limits;
use crate::guests::Guests;
use crate::resources::GuestResources;

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Checks that each interface has a network or bridge.
    pub(super) async fn check_networks(
        &self,
        interfaces: &GuestInterfaces,
    ) -> Result<(), BuildError> {
        if interfaces.as_slice().is_empty() {
            return Ok(());
        }
        match self.inner.context.driver.no_link(interfaces).await {
            Ok(None) => Ok(()),
            Ok(Some(no_link)) => Err(BuildError::NoLink(no_link)),
            Err(error) => Err(BuildError::Links(error)),
        }
    }
}

/// Checks that the host can give a guest the devices of its machine.
pub(crate) fn check_machine(
    machine: &MachineOptions,
    seen: &NodeView,
) -> Result<(), MissingCapability> {
    if let Some((key, capability)) = machine.missing_on(&seen.traits) {
        return Err(MissingCapability::Trait { key, capability });
    }
    if let Some(model) = machine.memory_encryption
        && !seen.encryption_contexts.contains_key(&model)
    {
        return Err(MissingCapability::Trait {
            key: "hw:mem_encryption",
            capability: model.required_trait().to_string(),
        });
    }
    let processor = seen.capabilities.processor.as_ref();
    let host_bits = processor.and_then(|processor| processor.physical_address_bits);
    match (machine.address_width, host_bits) {
        (Some(AddressWidth::Emulated(bits)), Some(host_bits)) if u32::from(bits) > host_bits => {
            Err(MissingCapability::AddressBits { bits, host_bits })
        }
        _ => Ok(()),
    }
}

/// What the host cannot give a guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingCapability {
    #[error("{key}: this host does not have {capability}")]
    Trait {
        /// Nova's key of the flavor or the image.
        key: &'static str,
        capability: String,
    },
    #[error("hw:maxphysaddr_bits: {bits} is more than the {host_bits} bits of this host")]
    AddressBits { bits: u8, host_bits: u32 },
}

/// Checks that the host has the cells of the scheduler's limits.
pub(super) fn check_cells(limits: &Limits, seen: &NodeView) -> Result<(), BuildError> {
    let asked = limits.host_cells.iter().flatten().copied();
    known("limits.host_cells", asked, seen)
}

/// Checks that the host has the cells and CPUs of a complete spec.
pub(super) fn check_topology(topology: &GuestTopology, seen: &NodeView) -> Result<(), BuildError> {
    let cells = topology.cells().iter().map(|cell| cell.host_cell);
    known("spec.topology.cells", cells, seen)?;
    let online = &seen.cpus.online;
    let there = |field: &str, cpus: &CpuSet| match cpus.difference(online) {
        none if none.is_empty() => Ok(()),
        unknown => {
            let reason = format!("this host has no CPU {unknown}; the online CPUs are {online}");
            Err(BuildError::field(field, reason))
        }
    };
    if let Some(floating) = topology.cpu_set() {
        there("spec.topology.cpu_set", floating)?;
    }
    let Some(pinning) = topology.pinning() else {
        return Ok(());
    };
    let field = "spec.topology.pinning";
    there(field, &pinning.dedicated())?;
    there(field, pinning.emulator())?;
    for pin in pinning.pins() {
        if let VcpuPin::Shared(cpus) = pin {
            there(field, cpus)?;
        }
    }
    Ok(())
}

fn known(field: &str, asked: impl Iterator<Item = u32>, seen: &NodeView) -> Result<(), BuildError> {
    let cells: BTreeSet<u32> = seen.cells.iter().map(|cell| cell.id).collect();
    let unknown: BTreeSet<u32> = asked.filter(|cell| !cells.contains(cell)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let there = match cells.is_empty() {
        true => "it reports none".to_owned(),
        false => format!("it has {}", listed(&cells)),
    };
    let reason = format!("this host has no NUMA cell {}; {there}", listed(&unknown));
    Err(BuildError::field(field, reason))
}

fn listed(numbers: &BTreeSet<u32>) -> impl fmt::Display {
    let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(", ")
}

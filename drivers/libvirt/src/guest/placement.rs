//! A guest's CPU policy and its placement on host NUMA cells. Pure.

use std::collections::BTreeMap;

use berth_virt::{CpuSet, GuestCell, GuestCpuPolicy, HostNumaCell};

use super::LibvirtGuest;

impl LibvirtGuest {
    /// The CPU policy, given the CPUs for dedicated use: a virtual CPU is dedicated if all its allowed host CPUs are.
    pub(crate) fn cpu_policy(&self, dedicated: &CpuSet) -> GuestCpuPolicy {
        let is_dedicated =
            |pin: &CpuSet| !pin.is_empty() && pin.iter().all(|cpu| dedicated.contains(cpu));
        let count = self
            .pins
            .iter()
            .filter(|(vcpu, pin)| **vcpu < self.vcpus && is_dedicated(pin))
            .count() as u64;
        match count {
            0 => GuestCpuPolicy::Shared,
            all if all >= u64::from(self.vcpus) => GuestCpuPolicy::Dedicated,
            dedicated => GuestCpuPolicy::Mixed { dedicated },
        }
    }

    /// The host cells that the guest is placed on, with its CPUs and memory on each. Empty without NUMA placement or if
    /// the document is ambiguous.
    pub(crate) fn placement(&self, host: &[HostNumaCell]) -> Vec<GuestCell> {
        let shares = if self.cells.is_empty() {
            self.whole_on_one_cell(host).map(|cell| vec![cell])
        } else {
            self.cells
                .iter()
                .map(|(id, (vcpus, memory_mib))| {
                    Some(GuestCell {
                        host_cell: self.host_cell(*id, vcpus, host)?,
                        vcpus: vcpus.len() as u64,
                        memory_mib: *memory_mib,
                    })
                })
                .collect::<Option<Vec<_>>>()
        };
        together(shares.unwrap_or_default())
    }

    /// The host cell of a guest cell: the cell of its memory, or else of its CPUs.
    fn host_cell(&self, cell: u32, vcpus: &CpuSet, host: &[HostNumaCell]) -> Option<u32> {
        let from = self.cell_nodes.get(&cell).or(self.nodes.as_ref());
        from.map_or_else(|| self.pinned_to_one(vcpus.iter(), host), single)
    }

    fn whole_on_one_cell(&self, host: &[HostNumaCell]) -> Option<GuestCell> {
        let host_cell = match &self.nodes {
            Some(nodes) => single(nodes),
            None => self.pinned_to_one(0..self.vcpus, host),
        }?;
        Some(GuestCell {
            host_cell,
            vcpus: u64::from(self.vcpus),
            memory_mib: self.memory_mib,
        })
    }

    /// The single cell that contains all allowed host CPUs of these virtual CPUs.
    fn pinned_to_one(
        &self,
        vcpus: impl Iterator<Item = u32>,
        host: &[HostNumaCell],
    ) -> Option<u32> {
        let mut pins = vcpus.map(|vcpu| self.pins.get(&vcpu)).peekable();
        pins.peek()?;
        let allowed: Vec<&CpuSet> = pins.collect::<Option<_>>()?;
        let mut holding = host.iter().filter(|cell| {
            allowed
                .iter()
                .all(|pin| !pin.is_empty() && pin.iter().all(|cpu| cell.cpus.contains(cpu)))
        });
        holding.next().map(|cell| cell.id)
    }
}

/// The only member of a set of one.
fn single(set: &CpuSet) -> Option<u32> {
    let mut members = set.iter();
    members.next().filter(|_| members.next().is_none())
}

/// Shares on one host cell added up, by cell.
fn together(shares: Vec<GuestCell>) -> Vec<GuestCell> {
    let mut by_cell: BTreeMap<u32, GuestCell> = BTreeMap::new();
    for share in shares {
        by_cell
            .entry(share.host_cell)
            .and_modify(|sum| {
                sum.vcpus += share.vcpus;
                sum.memory_mib += share.memory_mib;
            })
            .or_insert(share);
    }
    by_cell.into_values().collect()
}

//! Parses the NUMA cells of a flavor: `hw:numa_nodes`, `hw:numa_cpus.N` and `hw:numa_mem.N`.

use std::collections::BTreeMap;

use super::extra_specs::{CPUS, ExtraSpecs, FlavorExtraSpecError, MEMORY, WantedCell};
use crate::CpuSet;

const NODES: &str = "hw:numa_nodes";

/// An upper limit that no host reaches.
const MOST_CELLS: u32 = 64;

impl<'a> ExtraSpecs<'a> {
    /// The requested cells; empty if none are requested.
    pub(super) fn cells(
        self,
        vcpus: u32,
        memory_mib: u64,
    ) -> Result<Vec<WantedCell>, FlavorExtraSpecError> {
        let (cpus, memory) = (self.of_cells(CPUS)?, self.of_cells(MEMORY)?);
        let Some(text) = self.get(NODES) else {
            return match cpus
                .keys()
                .map(|n| format!("{CPUS}{n}"))
                .chain(memory.keys().map(|n| format!("{MEMORY}{n}")))
                .next()
            {
                Some(key) => Err(self.wrong(&key, format!("has an effect only with {NODES}"))),
                None => Ok(Vec::new()),
            };
        };
        let nodes = text
            .parse::<u32>()
            .ok()
            .filter(|n| (1..=MOST_CELLS).contains(n));
        let nodes = nodes
            .ok_or_else(|| self.wrong(NODES, format!("a guest has 1 to {MOST_CELLS} cells")))?;
        if nodes > vcpus {
            return Err(self.wrong(
                NODES,
                format!("each cell has a virtual CPU, and the flavor has {vcpus}"),
            ));
        }
        match (cpus.is_empty(), memory.is_empty()) {
            (true, true) => self.equal_cells(nodes, vcpus, memory_mib),
            (false, false) => self.described_cells(nodes, vcpus, memory_mib, &cpus, &memory),
            (true, false) => Err(self.wrong(
                NODES,
                format!("{MEMORY}N is given and {CPUS}N is not; both or neither"),
            )),
            (false, true) => Err(self.wrong(
                NODES,
                format!("{CPUS}N is given and {MEMORY}N is not; both or neither"),
            )),
        }
    }

    /// Cells of equal size.
    fn equal_cells(
        self,
        nodes: u32,
        vcpus: u32,
        memory_mib: u64,
    ) -> Result<Vec<WantedCell>, FlavorExtraSpecError> {
        let parts = [
            (u64::from(vcpus), "virtual CPUs", CPUS),
            (memory_mib, "MiB", MEMORY),
        ];
        for (whole, of, key) in parts {
            if !whole.is_multiple_of(u64::from(nodes)) {
                let reason = format!(
                    "{whole} {of} cannot be divided evenly over {nodes} cells; set {key}N and its counterpart for each cell"
                );
                return Err(self.wrong(NODES, reason));
            }
        }
        let (each, memory_mib) = (vcpus / nodes, memory_mib / u64::from(nodes));
        let cell = |n| WantedCell {
            vcpus: CpuSet::from_iter(n * each..(n + 1) * each),
            memory_mib,
        };
        Ok((0..nodes).map(cell).collect())
    }

    /// Cells with explicit CPUs and memory.
    fn described_cells(
        self,
        nodes: u32,
        vcpus: u32,
        memory_mib: u64,
        cpus: &BTreeMap<u32, &str>,
        memory: &BTreeMap<u32, &str>,
    ) -> Result<Vec<WantedCell>, FlavorExtraSpecError> {
        for (key, given) in [(CPUS, cpus), (MEMORY, memory)] {
            if let Some(cell) = given.keys().find(|cell| **cell >= nodes) {
                return Err(self.wrong(
                    &format!("{key}{cell}"),
                    format!("there are {nodes} cells, from 0 ({NODES})"),
                ));
            }
            if let Some(cell) = (0..nodes).find(|cell| !given.contains_key(cell)) {
                return Err(self.wrong(NODES, format!("{key}{cell} is missing")));
            }
        }
        let mut left = CpuSet::first(vcpus);
        let mut cells = Vec::new();
        for ((cell, cpus), memory) in cpus.iter().zip(memory.values()) {
            let key = format!("{CPUS}{cell}");
            let set: Option<CpuSet> = cpus.parse().ok().filter(|set: &CpuSet| !set.is_empty());
            let set =
                set.ok_or_else(|| self.wrong(&key, "expected virtual CPUs, such as 0-1,4"))?;
            let unknown = set.difference(&left);
            if !unknown.is_empty() {
                return Err(self.wrong(
                    &key,
                    format!(
                        "virtual CPUs {unknown} are another cell's, or the flavor does not have them"
                    ),
                ));
            }
            left = left.difference(&set);
            let key = format!("{MEMORY}{cell}");
            let mib = memory.parse().ok().filter(|mib| *mib > 0);
            let mib = mib.ok_or_else(|| self.wrong(&key, "expected a number of MiB above 0"))?;
            cells.push(WantedCell {
                vcpus: set,
                memory_mib: mib,
            });
        }
        if !left.is_empty() {
            return Err(self.wrong(NODES, format!("no {CPUS}N has the virtual CPUs {left}")));
        }
        let found = cells
            .iter()
            .fold(0_u64, |sum, cell| sum.saturating_add(cell.memory_mib));
        if found != memory_mib {
            return Err(self.wrong(
                NODES,
                format!("the sum of the cells' {MEMORY}N is {found} MiB; the flavor has {memory_mib} MiB"),
            ));
        }
        Ok(cells)
    }

    /// The values of a key that ends with a cell's index.
    fn of_cells(self, prefix: &str) -> Result<BTreeMap<u32, &'a str>, FlavorExtraSpecError> {
        let mut cells = BTreeMap::new();
        for key in self.0.keys() {
            let Some(number) = key.strip_prefix(prefix) else {
                continue;
            };
            // Accept only one spelling of each index, so that a cell has one value.
            let plain = number
                .parse::<u32>()
                .ok()
                .filter(|n| n.to_string() == number);
            let number = plain
                .ok_or_else(|| self.wrong(key, "the key ends with a cell's number, from 0"))?;
            cells.extend(self.get(key).map(|value| (number, value)));
        }
        Ok(cells)
    }
}

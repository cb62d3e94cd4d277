//! A flavor's NUMA cells.

use std::collections::BTreeMap;

use berth_virt::CpuSet;

use crate::fit::flavor::extra_specs::{CPUS, ExtraSpecs, FlavorError, MEMORY, WantedCell};

const NODES: &str = "hw:numa_nodes";

/// More cells than any machine has.
const MOST_CELLS: u32 = 64;

impl<'a> ExtraSpecs<'a> {
    /// The cells that are asked for; none where none are.
    pub(super) fn cells(self, vcpus: u32, memory_mib: u64) -> Result<Vec<WantedCell>, FlavorError> {
        let (cpus, memory) = (self.of_cells(CPUS)?, self.of_cells(MEMORY)?);
        let Some(text) = self.get(NODES) else {
            return match cpus
                .keys()
                .map(|n| format!("{CPUS}{n}"))
                .chain(memory.keys().map(|n| format!("{MEMORY}{n}")))
                .next()
            {
                Some(key) => Err(self.wrong(&key, format!("means something only with {NODES}"))),
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
            (true, true) => self.alike(nodes, vcpus, memory_mib),
            (false, false) => self.each(nodes, vcpus, memory_mib, &cpus, &memory),
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

    /// Cells of the same size.
    fn alike(
        self,
        nodes: u32,
        vcpus: u32,
        memory_mib: u64,
    ) -> Result<Vec<WantedCell>, FlavorError> {
        let parts = [
            (u64::from(vcpus), "virtual CPUs", CPUS),
            (memory_mib, "MiB", MEMORY),
        ];
        for (whole, of, key) in parts {
            if !whole.is_multiple_of(u64::from(nodes)) {
                let reason = format!(
                    "{whole} {of} do not part evenly over {nodes} cells; say {key}N and its like for each"
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

    /// Cells as they are described.
    fn each(
        self,
        nodes: u32,
        vcpus: u32,
        memory_mib: u64,
        cpus: &BTreeMap<u32, &str>,
        memory: &BTreeMap<u32, &str>,
    ) -> Result<Vec<WantedCell>, FlavorError> {
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
            let set = set.ok_or_else(|| self.wrong(&key, "virtual CPUs are expected, as 0-1,4"))?;
            let unknown = set.difference(&left);
            if !unknown.is_empty() {
                return Err(self.wrong(
                    &key,
                    format!(
                        "virtual CPUs {unknown} are another cell's, or not the flavor's at all"
                    ),
                ));
            }
            left = left.difference(&set);
            let key = format!("{MEMORY}{cell}");
            let mib = memory.parse().ok().filter(|mib| *mib > 0);
            let mib = mib.ok_or_else(|| self.wrong(&key, "a number of MiB above 0 is expected"))?;
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
                format!("the cells' {MEMORY}N come to {found} MiB, the flavor has {memory_mib}"),
            ));
        }
        Ok(cells)
    }

    /// The values of a key that ends with a cell's number.
    fn of_cells(self, prefix: &str) -> Result<BTreeMap<u32, &'a str>, FlavorError> {
        let mut cells = BTreeMap::new();
        for key in self.0.keys() {
            let Some(number) = key.strip_prefix(prefix) else {
                continue;
            };
            // Two ways to write one number would be two values of one cell.
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

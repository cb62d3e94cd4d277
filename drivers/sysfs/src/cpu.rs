//! Reads CPUs and NUMA cells: which CPUs are online, which cell each belongs to, and each cell's memory and huge pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use berth_virt::{CpuSet, HostNumaCell};

use crate::Sysfs;
use crate::read::{self, SysfsError};

/// The largest accepted CPU number. Linux supports at most 8192.
const LAST_CPU: u32 = 65_535;

impl Sysfs {
    /// The online CPUs; `None` if the tree does not contain them.
    pub fn online_cpus(&self) -> Result<Option<CpuSet>, SysfsError> {
        let path = self.root().join("devices/system/cpu/online");
        read::value(&path, "a list of CPUs such as 0-3,8", cpu_list)
    }

    /// Whether a parameter of the kernel's module `kvm_amd` is on; not so without the module.
    pub fn kvm_amd_has(&self, parameter: &str) -> Result<bool, SysfsError> {
        let path = self
            .root()
            .join("module/kvm_amd/parameters")
            .join(parameter);
        let is_on = |text: &str| match text {
            "Y" | "1" => Some(true),
            "N" | "0" => Some(false),
            _ => None,
        };
        Ok(read::value(&path, "Y or N", is_on)?.unwrap_or(false))
    }

    /// The NUMA cells by number; empty if the kernel reports none. A cell may have no CPU. The kernel does not state the
    /// size of its usual pages.
    pub fn numa_cells(&self) -> Result<Vec<HostNumaCell>, SysfsError> {
        let directory = self.root().join("devices/system/node");
        let mut cells = Vec::new();
        for name in read::names(&directory)? {
            if let Some(id) = name.strip_prefix("node").and_then(read::decimal) {
                cells.extend(self.numa_cell(&directory.join(&name), id)?);
            }
        }
        cells.sort_unstable_by_key(|cell| cell.id);
        Ok(cells)
    }

    fn numa_cell(&self, at: &Path, id: u32) -> Result<Option<HostNumaCell>, SysfsError> {
        let cpus = read::value(
            &at.join("cpulist"),
            "a list of CPUs such as 0-3,8",
            cpu_list,
        )?;
        let memory = read::value(
            &at.join("meminfo"),
            "a line \"Node N MemTotal: K kB\"",
            memory_total,
        )?;
        let (Some(cpus), Some(memory_kib)) = (cpus, memory) else {
            return Ok(None);
        };
        Ok(Some(HostNumaCell {
            siblings: self.siblings(&cpus)?,
            huge_pages: huge_pages(&at.join("hugepages"))?,
            socket: self.socket(&cpus)?,
            ..HostNumaCell::new(id, cpus, memory_kib / 1024)
        }))
    }

    /// The CPUs grouped by core. An offline CPU has no topology.
    fn siblings(&self, cpus: &CpuSet) -> Result<Vec<CpuSet>, SysfsError> {
        let mut cores = BTreeSet::new();
        for cpu in cpus.iter() {
            let path = format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            let path = self.root().join(path);
            cores.extend(read::value(&path, "a list of CPUs such as 0,32", cpu_list)?);
        }
        Ok(cores.into_iter().collect())
    }

    /// The socket of these CPUs; `None` if they are in several, or if unknown (the kernel then reports -1).
    fn socket(&self, cpus: &CpuSet) -> Result<Option<u32>, SysfsError> {
        let mut sockets = BTreeSet::new();
        for cpu in cpus.iter() {
            let path = format!("devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            let number = |text: &str| text.parse::<i64>().ok();
            let number = read::value(&self.root().join(path), "a socket's number", number)?;
            sockets.extend(number);
        }
        let mut sockets = sockets.into_iter();
        let only = sockets.next().filter(|_| sockets.next().is_none());
        Ok(only.and_then(|socket| u32::try_from(socket).ok()))
    }
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains(" MemTotal:"))?;
    let (_, amount) = line.split_once("MemTotal:")?;
    read::decimal(amount.trim().strip_suffix("kB")?.trim_end())
}

/// The number of huge pages, free or not, by size in KiB.
fn huge_pages(directory: &Path) -> Result<BTreeMap<u64, u64>, SysfsError> {
    let mut pages = BTreeMap::new();
    for name in read::names(directory)? {
        let size = name
            .strip_prefix("hugepages-")
            .and_then(|rest| rest.strip_suffix("kB"));
        let Some(size_kib) = size.and_then(read::decimal) else {
            continue;
        };
        let count = directory.join(&name).join("nr_hugepages");
        let count = read::value(&count, "a count", read::decimal)?;
        if let Some(count) = count {
            pages.insert(size_kib, count);
        }
    }
    Ok(pages)
}

/// Reads the kernel's list format, `0-3,8,10-11`; an empty text is the empty set. `None` for anything else, ranges that run
/// backwards and numbers above 65535 included.
fn cpu_list(text: &str) -> Option<CpuSet> {
    let mut cpus = BTreeSet::new();
    if text.is_empty() {
        return Some(CpuSet::default());
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (number(first)?, number(last)?);
        if first > last || last > LAST_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}

/// Digits only: the standard parser would take a plus sign too.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        read::decimal(text)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tree::TestTree;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        for (text, cpus) in [
            ("", vec![]),
            ("0", vec![0]),
            ("0-3,8", vec![0, 1, 2, 3, 8]),
            ("10-11,2", vec![2, 10, 11]),
        ] {
            assert_eq!(cpu_list(text), Some(cpus.into_iter().collect()), "{text}");
        }
        for bad in ["-", "1-", "3-1", "a", "0,,1", "+1", "0-4294967295", "0 1"] {
            assert_eq!(cpu_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn cells_have_cpus_memory_and_huge_pages() {
        let tree = TestTree::new();
        tree.write("devices/system/cpu/online", "0-3\n");
        tree.numa_cell(0, "0-1", 16_384_000);
        tree.numa_cell(1, "2-3", 8_192_000);
        tree.huge_pages(1, 2048, 512);
        for cpu in [2, 3] {
            let topology = format!("devices/system/cpu/cpu{cpu}/topology");
            tree.write(&format!("{topology}/thread_siblings_list"), "2-3\n");
            tree.write(&format!("{topology}/physical_package_id"), "1\n");
        }
        tree.write("devices/system/node/possible", "0-1\n");
        let cells = tree.sysfs().numa_cells().unwrap();
        assert_eq!(
            cells[1],
            HostNumaCell {
                siblings: vec![CpuSet::from_iter([2, 3])],
                huge_pages: [(2048, 512)].into(),
                socket: Some(1),
                ..HostNumaCell::new(1, CpuSet::from_iter([2, 3]), 8000)
            }
        );
        assert!(cells[0].huge_pages.is_empty());
        assert_eq!(cells[0].socket, None);
        for (package, socket) in [("2", None), ("-1", None), ("1", Some(1))] {
            let file = "devices/system/cpu/cpu3/topology/physical_package_id";
            tree.write(file, package);
            let cells = tree.sysfs().numa_cells().unwrap();
            assert_eq!(cells[1].socket, socket, "{package}");
        }
        assert_eq!(tree.sysfs().online_cpus().unwrap(), Some(CpuSet::first(4)));
    }

    #[test]
    fn a_tree_that_says_nothing_is_no_error() {
        let tree = TestTree::new();
        assert_eq!(tree.sysfs().online_cpus().unwrap(), None);
        assert_eq!(tree.sysfs().numa_cells().unwrap(), []);
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_file() {
        for (file, content) in [
            ("devices/system/node/node0/cpulist", "zero"),
            ("devices/system/node/node0/meminfo", "Node 0 MemFree: 1 kB"),
            ("devices/system/node/node0/meminfo", "Node 0 MemTotal: lots"),
            (
                "devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
                "x",
            ),
        ] {
            let tree = TestTree::new();
            tree.numa_cell(0, "0", 1024);
            tree.huge_pages(0, 2048, 1);
            tree.write(file, content);
            let error = tree.sysfs().numa_cells().unwrap_err().to_string();
            assert!(error.contains(file), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_set_written_as_ranges_reads_back(cpus in proptest::collection::btree_set(0u32..9000, 0..40)) {
            let text: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            prop_assert_eq!(cpu_list(&text.join(",")), Some(cpus.into_iter().collect()));
        }

        #[test]
        fn no_text_makes_the_list_reader_panic(text in "[0-9,+ -]{0,24}|\\PC{0,24}") {
            let _ = cpu_list(&text);
        }
    }
}

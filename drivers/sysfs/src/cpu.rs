//! Reads CPUs and NUMA cells: which CPUs are online, which cell each belongs to, and each cell's memory and huge pages.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Sysfs;
use crate::read::{self, SysfsError};

/// The largest accepted CPU number. Linux supports at most 8192.
const LAST_CPU: u32 = 65_535;

/// One NUMA cell of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaCell {
    pub id: u32,
    /// Its CPUs, online or not. Empty for a cell that has only memory.
    pub cpus: BTreeSet<u32>,
    /// Its CPUs grouped by core, as far as known.
    pub siblings: BTreeSet<BTreeSet<u32>>,
    /// Its memory in KiB (`MemTotal`).
    pub memory_kib: u64,
    /// Its huge pages, by size.
    pub huge_pages: Vec<HugePagePool>,
    /// The socket of all its CPUs, if known.
    pub socket: Option<u32>,
}

/// The huge pages of one size in one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePagePool {
    /// Size of one page in KiB, for example 2048 or 1048576.
    pub size_kib: u64,
    pub total: u64,
    /// How many of them are free.
    pub free: u64,
}

impl Sysfs {
    /// The online CPUs; `None` if the tree does not contain them.
    pub fn online_cpus(&self) -> Result<Option<BTreeSet<u32>>, SysfsError> {
        let path = self.root().join("devices/system/cpu/online");
        read::value(&path, "a list of CPUs such as 0-3,8", cpu_list)
    }

    /// The NUMA cells by number; empty if the kernel reports none.
    pub fn numa_cells(&self) -> Result<Vec<NumaCell>, SysfsError> {
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

    fn numa_cell(&self, at: &Path, id: u32) -> Result<Option<NumaCell>, SysfsError> {
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
        Ok(Some(NumaCell {
            id,
            siblings: self.siblings(&cpus)?,
            socket: self.socket(&cpus)?,
            cpus,
            memory_kib,
            huge_pages: huge_pages(&at.join("hugepages"))?,
        }))
    }

    /// The CPUs grouped by core. An offline CPU has no topology.
    fn siblings(&self, cpus: &BTreeSet<u32>) -> Result<BTreeSet<BTreeSet<u32>>, SysfsError> {
        let mut cores = BTreeSet::new();
        for cpu in cpus {
            let path = format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            let path = self.root().join(path);
            cores.extend(read::value(&path, "a list of CPUs such as 0,32", cpu_list)?);
        }
        Ok(cores)
    }

    /// The socket of these CPUs; `None` if they are in several, or if unknown (the kernel then reports -1).
    fn socket(&self, cpus: &BTreeSet<u32>) -> Result<Option<u32>, SysfsError> {
        let mut sockets = BTreeSet::new();
        for cpu in cpus {
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

fn huge_pages(directory: &Path) -> Result<Vec<HugePagePool>, SysfsError> {
    let mut pages = Vec::new();
    for name in read::names(directory)? {
        let size = name
            .strip_prefix("hugepages-")
            .and_then(|rest| rest.strip_suffix("kB"));
        let Some(size_kib) = size.and_then(read::decimal) else {
            continue;
        };
        let count =
            |file: &str| read::value(&directory.join(&name).join(file), "a count", read::decimal);
        if let (Some(total), Some(free)) = (count("nr_hugepages")?, count("free_hugepages")?) {
            pages.push(HugePagePool {
                size_kib,
                total,
                free,
            });
        }
    }
    pages.sort_unstable_by_key(|pages| pages.size_kib);
    Ok(pages)
}

/// Reads the kernel's list format, `0-3,8,10-11`; an empty text is the empty set. `None` for anything else, ranges that run
/// backwards and numbers above 65535 included.
#[must_use]
pub fn cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    if text.is_empty() {
        return Some(cpus);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (number(first)?, number(last)?);
        if first > last || last > LAST_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
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
        tree.huge_pages(1, 2048, 512, 500);
        for cpu in [2, 3] {
            let topology = format!("devices/system/cpu/cpu{cpu}/topology");
            tree.write(&format!("{topology}/thread_siblings_list"), "2-3\n");
            tree.write(&format!("{topology}/physical_package_id"), "1\n");
        }
        tree.write("devices/system/node/possible", "0-1\n");
        let cells = tree.sysfs().numa_cells().unwrap();
        assert_eq!(
            cells[1],
            NumaCell {
                id: 1,
                cpus: [2, 3].into(),
                siblings: [[2, 3].into()].into(),
                memory_kib: 8_192_000,
                huge_pages: vec![HugePagePool {
                    size_kib: 2048,
                    total: 512,
                    free: 500
                }],
                socket: Some(1),
            }
        );
        assert_eq!((&cells[0].huge_pages, cells[0].socket), (&vec![], None));
        for (package, socket) in [("2", None), ("-1", None), ("1", Some(1))] {
            let file = "devices/system/cpu/cpu3/topology/physical_package_id";
            tree.write(file, package);
            let cells = tree.sysfs().numa_cells().unwrap();
            assert_eq!(cells[1].socket, socket, "{package}");
        }
        assert_eq!(
            tree.sysfs().online_cpus().unwrap(),
            Some([0, 1, 2, 3].into())
        );
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
            tree.huge_pages(0, 2048, 1, 1);
            tree.write(file, content);
            let error = tree.sysfs().numa_cells().unwrap_err().to_string();
            assert!(error.contains(file), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_set_written_as_ranges_reads_back(cpus in proptest::collection::btree_set(0u32..9000, 0..40)) {
            let text: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            prop_assert_eq!(cpu_list(&text.join(",")), Some(cpus));
        }

        #[test]
        fn no_text_makes_the_list_reader_panic(text in "[0-9,+ -]{0,24}|\\PC{0,24}") {
            let _ = cpu_list(&text);
        }
    }
}

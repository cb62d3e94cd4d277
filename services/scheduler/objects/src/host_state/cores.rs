//! CPU cores of a NUMA cell.

use super::CpuSet;

/// The cores as sets of thread siblings; a core without siblings is a set of one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cores {
    cores: Vec<CpuSet>,
    all: CpuSet,
    threads: usize,
}

impl Cores {
    pub fn iter(&self) -> impl Iterator<Item = &CpuSet> {
        self.cores.iter()
    }

    /// The CPUs of all cores.
    #[must_use]
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    /// The threads of the largest core; `None` if the host does not report cores.
    #[must_use]
    pub fn threads(&self) -> Option<usize> {
        (!self.cores.is_empty()).then(|| self.threads.max(1))
    }
}

impl FromIterator<CpuSet> for Cores {
    fn from_iter<I: IntoIterator<Item = CpuSet>>(cores: I) -> Self {
        let cores: Vec<CpuSet> = cores.into_iter().collect();
        Self {
            all: cores.iter().flat_map(CpuSet::iter).collect(),
            threads: cores.iter().map(CpuSet::len).max().unwrap_or_default(),
            cores,
        }
    }
}

//! CPU cores of a NUMA cell.

use serde::{Deserialize, Serialize};

use super::CpuBitSet;

/// The cores as sets of thread siblings; a core without siblings is a set of one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<CpuBitSet>", into = "Vec<CpuBitSet>")]
pub struct Cores {
    cores: Vec<CpuBitSet>,
    all: CpuBitSet,
    threads: usize,
}

impl Cores {
    pub fn iter(&self) -> impl Iterator<Item = &CpuBitSet> {
        self.cores.iter()
    }

    /// The CPUs of all cores.
    #[must_use]
    pub fn all(&self) -> &CpuBitSet {
        &self.all
    }

    /// The threads of the largest core; `None` if the host does not report cores.
    #[must_use]
    pub fn threads(&self) -> Option<usize> {
        (!self.cores.is_empty()).then(|| self.threads.max(1))
    }
}

impl FromIterator<CpuBitSet> for Cores {
    fn from_iter<I: IntoIterator<Item = CpuBitSet>>(cores: I) -> Self {
        let cores: Vec<CpuBitSet> = cores.into_iter().collect();
        Self {
            all: cores.iter().flat_map(CpuBitSet::iter).collect(),
            threads: cores.iter().map(CpuBitSet::len).max().unwrap_or_default(),
            cores,
        }
    }
}

impl From<Vec<CpuBitSet>> for Cores {
    fn from(cores: Vec<CpuBitSet>) -> Self {
        cores.into_iter().collect()
    }
}

impl From<Cores> for Vec<CpuBitSet> {
    fn from(cores: Cores) -> Self {
        cores.cores
    }
}

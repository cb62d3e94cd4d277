//! A node's NUMA cells with the usage of guests: Nova's `NUMACell`. An agent composes them from the observed cells and its
//! journal; the scheduler reads them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Cores, CpuBitSet};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaCell {
    /// The host's cell number.
    pub id: i64,
    /// CPUs for guests that share them.
    pub cpuset: CpuBitSet,
    /// CPUs for guests with dedicated CPUs.
    pub pcpuset: CpuBitSet,
    pub memory: i64,
    /// CPUs that guests have.
    #[serde(default)]
    pub cpu_usage: i64,
    /// Memory that guests have, in MiB.
    #[serde(default)]
    pub memory_usage: i64,
    /// CPUs dedicated to a guest.
    #[serde(default)]
    pub pinned_cpus: CpuBitSet,
    /// CPUs that are threads of one core, a set for each core.
    #[serde(default)]
    pub siblings: Cores,
    /// Memory by the size of its pages.
    #[serde(default)]
    pub mempages: Vec<NumaPages>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<i64>,
    /// Physical networks with cards at this cell.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub physnets: BTreeSet<String>,
    /// Whether tunnelled networks leave from this cell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tunneled: bool,
}

/// The pages of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaPages {
    /// The size of one page in KiB.
    pub size_kb: i64,
    pub total: i64,
    /// Pages that guests have.
    #[serde(default)]
    pub used: i64,
    /// Pages that guests cannot have.
    #[serde(default)]
    pub reserved: i64,
}

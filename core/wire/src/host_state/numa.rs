//! A node's NUMA cells, like Nova's `NUMACell`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaCellBody {
    /// The host's cell number.
    pub id: i64,
    /// CPUs for guests that share them.
    pub cpuset: BTreeSet<u32>,
    /// CPUs for guests with dedicated CPUs.
    pub pcpuset: BTreeSet<u32>,
    pub memory: i64,
    /// CPUs that guests have.
    #[serde(default)]
    pub cpu_usage: i64,
    /// Memory that guests have, in MiB.
    #[serde(default)]
    pub memory_usage: i64,
    /// CPUs dedicated to a guest.
    #[serde(default)]
    pub pinned_cpus: BTreeSet<u32>,
    /// CPUs that are threads of one core, a set for each core.
    #[serde(default)]
    pub siblings: Vec<BTreeSet<u32>>,
    /// Memory by the size of its pages.
    #[serde(default)]
    pub mempages: Vec<MemoryPagesBody>,
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
pub struct MemoryPagesBody {
    /// Of one page, in KiB.
    pub size_kb: i64,
    pub total: i64,
    /// How many guests have.
    #[serde(default)]
    pub used: i64,
    /// How many are no guest's to have.
    #[serde(default)]
    pub reserved: i64,
}

//! Parses the extra specs of a flavor that concern its placement: [`FlavorPlacement`].
//!
//! | key | values |
//! |---|---|
//! | `hw:cpu_policy` | `shared`, `dedicated`, `mixed` |
//! | `hw:cpu_dedicated_mask` | the pinned virtual CPUs of a mixed instance: `0-1`, or `^0-1` for all others |
//! | `hw:cpu_thread_policy` | `prefer`, `isolate`, `require` |
//! | `hw:emulator_threads_policy` | `share`, `isolate` |
//! | `hw:numa_nodes`, `hw:numa_cpus.N`, `hw:numa_mem.N` | number of cells; CPUs and memory (MiB) of each |
//! | `hw:mem_page_size` | `small`, `large`, `any`, a number of KiB, or a size such as `2MB` |
//! | `hw:pci_numa_affinity_policy` | `required`, `preferred`, `legacy`, `none` |
//! | `resources:PCPU`, `trait:HW_CPU_HYPERTHREADING` | Placement's equivalents |

use std::collections::BTreeMap;

use super::extra_specs::{ExtraSpecs, FlavorExtraSpecError, ThreadPolicy, WantedCell, WantedPages};
use crate::CpuSet;

/// The CPUs for the emulator's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EmulatorThreads {
    /// The CPUs of the virtual CPUs.
    #[default]
    Unspecified,
    /// The host's shared CPUs.
    Share,
    /// An additional dedicated CPU.
    Isolate,
}

/// The NUMA affinity of a device. It has no effect on an instance without cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// A guest cell must be on the device's cell, which must be known.
    Required,
    /// A guest cell must be on the device's cell, if that is known.
    Legacy,
    /// The device's cell is preferred.
    Preferred,
    /// The device may be anywhere.
    None,
}

/// The placement that a flavor requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorPlacement {
    vcpus: u32,
    memory_mib: u64,
    cells: Vec<WantedCell>,
    dedicated: CpuSet,
    threads: ThreadPolicy,
    emulator: EmulatorThreads,
    pages: WantedPages,
    affinity: Option<Affinity>,
}

impl FlavorPlacement {
    /// Parses the extra specs of a flavor with this number of virtual CPUs (1 to 4096) and this memory.
    ///
    /// Errors: an invalid value, or two contradicting values.
    pub fn of(
        vcpus: u32,
        memory_mib: u64,
        extra_specs: &BTreeMap<String, String>,
    ) -> Result<Self, FlavorExtraSpecError> {
        let specs = ExtraSpecs(extra_specs);
        let threads = specs.threads()?;
        let emulator = specs.word(
            "hw:emulator_threads_policy",
            &[
                ("share", EmulatorThreads::Share),
                ("isolate", EmulatorThreads::Isolate),
            ],
        )?;
        let dedicated = specs.dedicated(vcpus)?;
        if dedicated.is_empty() {
            let needs = "has an effect only with hw:cpu_policy=dedicated or mixed";
            if let Some((key, _)) = threads {
                return Err(specs.wrong(key, needs));
            }
            if emulator == Some(EmulatorThreads::Isolate) {
                return Err(specs.wrong("hw:emulator_threads_policy", needs));
            }
        }
        let pages = specs.pages()?;
        let mut cells = specs.cells(vcpus, memory_mib)?;
        if cells.is_empty() && (!dedicated.is_empty() || pages != WantedPages::Unspecified) {
            cells.push(WantedCell {
                vcpus: CpuSet::first(vcpus),
                memory_mib,
            });
        }
        Ok(Self {
            vcpus,
            memory_mib,
            cells,
            dedicated,
            threads: threads.map_or(ThreadPolicy::Prefer, |(_, policy)| policy),
            emulator: emulator.unwrap_or_default(),
            pages,
            affinity: specs.word(
                "hw:pci_numa_affinity_policy",
                &[
                    ("required", Affinity::Required),
                    ("legacy", Affinity::Legacy),
                    ("preferred", Affinity::Preferred),
                    ("none", Affinity::None),
                ],
            )?,
        })
    }

    /// Checks that the memory of each cell consists of whole pages of the requested size.
    pub(super) fn check_whole_pages(
        &self,
        specs: ExtraSpecs<'_>,
    ) -> Result<(), FlavorExtraSpecError> {
        match self.pages {
            WantedPages::Of { size_kib } => specs.whole_pages(&self.cells, size_kib),
            WantedPages::Unspecified
            | WantedPages::Small
            | WantedPages::Large
            | WantedPages::Any => Ok(()),
        }
    }

    /// The number of virtual CPUs.
    #[must_use]
    pub fn vcpus(&self) -> u32 {
        self.vcpus
    }

    /// The memory in MiB.
    #[must_use]
    pub fn memory_mib(&self) -> u64 {
        self.memory_mib
    }

    /// The requested cells; empty if the instance may float over the host.
    #[must_use]
    pub fn cells(&self) -> &[WantedCell] {
        &self.cells
    }

    /// The virtual CPUs that are pinned to dedicated host CPUs.
    #[must_use]
    pub fn dedicated(&self) -> &CpuSet {
        &self.dedicated
    }

    /// How pinned virtual CPUs use the threads of cores.
    #[must_use]
    pub fn threads(&self) -> ThreadPolicy {
        self.threads
    }

    /// Where the emulator's threads run.
    #[must_use]
    pub fn emulator(&self) -> EmulatorThreads {
        self.emulator
    }

    /// The requested page size.
    #[must_use]
    pub fn pages(&self) -> WantedPages {
        self.pages
    }

    /// The requested affinity of devices, if any.
    #[must_use]
    pub fn affinity(&self) -> Option<Affinity> {
        self.affinity
    }
}

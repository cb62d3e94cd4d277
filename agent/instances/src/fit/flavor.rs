//! What a flavor asks for of the host: its extra specs, read whole.
//!
//! | key | values |
//! |---|---|
//! | `hw:cpu_policy` | `shared`, `dedicated`, `mixed` |
//! | `hw:cpu_dedicated_mask` | the pinned virtual CPUs of a mixed guest: `0-1`, or `^0-1` for all others |
//! | `hw:cpu_thread_policy` | `prefer`, `isolate`, `require` |
//! | `hw:emulator_threads_policy` | `share`, `isolate` |
//! | `hw:numa_nodes`, `hw:numa_cpus.N`, `hw:numa_mem.N` | cells, and what each has (MiB) |
//! | `hw:mem_page_size` | `small`, `large`, `any`, a number of KiB, or a size such as `2MB` |
//! | `hw:pci_numa_affinity_policy` | `required`, `preferred`, `legacy`, `none` |
//! | `os:secure_boot` | `required`, `optional`, `disabled`; read with the image's firmware |
//! | `resources:PCPU`, `trait:HW_CPU_HYPERTHREADING` | the same in Placement's words |
//!
//! Any other key of `hw:`, and those of `quota:` and `os:`, ask the host for what it does not do here: they are refused, and
//! not passed over. Keys of other namespaces are the scheduler's.

mod extra_specs;
mod masks;
mod numa;
mod pages;

use std::collections::BTreeMap;

use berth_virt::CpuSet;

use crate::fit::flavor::extra_specs::ExtraSpecs;

pub use extra_specs::{FlavorError, ThreadPolicy, WantedCell, WantedPages};

/// Where the emulator's own threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EmulatorThreads {
    /// Where the virtual CPUs run.
    #[default]
    Unsaid,
    /// On the host's shared CPUs.
    Share,
    /// On a dedicated CPU more.
    Isolate,
}

/// How near the guest's devices must be to its cells. Means nothing for a guest without cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// A cell of the guest is on the device's, which must be known.
    Required,
    /// A cell of the guest is on the device's where that is known.
    Legacy,
    /// The device's cell is taken first.
    Preferred,
    /// It does not matter.
    None,
}

/// What a flavor asks for of the host.
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
    /// Reads a flavor of so many virtual CPUs (1 to 4096) and so much memory.
    ///
    /// Errors: A key is not known, its value is none of its values, or two of them contradict each other.
    pub fn of(
        vcpus: u32,
        memory_mib: u64,
        extra_specs: &BTreeMap<String, String>,
    ) -> Result<Self, FlavorError> {
        let specs = ExtraSpecs(extra_specs);
        specs.only_known()?;
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
            let needs = "means something only with hw:cpu_policy=dedicated or mixed";
            if let Some((key, _)) = threads {
                return Err(specs.wrong(key, needs));
            }
            if emulator == Some(EmulatorThreads::Isolate) {
                return Err(specs.wrong("hw:emulator_threads_policy", needs));
            }
        }
        let pages = specs.pages()?;
        let mut cells = specs.cells(vcpus, memory_mib)?;
        if cells.is_empty() && (!dedicated.is_empty() || pages != WantedPages::Unsaid) {
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

    #[must_use]
    pub fn vcpus(&self) -> u32 {
        self.vcpus
    }

    /// Its memory in MiB.
    #[must_use]
    pub fn memory_mib(&self) -> u64 {
        self.memory_mib
    }

    /// Its cells; none: it goes anywhere on the host.
    #[must_use]
    pub fn cells(&self) -> &[WantedCell] {
        &self.cells
    }

    /// Its virtual CPUs that are pinned to host CPUs of their own.
    #[must_use]
    pub fn dedicated(&self) -> &CpuSet {
        &self.dedicated
    }

    /// Which threads those are pinned to.
    #[must_use]
    pub fn threads(&self) -> ThreadPolicy {
        self.threads
    }

    /// Where the emulator runs.
    #[must_use]
    pub fn emulator(&self) -> EmulatorThreads {
        self.emulator
    }

    #[must_use]
    pub fn pages(&self) -> WantedPages {
        self.pages
    }

    /// How near its devices must be; none where nothing is said.
    #[must_use]
    pub fn affinity(&self) -> Option<Affinity> {
        self.affinity
    }
}

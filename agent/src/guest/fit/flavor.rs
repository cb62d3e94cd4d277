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

mod masks;
mod numa;
mod pages;

use std::collections::BTreeMap;

use berth_virt::CpuSet;

/// Keys that are read, besides `hw:numa_cpus.N` and `hw:numa_mem.N`.
const KNOWN: [&str; 8] = [
    "hw:cpu_policy",
    "hw:cpu_dedicated_mask",
    "hw:cpu_thread_policy",
    "hw:emulator_threads_policy",
    "hw:numa_nodes",
    "hw:mem_page_size",
    "hw:pci_numa_affinity_policy",
    "os:secure_boot",
];

/// An extra spec that cannot be met by any host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("flavor.extra_specs: {key} is {found:?}: {reason}")]
pub struct FlavorError {
    pub key: String,
    /// Its value, at most 80 characters.
    pub found: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// Which threads of the host's cores pinned virtual CPUs run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadPolicy {
    /// Threads of the same cores where there are such (`prefer`, and where nothing is said).
    #[default]
    Prefer,
    /// A core for each, whose other threads nobody is pinned to.
    Isolate,
    /// Threads of the same cores only.
    Require,
}

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

/// The pages of a guest's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WantedPages {
    /// Nothing is said: small ones.
    #[default]
    Unsaid,
    Small,
    /// Huge ones, the largest there are.
    Large,
    /// The largest there are, small ones at last.
    Any,
    /// Huge ones of this size in KiB.
    Of {
        size_kib: u64,
    },
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

/// One cell of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCell {
    pub vcpus: CpuSet,
    /// Its memory in MiB.
    pub memory_mib: u64,
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
    /// # Errors
    /// A key is not known, its value is none of its values, or two of them contradict each other.
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

/// A flavor's extra specs.
#[derive(Clone, Copy)]
struct ExtraSpecs<'a>(&'a BTreeMap<String, String>);

impl<'a> ExtraSpecs<'a> {
    fn get(self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|value| value.trim())
    }

    fn wrong(self, key: &str, reason: impl Into<String>) -> FlavorError {
        FlavorError {
            key: key.chars().take(80).collect(),
            found: self.get(key).unwrap_or_default().chars().take(80).collect(),
            reason: reason.into(),
        }
    }

    fn only_known(self) -> Result<(), FlavorError> {
        for key in self.0.keys() {
            let Some((namespace, _)) = key.split_once(':') else {
                continue;
            };
            let of_cell = key.starts_with(numa::CPUS) || key.starts_with(numa::MEMORY);
            if matches!(namespace, "hw" | "quota" | "os")
                && !of_cell
                && !KNOWN.contains(&key.as_str())
            {
                let known = KNOWN.join(", ");
                return Err(self.wrong(
                    key,
                    format!("this host does not do what it asks for; of hw:, quota: and os: it knows {known}, {}N and {}N", numa::CPUS, numa::MEMORY),
                ));
            }
        }
        Ok(())
    }

    fn word<T: Copy>(self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, FlavorError> {
        let Some(found) = self.get(key) else {
            return Ok(None);
        };
        match words.iter().find(|(word, _)| *word == found) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                Err(self.wrong(key, format!("it is one of {}", words.join(", "))))
            }
        }
    }

    /// The thread policy, with the key that says it.
    fn threads(self) -> Result<Option<(&'static str, ThreadPolicy)>, FlavorError> {
        const KEY: &str = "hw:cpu_thread_policy";
        const TRAIT: &str = "trait:HW_CPU_HYPERTHREADING";
        let said = self.word(
            KEY,
            &[
                ("prefer", ThreadPolicy::Prefer),
                ("isolate", ThreadPolicy::Isolate),
                ("require", ThreadPolicy::Require),
            ],
        )?;
        let of_trait = match self.get(TRAIT) {
            Some("required") => Some(ThreadPolicy::Require),
            Some("forbidden") => Some(ThreadPolicy::Isolate),
            _ => None,
        };
        match (said, of_trait) {
            (Some(_), Some(_)) => Err(self.wrong(
                TRAIT,
                format!("{KEY} says it already; one of the two is enough"),
            )),
            (Some(policy), None) => Ok(Some((KEY, policy))),
            // Of a guest that is not pinned the trait says only what host it wants.
            (None, Some(policy)) if self.is_pinned() => Ok(Some((TRAIT, policy))),
            (None, _) => Ok(None),
        }
    }

    fn is_pinned(self) -> bool {
        matches!(self.get("hw:cpu_policy"), Some("dedicated" | "mixed"))
            || self.get("resources:PCPU").is_some()
    }
}

//! A flavor's extra specs, read.

use std::collections::BTreeMap;

use berth_virt::CpuSet;

/// Keys of one cell, with its number at the end.
pub(super) const CPUS: &str = "hw:numa_cpus.";
pub(super) const MEMORY: &str = "hw:numa_mem.";

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

/// One cell of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCell {
    pub vcpus: CpuSet,
    /// Its memory in MiB.
    pub memory_mib: u64,
}

/// A flavor's extra specs.
#[derive(Clone, Copy)]
pub(super) struct ExtraSpecs<'a>(pub(super) &'a BTreeMap<String, String>);

impl<'a> ExtraSpecs<'a> {
    pub(super) fn get(self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|value| value.trim())
    }

    pub(super) fn wrong(self, key: &str, reason: impl Into<String>) -> FlavorError {
        FlavorError {
            key: key.chars().take(80).collect(),
            found: self.get(key).unwrap_or_default().chars().take(80).collect(),
            reason: reason.into(),
        }
    }

    pub(super) fn only_known(self) -> Result<(), FlavorError> {
        for key in self.0.keys() {
            let Some((namespace, _)) = key.split_once(':') else {
                continue;
            };
            let of_cell = key.starts_with(CPUS) || key.starts_with(MEMORY);
            if matches!(namespace, "hw" | "quota" | "os")
                && !of_cell
                && !KNOWN.contains(&key.as_str())
            {
                let known = KNOWN.join(", ");
                return Err(self.wrong(
                    key,
                    format!("this host does not do what it asks for; of hw:, quota: and os: it knows {known}, {}N and {}N", CPUS, MEMORY),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn word<T: Copy>(
        self,
        key: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, FlavorError> {
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
    pub(super) fn threads(self) -> Result<Option<(&'static str, ThreadPolicy)>, FlavorError> {
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

    pub(super) fn is_pinned(self) -> bool {
        matches!(self.get("hw:cpu_policy"), Some("dedicated" | "mixed"))
            || self.get("resources:PCPU").is_some()
    }
}

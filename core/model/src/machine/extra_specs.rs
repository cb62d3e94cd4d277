//! Accessors for a flavor's extra specs, and the values they parse into.

use std::collections::BTreeMap;

use crate::CpuSet;

/// Prefixes of keys that end with a cell's index.
pub(super) const CPUS: &str = "hw:numa_cpus.";
pub(super) const MEMORY: &str = "hw:numa_mem.";

/// An invalid extra spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("flavor.extra_specs: {key} is {found:?}: {reason}")]
pub struct FlavorExtraSpecError {
    /// The key, at most 80 characters.
    pub key: String,
    /// The value, at most 80 characters.
    pub found: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// How pinned virtual CPUs use the threads of the host's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadPolicy {
    /// Use threads of the same cores, if possible (`prefer`, and the default).
    #[default]
    Prefer,
    /// Use one thread per core, and leave its other threads unused.
    Isolate,
    /// Use only threads of the same cores.
    Require,
}

/// The requested page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WantedPages {
    /// Not specified: small pages.
    #[default]
    Unspecified,
    /// The smallest pages of the host.
    Small,
    /// The largest available huge pages.
    Large,
    /// The largest available pages; small pages as a last resort.
    Any,
    /// Huge pages of this size in KiB.
    Of {
        /// The size in KiB.
        size_kib: u64,
    },
}

/// A requested guest cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCell {
    /// Its virtual CPUs.
    pub vcpus: CpuSet,
    /// Its memory in MiB.
    pub memory_mib: u64,
}

#[derive(Clone, Copy)]
pub(super) struct ExtraSpecs<'a>(pub(super) &'a BTreeMap<String, String>);

impl<'a> ExtraSpecs<'a> {
    pub(super) fn get(self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|value| value.trim())
    }

    pub(super) fn wrong(self, key: &str, reason: impl Into<String>) -> FlavorExtraSpecError {
        FlavorExtraSpecError {
            key: key.chars().take(80).collect(),
            found: self.get(key).unwrap_or_default().chars().take(80).collect(),
            reason: reason.into(),
        }
    }

    pub(super) fn word<T: Copy>(
        self,
        key: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, FlavorExtraSpecError> {
        let Some(found) = self.get(key) else {
            return Ok(None);
        };
        match words.iter().find(|(word, _)| *word == found) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                Err(self.wrong(key, format!("expected one of {}", words.join(", "))))
            }
        }
    }

    /// The thread policy, with the key that sets it.
    pub(super) fn threads(
        self,
    ) -> Result<Option<(&'static str, ThreadPolicy)>, FlavorExtraSpecError> {
        const KEY: &str = "hw:cpu_thread_policy";
        const TRAIT: &str = "trait:HW_CPU_HYPERTHREADING";
        let of_spec = self.word(
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
        match (of_spec, of_trait) {
            (Some(_), Some(_)) => Err(self.wrong(
                TRAIT,
                format!("{KEY} already sets it; remove one of the two"),
            )),
            (Some(policy), None) => Ok(Some((KEY, policy))),
            // For an unpinned instance, the trait only selects the host.
            (None, Some(policy)) if self.is_pinned() => Ok(Some((TRAIT, policy))),
            (None, _) => Ok(None),
        }
    }

    pub(super) fn is_pinned(self) -> bool {
        matches!(self.get("hw:cpu_policy"), Some("dedicated" | "mixed"))
            || self.get("resources:PCPU").is_some()
    }
}

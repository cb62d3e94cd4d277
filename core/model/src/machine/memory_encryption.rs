//! How a guest's memory is encrypted: [`MemoryEncryption`].

use serde::{Deserialize, Serialize};

use crate::Trait;

/// How the processor encrypts a guest's memory, so that its host cannot read it (`hw:mem_encryption_model`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryEncryption {
    /// AMD SEV: the memory.
    AmdSev,
    /// AMD SEV-ES: the memory, and the registers of virtual CPUs.
    AmdSevEs,
}

impl MemoryEncryption {
    /// All that guests can have, in the order of errors.
    pub const ALL: [Self; 2] = [Self::AmdSev, Self::AmdSevEs];

    /// Nova's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AmdSev => "amd-sev",
            Self::AmdSevEs => "amd-sev-es",
        }
    }

    /// The trait of the provider with the contexts of such guests.
    #[must_use]
    pub const fn required_trait(self) -> Trait {
        match self {
            Self::AmdSev => Trait::known("HW_CPU_X86_AMD_SEV"),
            Self::AmdSevEs => Trait::known("HW_CPU_X86_AMD_SEV_ES"),
        }
    }
}

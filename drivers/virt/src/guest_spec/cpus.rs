//! The CPU model of a guest, and the placement of its virtual CPUs.

use serde::{Deserialize, Serialize};

use super::error::GuestSpecError;
use super::text::{self, checked_text};
use crate::CpuSet;

checked_text!(
    /// A processor model by the hypervisor's name (`Haswell-noTSX`).
    CpuModelName,
    "cpu_model",
    "1 to 64 letters, digits, _, -, . and : are a processor model's name",
    |text| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
    }
);

/// The processor a guest sees: Nova's `[libvirt] cpu_mode` and `cpu_models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuModel {
    /// The hypervisor's default (`none`).
    Default,
    /// The nearest named model to the host's (`host-model`).
    HostModel,
    /// The host's CPU model (`host-passthrough`); only with hardware virtualisation.
    HostPassthrough,
    /// All the hypervisor can show, emulated or not (`maximum`).
    Maximum,
    /// A named model (`custom`).
    Named(CpuModelName),
}

/// The placement of one virtual CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VcpuPin {
    /// On a dedicated host CPU.
    Dedicated(u32),
    /// On any of these shared host CPUs.
    Shared(#[serde(with = "text")] CpuSet),
}

/// The placement of each virtual CPU and of the hypervisor's emulator threads. The first pin belongs to virtual CPU 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PinningRecord", into = "PinningRecord")]
pub struct CpuPinning {
    pins: Vec<VcpuPin>,
    emulator: CpuSet,
}

impl CpuPinning {
    /// Pins for all virtual CPUs, in their order, and the host CPUs of the emulator's threads. Fails if a dedicated CPU
    /// is used twice (by another virtual CPU, dedicated or shared), or a set is empty.
    pub fn new(pins: Vec<VcpuPin>, emulator: CpuSet) -> Result<Self, GuestSpecError> {
        const FIELD: &str = "topology.pinning";
        let mut dedicated = std::collections::BTreeSet::new();
        for pin in &pins {
            if let VcpuPin::Dedicated(cpu) = pin
                && !dedicated.insert(*cpu)
            {
                return Err(GuestSpecError::Overlap {
                    field: FIELD,
                    shared: CpuSet::from_iter([*cpu]),
                });
            }
        }
        let dedicated = CpuSet::from_iter(dedicated);
        let shared_sets = pins.iter().filter_map(|pin| match pin {
            VcpuPin::Shared(set) => Some(set),
            VcpuPin::Dedicated(_) => None,
        });
        for set in shared_sets {
            let shared = set.intersection(&dedicated);
            if set.is_empty() {
                return Err(empty(FIELD));
            }
            if !shared.is_empty() {
                return Err(GuestSpecError::Overlap {
                    field: FIELD,
                    shared,
                });
            }
        }
        if emulator.is_empty() {
            return Err(empty("topology.pinning.emulator"));
        }
        Ok(Self { pins, emulator })
    }

    /// The pins, virtual CPU 0's first.
    #[must_use]
    pub fn pins(&self) -> &[VcpuPin] {
        &self.pins
    }

    /// The host CPUs of the emulator threads.
    #[must_use]
    pub fn emulator(&self) -> &CpuSet {
        &self.emulator
    }

    /// The host CPUs that are this guest's alone.
    #[must_use]
    pub fn dedicated(&self) -> CpuSet {
        self.pins
            .iter()
            .filter_map(|pin| match pin {
                VcpuPin::Dedicated(cpu) => Some(*cpu),
                VcpuPin::Shared(_) => None,
            })
            .collect()
    }
}

fn empty(field: &'static str) -> GuestSpecError {
    GuestSpecError::text(field, "", "at least one host CPU is needed")
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinningRecord {
    pins: Vec<VcpuPin>,
    #[serde(with = "text")]
    emulator: CpuSet,
}

impl TryFrom<PinningRecord> for CpuPinning {
    type Error = GuestSpecError;

    fn try_from(record: PinningRecord) -> Result<Self, GuestSpecError> {
        Self::new(record.pins, record.emulator)
    }
}

impl From<CpuPinning> for PinningRecord {
    fn from(CpuPinning { pins, emulator }: CpuPinning) -> Self {
        Self { pins, emulator }
    }
}

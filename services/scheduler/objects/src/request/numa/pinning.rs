//! Counts the dedicated CPUs of an instance without its cells, for the query to Placement.

use super::{CpuAllocationPolicy, CpuThreadPolicy, EmulatorThreadsPolicy, NumaRequestError, cpus};
use crate::request::source::FlavorAndImage;
use crate::request::{RequestFlavor, RequestImage};

/// The dedicated CPUs of a flavor and an image, without resource classes and traits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuCounts {
    /// CPUs that are the instance's alone, one for isolated emulator threads among them; 0: none.
    pub dedicated: i64,
    /// CPUs that it shares, where some are dedicated and some are shared.
    pub shared: Option<i64>,
    /// Whether all CPUs of the cell are dedicated.
    pub is_whole: bool,
    /// How thread siblings are used.
    pub threads: Option<CpuThreadPolicy>,
}

impl CpuCounts {
    /// Of a flavor and an image.
    ///
    /// Errors: A policy or a mask that cannot be read, or that flavor and image contradict each other in.
    pub fn new(
        flavor: &RequestFlavor,
        image: Option<&RequestImage>,
    ) -> Result<Self, NumaRequestError> {
        let source = FlavorAndImage { flavor, image };
        let policy = cpus::policy(source)?;
        let threads = cpus::thread_policy(source)?;
        let emulator = cpus::emulator_threads(source)?;
        let mut pinning = Self {
            dedicated: 0,
            shared: None,
            is_whole: policy == Some(CpuAllocationPolicy::Dedicated),
            threads,
        };
        match policy {
            None | Some(CpuAllocationPolicy::Shared) => return Ok(pinning),
            Some(CpuAllocationPolicy::Dedicated) => pinning.dedicated = flavor.vcpus,
            Some(CpuAllocationPolicy::Mixed) => {
                let vcpus = super::derive::vcpus(flavor)?;
                let mask = match cpus::dedicated(source, vcpus)? {
                    None => cpus::realtime(source, vcpus, emulator)?,
                    mask => mask,
                };
                let many = mask.map_or(0, |cpus| cpus.iter().count());
                pinning.dedicated = i64::try_from(many).unwrap_or(flavor.vcpus);
                pinning.shared = Some(flavor.vcpus - pinning.dedicated);
            }
        }
        if emulator == Some(EmulatorThreadsPolicy::Isolate) {
            pinning.dedicated = pinning.dedicated.saturating_add(1);
        }
        Ok(pinning)
    }
}

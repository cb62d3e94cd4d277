//! What is out of the host's hands for guests, whether one has it or not: so that what a guest that is no more left behind is
//! found, and shown to whoever asks.
//!
//! Callers: the agent's comparison, which gives back what nobody holds.

use std::collections::BTreeSet;

use berth_model::PciAddress;

use crate::device_life::WantedDevice;

/// A device that was made ready for a guest and is so still: a mediated device that exists, or a function that is on the driver for
/// guests and rests on another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedDevice {
    /// The device, with what a mediated one is made of where that is known.
    pub wanted: WantedDevice,
    /// Who made it so.
    pub by: Preparer,
    /// The functions that go to a guest and come back with it: the others of its IOMMU group.
    pub fellows: BTreeSet<PciAddress>,
}

/// Who made a device ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preparer {
    /// This driver, when it was asked to: it wrote that down before.
    Berth,
    /// Somebody else, or nobody knows.
    Another,
}

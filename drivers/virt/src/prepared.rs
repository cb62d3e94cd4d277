//! Devices that are prepared for guests, in use or not. The agent compares this list with the guests and resets the
//! devices that no guest has, so the remains of deleted guests are found.

use std::collections::BTreeSet;

use berth_model::PciAddress;
use serde::{Deserialize, Serialize};

use crate::device_assignment::WantedDevice;

/// A device that is prepared for a guest: a mediated device that exists, or a function that was moved from its resting
/// driver to the driver for guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedDevice {
    /// The device; for a mediated device also its source, if known.
    pub wanted: WantedDevice,
    /// Whether Berth or another party prepared the device.
    pub by: Preparer,
    /// The functions that are given to a guest together with it: the other members of its IOMMU group.
    pub group_members: BTreeSet<PciAddress>,
}

/// Who prepared a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preparer {
    /// This driver, on request. It records each request before executing it.
    Berth,
    /// Another party, or unknown.
    Another,
}

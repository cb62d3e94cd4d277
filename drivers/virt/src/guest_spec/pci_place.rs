//! The places of devices in the host's PCI tree: [`HostPciPlaces`].

use std::collections::BTreeMap;

use berth_model::PciAddress;
use serde::{Deserialize, Serialize};

use super::text;
use crate::HostDeviceId;

/// The place of a device in the host's PCI tree. A mediated device has the place of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPciPlace {
    /// Its NUMA node, if the host reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// The upstream port of the PCI Express switch that it is connected to; `None` without a switch.
    #[serde(default, with = "text::maybe", skip_serializing_if = "Option::is_none")]
    pub switch: Option<PciAddress>,
}

/// The places of devices in the host's PCI tree, when they were given to a guest. The agent stores them: a host that numbers its
/// buses otherwise after a boot does not change the guest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<PlaceRecord>", into = "Vec<PlaceRecord>")]
pub struct HostPciPlaces(BTreeMap<HostDeviceId, HostPciPlace>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceRecord {
    device: HostDeviceId,
    place: HostPciPlace,
}

impl HostPciPlaces {
    /// The place of a device; `None` if unknown.
    #[must_use]
    pub fn get(&self, device: HostDeviceId) -> Option<HostPciPlace> {
        self.0.get(&device).copied()
    }

    /// Adds the place of a device. A known place stays.
    pub fn add(&mut self, device: HostDeviceId, place: HostPciPlace) {
        self.0.entry(device).or_insert(place);
    }

    /// Whether no place is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(HostDeviceId, HostPciPlace)> for HostPciPlaces {
    fn from_iter<T: IntoIterator<Item = (HostDeviceId, HostPciPlace)>>(places: T) -> Self {
        Self(places.into_iter().collect())
    }
}

impl From<Vec<PlaceRecord>> for HostPciPlaces {
    fn from(records: Vec<PlaceRecord>) -> Self {
        let places = records.into_iter();
        places.map(|record| (record.device, record.place)).collect()
    }
}

impl From<HostPciPlaces> for Vec<PlaceRecord> {
    fn from(places: HostPciPlaces) -> Self {
        let places = places.0.into_iter();
        let records = places.map(|(device, place)| PlaceRecord { device, place });
        records.collect()
    }
}

//! S3: a device belongs to at most one guest.

use std::collections::{BTreeMap, BTreeSet};

use super::{InvariantId, Violation, Worlds};
use crate::ConsumerUuid;

pub(super) fn s3(worlds: &Worlds) -> Vec<Violation> {
    let mut owners: BTreeMap<&str, BTreeSet<ConsumerUuid>> = BTreeMap::new();
    for (consumer, guest) in &worlds.guests {
        for device in &guest.devices {
            owners.entry(device).or_default().insert(*consumer);
        }
    }
    for device in &worlds.devices {
        let known = owners.entry(&device.name).or_default();
        known.extend(device.owners.iter().copied());
    }
    owners
        .into_iter()
        .filter(|(_, owners)| owners.len() > 1)
        .map(|(device, owners)| {
            let owners: Vec<_> = owners.iter().map(ToString::to_string).collect();
            let finding = format!("device {device} belongs to {}", owners.join(" and to "));
            Violation::of(InvariantId::S3, finding)
        })
        .collect()
}

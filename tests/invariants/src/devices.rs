//! S3: a device belongs to at most one guest, and to at most one bound request.

use std::collections::{BTreeMap, BTreeSet};

use crate::{InvariantId, SystemSnapshot, Violation};
use berth_model::ConsumerUuid;

pub(crate) fn s3(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let mut owners: BTreeMap<&str, BTreeSet<ConsumerUuid>> = BTreeMap::new();
    for (consumer, guest) in &snapshot.guests {
        for device in &guest.devices {
            owners.entry(device).or_default().insert(*consumer);
        }
    }
    for device in &snapshot.devices {
        let known = owners.entry(&device.name).or_default();
        known.extend(device.owners.iter().copied());
    }
    let mut held = BTreeSet::new();
    let bound = snapshot.accelerators.iter().flat_map(|it| it.bound());
    let twice = bound
        .filter_map(|row| row.device.as_deref())
        .filter(|device| !held.insert(*device))
        .map(|device| {
            let finding = format!("device {device} is bound by two requests");
            Violation::of(InvariantId::S3, finding)
        });
    let twice: Vec<_> = twice.collect();
    owners
        .into_iter()
        .filter(|(_, owners)| owners.len() > 1)
        .map(|(device, owners)| {
            let owners: Vec<_> = owners.iter().map(ToString::to_string).collect();
            let finding = format!("device {device} belongs to {}", owners.join(" and to "));
            Violation::of(InvariantId::S3, finding)
        })
        .chain(twice)
        .collect()
}

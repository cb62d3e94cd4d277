//! The usage of a node by its instances: CPUs, pages and devices. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_agent_journal::{GuestRecord, GuestRequest, NamedDevice as _};
use berth_model::ConsumerUuid;
use berth_virt::NodeView;

use crate::fit::HostUsage;

/// The CPU and page usage of a node: by the journaled instances of the node, and by other guests on it.
pub fn host_usage<'a>(
    records: impl IntoIterator<Item = &'a GuestRecord>,
    seen: &NodeView,
) -> HostUsage {
    let mut held = HostUsage::default();
    let mut known = BTreeSet::new();
    for record in records.into_iter().filter(|record| record.may_hold()) {
        known.insert(record.request.uuid());
        held.add(
            &record.request.spec().topology,
            &record.request.reserved_cpus(),
        );
    }
    let foreign = seen.guests.iter();
    for (_, guest) in foreign.filter(|(uuid, _)| !known.contains(uuid)) {
        held.add_foreign(guest);
    }
    held
}

/// The names of devices in use: by journaled instances, whose devices may not be bound yet, and by all guests on the
/// hypervisor.
pub fn devices_in_use<'a>(
    records: impl IntoIterator<Item = &'a GuestRecord>,
    seen: &NodeView,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for record in records.into_iter().filter(|record| record.may_hold()) {
        let own = record.request.spec().devices.as_slice().iter();
        names.extend(own.map(|attached| attached.device.name()));
        let bound = record.devices.iter().flat_map(|devices| devices.iter());
        names.extend(bound.map(|device| device.name()));
    }
    for guest in seen.guests.values() {
        names.extend(
            guest
                .mdevs
                .iter()
                .map(|mdev| mdev.uuid.hyphenated().to_string()),
        );
        names.extend(guest.functions.iter().map(ToString::to_string));
    }
    names
}

/// The reserved CPUs of another instance that this request pins, with the instance. Only needed for complete specs,
/// which bring their own placement.
pub(crate) fn conflicting_pins(
    request: &GuestRequest,
    records: &[Arc<GuestRecord>],
) -> Option<(berth_virt::CpuSet, ConsumerUuid)> {
    let own = request.reserved_cpus();
    let others = records.iter().filter(|record| {
        record.may_hold()
            && record.request.uuid() != request.uuid()
            && record.request.node() == request.node()
    });
    let shared = others.map(|record| {
        let shared = record.request.reserved_cpus().intersection(&own);
        (shared, record.request.uuid())
    });
    shared.into_iter().find(|(shared, _)| !shared.is_empty())
}

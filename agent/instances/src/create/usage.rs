//! What instances hold of a node: CPUs, pages and devices. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_agent_journal::{GuestRecord, GuestRequest, NamedDevice as _};
use berth_model::ConsumerUuid;
use berth_virt::NodeView;

use crate::fit::HostUsage;

/// What guests hold of a node: those of the journal that are meant for it, and those on it that are not among them.
pub fn held<'a>(records: impl IntoIterator<Item = &'a GuestRecord>, seen: &NodeView) -> HostUsage {
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

/// The names of devices that guests have: those of the journal, whose devices may not be bound yet, and those on the
/// hypervisor, whoever made them.
pub fn taken<'a>(
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

/// Whether a guest whose place was not picked here is pinned to CPUs that are kept for another.
pub(crate) fn pinned_elsewhere(
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

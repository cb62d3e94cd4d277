//! Finds the guest of a consumer. A consumer is an instance or a migration. The hypervisor knows the UUID of an
//! instance, but often not that of a migration; the guest is then inferred from the consumer's allocations, if
//! possible.

use std::collections::BTreeMap;

use berth_model::{ConsumerAllocations, ConsumerUuid};

use super::HomeQuery;
use crate::{GuestView, NodeView, resource_kind::ResourceKind};

/// Amounts by kind of resource.
type KindAmounts = BTreeMap<ResourceKind, u64>;

/// The guest by the consumer's UUID, by a known further consumer, or the only guest that fits. `None` if the guest with
/// the consumer's UUID cannot be read.
pub(super) fn guest_of<'a>(query: &HomeQuery<'a>) -> Option<&'a GuestView> {
    let consumer = query.allocation.consumer;
    if query.seen.unreadable.contains_key(&consumer) {
        return None;
    }
    guest_by_uuid(query.seen, consumer).or_else(|| inferred(query, consumer))
}

fn guest_by_uuid(seen: &NodeView, consumer: ConsumerUuid) -> Option<&GuestView> {
    let by_uuid = seen.guests.get(&consumer);
    by_uuid.or_else(|| {
        let mut guests = seen.guests.values();
        guests.find(|guest| guest.also.contains(&consumer))
    })
}

/// The only guest that uses exactly what the consumer holds, if its own consumer holds nothing of that kind and it fits
/// no other unknown consumer. Two candidates give `None`: a guess could move units to another guest's device.
fn inferred<'a>(query: &HomeQuery<'a>, consumer: ConsumerUuid) -> Option<&'a GuestView> {
    let held = query.all.of(&consumer)?;
    let wanted = amounts(query, held);
    if wanted.is_empty() {
        return None;
    }
    if may_be_unreadable(query, &wanted) {
        return None;
    }
    let mut fitting = query
        .seen
        .guests
        .iter()
        .filter(|(uuid, guest)| {
            uses(query.seen, guest, &wanted) && is_unclaimed(query, **uuid, guest, &wanted)
        })
        .map(|(_, guest)| guest);
    let guest = fitting.next()?;
    let contested = query.all.consumers().any(|(other, held)| {
        let held = amounts(query, held);
        *other != consumer
            && shares_a_kind(&held, &wanted)
            && uses(query.seen, guest, &held)
            && guest_by_uuid(query.seen, *other).is_none()
            && !query.seen.unreadable.contains_key(other)
    });
    (fitting.next().is_none() && !contested).then_some(guest)
}

/// A consumer's allocations on this tree, by kind.
fn amounts(query: &HomeQuery<'_>, held: &ConsumerAllocations) -> KindAmounts {
    let mut amounts = KindAmounts::new();
    for ((provider, class), amount) in &held.resources {
        if let Some(kind) = ResourceKind::of(query.seen, class)
            && query.is_on_tree(*provider)
        {
            *amounts.entry(kind).or_insert(0) += amount;
        }
    }
    amounts
}

fn uses(seen: &NodeView, guest: &GuestView, wanted: &KindAmounts) -> bool {
    wanted
        .iter()
        .all(|(kind, amount)| used(seen, guest, *kind) == *amount)
}

fn used(seen: &NodeView, guest: &GuestView, kind: ResourceKind) -> u64 {
    match kind {
        ResourceKind::Mdev => guest.mdevs.len() as u64,
        ResourceKind::Cpu => guest.vcpus,
        ResourceKind::Memory => guest.memory_mib,
        ResourceKind::Function => {
            let offered = |function| {
                seen.functions
                    .iter()
                    .any(|card| card.addresses.contains(function))
            };
            guest.functions.iter().filter(|f| offered(f)).count() as u64
        }
    }
}

/// Whether no known consumer of the guest holds units of these kinds.
fn is_unclaimed(
    query: &HomeQuery<'_>,
    uuid: ConsumerUuid,
    guest: &GuestView,
    wanted: &KindAmounts,
) -> bool {
    std::iter::once(&uuid)
        .chain(&guest.also)
        .filter_map(|consumer| query.all.of(consumer))
        .all(|held| !shares_a_kind(&amounts(query, held), wanted))
}

/// Whether an unreadable guest may be the one searched for: its own consumer holds nothing of these kinds.
fn may_be_unreadable(query: &HomeQuery<'_>, wanted: &KindAmounts) -> bool {
    query.seen.unreadable.keys().any(|uuid| {
        let held = query.all.of(uuid);
        !held.is_some_and(|held| shares_a_kind(&amounts(query, held), wanted))
    })
}

fn shares_a_kind(one: &KindAmounts, other: &KindAmounts) -> bool {
    one.keys().any(|kind| other.contains_key(kind))
}

//! Finds the guest of a consumer. A consumer is an instance, whose UUID the hypervisor knows, or a migration, whose
//! UUID it often does not know. In the latter case the guest is inferred from the consumer's allocations, if possible.

use std::collections::BTreeMap;

use berth_model::{ConsumerAllocations, ConsumerUuid};

use super::Asked;
use crate::{GuestView, NodeView, resource_kind::ResourceKind};

/// Amounts by kind of resource.
type Amounts = BTreeMap<ResourceKind, u64>;

/// The guest by the consumer's UUID, by a known further consumer, or the only one that fits. `None` if the guest with
/// the consumer's UUID cannot be read.
pub(super) fn guest_of<'a>(asked: &Asked<'a>) -> Option<&'a GuestView> {
    let consumer = asked.allocation.consumer;
    if asked.seen.unreadable.contains_key(&consumer) {
        return None;
    }
    named(asked.seen, consumer).or_else(|| inferred(asked, consumer))
}

fn named(seen: &NodeView, consumer: ConsumerUuid) -> Option<&GuestView> {
    let by_uuid = seen.guests.get(&consumer);
    by_uuid.or_else(|| {
        let mut guests = seen.guests.values();
        guests.find(|guest| guest.also.contains(&consumer))
    })
}

/// The only guest that uses exactly what the consumer holds, whose own consumer holds nothing of that kind, and that
/// fits no other unknown consumer. Two candidates give `None`: a guess could move units to another guest's device.
fn inferred<'a>(asked: &Asked<'a>, consumer: ConsumerUuid) -> Option<&'a GuestView> {
    let held = asked.all.of(&consumer)?;
    let wanted = amounts(asked, held);
    if wanted.is_empty() {
        return None;
    }
    if may_be_unreadable(asked, &wanted) {
        return None;
    }
    let mut fitting = asked
        .seen
        .guests
        .iter()
        .filter(|(uuid, guest)| {
            uses(asked.seen, guest, &wanted) && is_unclaimed(asked, **uuid, guest, &wanted)
        })
        .map(|(_, guest)| guest);
    let guest = fitting.next()?;
    let contested = asked.all.consumers().any(|(other, held)| {
        let held = amounts(asked, held);
        *other != consumer
            && shares_a_kind(&held, &wanted)
            && uses(asked.seen, guest, &held)
            && named(asked.seen, *other).is_none()
            && !asked.seen.unreadable.contains_key(other)
    });
    (fitting.next().is_none() && !contested).then_some(guest)
}

/// A consumer's allocations on this tree, by kind.
fn amounts(asked: &Asked<'_>, held: &ConsumerAllocations) -> Amounts {
    let mut amounts = Amounts::new();
    for ((provider, class), amount) in &held.resources {
        if let Some(kind) = ResourceKind::of(asked.seen, class)
            && asked.is_on_tree(*provider)
        {
            *amounts.entry(kind).or_insert(0) += amount;
        }
    }
    amounts
}

fn uses(seen: &NodeView, guest: &GuestView, wanted: &Amounts) -> bool {
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
    asked: &Asked<'_>,
    uuid: ConsumerUuid,
    guest: &GuestView,
    wanted: &Amounts,
) -> bool {
    std::iter::once(&uuid)
        .chain(&guest.also)
        .filter_map(|consumer| asked.all.of(consumer))
        .all(|held| !shares_a_kind(&amounts(asked, held), wanted))
}

/// Whether an unreadable guest may be the one searched for: its own consumer holds nothing of these kinds.
fn may_be_unreadable(asked: &Asked<'_>, wanted: &Amounts) -> bool {
    asked.seen.unreadable.keys().any(|uuid| {
        let held = asked.all.of(uuid);
        !held.is_some_and(|held| shares_a_kind(&amounts(asked, held), wanted))
    })
}

fn shares_a_kind(one: &Amounts, other: &Amounts) -> bool {
    one.keys().any(|kind| other.contains_key(kind))
}

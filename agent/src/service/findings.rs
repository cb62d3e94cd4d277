//! What the nodes' last passes mean for health. Worked out anew from all of them each time, so that one node's success does
//! not hide another one's trouble.

use berth_agent_api::health::{
    DEVICES_UNFIT, GUESTS_HELD, HELD_UNITS, Health, IDENTITY, NODE_GONE, NOT_IN_SYNC,
    PLACEMENT_AWAY, PLACEMENT_REFUSES, RESHAPE_FAILED, RESHAPE_NEEDED, SCHEDULER_NOT_TOLD,
    STATE_FILES, UNREADABLE_GUESTS, Warnable,
};
use berth_agent_api::{NodeState, Trouble};
use berth_agent_instances::HeldGuests;
use berth_model::NodeName;
use berth_virt::{HostView, NodeView, UnfitReason};
use tokio::time::Instant;

/// Findings that are about the agent's peers, whichever node met them.
const SHARED: [(Trouble, &Warnable); 2] = [
    (Trouble::PlacementAway, &PLACEMENT_AWAY),
    (Trouble::PlacementRefuses, &PLACEMENT_REFUSES),
];

/// Findings about one node.
const OWN: [(Trouble, &Warnable); 3] = [
    (Trouble::Identity, &IDENTITY),
    (Trouble::ReshapeNeeded, &RESHAPE_NEEDED),
    (Trouble::ReshapeFailed, &RESHAPE_FAILED),
];

/// Sets and clears what follows from the nodes' last passes.
pub(super) fn of_nodes<'a>(
    health: &mut Health,
    nodes: impl Iterator<Item = (&'a NodeName, &'a NodeState)> + Clone,
    now: Instant,
) {
    for (trouble, warnable) in SHARED {
        match nodes
            .clone()
            .find(|(_, node)| node.trouble == Some(trouble))
        {
            Some((_, node)) => health.set(
                warnable
                    .found()
                    .with("error", node.failure().unwrap_or_default()),
                now,
            ),
            None => health.clear(warnable, ""),
        }
    }
    for (name, node) in nodes {
        of_node(health, name, node, now);
    }
}

fn of_node(health: &mut Health, name: &NodeName, node: &NodeState, now: Instant) {
    let found = |warnable: &'static Warnable| {
        let error = node.failure().unwrap_or_default();
        warnable.found().of(name.to_string()).with("error", error)
    };
    for (trouble, warnable) in OWN {
        if node.trouble == Some(trouble) {
            health.set(found(warnable), now);
        } else {
            health.clear(warnable, name.as_str());
        }
    }
    if node.trouble.is_some() {
        health.set(found(&NOT_IN_SYNC), now);
    } else {
        health.clear(&NOT_IN_SYNC, name.as_str());
    }
    if node.held.is_empty() {
        health.clear(&HELD_UNITS, name.as_str());
    } else {
        let units: Vec<String> = node.held.iter().map(ToString::to_string).collect();
        health.set(
            HELD_UNITS
                .found()
                .of(name.to_string())
                .with("units", units.join(", ")),
            now,
        );
    }
}

/// Guests named in one sentence.
const NAMED: usize = 5;

/// Why devices of this host are not fit for guests, each device once.
pub(super) fn unfit(view: &HostView) -> impl Iterator<Item = UnfitReason> {
    let devices = view.nodes.values().flat_map(|node| &node.devices);
    devices.filter_map(|device| device.condition.reason())
}

/// Devices that are not fit; one that an operator disabled is as it should be. (The driver tells the log what it sees.)
fn of_devices(health: &mut Health, name: &NodeName, node: &NodeView, now: Instant) {
    let unfit = node.devices.iter().filter_map(|device| {
        let reason = device.condition.reason()?;
        let address = device.address;
        (reason != UnfitReason::Disabled).then(|| format!("{address}: {}", reason.as_str()))
    });
    let mut devices: Vec<String> = unfit.collect();
    if devices.is_empty() {
        return health.clear(&DEVICES_UNFIT, name.as_str());
    }
    let more = devices.len().saturating_sub(NAMED);
    devices.truncate(NAMED);
    if more > 0 {
        devices.push(format!("{more} more"));
    }
    let found = DEVICES_UNFIT.found().of(name.to_string());
    health.set(found.with("devices", devices.join("; ")), now);
}

/// Sets and clears what follows from a look by itself: which guests cannot be read, and which devices are not fit. Told once,
/// until it changes.
pub(super) fn of_view(health: &mut Health, view: &HostView, now: Instant) {
    for (name, node) in &view.nodes {
        of_devices(health, name, node, now);
        if node.unreadable.is_empty() {
            health.clear(&UNREADABLE_GUESTS, name.as_str());
            continue;
        }
        let guests = node.unreadable.iter().take(NAMED).map(|(uuid, guest)| {
            let (name, reason) = (&guest.name, &guest.reason);
            format!("{name} ({uuid}): {reason}")
        });
        let mut guests: Vec<String> = guests.collect();
        match node.unreadable.len().saturating_sub(NAMED) {
            0 => {}
            more => guests.push(format!("{more} more")),
        }
        let found = UNREADABLE_GUESTS.found().of(name.to_string());
        let found = found.with("guests", guests.join("; "));
        if !health.says(&found) {
            tracing::warn!(node = %name, "guests cannot be read: {}", found.text());
        }
        health.set(found, now);
    }
}

/// Sets and clears what follows from guests that stand still. (Each was told in the log when it began to.)
pub(super) fn of_guests(health: &mut Health, held: &HeldGuests, now: Instant) {
    if held.is_empty() {
        return health.clear(&GUESTS_HELD, "");
    }
    let named = held.iter().take(NAMED);
    let mut guests: Vec<String> = named.map(|(uuid, why)| format!("{uuid}: {why}")).collect();
    match held.len().saturating_sub(NAMED) {
        0 => {}
        more => guests.push(format!("{more} more")),
    }
    health.set(GUESTS_HELD.found().with("guests", guests.join("; ")), now);
}

/// Sets and clears what follows from a journal that cannot be used. (Whoever uses it tells the log.)
pub(super) fn of_journal(
    health: &mut Health,
    name: &'static str,
    unusable: Option<String>,
    now: Instant,
) {
    match unusable {
        Some(error) => health.set(STATE_FILES.found().of(name).with("error", error), now),
        None => health.clear(&STATE_FILES, name),
    }
}

/// Sets and clears what follows from a scheduler that is not told of this host. (Whoever tells it tells the log.)
pub(super) fn of_scheduler(health: &mut Health, untold: Option<String>, now: Instant) {
    match untold {
        Some(error) => health.set(SCHEDULER_NOT_TOLD.found().with("error", error), now),
        None => health.clear(&SCHEDULER_NOT_TOLD, ""),
    }
}

/// A node is shown (again): nothing that was said about its absence holds.
pub(super) fn node_came(health: &mut Health, name: &NodeName) {
    health.clear(&NODE_GONE, name.as_str());
}

/// A node is no longer shown: what was said about it no longer matters, but that it is gone does.
pub(super) fn node_went(health: &mut Health, name: &NodeName, now: Instant) {
    for warnable in [
        &IDENTITY,
        &RESHAPE_NEEDED,
        &RESHAPE_FAILED,
        &NOT_IN_SYNC,
        &HELD_UNITS,
        &UNREADABLE_GUESTS,
        &DEVICES_UNFIT,
    ] {
        health.clear(warnable, name.as_str());
    }
    health.set(NODE_GONE.found().of(name.to_string()), now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_cannot_be_used_is_told_until_it_can() {
        let mut health = Health::default();
        let now = Instant::now();
        let why = "guests.db holds of guest x what cannot be read".to_owned();
        of_journal(&mut health, "guests.db", Some(why.clone()), now);
        of_journal(&mut health, "conductor.db", None, now);
        let [message] = &health.visible(now)[..] else {
            panic!("one finding");
        };
        assert_eq!((message.code, &message.text), ("state-files", &why));
        of_journal(&mut health, "guests.db", None, now);
        assert!(health.visible(now).is_empty());
    }

    #[test]
    fn guests_that_stand_still_are_named_with_the_reason_until_none_does() {
        let mut health = Health::default();
        let now = Instant::now();
        let held: HeldGuests = (0..7)
            .map(|n| {
                let uuid = format!("5c965fc9-a7cd-4d38-8ccb-d8821db50d0{n}");
                (uuid.parse().unwrap(), "the disk is full".to_owned())
            })
            .collect();
        of_guests(&mut health, &held, now);
        let [message] = &health.visible(now)[..] else {
            panic!("one finding for all of them");
        };
        assert_eq!(message.code, "guests-held");
        assert!(
            message.text.contains("the disk is full"),
            "{}",
            message.text
        );
        assert!(message.text.contains("2 more"), "{}", message.text);
        of_guests(&mut health, &HeldGuests::new(), now);
        assert!(health.visible(now).is_empty());
    }
}

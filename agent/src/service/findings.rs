//! Health findings that follow from passes and observations. They are computed from all nodes each time, so that the
//! success of one node does not hide the problem of another.

use berth_agent_api::health::{
    AgentHealth, DEVICES_UNFIT, GUESTS_HELD, HELD_UNITS, IDENTITY, NODE_GONE, NOT_IN_SYNC,
    PLACEMENT_AWAY, PLACEMENT_REFUSES, RESHAPE_FAILED, RESHAPE_NEEDED, SCHEDULER_NOT_INFORMED,
    STATE_FILES, UNREADABLE_GUESTS, Warnable,
};
use berth_agent_api::{FailureCause, NodeState};
use berth_agent_instances::BlockedGuests;
use berth_model::NodeName;
use berth_virt::{HostView, NodeView, UnfitReason};
use tokio::time::Instant;

/// Findings about a peer service; any node can cause them.
const SHARED: [(FailureCause, &Warnable); 2] = [
    (FailureCause::PlacementUnreachable, &PLACEMENT_AWAY),
    (FailureCause::PlacementRefuses, &PLACEMENT_REFUSES),
];

/// Findings about one node.
const OWN: [(FailureCause, &Warnable); 3] = [
    (FailureCause::Identity, &IDENTITY),
    (FailureCause::ReshapeNeeded, &RESHAPE_NEEDED),
    (FailureCause::ReshapeFailed, &RESHAPE_FAILED),
];

/// Updates the findings that follow from the last pass of each node.
pub(super) fn of_nodes<'a>(
    health: &mut AgentHealth,
    nodes: impl Iterator<Item = (&'a NodeName, &'a NodeState)> + Clone,
    now: Instant,
) {
    for (failure_cause, warnable) in SHARED {
        match nodes
            .clone()
            .find(|(_, node)| node.failure_cause == Some(failure_cause))
        {
            Some((_, node)) => health.set(
                warnable
                    .finding()
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

fn of_node(health: &mut AgentHealth, name: &NodeName, node: &NodeState, now: Instant) {
    let found = |warnable: &'static Warnable| {
        let error = node.failure().unwrap_or_default();
        warnable
            .finding()
            .about(name.to_string())
            .with("error", error)
    };
    for (failure_cause, warnable) in OWN {
        if node.failure_cause == Some(failure_cause) {
            health.set(found(warnable), now);
        } else {
            health.clear(warnable, name.as_str());
        }
    }
    if node.failure_cause.is_some() {
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
                .finding()
                .about(name.to_string())
                .with("units", units.join(", ")),
            now,
        );
    }
}

/// Maximum number of objects in one text.
const NAMED: usize = 5;

/// Reasons of all unfit devices of the host; each device counts once.
pub(super) fn unfit(view: &HostView) -> impl Iterator<Item = UnfitReason> {
    let devices = view.nodes.values().flat_map(|node| &node.devices);
    devices.filter_map(|device| device.condition.reason())
}

/// Updates the finding about unfit devices. A device that an operator disabled is not unfit. The driver logs the
/// devices.
fn of_devices(health: &mut AgentHealth, name: &NodeName, node: &NodeView, now: Instant) {
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
    let found = DEVICES_UNFIT.finding().about(name.to_string());
    health.set(found.with("devices", devices.join("; ")), now);
}

/// Updates the findings that follow from an observation: unreadable guests and unfit devices. Unreadable guests are
/// logged once until they change.
pub(super) fn of_view(health: &mut AgentHealth, view: &HostView, now: Instant) {
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
        let found = UNREADABLE_GUESTS.finding().about(name.to_string());
        let found = found.with("guests", guests.join("; "));
        if !health.contains(&found) {
            tracing::warn!(node = %name, "guests cannot be read: {}", found.text());
        }
        health.set(found, now);
    }
}

/// Updates the finding about blocked guests. Each was logged when it became blocked.
pub(super) fn of_guests(health: &mut AgentHealth, held: &BlockedGuests, now: Instant) {
    if held.is_empty() {
        return health.clear(&GUESTS_HELD, "");
    }
    let named = held.iter().take(NAMED);
    let mut guests: Vec<String> = named.map(|(uuid, why)| format!("{uuid}: {why}")).collect();
    match held.len().saturating_sub(NAMED) {
        0 => {}
        more => guests.push(format!("{more} more")),
    }
    health.set(GUESTS_HELD.finding().with("guests", guests.join("; ")), now);
}

/// Updates the finding about a journal. The journal's user logs the error.
pub(super) fn of_journal(
    health: &mut AgentHealth,
    name: &'static str,
    unusable: Option<String>,
    now: Instant,
) {
    match unusable {
        Some(error) => health.set(STATE_FILES.finding().about(name).with("error", error), now),
        None => health.clear(&STATE_FILES, name),
    }
}

/// Updates the finding about failed reports of the host state. The reporter logs the error.
pub(super) fn of_scheduler(health: &mut AgentHealth, report_error: Option<String>, now: Instant) {
    match report_error {
        Some(error) => health.set(SCHEDULER_NOT_INFORMED.finding().with("error", error), now),
        None => health.clear(&SCHEDULER_NOT_INFORMED, ""),
    }
}

/// Clears the finding that the node is missing.
pub(super) fn node_appeared(health: &mut AgentHealth, name: &NodeName) {
    health.clear(&NODE_GONE, name.as_str());
}

/// Clears all findings about the node, and adds the finding that it is missing.
pub(super) fn node_disappeared(health: &mut AgentHealth, name: &NodeName, now: Instant) {
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
    health.set(NODE_GONE.finding().about(name.to_string()), now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_cannot_be_used_is_reported_until_it_can() {
        let mut health = AgentHealth::default();
        let now = Instant::now();
        let why = "guests.db has an invalid row for guest x".to_owned();
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
        let mut health = AgentHealth::default();
        let now = Instant::now();
        let held: BlockedGuests = (0..7)
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
        of_guests(&mut health, &BlockedGuests::new(), now);
        assert!(health.visible(now).is_empty());
    }
}

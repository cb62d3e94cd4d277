//! S5 and L4: a device is reset and verified between two owners; an unallocated device is reset or in quarantine.

use crate::{InvariantId, SystemSnapshot, Violation};

/// S5: no device was used by two guests without a reset in between, and none is available before its reset.
pub(crate) fn s5(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (device, users) in &snapshot.users_since_reset {
        if users.len() > 1 {
            let users: Vec<_> = users.iter().map(ToString::to_string).collect();
            let users = users.join(" and then ");
            findings.push(format!(
                "device {device} was used by {users} without a reset"
            ));
        }
        let offered = snapshot.accelerators.as_ref();
        if offered.is_some_and(|it| it.free.contains(device)) && !users.is_empty() {
            findings.push(format!("device {device} is offered again without a reset"));
        }
    }
    findings
        .into_iter()
        .map(|finding| Violation::of(InvariantId::S5, finding))
        .collect()
}

/// L4: an unallocated device is reset, or in quarantine with a reason.
pub(crate) fn l4(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let held = |device: &String| {
        snapshot
            .guests
            .values()
            .any(|guest| guest.devices.contains(device))
    };
    let unclean = snapshot
        .users_since_reset
        .iter()
        .filter(|(device, users)| !users.is_empty() && !held(device))
        .filter(|(device, _)| !snapshot.reported.quarantined.contains(*device));
    unclean
        .map(|(device, _)| {
            let finding =
                format!("device {device} is unallocated, not reset and not in quarantine");
            Violation::of(InvariantId::L4, finding)
        })
        .collect()
}

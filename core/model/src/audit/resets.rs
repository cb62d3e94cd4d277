//! S5 and L4: between two owners of a device lies a verified reset, and what nobody has is clean or set aside.

use super::{InvariantId, Violation, Worlds};

/// S5: no device was used by two guests without a reset between them, and none is offered before its reset.
pub(super) fn s5(worlds: &Worlds) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (device, users) in &worlds.used {
        if users.len() > 1 {
            let users: Vec<_> = users.iter().map(ToString::to_string).collect();
            let users = users.join(" and then ");
            findings.push(format!(
                "device {device} was used by {users} without a reset"
            ));
        }
        let offered = worlds.accelerators.as_ref();
        if offered.is_some_and(|it| it.free.contains(device)) && !users.is_empty() {
            findings.push(format!("device {device} is offered again without a reset"));
        }
    }
    findings
        .into_iter()
        .map(|finding| Violation::of(InvariantId::S5, finding))
        .collect()
}

/// L4: a device that nobody has is reset, or in quarantine with a reason.
pub(super) fn l4(worlds: &Worlds) -> Vec<Violation> {
    let held = |device: &String| {
        worlds
            .guests
            .values()
            .any(|guest| guest.devices.contains(device))
    };
    let unclean = worlds
        .used
        .iter()
        .filter(|(device, users)| !users.is_empty() && !held(device))
        .filter(|(device, _)| !worlds.reported.quarantined.contains(*device));
    unclean
        .map(|(device, _)| {
            let finding = format!("device {device} is nobody's, not reset and not in quarantine");
            Violation::of(InvariantId::L4, finding)
        })
        .collect()
}

//! L8: what the APIs say is what is beneath them.

use super::{InvariantId, Violation, Worlds};

/// Each API that tells guests tells those that the hypervisor has.
pub(super) fn l8(worlds: &Worlds) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (api, told) in &worlds.told {
        for guest in told.iter().filter(|it| !worlds.guests.contains_key(it)) {
            findings.push(format!("{api} tells guest {guest}, which is not there"));
        }
        for guest in worlds.guests.keys().filter(|it| !told.contains(it)) {
            findings.push(format!(
                "guest {guest} is there, and {api} does not tell it"
            ));
        }
    }
    findings
        .into_iter()
        .map(|finding| Violation::of(InvariantId::L8, finding))
        .collect()
}

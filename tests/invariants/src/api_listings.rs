//! L8: each API lists exactly the guests that the hypervisors have.

use crate::{InvariantId, SystemSnapshot, Violation};

pub(crate) fn l8(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (api, reported) in &snapshot.listed_by_api {
        for guest in reported
            .iter()
            .filter(|it| !snapshot.guests.contains_key(it))
        {
            findings.push(format!("{api} lists guest {guest}, which does not exist"));
        }
        for guest in snapshot.guests.keys().filter(|it| !reported.contains(it)) {
            findings.push(format!("guest {guest} exists, and {api} does not list it"));
        }
    }
    findings
        .into_iter()
        .map(|finding| Violation::of(InvariantId::L8, finding))
        .collect()
}

//! S4 and L3: guests, their ARQs and the devices in their definitions match.

use std::collections::BTreeSet;

use crate::{InvariantId, SystemSnapshot, Violation};
use berth_model::ArqPhase;

/// S4: the definition of a guest names exactly the devices that are bound for it.
pub(crate) fn s4(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let Some(service) = &snapshot.accelerators else {
        return Vec::new();
    };
    let guests = snapshot.guests.iter();
    let differing = guests.filter_map(|(uuid, guest)| {
        let bound = service.bound_for(*uuid);
        let finding = format!(
            "guest {uuid} has {}, bound for it is {}",
            list(&guest.devices),
            list(&bound)
        );
        (bound != guest.devices).then(|| Violation::of(InvariantId::S4, finding))
    });
    differing.collect()
}

/// L3: each ARQ is bound for a guest that exists, and no ARQ is in another state.
pub(crate) fn l3(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let requests = snapshot.accelerators.iter().flat_map(|it| &it.requests);
    let wrong = requests.filter_map(|(arq, row)| {
        if row.phase != ArqPhase::Bound {
            return Some(format!("request {arq} is left {}", row.phase));
        }
        let device = row.device.as_deref().unwrap_or("nothing");
        match row.instance {
            Some(uuid) if snapshot.guests.contains_key(&uuid) => None,
            Some(uuid) => Some(format!(
                "request {arq} is bound to {device} for {uuid}, which does not exist"
            )),
            None => Some(format!(
                "request {arq} is bound to {device} without an instance"
            )),
        }
    });
    wrong
        .map(|finding| Violation::of(InvariantId::L3, finding))
        .collect()
}

fn list(devices: &BTreeSet<String>) -> String {
    if devices.is_empty() {
        return "no device".to_owned();
    }
    let names: Vec<&str> = devices.iter().map(String::as_str).collect();
    names.join(", ")
}

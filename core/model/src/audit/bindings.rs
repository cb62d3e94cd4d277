//! S4 and L3: guests, their accelerator requests and the devices in their definitions belong to each other.

use std::collections::BTreeSet;

use super::{InvariantId, Violation, Worlds};
use crate::ArqPhase;

/// S4: a guest's definition names the devices that are bound for it, no fewer and no others.
pub(super) fn s4(worlds: &Worlds) -> Vec<Violation> {
    let Some(service) = &worlds.accelerators else {
        return Vec::new();
    };
    let guests = worlds.guests.iter();
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

/// L3: a request is bound for a guest that is there (what of it the guest has is S4's); none of another state is left.
pub(super) fn l3(worlds: &Worlds) -> Vec<Violation> {
    let requests = worlds.accelerators.iter().flat_map(|it| &it.requests);
    let wrong = requests.filter_map(|(arq, row)| {
        if row.phase != ArqPhase::Bound {
            return Some(format!("request {arq} is left {}", row.phase));
        }
        let device = row.device.as_deref().unwrap_or("nothing");
        match row.instance {
            Some(uuid) if worlds.guests.contains_key(&uuid) => None,
            Some(uuid) => Some(format!(
                "request {arq} is bound to {device} for {uuid}, which is no guest"
            )),
            None => Some(format!("request {arq} is bound to {device} for nobody")),
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

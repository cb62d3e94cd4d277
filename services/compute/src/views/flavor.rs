//! A flavor as it is told.

use berth_http::Call;
use serde_json::{Value, json};

use crate::flavors::Flavor;
use crate::microversions::{FLAVOR_DESCRIPTION, FLAVOR_EXTRA_SPECS, STRICT};
use crate::paging::links;

/// Whether the caller may see extra specs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtraSpecs {
    Shown,
    Hidden,
}

/// As a list without details has it.
pub(crate) fn brief(call: &Call, flavor: &Flavor) -> Value {
    let made = &flavor.made;
    let mut shown = json!({
        "id": made.flavorid,
        "name": made.name,
        "links": links(call, "flavors", &made.flavorid),
    });
    if call.version.has(FLAVOR_DESCRIPTION) {
        shown["description"] = json!(made.description);
    }
    shown
}

pub(crate) fn whole(call: &Call, flavor: &Flavor, specs: ExtraSpecs) -> Value {
    let made = &flavor.made;
    let mut shown = brief(call, flavor);
    shown["ram"] = json!(made.memory_mb);
    shown["vcpus"] = json!(made.vcpus);
    shown["disk"] = json!(made.root_gb);
    shown["OS-FLV-EXT-DATA:ephemeral"] = json!(made.ephemeral_gb);
    shown["OS-FLV-DISABLED:disabled"] = json!(false);
    shown["os-flavor-access:is_public"] = json!(made.is_public);
    shown["rxtx_factor"] = json!(made.rxtx_factor);
    shown["swap"] = if made.swap == 0 && !call.version.has(STRICT) {
        json!("")
    } else {
        json!(made.swap)
    };
    if call.version.has(FLAVOR_EXTRA_SPECS) && specs == ExtraSpecs::Shown {
        shown["extra_specs"] = json!(flavor.extra_specs);
    }
    shown
}

//! The JSON documents of flavors.

use berth_http::ApiRequest;
use serde_json::{Value, json};

use crate::flavors::ComputeFlavor;
use crate::microversions::{FLAVOR_DESCRIPTION, FLAVOR_EXTRA_SPECS, STRICT};
use crate::paging::links;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtraSpecsView {
    Shown,
    Hidden,
}

/// The entry in a list without details.
pub(crate) fn summary(call: &ApiRequest, flavor: &ComputeFlavor) -> Value {
    let properties = &flavor.properties;
    let mut shown = json!({
        "id": properties.flavorid,
        "name": properties.name,
        "links": links(call, "flavors", &properties.flavorid),
    });
    if call.version.has(FLAVOR_DESCRIPTION) {
        shown["description"] = json!(properties.description);
    }
    shown
}

pub(crate) fn document(call: &ApiRequest, flavor: &ComputeFlavor, specs: ExtraSpecsView) -> Value {
    let properties = &flavor.properties;
    let mut shown = summary(call, flavor);
    shown["ram"] = json!(properties.memory_mb);
    shown["vcpus"] = json!(properties.vcpus);
    shown["disk"] = json!(properties.root_gb);
    shown["OS-FLV-EXT-DATA:ephemeral"] = json!(properties.ephemeral_gb);
    shown["OS-FLV-DISABLED:disabled"] = json!(false);
    shown["os-flavor-access:is_public"] = json!(properties.is_public);
    shown["rxtx_factor"] = json!(properties.rxtx_factor);
    shown["swap"] = if properties.swap == 0 && !call.version.has(STRICT) {
        json!("")
    } else {
        json!(properties.swap)
    };
    if call.version.has(FLAVOR_EXTRA_SPECS) && specs == ExtraSpecsView::Shown {
        shown["extra_specs"] = json!(flavor.extra_specs);
    }
    shown
}

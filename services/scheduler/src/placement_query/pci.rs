//! PCI devices as request groups, for `[filter_scheduler] pci_in_placement`. Each device is a group of its own, so that
//! Placement maps it to its provider.

use std::collections::BTreeSet;

use super::standard::{class, name_of_trait};
use super::{PlacementQueryError, ResourceGroup};
use crate::request::{PciRequest, PciRequestOrigin};

/// The maximum number of devices per alias. No host has more, and each device is a request group.
const MOST_DEVICES: i64 = 1000;

/// The groups for devices that the flavor requests. Ports have separate groups.
pub(super) fn groups(
    requests: &[PciRequest],
) -> Result<Vec<(String, ResourceGroup)>, PlacementQueryError> {
    let mut groups = Vec::new();
    for request in requests {
        let PciRequestOrigin::Flavor(alias) = &request.origin else {
            continue;
        };
        let [spec] = request.spec.as_slice() else {
            return Err(PlacementQueryError::PciSpecs {
                alias: alias.clone(),
                specs: request.spec.len(),
            });
        };
        let get = |key: &str| {
            spec.get(key)
                .map(String::as_str)
                .filter(|it| !it.is_empty())
        };
        let class = match get("resource_class") {
            Some(named) => class(named),
            None => format!(
                "CUSTOM_PCI_{}_{}",
                get("vendor_id").unwrap_or_default(),
                get("product_id").unwrap_or_default()
            )
            .to_uppercase(),
        };
        let traits = get("traits").map(|traits| traits.split(',').map(name_of_trait));
        let group = ResourceGroup {
            resources: [(class, 1)].into(),
            required_traits: traits.into_iter().flatten().collect(),
            ..ResourceGroup::default()
        };
        if !(1..=MOST_DEVICES).contains(&request.count) {
            return Err(PlacementQueryError::PciCount {
                alias: alias.clone(),
                count: request.count,
                most: MOST_DEVICES,
            });
        }
        for number in 0..request.count {
            let suffix = suffix_of(request, number);
            groups.push((suffix, group.clone()));
        }
    }
    Ok(groups)
}

/// The suffixes of the groups for the devices of these aliases.
pub(super) fn suffixes(requests: &[PciRequest], aliases: &BTreeSet<&str>) -> BTreeSet<String> {
    let is_of_them = |request: &&PciRequest| match &request.origin {
        PciRequestOrigin::Flavor(alias) => aliases.contains(alias.as_str()),
        PciRequestOrigin::Port => false,
    };
    let requests = requests.iter().filter(is_of_them);
    let suffixes =
        requests.flat_map(|request| (0..request.count).map(|number| suffix_of(request, number)));
    suffixes.collect()
}

fn suffix_of(request: &PciRequest, number: i64) -> String {
    let id = request.request_id.as_deref().unwrap_or_default();
    format!("{id}-{number}")
}

/// Whether a group is for a device that the flavor requests.
pub(super) fn is_of(suffix: &str, requests: &[PciRequest]) -> bool {
    let Some((id, _)) = suffix.rsplit_once('-') else {
        return false;
    };
    let mut flavors = requests
        .iter()
        .filter(|it| it.origin != PciRequestOrigin::Port);
    flavors.any(|request| request.request_id.as_deref() == Some(id))
}

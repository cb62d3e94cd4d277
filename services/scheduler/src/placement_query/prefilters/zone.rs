//! Translates the requested availability zone into aggregates that the query to Placement requires or excludes.

use std::collections::BTreeSet;

use super::{Cloud, PlacementQueryError, aggregates};
use crate::request::RequestSpec;

/// The metadata key that names an aggregate's zone.
const KEY: &str = "availability_zone";

/// What a request for a zone means for Placement.
#[derive(Debug, Default)]
pub(super) struct ZoneConstraint {
    /// The host must be in one of these. `None`: in any or none.
    pub(super) aggregates: Option<Vec<String>>,
    /// The host must not be in any of these.
    pub(super) forbidden: Vec<String>,
}

/// The constraint of the requested zone; empty without a zone. Fails if no aggregate has the zone and it is not the
/// default one.
pub(super) fn constraint(
    request: &RequestSpec,
    cloud: &Cloud<'_>,
) -> Result<ZoneConstraint, PlacementQueryError> {
    let asked = request.availability_zone.as_deref();
    let Some(asked) = asked.filter(|zone| !zone.is_empty()) else {
        return Ok(ZoneConstraint::default());
    };
    let Some(default) = cloud.default_availability_zone else {
        // Without a default zone, the zone of hosts outside of aggregates has no name.
        return Ok(as_prefilter_of_nova(asked, cloud));
    };
    // Hosts without a zone aggregate are in the default zone, so the hosts of all other zones are excluded.
    if asked == default {
        return Ok(ZoneConstraint {
            forbidden: aggregates(cloud, |key, value| key == KEY && !is_in(value, asked)),
            ..ZoneConstraint::default()
        });
    }
    let found = aggregates(cloud, |key, value| key == KEY && is_in(value, asked));
    match found.is_empty() {
        true => Err(no_such_zone(asked, default, cloud)),
        false => Ok(ZoneConstraint {
            aggregates: Some(found),
            ..ZoneConstraint::default()
        }),
    }
}

/// The constraint of Nova's prefilter `map_az_to_placement_aggregate`: a zone without an aggregate adds none. Unlike
/// Nova's filter, it does not read lists of zones.
fn as_prefilter_of_nova(asked: &str, cloud: &Cloud<'_>) -> ZoneConstraint {
    let found = aggregates(cloud, |key, value| key == KEY && value == asked);
    ZoneConstraint {
        aggregates: (!found.is_empty()).then_some(found),
        ..ZoneConstraint::default()
    }
}

/// Whether an aggregate's value names the zone. As in Nova's `AvailabilityZoneFilter`, the value may be a
/// comma-separated list.
fn is_in(value: &str, asked: &str) -> bool {
    value == asked || value.split(',').any(|zone| zone.trim() == asked)
}

fn no_such_zone(asked: &str, default: &str, cloud: &Cloud<'_>) -> PlacementQueryError {
    let zones = cloud
        .aggregates
        .iter()
        .filter_map(|it| it.metadata.get(KEY));
    let zones = zones.flat_map(|zones| zones.split(',')).map(str::trim);
    let zones: BTreeSet<&str> = zones.chain([default]).collect();
    PlacementQueryError::NoSuchZone {
        availability_zone: asked.to_owned(),
        zones: zones.into_iter().map(str::to_owned).collect(),
    }
}

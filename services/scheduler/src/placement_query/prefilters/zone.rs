//! Translates the requested availability zone into aggregates.

use std::collections::BTreeSet;

use super::{Cloud, PlacementQueryError, aggregates};
use crate::request::RequestSpec;

/// The metadata key that names an aggregate's zone.
const KEY: &str = "availability_zone";

/// The aggregates that a zone requires and excludes.
#[derive(Debug, Default)]
pub(super) struct Zone {
    /// The host must be in one of these.
    pub(super) aggregates: Option<Vec<String>>,
    /// The host must not be in any of these.
    pub(super) forbidden: Vec<String>,
}

/// The aggregates of the requested zone.
pub(super) fn demands(
    request: &RequestSpec,
    cloud: &Cloud<'_>,
) -> Result<Zone, PlacementQueryError> {
    let asked = request.availability_zone.as_deref();
    let Some(asked) = asked.filter(|zone| !zone.is_empty()) else {
        return Ok(Zone::default());
    };
    let Some(default) = cloud.default_availability_zone else {
        return Ok(as_nova(asked, cloud));
    };
    // Hosts without a zone aggregate are in the default zone, so the hosts of all other zones are excluded.
    if asked == default {
        return Ok(Zone {
            forbidden: aggregates(cloud, |key, value| key == KEY && !is_in(value, asked)),
            ..Zone::default()
        });
    }
    let found = aggregates(cloud, |key, value| key == KEY && is_in(value, asked));
    match found.is_empty() {
        true => Err(no_such(asked, default, cloud)),
        false => Ok(Zone {
            aggregates: Some(found),
            ..Zone::default()
        }),
    }
}

/// Nova's behavior: a zone without an aggregate adds no constraint.
fn as_nova(asked: &str, cloud: &Cloud<'_>) -> Zone {
    let found = aggregates(cloud, |key, value| key == KEY && value == asked);
    Zone {
        aggregates: (!found.is_empty()).then_some(found),
        ..Zone::default()
    }
}

/// Whether an aggregate's value names the zone. As in `AvailabilityZoneFilter`, the value may be a comma-separated
/// list.
fn is_in(value: &str, asked: &str) -> bool {
    value == asked || value.split(',').any(|zone| zone.trim() == asked)
}

fn no_such(asked: &str, default: &str, cloud: &Cloud<'_>) -> PlacementQueryError {
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

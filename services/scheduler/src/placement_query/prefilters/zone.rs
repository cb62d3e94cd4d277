//! The availability zone that is asked for, as aggregates.

use std::collections::BTreeSet;

use super::{Cloud, PlacementQueryError, aggregates};
use crate::request::RequestSpec;

/// The key of aggregates that names a zone.
const KEY: &str = "availability_zone";

/// What a zone comes to.
#[derive(Debug, Default)]
pub(super) struct Zone {
    /// A host has to be in one of these.
    pub(super) aggregates: Option<Vec<String>>,
    /// And in none of these.
    pub(super) forbidden: Vec<String>,
}

/// Of the zone that is asked for.
pub(super) fn wishes(
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
    // A host that no aggregate puts in a zone is in this one: those in another are told apart, not those in it.
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

/// A zone that no aggregate has asks for none.
fn as_nova(asked: &str, cloud: &Cloud<'_>) -> Zone {
    let found = aggregates(cloud, |key, value| key == KEY && value == asked);
    Zone {
        aggregates: (!found.is_empty()).then_some(found),
        ..Zone::default()
    }
}

/// Whether an aggregate's zone is this one, or one of its several, which are told apart by commas as `AvailabilityZoneFilter` does.
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

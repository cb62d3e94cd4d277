//! `AvailabilityZoneFilter`: the host must be in the requested zone. A host without a zone is in
//! `default_availability_zone`.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct AvailabilityZoneFilter;

impl Filter for AvailabilityZoneFilter {
    fn name(&self) -> &'static str {
        "AvailabilityZoneFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(
        &'a self,
        request: &'a RequestSpec,
        options: &'a SchedulerOptions,
    ) -> FilterPlan<'a> {
        let asked = request.availability_zone.as_deref();
        let Some(asked) = asked.filter(|zone| !zone.is_empty()) else {
            return FilterPlan::PassAll;
        };
        let default = &options.default.default_availability_zone;
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let aggregates = &host.state.aggregates;
            let is_there = match aggregates.has(KEY) {
                true => aggregates.split(KEY).any(|zone| zone == asked),
                false => default == asked,
            };
            if is_there {
                return Ok(());
            }
            let zones: Vec<&str> = match aggregates.has(KEY) {
                true => aggregates.split(KEY).collect(),
                false => vec![default],
            };
            Err(Reason::WrongZone {
                availability_zone: asked.to_owned(),
                zones: zones.into_iter().map(str::to_owned).collect(),
            })
        })
    }
}

const KEY: &str = "availability_zone";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::{options, verdicts};

    #[test]
    fn a_host_is_in_the_zones_of_its_aggregates() {
        let hosts = json!([
            {"aggregates": [{"metadata": {"availability_zone": "a, b"}}]},
            {"aggregates": [{"metadata": {"other": "a"}}]},
            {},
        ]);
        for (zone, expected) in [
            (json!("a"), ["", "wrong_zone", "wrong_zone"]),
            (json!("a, b"), ["wrong_zone"; 3]),
            (json!("home"), ["wrong_zone", "", ""]),
            (json!(""), [""; 3]),
            (json!(null), [""; 3]),
        ] {
            let options = options("DEFAULT", "default_availability_zone", &json!("home"));
            let request = json!({"availability_zone": zone});
            let got = verdicts("AvailabilityZoneFilter", &options, &request, &hosts);
            assert_eq!(got, expected, "{zone}");
        }
    }
}

//! `AggregateTypeAffinityFilter`: if the host's aggregates have the key `instance_type`, one of its values must name
//! the flavor.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::Aggregates;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct AggregateTypeAffinityFilter;

impl Filter for AggregateTypeAffinityFilter {
    fn name(&self) -> &'static str {
        "AggregateTypeAffinityFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let flavor = request.flavor.name.as_str();
        FilterPlan::by_aggregates(move |aggregates: &Aggregates| {
            if !aggregates.has(KEY) || aggregates.split(KEY).any(|it| it == flavor) {
                return Ok(());
            }
            Err(Reason::FlavorNotAllowed {
                flavor: flavor.to_owned(),
                allowed: aggregates.split(KEY).map(str::to_owned).collect(),
            })
        })
    }
}

const KEY: &str = "instance_type";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn aggregates_may_be_for_some_flavors() {
        let aggregate = |value: &str| json!({"metadata": {"instance_type": value}});
        let hosts = json!([
            {"aggregates": [aggregate("m1.tiny"), aggregate("m1.large, m1.small")]},
            {"aggregates": [aggregate("m1.tiny")]},
            {"aggregates": [aggregate("")]},
            {"aggregates": [{"metadata": {}}]},
            {},
        ]);
        let request = json!({"flavor": {"name": "m1.small"}});
        let no = "flavor_not_allowed";
        assert_eq!(
            verdicts(
                "AggregateTypeAffinityFilter",
                &SchedulerOptions::default(),
                &request,
                &hosts
            ),
            ["", no, no, "", ""]
        );
    }
}

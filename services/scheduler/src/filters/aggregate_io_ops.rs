//! `AggregateIoOpsFilter`: like `IoOpsFilter`, with the limit of the host's aggregates.

use super::io_ops::is_below;
use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct AggregateIoOpsFilter;

impl Filter for AggregateIoOpsFilter {
    fn name(&self) -> &'static str {
        "AggregateIoOpsFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, options: &'a SchedulerOptions) -> FilterPlan<'a> {
        let configured = options.filter_scheduler.max_io_ops_per_host;
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let own = host.state.aggregates.least_int("max_io_ops_per_host");
            is_below(host.state.num_io_ops, own.unwrap_or(configured))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::{options, verdicts};

    #[test]
    fn the_least_limit_of_the_aggregates_counts() {
        let aggregates = |limits: &[&str]| -> Vec<_> {
            let one = |limit| json!({"metadata": {"max_io_ops_per_host": limit}});
            limits.iter().map(one).collect()
        };
        let hosts = json!([
            {"num_io_ops": 2, "aggregates": aggregates(&["3", "4"])},
            {"num_io_ops": 3, "aggregates": aggregates(&["3", "4"])},
            {"num_io_ops": 3, "aggregates": aggregates(&["1", "x"])},
            {"num_io_ops": 3},
            {"num_io_ops": 5},
        ]);
        let options = options("filter_scheduler", "max_io_ops_per_host", &json!(5));
        assert_eq!(
            verdicts("AggregateIoOpsFilter", &options, &json!({}), &hosts),
            ["", "too_many_io_ops", "", "", "too_many_io_ops"]
        );
    }
}

//! `RetryFilter`: the host must not be one where the build already failed.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct RetryFilter;

impl Filter for RetryFilter {
    fn name(&self) -> &'static str {
        "RetryFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        if request.tried.is_empty() {
            return FilterPlan::PassAll;
        }
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let (name, node) = (&host.state.host, &host.state.nodename);
            let is_it = |tried: &(String, String)| tried.0 == *name && tried.1 == *node;
            if !request.tried.iter().any(is_it) {
                return Ok(());
            }
            Err(Reason::AlreadyTried {
                host: name.clone(),
                node: node.clone(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn a_node_where_the_build_failed_is_not_tried_again() {
        let hosts = json!([{"host": "a", "node": "n"}, {"host": "a", "node": "m"}, {"host": "b"}]);
        let request = json!({"retry": {"hosts": [["a", "n"], ["b", "c"]]}});
        assert_eq!(
            verdicts(
                "RetryFilter",
                &SchedulerOptions::default(),
                &request,
                &hosts
            ),
            ["already_tried", "", ""]
        );
    }
}

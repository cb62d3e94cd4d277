//! `SameHostFilter`: the host must have one of the instances named by the hint `same_host`.

use std::sync::Arc;

use super::{Filter, FilterPlan, Runs};
use crate::host_state::{ConsideredHost, InstanceQuery};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct SameHostFilter;

impl Filter for SameHostFilter {
    fn name(&self) -> &'static str {
        "SameHostFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let Some(hosts_of) = request.hints.given("same_host") else {
            return FilterPlan::PassAll;
        };
        let sought = InstanceQuery::new(hosts_of);
        let hosts_of: Arc<[String]> = hosts_of.into();
        FilterPlan::each(move |host: &mut ConsideredHost| {
            if host.state.instances.these(&sought).next().is_some() {
                return Ok(());
            }
            Err(Reason::NotSameHost {
                same_host: Arc::clone(&hosts_of),
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
    fn instances_may_be_kept_together() {
        let hosts = json!([{}, {"instances": ["a"]}, {"instances": ["b", "c"]}]);
        for (hint, expected) in [
            (json!(["a", "b"]), ["not_same_host", "", ""]),
            (json!("nobody"), ["not_same_host"; 3]),
            (json!([]), [""; 3]),
        ] {
            let request = json!({"hints": {"same_host": hint}});
            let got = verdicts(
                "SameHostFilter",
                &SchedulerOptions::default(),
                &request,
                &hosts,
            );
            assert_eq!(got, expected, "{hint}");
        }
    }
}

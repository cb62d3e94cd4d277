//! `DifferentHostFilter`: the host must not have any instance named by the hint `different_host`.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::{ConsideredHost, InstanceQuery};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct DifferentHostFilter;

impl Filter for DifferentHostFilter {
    fn name(&self) -> &'static str {
        "DifferentHostFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let Some(apart) = request.hints.given("different_host") else {
            return FilterPlan::PassAll;
        };
        let apart = InstanceQuery::new(apart);
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let found = host.state.instances.these(&apart).next();
            found.map_or(Ok(()), |uuid| {
                Err(Reason::NotDifferentHost {
                    instance_uuid: uuid.to_owned(),
                })
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
    fn instances_may_be_kept_apart() {
        let hosts = json!([{}, {"instances": ["a"]}, {"instances": ["b", "c"]}]);
        for (hint, expected) in [
            (
                json!(["a", "b"]),
                ["", "not_different_host", "not_different_host"],
            ),
            (json!("c"), ["", "", "not_different_host"]),
            (json!("a,b"), ["", "", ""]),
            (json!("A"), ["", "", ""]),
            (json!([]), ["", "", ""]),
            (json!(""), ["", "", ""]),
        ] {
            let request = json!({"hints": {"different_host": hint}});
            let got = verdicts(
                "DifferentHostFilter",
                &SchedulerOptions::default(),
                &request,
                &hosts,
            );
            assert_eq!(got, expected, "{hint}");
        }
    }
}

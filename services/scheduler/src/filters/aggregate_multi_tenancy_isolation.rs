//! `AggregateMultiTenancyIsolation`: if the host's aggregates have keys that begin with `filter_tenant_id`, one of them
//! must name the project.

use std::ops::Bound;

use super::{Filter, FilterPlan, Runs};
use crate::host_state::{Aggregates, parts};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct AggregateMultiTenancyIsolation;

impl Filter for AggregateMultiTenancyIsolation {
    fn name(&self) -> &'static str {
        "AggregateMultiTenancyIsolation"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let project = request.project_id.as_deref();
        FilterPlan::by_aggregates(move |aggregates: &Aggregates| {
            let mut any = false;
            for allowed in projects(aggregates) {
                if Some(allowed) == project {
                    return Ok(());
                }
                any = true;
            }
            if !any {
                return Ok(());
            }
            Err(Reason::ProjectNotAllowed {
                project: project.map(str::to_owned),
                allowed: projects(aggregates).map(str::to_owned).collect(),
            })
        })
    }
}

/// The projects that aggregates are for.
fn projects(aggregates: &Aggregates) -> impl Iterator<Item = &str> {
    let keys = aggregates.iter().flat_map(|one| {
        let from = one
            .metadata
            .range::<str, _>((Bound::Included(PREFIX), Bound::Unbounded));
        from.take_while(|(key, _)| key.starts_with(PREFIX))
    });
    keys.flat_map(|(_, value)| parts(value))
}

/// Of keys of aggregates.
const PREFIX: &str = "filter_tenant_id";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn aggregates_may_be_for_some_projects() {
        let hosts = json!([
            {"aggregates": [{"metadata": {"filter_tenant_id": "p1, p2"}}]},
            {"aggregates": [
                {"metadata": {"filter_tenant_id": "p2"}},
                {"metadata": {"filter_tenant_id_second": "p1"}},
            ]},
            {"aggregates": [{"metadata": {"filter_tenant_id3": "p3"}}]},
            {"aggregates": [{"metadata": {"filter_tenant_i": "p3", "other": "x"}}]},
            {},
        ]);
        let no = "project_not_allowed";
        for (project, expected) in [
            (json!("p1"), ["", "", no, "", ""]),
            (json!(null), [no, no, no, "", ""]),
        ] {
            let request = json!({"project_id": project});
            let name = "AggregateMultiTenancyIsolation";
            let got = verdicts(name, &SchedulerOptions::default(), &request, &hosts);
            assert_eq!(got, expected, "{project}");
        }
    }
}

//! `ServerGroupAffinityFilter`: the host must be one that the affinity group already uses, if it uses any.

use std::sync::Arc;

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct ServerGroupAffinityFilter;

impl Filter for ServerGroupAffinityFilter {
    fn name(&self) -> &'static str {
        "ServerGroupAffinityFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn sees_group(&self) -> bool {
        true
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let group = request.group.as_ref();
        let Some(group) = group.filter(|it| it.policy == "affinity" && !it.hosts.is_empty()) else {
            return FilterPlan::PassAll;
        };
        let hosts = Arc::new(group.hosts.clone());
        FilterPlan::each(move |host: &mut ConsideredHost| {
            if hosts.contains(&host.state.host) {
                return Ok(());
            }
            Err(Reason::GroupAffinity {
                hosts: Arc::clone(&hosts),
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
    fn an_affinity_group_stays_on_its_hosts() {
        let hosts = json!([{"host": "h0"}, {"host": "H1"}, {"host": "h2"}]);
        for (policy, on, expected) in [
            (
                "affinity",
                &["h0", "h1"][..],
                ["", "group_affinity", "group_affinity"],
            ),
            ("affinity", &[], [""; 3]),
            ("soft-affinity", &["h0"], [""; 3]),
        ] {
            let request = json!({"group": {"policy": policy, "hosts": on}});
            let got = verdicts(
                "ServerGroupAffinityFilter",
                &SchedulerOptions::default(),
                &request,
                &hosts,
            );
            assert_eq!(got, expected, "{policy} {on:?}");
        }
    }
}

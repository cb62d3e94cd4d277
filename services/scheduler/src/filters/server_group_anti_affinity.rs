//! `ServerGroupAntiAffinityFilter`: the host must have fewer members of the anti-affinity group than the rule allows.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::{ConsideredHost, InstanceQuery};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct ServerGroupAntiAffinityFilter;

impl Filter for ServerGroupAntiAffinityFilter {
    fn name(&self) -> &'static str {
        "ServerGroupAntiAffinityFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn sees_group(&self) -> bool {
        true
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let group = request.group.as_ref();
        let Some(group) = group.filter(|it| it.policy == "anti-affinity") else {
            return FilterPlan::PassAll;
        };
        let limit = group.max_server_per_host.unwrap_or(1);
        let sought = InstanceQuery::new(&group.members);
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let instances = &host.state.instances;
            let members = instances.these(&sought).count();
            let is_below = i64::try_from(members).is_ok_and(|members| members < limit);
            // An instance that is moved may stay on its host.
            if is_below || instances.contains(&request.instance_uuid) {
                return Ok(());
            }
            Err(Reason::GroupAntiAffinity {
                members,
                max_server_per_host: limit,
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
    fn a_host_has_so_many_members_of_an_anti_affinity_group_at_most() {
        let hosts = json!([
            {},
            {"instances": ["a"]},
            {"instances": ["a", "b", "x"]},
            {"instances": ["a", "b", "me"]},
        ]);
        for (policy, rules, expected) in [
            (
                "anti-affinity",
                json!({}),
                ["", "group_anti_affinity", "group_anti_affinity", ""],
            ),
            (
                "anti-affinity",
                json!({"max_server_per_host": 2}),
                ["", "", "group_anti_affinity", ""],
            ),
            ("affinity", json!({}), [""; 4]),
        ] {
            let group = json!({"policy": policy, "members": ["a", "b", "me"], "rules": rules});
            let request = json!({"instance_uuid": "me", "group": group});
            let name = "ServerGroupAntiAffinityFilter";
            let got = verdicts(name, &SchedulerOptions::default(), &request, &hosts);
            assert_eq!(got, expected, "{policy} {rules}");
        }
    }
}

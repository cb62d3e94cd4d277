//! `ServerGroupSoftAntiAffinityWeigher`: hosts without members of the group first, where its policy is `soft-anti-affinity`.

use super::soft_affinity::{group_size, members_on};
use super::{Multiplier, Weigher, WeigherPlan};
use crate::host_state::InstanceQuery;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct ServerGroupSoftAntiAffinityWeigher;

impl Weigher for ServerGroupSoftAntiAffinityWeigher {
    fn name(&self) -> &'static str {
        "ServerGroupSoftAntiAffinityWeigher"
    }

    fn module(&self) -> &'static str {
        "affinity"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("soft_anti_affinity_weight_multiplier", |options| {
            options
                .filter_scheduler
                .soft_anti_affinity_weight_multiplier
        })
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
        match request.group.as_ref() {
            Some(group) if group.policy == "soft-anti-affinity" => {
                let members = InstanceQuery::new(&group.members);
                WeigherPlan::each(move |host| 0.0 - members_on(host, &members))
                    .unit(group_size(group))
            }
            _ => WeigherPlan::same(0.0),
        }
    }
}

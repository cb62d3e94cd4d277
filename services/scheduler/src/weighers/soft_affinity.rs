//! `ServerGroupSoftAffinityWeigher`: hosts with members of the group first, where its policy is `soft-affinity`.

use super::{Multiplier, Weigher, WeigherPlan};
use crate::host_state::{HostState, InstanceQuery};
use crate::options::SchedulerOptions;
use crate::request::{RequestSpec, ServerGroup};

pub(super) struct ServerGroupSoftAffinityWeigher;

impl Weigher for ServerGroupSoftAffinityWeigher {
    fn name(&self) -> &'static str {
        "ServerGroupSoftAffinityWeigher"
    }

    fn module(&self) -> &'static str {
        "affinity"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("soft_affinity_weight_multiplier", |options| {
            options.filter_scheduler.soft_affinity_weight_multiplier
        })
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
        match request.group.as_ref() {
            Some(group) if group.policy == "soft-affinity" => {
                let members = InstanceQuery::new(&group.members);
                WeigherPlan::each(move |host| members_on(host, &members)).unit(group_size(group))
            }
            _ => WeigherPlan::same(0.0),
        }
    }
}

/// How many members of the group are on the host.
pub(super) fn members_on(host: &HostState, members: &InstanceQuery<'_>) -> f64 {
    let on_host = host.instances.these(members).count();
    f64::from(u32::try_from(on_host).unwrap_or(u32::MAX))
}

/// How many members it has.
pub(super) fn group_size(group: &ServerGroup) -> f64 {
    f64::from(u32::try_from(group.members.len()).unwrap_or(u32::MAX))
}

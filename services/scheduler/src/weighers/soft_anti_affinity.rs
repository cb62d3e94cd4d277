//! `ServerGroupSoftAntiAffinityWeigher`: hosts without members of the group first, where its policy is `soft-anti-affinity`.

use super::soft_affinity::{group_size, members_on};
use super::{Multiplier, Weigher, Weighing};
use crate::host_state::Sought;
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

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> Weighing<'a> {
        match request.group.as_ref() {
            Some(group) if group.policy == "soft-anti-affinity" => {
                let members = Sought::new(&group.members);
                Weighing::each(move |host| 0.0 - members_on(host, &members)).unit(group_size(group))
            }
            _ => Weighing::same(0.0),
        }
    }
}

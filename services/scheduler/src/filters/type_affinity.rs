//! `TypeAffinityFilter`: the host may only have guests of the same flavor.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::{ConsideredHost, Instance};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct TypeAffinityFilter;

impl Filter for TypeAffinityFilter {
    fn name(&self) -> &'static str {
        "TypeAffinityFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let wanted = request.flavor.flavorid.as_str();
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let is_other = |guest: &Instance| guest.flavorid.as_deref() != Some(wanted);
            let guests = || host.state.instances.iter().map(|(_, guest)| guest);
            if !guests().any(is_other) {
                return Ok(());
            }
            // The flavor of this guest is unknown, so it may be any.
            let name = |guest: &Instance| guest.flavorid.as_deref().unwrap_or("unknown").to_owned();
            Err(Reason::OtherFlavors {
                flavorid: wanted.to_owned(),
                others: guests().filter(|it| is_other(it)).map(name).collect(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use berth_scheduler_objects::testing::{hosts, request};

    #[test]
    fn a_host_has_guests_of_one_flavor() {
        let request = request(&json!({"flavor": {"flavorid": "7"}}));
        let options = SchedulerOptions::default();
        for (flavors, expected) in [
            (&[][..], None),
            (&[Some("7"), Some("7")], None),
            (&[Some("7"), Some("8")], Some("8")),
            (&[None], Some("unknown")),
        ] {
            let mut host = hosts(&json!([{}])).remove(0);
            let state = Arc::make_mut(&mut host.state);
            for (place, flavor) in flavors.iter().enumerate() {
                let guest = Instance {
                    flavorid: flavor.map(str::to_owned),
                    ..Instance::default()
                };
                state.instances.insert(place.to_string(), guest);
            }
            let FilterPlan::Each(check) = TypeAffinityFilter.plan(&request, &options) else {
                panic!("each host is looked at");
            };
            let reason = expected.map(|other| Reason::OtherFlavors {
                flavorid: "7".to_owned(),
                others: [other.to_owned()].into(),
            });
            assert_eq!(check.check(&mut host).err(), reason, "{flavors:?}");
        }
    }
}

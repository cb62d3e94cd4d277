//! `ComputeFilter`: the host's agent must be enabled and alive.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::{ConsideredHost, ServiceState};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct ComputeFilter;

impl Filter for ComputeFilter {
    fn name(&self) -> &'static str {
        "ComputeFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, options: &'a SchedulerOptions) -> FilterPlan<'a> {
        let allowed = options.service_down_time();
        FilterPlan::each(move |host: &mut ConsideredHost| is_up(&host.state.service, allowed))
    }
}

fn is_up(service: &ServiceState, allowed: f64) -> Result<(), Reason> {
    if service.disabled {
        return Err(Reason::ServiceDisabled {
            disabled_reason: service.disabled_reason.clone(),
        });
    }
    if service.forced_down {
        return Err(Reason::ServiceForcedDown);
    }
    // A clock difference counts in both directions.
    match service.last_seen_age_s.or(service.created_age_s) {
        Some(age) if age.abs() <= allowed => Ok(()),
        age => Err(Reason::ServiceDown {
            last_seen_age_s: age,
            service_down_time: allowed,
        }),
    }
}

//! `AllHostsFilter`: every host passes.

use super::{Filter, FilterPlan, Runs};
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct AllHostsFilter;

impl Filter for AllHostsFilter {
    fn name(&self) -> &'static str {
        "AllHostsFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        FilterPlan::PassAll
    }
}

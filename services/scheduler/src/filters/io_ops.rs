//! `IoOpsFilter`: the host must have fewer builds, moves and snapshots in progress than `max_io_ops_per_host`.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct IoOpsFilter;

impl Filter for IoOpsFilter {
    fn name(&self) -> &'static str {
        "IoOpsFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, options: &'a SchedulerOptions) -> FilterPlan<'a> {
        let limit = options.filter_scheduler.max_io_ops_per_host;
        FilterPlan::each(move |host: &mut ConsideredHost| is_below(host.state.num_io_ops, limit))
    }
}

/// The limit itself is too many already.
pub(super) fn is_below(num_io_ops: i64, limit: i64) -> Result<(), Reason> {
    if num_io_ops < limit {
        return Ok(());
    }
    Err(Reason::TooManyIoOps {
        num_io_ops,
        max_io_ops_per_host: limit,
    })
}

//! Who says which host comes first: the filter scheduler, or Placement's own order.

mod considered;
mod request;

use std::sync::Arc;
use std::time::Duration;

use berth_hosts::Hosts;
use berth_scheduler::select::Scheduler;
use tokio::time::Instant;

pub(crate) use considered::{Considered, Known, throw};
pub use request::RequestSpecError;
pub(crate) use request::request_spec;

/// Who says it.
#[derive(Clone, Default)]
pub enum Destinations {
    /// Nobody: hosts as Placement answers them. What Placement does not know (whether a host's agent lives, who else is on it) counts
    /// for nothing.
    #[default]
    AsAnswered,
    /// Filters and weighers.
    Filtered(Arc<FilterScheduler>),
}

impl Destinations {
    /// What is known of hosts and server groups, where that is looked at.
    pub(crate) fn hosts(&self) -> Option<&Hosts> {
        match self {
            Self::AsAnswered => None,
            Self::Filtered(scheduler) => Some(&scheduler.hosts),
        }
    }
}

/// Filters and weighers over what agents told of their hosts.
pub struct FilterScheduler {
    pub(crate) scheduler: Scheduler,
    pub(crate) hosts: Hosts,
    began: Instant,
}

impl FilterScheduler {
    /// Over these hosts.
    #[must_use]
    pub fn new(scheduler: Scheduler, hosts: Hosts) -> Self {
        Self {
            scheduler,
            hosts,
            began: Instant::now(),
        }
    }

    /// Whether agents may not have been heard of only because nobody was there to hear them: for so long after a start a host that
    /// is silent is not taken for a dead one.
    pub(crate) fn may_have_missed_agents(&self) -> bool {
        let down = self.scheduler.options().service_down_time();
        // A time that is none is one that was never missed.
        let down = Duration::try_from_secs_f64(down).unwrap_or_default();
        self.began.elapsed() < down
    }
}

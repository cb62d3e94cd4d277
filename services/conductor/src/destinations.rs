//! Who says which host comes first: the filter scheduler, or Placement's own order.

mod considered;
mod request;

use std::sync::Arc;
use std::time::Duration;

use berth_hosts::Hosts;
use berth_scheduler::select::Scheduler;
use tokio::time::Instant;

use crate::BootRequest;
use crate::plugins::{ExtraSpecsError, Plugins};

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

    /// Whether a guest's flavor is as the scheduler's plugins ask for.
    pub(crate) fn check(&self, request: &BootRequest) -> Result<(), ExtraSpecsError> {
        match self {
            Self::AsAnswered => Ok(()),
            Self::Filtered(scheduler) => {
                let flavor = &request.body().flavor;
                scheduler.plugins.check(&flavor.extra_specs)
            }
        }
    }
}

/// Filters and weighers over what agents told of their hosts.
pub struct FilterScheduler {
    pub(crate) scheduler: Scheduler,
    pub(crate) hosts: Hosts,
    pub(crate) plugins: Plugins,
    began: Instant,
}

impl FilterScheduler {
    /// Over these hosts.
    #[must_use]
    pub fn new(scheduler: Scheduler, hosts: Hosts) -> Self {
        Self {
            scheduler,
            hosts,
            plugins: Plugins::default(),
            began: Instant::now(),
        }
    }

    /// With the plugins whose filters and weighers are the scheduler's own.
    #[must_use]
    pub fn with_plugins(self, plugins: Plugins) -> Self {
        Self { plugins, ..self }
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

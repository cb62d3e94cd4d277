//! Who says which host comes first: filters and weighers.

mod considered;
mod request;

use std::time::Duration;

use berth_scheduler::select::Scheduler;
use tokio::time::Instant;

use crate::conductor::ConductorError;
use crate::plugins::Plugins;
use crate::{BootRequest, CloudHosts};

pub(crate) use considered::{Considered, Known, throw};
pub use request::RequestSpecError;
pub(crate) use request::request_spec;

/// Filters and weighers over what agents told of their hosts.
pub struct FilterScheduler {
    pub(crate) scheduler: Scheduler,
    pub(crate) hosts: Box<dyn CloudHosts>,
    pub(crate) plugins: Plugins,
    began: Instant,
}

impl FilterScheduler {
    /// Over these hosts.
    #[must_use]
    pub fn new(scheduler: Scheduler, hosts: impl CloudHosts + 'static) -> Self {
        Self {
            scheduler,
            hosts: Box::new(hosts),
            plugins: Plugins::default(),
            began: Instant::now(),
        }
    }

    /// With the plugins whose filters and weighers are the scheduler's own.
    #[must_use]
    pub fn with_plugins(self, plugins: Plugins) -> Self {
        Self { plugins, ..self }
    }

    /// Whether a guest's flavor is as the scheduler's plugins ask for, and its hints are such as somebody reads.
    pub(crate) fn check(&self, request: &BootRequest) -> Result<(), ConductorError> {
        let body = request.body();
        self.plugins.check(&body.flavor.extra_specs)?;
        Ok(self.plugins.check_hints(body.scheduler_hints.keys())?)
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

//! [`FilterScheduler`]: selects hosts by filters and weighers, with the states that agents report.

mod candidate_hosts;
mod spec;

use std::time::Duration;

use berth_scheduler::request::{Attestations, RequestFlavor};
use berth_scheduler::select::Scheduler;
use berth_scheduler_lint::unknown_extra_spec;
use tokio::time::Instant;

use crate::attestations::AttestationSource;
use crate::error::ConductorError;
use crate::plugins::Plugins;
use crate::{BootRequest, CloudHosts};

pub(crate) use candidate_hosts::{CandidateHosts, HostWithState, instance_seed};
pub use spec::RequestSpecError;
use spec::check_devices;
pub(crate) use spec::{plain_spec, request_spec, sized_spec};

/// Extra spec with which a flavor requires a trusted host.
const TRUST_SPEC: &str = "trust:trusted_host";

/// The scheduler with its inputs: host states, plugins and attestations.
pub struct FilterScheduler {
    pub(crate) scheduler: Scheduler,
    pub(crate) hosts: Box<dyn CloudHosts>,
    pub(crate) plugins: Plugins,
    attestations: Option<AttestationSource>,
    began: Instant,
}

impl FilterScheduler {
    #[must_use]
    pub fn new(scheduler: Scheduler, hosts: impl CloudHosts + 'static) -> Self {
        Self {
            scheduler,
            hosts: Box::new(hosts),
            plugins: Plugins::default(),
            attestations: None,
            began: Instant::now(),
        }
    }

    /// Adds the plugins with the filters and weighers that are registered in the scheduler.
    #[must_use]
    pub fn with_plugins(self, plugins: Plugins) -> Self {
        Self { plugins, ..self }
    }

    /// Adds attestations; without them, no node is trusted.
    #[must_use]
    pub fn with_attestations(self, attestations: Option<AttestationSource>) -> Self {
        Self {
            attestations,
            ..self
        }
    }

    /// The attestations, if the flavor requires trust.
    pub(crate) async fn attestations(&self, flavor: &RequestFlavor) -> Attestations {
        let required = flavor.extra_specs.get(TRUST_SPEC);
        match (
            &self.attestations,
            required.is_some_and(|level| !level.is_empty()),
        ) {
            (_, false) => Attestations::default(),
            (Some(source), true) => source.read().await,
            (None, true) => {
                Attestations::unknown("[trusted_computing] attestation_file is not set")
            }
        }
    }

    /// Checks a guest's flavor and hints for the scheduler and its plugins.
    pub(crate) fn check(&self, request: &BootRequest) -> Result<(), ConductorError> {
        let body = request.body();
        self.plugins.check(&body.flavor.extra_specs)?;
        let specs = body.flavor.extra_specs.keys();
        let mut unread = specs.filter(|key| !self.plugins.read(key));
        if let Some(unknown) = unread.find_map(|key| unknown_extra_spec(key)) {
            return Err(unknown.into());
        }
        self.plugins.check_hints(body.scheduler_hints.keys())?;
        Ok(check_devices(request, self.scheduler.options())?)
    }

    /// Whether the conductor started so recently that agents may not have reported yet. During this time, a
    /// silent host is not treated as permanently down.
    pub(crate) fn may_have_missed_agents(&self) -> bool {
        let down = self.scheduler.options().service_down_time();
        // An invalid duration counts as 0.
        let down = Duration::try_from_secs_f64(down).unwrap_or_default();
        self.began.elapsed() < down
    }
}

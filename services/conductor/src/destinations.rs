//! Who says which host comes first: filters and weighers.

mod considered;
mod request;

use std::time::Duration;

use berth_scheduler::request::{Attestations, Flavor};
use berth_scheduler::select::Scheduler;
use tokio::time::Instant;

use crate::attestations::AttestationSource;
use crate::conductor::ConductorError;
use crate::plugins::Plugins;
use crate::{BootRequest, CloudHosts};

pub(crate) use considered::{Considered, Known, throw};
pub use request::RequestSpecError;
use request::check_devices;
pub(crate) use request::{plain_spec, request_spec};

/// The extra spec by which a flavor asks for trust.
const TRUST_SPEC: &str = "trust:trusted_host";

/// Filters and weighers over what agents told of their hosts.
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

    /// With the plugins whose filters and weighers are the scheduler's own.
    #[must_use]
    pub fn with_plugins(self, plugins: Plugins) -> Self {
        Self { plugins, ..self }
    }

    /// With what is attested of the nodes; without it none is trusted.
    #[must_use]
    pub fn with_attestations(self, attestations: Option<AttestationSource>) -> Self {
        Self {
            attestations,
            ..self
        }
    }

    /// What was attested of the nodes, where the flavor asks for trust.
    pub(crate) async fn attestations(&self, flavor: &Flavor) -> Attestations {
        let asked = flavor.extra_specs.get(TRUST_SPEC);
        match (&self.attestations, asked.is_some_and(|it| !it.is_empty())) {
            (_, false) => Attestations::default(),
            (Some(source), true) => source.read().await,
            (None, true) => {
                Attestations::unknown("[trusted_computing] attestation_file is not set")
            }
        }
    }

    /// Whether a guest's flavor is as the scheduler and its plugins ask for, and its hints are such as somebody reads.
    pub(crate) fn check(&self, request: &BootRequest) -> Result<(), ConductorError> {
        let body = request.body();
        self.plugins.check(&body.flavor.extra_specs)?;
        self.plugins.check_hints(body.scheduler_hints.keys())?;
        Ok(check_devices(request, self.scheduler.options())?)
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

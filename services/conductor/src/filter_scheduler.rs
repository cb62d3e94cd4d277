//! [`FilterScheduler`]: selects hosts by filters and weighers, with the states that agents report.

mod candidate_hosts;
mod spec;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_model::GuestMachine;
use berth_scheduler::request::{Attestations, RequestFlavor};
use berth_scheduler::select::Scheduler;
use tokio::time::Instant;

use crate::attestations::AttestationSource;
use crate::error::ConductorError;
use crate::plugins::Plugins;
use crate::{BootRequest, CloudHosts};

pub(crate) use candidate_hosts::{CandidateHosts, HostWithState, instance_seed};
pub use spec::RequestSpecError;
use spec::check_spec;
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
                Attestations::unavailable("[trusted_computing] attestation_file is not set")
            }
        }
    }

    /// Checks everything that depends on a guest's flavor, image and hints alone: for plugins, for the scheduler, and
    /// for hosts, so that a guest which no host can build is refused before it is recorded.
    pub(crate) fn check(&self, request: &BootRequest) -> Result<(), ConductorError> {
        let body = request.body();
        self.plugins.check(&body.flavor.extra_specs)?;
        let flavor = &body.flavor;
        // What plugins read is not the hosts'.
        let specs = flavor.extra_specs.iter();
        let of_hosts = specs.filter(|(key, _)| !self.plugins.read(key));
        let of_hosts = of_hosts.map(|(key, value)| (key.clone(), value.clone()));
        let no_image = BTreeMap::new();
        let image = body.image.as_ref();
        let properties = image.map_or(&no_image, |image| &image.properties);
        GuestMachine::of(flavor.vcpus, flavor.ram_mb, &of_hosts.collect(), properties)?;
        self.plugins.check_hints(body.scheduler_hints.keys())?;
        Ok(check_spec(request, self.scheduler.options())?)
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

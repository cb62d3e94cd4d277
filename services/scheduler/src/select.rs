//! The selection loop: destination, filters, weighers, claim, next instance, alternates.
//!
//! It decides and performs no I/O. [`Scheduler::select`] returns a [`SelectionStep`]. For [`SelectionStep::Claim`], the
//! caller claims the candidate in Placement and passes the result to get the next step. A selected host is charged with
//! the instance, so the next instance of the request sees the difference. A request that fails names the instances
//! whose claims the caller must delete.

mod alternates;
mod ask;
mod claiming;
mod consume;
mod destination;
mod ineffective_options;
mod outcome;
mod placement_stage;
mod record;
mod rejections;
mod sorted;

use std::num::NonZero;

use crate::custom_plugins::CustomPlugins;
use crate::filters::{Chain, ChainError};
use crate::host_state::ConsideredHost;
use crate::options::{OptionError, OptionsReport, SchedulerOptions};
use crate::request::RequestSpec;
use crate::weighers::{Weighers, WeighersError};
use berth_model::SeededRng;

pub use ask::{Alternates, ClaimPolicy, SelectionRequest};
pub use claiming::{HostClaim, PendingClaim, SelectionStep};
pub use consume::consume;
pub use destination::{HostsAtDestination, narrow};
pub use outcome::{NoHost, NoValidHost, Selection, SelectionResult, UnplacedRequest};
pub use placement_stage::PlacementStage;
use record::Detail;
pub use record::{CandidateClaim, LeftOut, Record, RequestSummary, Turnout};
pub use rejections::{NAMED, RejectedHost, RejectedHosts, Rejections};
pub use sorted::SortedHosts;

/// Each policy of server groups, and the option and the filter or weigher that enforce it.
pub const GROUP_POLICIES: [(&str, &str, &str); 4] = [
    ("affinity", "enabled_filters", "ServerGroupAffinityFilter"),
    (
        "anti-affinity",
        "enabled_filters",
        "ServerGroupAntiAffinityFilter",
    ),
    (
        "soft-affinity",
        "weight_classes",
        "ServerGroupSoftAffinityWeigher",
    ),
    (
        "soft-anti-affinity",
        "weight_classes",
        "ServerGroupSoftAntiAffinityWeigher",
    ),
];

/// Filters and weighers by their options, ready for any number of requests.
pub struct Scheduler {
    options: SchedulerOptions,
    warnings: Vec<String>,
    chain: Chain,
    weighers: Weighers,
    keeps_record: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchedulerError {
    /// Values that are out of bounds, all of them.
    #[error("{}", sentences(.0))]
    Options(Vec<OptionError>),
    #[error(transparent)]
    Filters(#[from] ChainError),
    #[error(transparent)]
    Weighers(#[from] WeighersError),
}

fn sentences(errors: &[OptionError]) -> String {
    let sentences: Vec<String> = errors.iter().map(ToString::to_string).collect();
    sentences.join("; ")
}

impl Scheduler {
    /// A scheduler with built-in filters and weighers only.
    ///
    /// Errors: an unknown filter or weigher, or an option out of range.
    pub fn new(options: SchedulerOptions) -> Result<Self, SchedulerError> {
        Self::with_custom_plugins(options, &CustomPlugins::new())
    }

    /// By these options, which may also name filters and weighers that are not built in.
    pub fn with_custom_plugins(
        options: SchedulerOptions,
        own: &CustomPlugins,
    ) -> Result<Self, SchedulerError> {
        let OptionsReport { errors, warnings } = options.check();
        if !errors.is_empty() {
            return Err(SchedulerError::Options(errors));
        }
        let chain = Chain::with_custom_plugins(&options, own)?;
        let weighers = Weighers::with_custom_plugins(&options, own)?;
        let ineffective = ineffective_options::warnings(&options, chain.names(), weighers.names());
        let warnings = warnings.iter().map(ToString::to_string);
        Ok(Self {
            warnings: warnings.chain(ineffective).collect(),
            chain,
            weighers,
            options,
            keeps_record: true,
        })
    }

    /// Limits the number of threads for one request; by default it is the number of processors. The result does not
    /// depend on it.
    #[must_use]
    pub fn with_threads(self, threads: NonZero<usize>) -> Self {
        let chain = self.chain.with_threads(threads);
        Self { chain, ..self }
    }

    /// Keeps no record of rejected hosts and weights. Only for measuring the cost of the record; services always keep
    /// it.
    #[must_use]
    pub fn without_record(self) -> Self {
        Self {
            keeps_record: false,
            ..self
        }
    }

    #[must_use]
    pub fn options(&self) -> &SchedulerOptions {
        &self.options
    }

    /// The names of the enabled filters, in their order.
    pub fn filters(&self) -> impl Iterator<Item = &'static str> {
        self.chain.names()
    }

    /// The names of the weighers, in their order.
    pub fn weighers(&self) -> impl Iterator<Item = &'static str> {
        self.weighers.names()
    }

    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Options that should be changed, each as `[section] option: why`. The caller shows them to the operator.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The hosts for one instance, the best first, and nothing more: what a dry run shows. `seed` is chance's, see
    /// [`SelectionRequest::seed`].
    #[must_use]
    pub fn sort(
        &self,
        request: &RequestSpec,
        hosts: Vec<ConsideredHost>,
        seed: u64,
    ) -> (SortedHosts, Turnout) {
        let mut turnout = Turnout::new(request.instance_uuid.clone(), Detail::Cards);
        let rng = &mut SeededRng::new(seed);
        let sorted = SortedHosts::new(self, request, hosts, rng, &mut turnout);
        (sorted, turnout)
    }

    /// A short description of the request, for its record.
    #[must_use]
    pub fn asked(&self, ask: &SelectionRequest) -> RequestSummary {
        claiming::asked(self, ask)
    }

    /// Begins with a request: hosts with the candidates that Placement named for it, in the order in which ties are to be broken.
    pub fn select(&self, ask: SelectionRequest, hosts: Vec<ConsideredHost>) -> SelectionStep<'_> {
        claiming::begin(self, ask, hosts)
    }
}

#[cfg(test)]
mod tests;

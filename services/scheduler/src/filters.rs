//! The filters, one in each file, and the chain in which they are asked.
//!
//! A filter reads the request and the options once ([`Filter::plan`]) and then looks at hosts, at many of them at once: it keeps
//! nothing between two of them, so the answer is the same with any number of threads. What it cannot read (a number that is none,
//! a broken query) rejects the host that it would be compared with, with a reason; it never ends the request.

mod chain;
mod compute;
mod num_instances;

use crate::host_state::ConsideredHost;
use crate::options::Options;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub use chain::{Chain, ChainError, Out, Passed, Rejected, Turn};

/// When a filter is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// Not for each instance of a request, but for its first one only.
    pub once_per_request: bool,
    /// Also where an instance is rebuilt in its place.
    pub on_rebuild: bool,
}

/// One filter, by Nova's name.
pub trait Filter: Send + Sync {
    /// As in `enabled_filters`.
    fn name(&self) -> &str;

    /// When it is asked.
    fn runs(&self) -> Runs;

    /// Whether its verdict on a host may change when another instance of the same request is placed on another host, because it
    /// looks at the request's group. The verdicts of all others change only for the host that was chosen.
    fn sees_group(&self) -> bool {
        false
    }

    /// Reads what it needs, once for all hosts.
    fn plan<'a>(&'a self, request: &'a RequestSpec, options: &'a Options) -> Plan<'a>;
}

/// What a filter makes of a request.
pub enum Plan<'a> {
    /// The request asks for nothing that the filter looks at: every host passes.
    PassAll,
    /// Each host is looked at.
    Each(Box<dyn Check + 'a>),
    /// No host can pass.
    RejectAll(Reason),
}

impl<'a> Plan<'a> {
    /// By a function.
    pub fn each(
        check: impl Fn(&mut ConsideredHost) -> Result<(), Reason> + Send + Sync + 'a,
    ) -> Self {
        Self::Each(Box::new(check))
    }
}

/// Looks at one host after another.
pub trait Check: Send + Sync {
    /// Passes a host, or says why not. It may take candidates of the host away, and note limits for its agent.
    ///
    /// # Errors
    /// Why the host was rejected.
    fn check(&self, host: &mut ConsideredHost) -> Result<(), Reason>;
}

impl<F> Check for F
where
    F: Fn(&mut ConsideredHost) -> Result<(), Reason> + Send + Sync,
{
    fn check(&self, host: &mut ConsideredHost) -> Result<(), Reason> {
        self(host)
    }
}

/// Every filter there is, by name.
pub const ALL: &[&dyn Filter] = &[&compute::ComputeFilter, &num_instances::NumInstancesFilter];

/// The filter of this name, with or without the module that Nova's configuration files put before it.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Filter> {
    let last = name.rsplit('.').next().unwrap_or(name);
    ALL.iter().copied().find(|filter| filter.name() == last)
}

//! The filters, one per file, and the chain that runs them.
//!
//! A filter reads the request and the options once ([`Filter::plan`]). Its plan then checks hosts, possibly on several
//! threads, and keeps no state between two hosts. A value that cannot be read (an invalid number, a broken query)
//! rejects the host with a reason; it never fails the request.

mod aggregate_core;
mod aggregate_disk;
mod aggregate_image_properties_isolation;
mod aggregate_instance_extra_specs;
mod aggregate_io_ops;
mod aggregate_multi_tenancy_isolation;
mod aggregate_num_instances;
mod aggregate_ram;
mod aggregate_type_affinity;
mod all_hosts;
mod availability_zone;
mod chain;
mod compute;
mod compute_capabilities;
mod core;
mod different_host;
mod disk;
mod exact_core;
mod exact_disk;
mod exact_ram;
mod image_properties;
mod io_ops;
mod isolated_hosts;
mod json;
mod metrics;
mod num_instances;
mod numa_topology;
mod pci_passthrough;
mod ram;
mod retry;
mod same_host;
mod server_group_affinity;
mod server_group_anti_affinity;
mod simple_cidr_affinity;
#[cfg(test)]
mod testing;
mod trusted;
mod type_affinity;

use crate::host_state::{Aggregates, ConsideredHost};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub use chain::in_shares;
pub use chain::{Chain, ChainError, FilterCounts, InstancePosition, Out, RejectedCandidateHost};
pub use metrics::measured;

/// When a filter runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// Not for each instance of a request, but for its first one only.
    pub once_per_request: bool,
    /// Also for a rebuild on the same host.
    pub on_rebuild: bool,
}

impl Runs {
    /// For each instance of a request.
    pub const FOR_EACH: Self = Self {
        once_per_request: false,
        on_rebuild: false,
    };
    /// For the first instance of a request.
    pub const ONCE: Self = Self {
        once_per_request: true,
        on_rebuild: false,
    };
    /// Once per request, also for a rebuild.
    pub const ONCE_AND_ON_REBUILD: Self = Self {
        once_per_request: true,
        on_rebuild: true,
    };
}

/// One filter, by Nova's name.
pub trait Filter: Send + Sync {
    /// The name of the filter in `enabled_filters`.
    fn name(&self) -> &str;

    fn runs(&self) -> Runs;

    /// Whether its verdict on a host may change when another instance of the same request is placed elsewhere, because
    /// it depends on the server group. The verdicts of other filters change only for the chosen host.
    fn sees_group(&self) -> bool {
        false
    }

    /// Evaluates the request once for all hosts.
    fn plan<'a>(
        &'a self,
        request: &'a RequestSpec,
        options: &'a SchedulerOptions,
    ) -> FilterPlan<'a>;
}

/// A filter prepared for one request.
pub enum FilterPlan<'a> {
    /// The request has nothing that the filter checks: every host passes.
    PassAll,
    /// Each host is checked.
    Each(Box<dyn Check + 'a>),
    /// Only the host's aggregates are checked, so hosts with the same aggregates share the result.
    ByAggregates(Box<dyn CheckAggregates + 'a>),
    /// No host can pass.
    RejectAll(Reason),
}

impl<'a> FilterPlan<'a> {
    pub fn each(
        check: impl Fn(&mut ConsideredHost) -> Result<(), Reason> + Send + Sync + 'a,
    ) -> Self {
        Self::Each(Box::new(check))
    }

    /// By a function of the host's aggregates alone.
    pub fn by_aggregates(
        check: impl Fn(&Aggregates) -> Result<(), Reason> + Send + Sync + 'a,
    ) -> Self {
        Self::ByAggregates(Box::new(check))
    }
}

impl FilterPlan<'_> {
    /// Accepts a host, or returns the reason against it.
    pub fn check(&self, host: &mut ConsideredHost) -> Result<(), Reason> {
        match self {
            Self::PassAll => Ok(()),
            Self::Each(check) => check.check(host),
            Self::ByAggregates(check) => check.check(&host.state.aggregates),
            Self::RejectAll(reason) => Err(reason.clone()),
        }
    }
}

/// Checks hosts one by one.
pub trait Check: Send + Sync {
    /// Accepts a host, or returns the reason against it. It may remove candidates of the host and set limits for its
    /// agent.
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

/// Checks the aggregates of hosts.
pub trait CheckAggregates: Send + Sync {
    /// Accepts hosts with these aggregates, or returns the reason against them.
    fn check(&self, aggregates: &Aggregates) -> Result<(), Reason>;
}

impl<F> CheckAggregates for F
where
    F: Fn(&Aggregates) -> Result<(), Reason> + Send + Sync,
{
    fn check(&self, aggregates: &Aggregates) -> Result<(), Reason> {
        self(aggregates)
    }
}

/// All filters by name.
pub const ALL: &[&dyn Filter] = &[
    &aggregate_core::AggregateCoreFilter,
    &aggregate_disk::AggregateDiskFilter,
    &aggregate_image_properties_isolation::AggregateImagePropertiesIsolation,
    &aggregate_instance_extra_specs::AggregateInstanceExtraSpecsFilter,
    &aggregate_io_ops::AggregateIoOpsFilter,
    &aggregate_multi_tenancy_isolation::AggregateMultiTenancyIsolation,
    &aggregate_num_instances::AggregateNumInstancesFilter,
    &aggregate_ram::AggregateRamFilter,
    &aggregate_type_affinity::AggregateTypeAffinityFilter,
    &all_hosts::AllHostsFilter,
    &availability_zone::AvailabilityZoneFilter,
    &compute_capabilities::ComputeCapabilitiesFilter,
    &compute::ComputeFilter,
    &core::CoreFilter,
    &different_host::DifferentHostFilter,
    &disk::DiskFilter,
    &exact_core::ExactCoreFilter,
    &exact_disk::ExactDiskFilter,
    &exact_ram::ExactRamFilter,
    &image_properties::ImagePropertiesFilter,
    &io_ops::IoOpsFilter,
    &isolated_hosts::IsolatedHostsFilter,
    &json::JsonFilter,
    &metrics::MetricsFilter,
    &numa_topology::NUMATopologyFilter,
    &num_instances::NumInstancesFilter,
    &pci_passthrough::PciPassthroughFilter,
    &ram::RamFilter,
    &retry::RetryFilter,
    &same_host::SameHostFilter,
    &server_group_affinity::ServerGroupAffinityFilter,
    &server_group_anti_affinity::ServerGroupAntiAffinityFilter,
    &simple_cidr_affinity::SimpleCIDRAffinityFilter,
    &trusted::TrustedFilter,
    &type_affinity::TypeAffinityFilter,
];

/// The filter of this name, with or without the Nova module path that configuration files use.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Filter> {
    let class = match name.strip_prefix("nova.scheduler.filters.") {
        Some(path) => path.rsplit('.').next().unwrap_or(path),
        None => name,
    };
    ALL.iter().copied().find(|filter| filter.name() == class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_one_name() {
        assert!(ALL.is_sorted_by(|a, b| a.name() < b.name()));
        let name = |name: &str| named(name).map(|it| it.name().to_owned());
        for (asked, expected) in [
            ("RamFilter", Some("RamFilter")),
            (
                "nova.scheduler.filters.ram_filter.RamFilter",
                Some("RamFilter"),
            ),
            ("nova.scheduler.filters.RamFilter", Some("RamFilter")),
            ("mine.RamFilter", None),
            ("ramfilter", None),
        ] {
            assert_eq!(name(asked).as_deref(), expected, "{asked}");
        }
    }

    #[test]
    fn an_instance_that_is_rebuilt_is_checked_by_three() {
        let asked = ALL.iter().filter(|filter| filter.runs().on_rebuild);
        let names: Vec<&str> = asked.map(|filter| filter.name()).collect();
        assert_eq!(
            names,
            [
                "AggregateImagePropertiesIsolation",
                "ImagePropertiesFilter",
                "IsolatedHostsFilter"
            ]
        );
    }
}

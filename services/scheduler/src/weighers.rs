//! The weighers, one per file, and the order of hosts.
//!
//! A weigher gives each remaining host a raw weight. Raw weights are normalised ([`Normalization`]), multiplied by the
//! weigher's multiplier (the option, or an aggregate's override) and summed; the host with the largest sum is the best.
//! Raw weights and multipliers are limited to [`LARGEST`], so weights are always finite.
//!
//! [`Normalization`]: crate::options::Normalization

mod build_failure;
mod card;
mod classes;
mod cpu;
mod cross_cell;
mod disk;
mod hypervisor_version;
mod image_properties;
mod io_ops;
mod metrics;
mod multiplier;
mod normalize;
mod num_instances;
mod order;
mod pci;
mod ram;
mod range;
mod ranking;
mod soft_affinity;
mod soft_anti_affinity;

use crate::host_state::HostState;
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub use card::{Score, ScoreCard};
pub use classes::{Weighers, WeighersError};
pub use multiplier::Multiplier;
pub use normalize::{Bounds, normalize};
pub use order::order;
pub use range::LARGEST;
pub use ranking::{HostRanking, Unweighable};

/// One weigher, by Nova's name.
pub trait Weigher: Send + Sync {
    /// The class, as in `weight_classes`.
    fn name(&self) -> &'static str;

    /// Nova's module of it: `ram` of `nova.scheduler.weights.ram.RAMWeigher`.
    fn module(&self) -> &'static str;

    /// What its weights count.
    fn multiplier(&self) -> Multiplier;

    /// The ends of its scale that are not the list's own.
    fn bounds(&self) -> Bounds {
        Bounds::default()
    }

    /// Reads its input, once for all hosts. A raw weight that is not a number counts as 0, and one beyond [`LARGEST`]
    /// as [`LARGEST`].
    fn plan<'a>(
        &'a self,
        request: &'a RequestSpec,
        options: &'a SchedulerOptions,
    ) -> WeigherPlan<'a>;
}

/// What a weigher makes of a request.
pub struct WeigherPlan<'a> {
    raw: Raw<'a>,
    unit: f64,
    share: Option<CapacityShare<'a>>,
}

type EachRaw<'a> = Box<dyn Fn(&HostState, f64) -> Result<f64, MetricMissing> + 'a>;
type CapacityShare<'a> = Box<dyn Fn(&HostState) -> f64 + 'a>;

enum Raw<'a> {
    /// Of all hosts alike.
    Same(f64),
    /// A function of each host and its multiplier.
    Each(EachRaw<'a>),
}

/// A host does not report a metric that it must be weighed by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[metrics] required: the host does not tell the metric {metric}")]
pub struct MetricMissing {
    /// The name of the metric in `weight_setting`.
    pub metric: String,
}

impl<'a> WeigherPlan<'a> {
    #[must_use]
    pub fn same(raw: f64) -> Self {
        Self::of(Raw::Same(raw))
    }

    pub fn each(raw: impl Fn(&HostState) -> f64 + 'a) -> Self {
        Self::of(Raw::Each(Box::new(move |host, _| Ok(raw(host)))))
    }

    /// By a function that is given the host's multiplier too.
    pub fn each_with_multiplier(
        raw: impl Fn(&HostState, f64) -> Result<f64, MetricMissing> + 'a,
    ) -> Self {
        Self::of(Raw::Each(Box::new(raw)))
    }

    fn of(raw: Raw<'a>) -> Self {
        Self {
            raw,
            unit: 1.0,
            share: None,
        }
    }

    /// The raw weight that is 1 on the fixed scale, at most [`LARGEST`]; a value that is not positive counts as 1.
    #[must_use]
    pub fn unit(mut self, unit: f64) -> Self {
        self.unit = if unit > 0.0 { unit.min(LARGEST) } else { 1.0 };
        self
    }

    /// The share of a host's own capacity, 0 to 1.
    #[must_use]
    pub fn share(mut self, share: impl Fn(&HostState) -> f64 + 'a) -> Self {
        self.share = Some(Box::new(share));
        self
    }
}

/// What is free, as a share of all that may be promised: 0 where that is nothing.
fn free_share(all: f64, used: f64) -> f64 {
    if all > 0.0 {
        ((all - used) / all).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Every weigher there is, in the order of Nova's modules.
pub const ALL: &[&dyn Weigher] = &[
    &soft_affinity::ServerGroupSoftAffinityWeigher,
    &soft_anti_affinity::ServerGroupSoftAntiAffinityWeigher,
    &build_failure::BuildFailureWeigher,
    &cpu::CPUWeigher,
    &cross_cell::CrossCellWeigher,
    &disk::DiskWeigher,
    &hypervisor_version::HypervisorVersionWeigher,
    &image_properties::ImagePropertiesWeigher,
    &io_ops::IoOpsWeigher,
    &metrics::MetricsWeigher,
    &num_instances::NumInstancesWeigher,
    &pci::PCIWeigher,
    &ram::RAMWeigher,
];

//! The scheduler's options, with Nova's names, groups and defaults. Options that Nova does not have say so.

mod check;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::numbers;
use crate::request::PciAlias;

pub use check::{OptionError, OptionWarning, OptionsReport};

/// All groups. A group that is not there has its defaults.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SchedulerOptions {
    /// The top level: Nova's `[DEFAULT]`.
    #[serde(rename = "DEFAULT")]
    pub default: DefaultOptions,
    /// `[scheduler]`
    pub scheduler: SchedulerGroupOptions,
    /// `[filter_scheduler]`
    pub filter_scheduler: FilterSchedulerOptions,
    /// `[metrics]`
    pub metrics: MetricsOptions,
    /// `[compute]`
    pub compute: ComputeGroupOptions,
    /// `[pci]`
    pub pci: PciOptions,
    /// `[workarounds]`
    pub workarounds: WorkaroundsOptions,
}

impl SchedulerOptions {
    /// Every option with its default, by `group.name`.
    #[must_use]
    pub fn by_name() -> Vec<(String, Value)> {
        let mut all = Vec::new();
        let Ok(Value::Object(groups)) = serde_json::to_value(Self::default()) else {
            return all;
        };
        for (group, options) in groups {
            if let Value::Object(options) = options {
                let named = options.into_iter();
                all.extend(named.map(|(name, default)| (format!("{group}.{name}"), default)));
            }
        }
        all
    }

    /// The age in seconds after which a service without heartbeats is down. As in Nova, a value below the report
    /// interval is raised to two and a half intervals.
    #[must_use]
    pub fn service_down_time(&self) -> f64 {
        let (down, report) = (self.default.service_down_time, self.default.report_interval);
        match report > 0.0 && down <= report {
            true => (report * 2.5).trunc(),
            false => down,
        }
    }
}

/// `[DEFAULT]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct DefaultOptions {
    /// The zone of hosts that no aggregate gives one.
    pub default_availability_zone: String,
    /// Seconds; see [`SchedulerOptions::service_down_time`].
    pub service_down_time: f64,
    /// Seconds between two reports of a service.
    pub report_interval: f64,
}

impl Default for DefaultOptions {
    fn default() -> Self {
        Self {
            default_availability_zone: "nova".to_owned(),
            service_down_time: 60.0,
            report_interval: 10.0,
        }
    }
}

/// `[scheduler]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct SchedulerGroupOptions {
    /// The maximum number of hosts for a build: the selected one and its alternates. At least 1.
    pub max_attempts: usize,
    /// The limit of the candidates query. At least 1.
    pub max_placement_results: usize,
    /// Whether aggregates with `filter_tenant_id` are reserved for those projects.
    pub limit_tenants_to_placement_aggregate: bool,
    /// Whether a project without such an aggregate has no host.
    pub placement_aggregate_required_for_tenants: bool,
    /// Whether aggregates with `trait:...=required` are for requests with that trait only.
    pub enable_isolated_aggregate_filtering: bool,
    /// Whether image properties become required traits.
    pub image_metadata_prefilter: bool,
    /// Whether the disk format becomes a required trait.
    pub query_placement_for_image_type_support: bool,
    /// Whether the aggregates of routed networks are requested.
    pub query_placement_for_routed_network_aggregates: bool,
}

impl Default for SchedulerGroupOptions {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            max_placement_results: 1000,
            limit_tenants_to_placement_aggregate: false,
            placement_aggregate_required_for_tenants: false,
            enable_isolated_aggregate_filtering: false,
            image_metadata_prefilter: false,
            query_placement_for_image_type_support: false,
            query_placement_for_routed_network_aggregates: false,
        }
    }
}

/// `[pci]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct PciOptions {
    pub alias: Vec<PciAlias>,
}

/// `[filter_scheduler]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct FilterSchedulerOptions {
    /// The filters that may be enabled; `nova.scheduler.filters.all_filters` stands for all.
    pub available_filters: Vec<String>,
    /// The filters, in order.
    pub enabled_filters: Vec<String>,
    /// The weighers; `nova.scheduler.weights.all_weighers` stands for all.
    pub weight_classes: Vec<String>,
    /// One of this number of best hosts is chosen at random; below 1 counts as 1, with a warning ([`SchedulerOptions::check`]).
    pub host_subset_size: i64,
    /// Whether chance decides between the best hosts of one weight.
    pub shuffle_best_same_weighed_hosts: bool,
    /// Not in Nova: the number of surviving candidates of a host that are tried before the next host; 0: all. Nova's
    /// value is 1.
    pub candidates_per_host: usize,
    /// Not Nova's: how raw weights are brought between 0 and 1.
    pub weight_normalization: Normalization,
    /// The maximum number of instances on a host. At least 1.
    pub max_instances_per_host: i64,
    /// The maximum number of builds, moves and snapshots in progress on a host. At least 0.
    pub max_io_ops_per_host: i64,
    /// Images for isolated hosts, by id.
    pub isolated_images: Vec<String>,
    /// Hosts for isolated images.
    pub isolated_hosts: Vec<String>,
    /// Whether isolated hosts take nothing else.
    pub restrict_isolated_hosts_to_isolated_images: bool,
    /// The prefix of aggregate keys that are image properties; none: all keys are.
    pub aggregate_image_properties_isolation_namespace: Option<String>,
    /// Between the namespace and the property.
    pub aggregate_image_properties_isolation_separator: String,
    /// Of images that name none.
    pub image_properties_default_architecture: Option<String>,
    /// Not in Nova: whether an image's `hw_maxphysaddr_bits` is compared with the host's processors. Nova intends this,
    /// but the request fails there; without this option such a host is rejected.
    pub compare_image_maxphysaddr_bits: bool,
    /// Whether flavors' PCI requests are in Placement.
    pub pci_in_placement: bool,
    /// Of the memory that is free.
    pub ram_weight_multiplier: f64,
    /// Of the CPUs that are free.
    pub cpu_weight_multiplier: f64,
    /// Of the disk that is free.
    pub disk_weight_multiplier: f64,
    /// Of builds, moves and snapshots.
    pub io_ops_weight_multiplier: f64,
    /// Of the number of instances.
    pub num_instances_weight_multiplier: f64,
    /// Of the hypervisor's version.
    pub hypervisor_version_weight_multiplier: f64,
    /// Of having few PCI devices. 0 at least.
    pub pci_weight_multiplier: f64,
    /// Of members of a soft-affinity group. 0 at least.
    pub soft_affinity_weight_multiplier: f64,
    /// Of members of a soft-anti-affinity group. 0 at least.
    pub soft_anti_affinity_weight_multiplier: f64,
    /// Against builds that failed.
    pub build_failure_weight_multiplier: f64,
    /// Of staying in the cell.
    pub cross_cell_move_weight_multiplier: f64,
    /// Of instances booted with the same image properties.
    pub image_props_weight_multiplier: f64,
    /// `property=weight`; if set, properties that are not named do not count.
    pub image_props_weight_setting: Vec<String>,
}

impl Default for FilterSchedulerOptions {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            available_filters: names(&["nova.scheduler.filters.all_filters"]),
            enabled_filters: names(&[
                "AvailabilityZoneFilter",
                "ComputeFilter",
                "ComputeCapabilitiesFilter",
                "ImagePropertiesFilter",
                "ServerGroupAntiAffinityFilter",
                "ServerGroupAffinityFilter",
            ]),
            weight_classes: names(&["nova.scheduler.weights.all_weighers"]),
            host_subset_size: 1,
            shuffle_best_same_weighed_hosts: false,
            candidates_per_host: 0,
            weight_normalization: Normalization::default(),
            max_instances_per_host: 50,
            max_io_ops_per_host: 8,
            isolated_images: Vec::new(),
            isolated_hosts: Vec::new(),
            restrict_isolated_hosts_to_isolated_images: true,
            aggregate_image_properties_isolation_namespace: None,
            aggregate_image_properties_isolation_separator: ".".to_owned(),
            image_properties_default_architecture: None,
            compare_image_maxphysaddr_bits: true,
            pci_in_placement: false,
            ram_weight_multiplier: 1.0,
            cpu_weight_multiplier: 1.0,
            disk_weight_multiplier: 1.0,
            io_ops_weight_multiplier: -1.0,
            num_instances_weight_multiplier: 0.0,
            hypervisor_version_weight_multiplier: 1.0,
            pci_weight_multiplier: 1.0,
            soft_affinity_weight_multiplier: 1.0,
            soft_anti_affinity_weight_multiplier: 1.0,
            build_failure_weight_multiplier: 1_000_000.0,
            cross_cell_move_weight_multiplier: 1_000_000.0,
            image_props_weight_multiplier: 0.0,
            image_props_weight_setting: Vec::new(),
        }
    }
}

/// How the raw weights of a weigher are brought between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalization {
    /// Between the minimum and maximum of the list, or the weigher's own bound if it has one, as in Nova.
    #[default]
    Upstream,
    /// Between the list's least and most, always; all alike are 0.
    ListMin,
    /// In a fixed unit of the weigher (1 TiB of memory, 256 CPUs, 10 TiB of disk, the maximum number of instances),
    /// independent of the list.
    Fixed,
    /// The share of the host's own capacity; like `Fixed` for weighers without a capacity.
    Percent,
}

/// Parses `name=ratio` entries, as in `[metrics] weight_setting`. As in Nova, invalid entries are ignored; so are
/// infinite ratios, which [`SchedulerOptions::check`] refuses.
#[must_use]
pub fn weight_settings(texts: &[String]) -> Vec<(&str, f64)> {
    texts
        .iter()
        .filter_map(|text| weight_setting(text))
        .collect()
}

fn weight_setting(text: &str) -> Option<(&str, f64)> {
    let (name, ratio) = text.split_once('=').filter(|(name, _)| !name.is_empty())?;
    let ratio = numbers::float(ratio).filter(|ratio| ratio.is_finite())?;
    Some((name, ratio))
}

/// Whether it is `name=ratio` with an infinite or NaN ratio.
fn is_not_finite(text: &str) -> bool {
    let ratio = text.split_once('=').filter(|(name, _)| !name.is_empty());
    ratio.is_some_and(|(_, ratio)| numbers::float(ratio).is_some_and(|it| !it.is_finite()))
}

/// `[metrics]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct MetricsOptions {
    /// Of all metrics together.
    pub weight_multiplier: f64,
    /// `metric=ratio`
    pub weight_setting: Vec<String>,
    /// Whether a host without one of the metrics is an error.
    pub required: bool,
    /// The weight of a host without the metric.
    pub weight_of_unavailable: f64,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self {
            weight_multiplier: 1.0,
            weight_setting: Vec::new(),
            required: true,
            weight_of_unavailable: -10_000.0,
        }
    }
}

/// The options of `[compute]` that the scheduler uses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ComputeGroupOptions {
    /// Whether used NUMA cells are preferred.
    pub packing_host_numa_cells_allocation_strategy: bool,
    /// Builds that fail in a row before a host is disabled; 0: they are not counted.
    pub consecutive_build_service_disable_threshold: i64,
}

impl Default for ComputeGroupOptions {
    fn default() -> Self {
        Self {
            packing_host_numa_cells_allocation_strategy: false,
            consecutive_build_service_disable_threshold: 10,
        }
    }
}

/// The options of `[workarounds]` that the scheduler uses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct WorkaroundsOptions {
    /// Whether dedicated CPUs are requested only as PCPU, without falling back to VCPU.
    pub disable_fallback_pcpu_query: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_read_are_left_aside() {
        let texts = [
            "a=1", "b= -2.5 ", "c=x", "d", "=1", "e:1", "a=3", "f=g=1", " h =1", "i=inf", "j=nan",
        ];
        let texts = texts.map(str::to_owned);
        assert_eq!(
            weight_settings(&texts),
            [("a", 1.0), ("b", -2.5), ("a", 3.0), (" h ", 1.0)]
        );
    }
}

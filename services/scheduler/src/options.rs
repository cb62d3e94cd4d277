//! The scheduler's options, with Nova's names, groups and defaults. Options that Nova does not have say so.
//!
//! A new option is a field here; the struct, its default, its check and its row in the reference come from that.

mod check;

use berth_options::{CheckedValues, OptionMisfit, WEEK, choices, options, texts};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::numbers;
use crate::request::PciAlias;

pub use check::{OptionError, OptionWarning, OptionsReport};

/// The limit of multipliers.
const MOST: f64 = 1e12;

/// All groups. A group that is not there has its defaults.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SchedulerOptions {
    /// The top level: Nova's `[DEFAULT]`.
    #[serde(rename = "DEFAULT")]
    pub default: DefaultOptions,
    pub scheduler: SchedulerGroupOptions,
    pub filter_scheduler: FilterSchedulerOptions,
    pub metrics: MetricsOptions,
    pub compute: ComputeGroupOptions,
    pub pci: PciOptions,
    pub workarounds: WorkaroundsOptions,
}

impl SchedulerOptions {
    /// The options that a configuration sets.
    pub fn read(values: &CheckedValues) -> Result<Self, OptionMisfit> {
        Ok(Self {
            default: values.read()?,
            scheduler: values.read()?,
            filter_scheduler: values.read()?,
            metrics: values.read()?,
            compute: values.read()?,
            pci: values.read()?,
            workarounds: values.read()?,
        })
    }

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

options! {
    /// `[DEFAULT]`
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default)]
    pub struct DefaultOptions in "" {
        /// The availability zone of hosts that are in no host aggregate with an availability zone.
        pub default_availability_zone: String = "nova".into();
        /// The availability zone of guests that request neither a zone nor a host or node; unset: they may be in any.
        pub default_schedule_zone: Option<String> = None, example: "\"nova\"";
        /// Seconds without a heartbeat after which a host counts as down. The scheduler selects it for no guests then.
        pub service_down_time: f64 = 60.0, kind: Integer(1, WEEK);
    }
    extra {
        /// Seconds between two reports of a service, which the agent reads, too.
        pub report_interval: f64 = 10.0;
    }
}

options! {
    /// How the built-in scheduler queries Placement, and how often a guest's build is tried.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default)]
    pub struct SchedulerGroupOptions in "scheduler" {
        /// The number of hosts, or of devices of one host, on which a guest's build is tried before its request fails.
        pub max_attempts: usize = 3, kind: Integer(1, 1000);
        /// The maximum number of allocation candidates that are requested from Placement.
        pub max_placement_results: usize = 1000, kind: Integer(1, 1_000_000);
        /// Whether a project whose id is in an aggregate (`filter_tenant_id`) is limited to hosts of such aggregates.
        pub limit_tenants_to_placement_aggregate: bool = false;
        /// Whether a project whose id is in no aggregate gets no host at all.
        pub placement_aggregate_required_for_tenants: bool = false;
        /// Whether aggregates with `trait:NAME=required` are only for guests that request that trait.
        pub enable_isolated_aggregate_filtering: bool = false;
        /// Whether hosts must have the traits that an image's properties need (`COMPUTE_...` traits).
        pub image_metadata_prefilter: bool = false;
        /// Whether hosts must have the trait for the image's disk format.
        pub query_placement_for_image_type_support: bool = false;
        /// Whether hosts must be in the aggregates of a routed network's segments. It has no effect yet, with a warning
        /// at start, because requests do not contain their networks.
        pub query_placement_for_routed_network_aggregates: bool = false;
    }
}

options! {
    /// Filters and weighers of the built-in scheduler.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default)]
    pub struct FilterSchedulerOptions in "filter_scheduler" {
        /// The filters that may be enabled; `nova.scheduler.filters.all_filters` are all of them.
        pub available_filters: Vec<String> = texts(["nova.scheduler.filters.all_filters"]);
        /// The filters that are applied, in this order. A filter that is not in `available_filters` is refused at
        /// start.
        pub enabled_filters: Vec<String> = texts([
            "AvailabilityZoneFilter",
            "ComputeFilter",
            "ComputeCapabilitiesFilter",
            "ImagePropertiesFilter",
            "ServerGroupAntiAffinityFilter",
            "ServerGroupAffinityFilter",
        ]);
        /// The weighers that are applied; `nova.scheduler.weights.all_weighers` are all of them.
        pub weight_classes: Vec<String> = texts(["nova.scheduler.weights.all_weighers"]);
        /// One of this number of best hosts is chosen at random. Values below 1 count as 1, with a warning at start.
        pub host_subset_size: i64 = 1, kind: Integer(-1_000_000, 1_000_000);
        /// Whether a host is chosen at random if several best hosts have the same weight.
        pub shuffle_best_same_weighed_hosts: bool = false;
        /// Berth's own option: how many candidates of a host are tried before the next host; 0: all, 1: as in Nova.
        pub candidates_per_host: usize = 0, kind: Integer(0, 1_000_000);
        /// Berth's own option: how weights are normalized: as in Nova, always between minimum and maximum of the list,
        /// in fixed units, or as shares of each host's capacity.
        pub weight_normalization: Normalization = Normalization::Upstream;
        /// The number of guests at which a host is full (`NumInstancesFilter`).
        pub max_instances_per_host: i64 = 50, kind: Integer(1, 1_000_000);
        /// The number of concurrent builds, moves and snapshots at which a host is full (`IoOpsFilter`).
        pub max_io_ops_per_host: i64 = 8, kind: Integer(0, 1_000_000);
        /// Ids of images that are only for `isolated_hosts` (`IsolatedHostsFilter`).
        pub isolated_images: Vec<String> = Vec::new();
        /// Hosts for `isolated_images`.
        pub isolated_hosts: Vec<String> = Vec::new();
        /// Whether `isolated_hosts` accept no other images.
        pub restrict_isolated_hosts_to_isolated_images: bool = true;
        /// Only keys of aggregates with this prefix are image properties (`AggregateImagePropertiesIsolation`); unset:
        /// all keys are.
        pub aggregate_image_properties_isolation_namespace: Option<String> = None, example: "\"image\"";
        /// The separator between that namespace and the property.
        pub aggregate_image_properties_isolation_separator: String = ".".into();
        /// The architecture of images without one (`ImagePropertiesFilter`). An unknown value is refused at start.
        pub image_properties_default_architecture: Option<String> = None, example: "\"x86_64\"";
        /// Berth's own option: whether an image's `hw_maxphysaddr_bits` is compared with the value of a host's
        /// processors. Nova's code intends this comparison but does not do it.
        pub compare_image_maxphysaddr_bits: bool = true;
        /// Whether the PCI devices that flavors request are in Placement (`[pci] report_in_placement` of all hosts). If
        /// not, a flavor that requests devices by a `[pci] alias` is refused.
        pub pci_in_placement: bool = false;
        /// Multiplier of the free memory; below 0, hosts are filled one after another.
        pub ram_weight_multiplier: f64 = 1.0, kind: Number(-MOST, MOST);
        /// Multiplier of the free CPUs.
        pub cpu_weight_multiplier: f64 = 1.0, kind: Number(-MOST, MOST);
        /// Multiplier of the free disk.
        pub disk_weight_multiplier: f64 = 1.0, kind: Number(-MOST, MOST);
        /// Multiplier of running builds, moves and snapshots.
        pub io_ops_weight_multiplier: f64 = -1.0, kind: Number(-MOST, MOST);
        /// Multiplier of the number of guests.
        pub num_instances_weight_multiplier: f64 = 0.0, kind: Number(-MOST, MOST);
        /// Multiplier of the hypervisor's version.
        pub hypervisor_version_weight_multiplier: f64 = 1.0, kind: Number(-MOST, MOST);
        /// Multiplier of the preference for hosts without devices for guests without devices.
        pub pci_weight_multiplier: f64 = 1.0, kind: Number(0.0, MOST);
        /// Multiplier of the number of members of the guest's soft-affinity group.
        pub soft_affinity_weight_multiplier: f64 = 1.0, kind: Number(0.0, MOST);
        /// Multiplier of the avoidance of members of the guest's soft-anti-affinity group.
        pub soft_anti_affinity_weight_multiplier: f64 = 1.0, kind: Number(0.0, MOST);
        /// Multiplier of the avoidance of hosts with consecutive failed builds.
        pub build_failure_weight_multiplier: f64 = 1_000_000.0, kind: Number(-MOST, MOST);
        /// Multiplier of the preference for the same cell when a guest is moved. Moves do not exist yet: another value
        /// causes a warning at start.
        pub cross_cell_move_weight_multiplier: f64 = 1_000_000.0, kind: Number(-MOST, MOST);
        /// Multiplier of the number of guests with the same image properties.
        pub image_props_weight_multiplier: f64 = 0.0, kind: Number(-MOST, MOST);
        /// `PROPERTY=WEIGHT`. If set, other properties have no weight.
        pub image_props_weight_setting: Vec<String> = Vec::new(),
            example: "[\"os_distro=1\", \"hw_machine_type=0\"]";
    }
}

options! {
    /// Metrics of hosts as a weight.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default)]
    pub struct MetricsOptions in "metrics" {
        /// Multiplier of all metrics together (`MetricsWeigher`).
        pub weight_multiplier: f64 = 1.0, kind: Number(-MOST, MOST);
        /// `METRIC=RATIO`: the weights of the metrics of `compute_monitors`.
        pub weight_setting: Vec<String> = Vec::new(), example: "[\"cpu.percent=-1\"]";
        /// Whether a host without one of these metrics is excluded.
        pub required: bool = true;
        /// The weight of a host without one of these metrics if `required` is false.
        pub weight_of_unavailable: f64 = -10_000.0, kind: Number(-MOST, MOST);
    }
}

options! {
    /// The options of `[compute]` that the scheduler uses.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default)]
    pub struct ComputeGroupOptions in "compute" {
        /// Whether a guest's NUMA cells are placed on host cells with guests first.
        pub packing_host_numa_cells_allocation_strategy: bool = false;
        /// Number of consecutive failed builds on a host after which the scheduler prefers every other host; 0:
        /// failures are not counted.
        pub consecutive_build_service_disable_threshold: i64 = 10, kind: Integer(0, 1_000_000);
    }
}

options! {
    /// The option of `[pci]` that the scheduler uses.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default)]
    pub struct PciOptions in "pci" {
        /// On the conductor's host: the names by which flavors request these devices (`pci_passthrough:alias`), as
        /// Nova's entries: `name`, `vendor_id` and `product_id` or `resource_class`, `device_type`, `numa_policy`,
        /// `traits`, `live_migratable`. It needs `[filter_scheduler] pci_in_placement`. An entry is written
        /// `[[pci.alias]]`, or in the list: `[{ name = "a100", vendor_id = "10de", product_id = "20b7" }]`.
        pub alias: Vec<PciAlias> = Vec::new();
    }
}

options! {
    /// Workarounds for known problems.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default)]
    pub struct WorkaroundsOptions in "workarounds" {
        /// Whether dedicated CPUs are requested only as PCPU, and not also as VCPU of hosts that report no PCPU.
        pub disable_fallback_pcpu_query: bool = false;
    }
}

choices! {
    /// How the raw weights of a weigher are brought between 0 and 1.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Normalization {
        /// Between the minimum and maximum of the list, or the weigher's own bound if it has one, as in Nova.
        #[default]
        Upstream = "upstream",
        /// Between the list's least and most, always; all alike are 0.
        ListMin = "list-min",
        /// In a fixed unit of the weigher (1 TiB of memory, 256 CPUs, 10 TiB of disk, the maximum number of instances),
        /// independent of the list.
        Fixed = "fixed",
        /// The share of the host's own capacity; like `Fixed` for weighers without a capacity.
        Percent = "percent",
    }
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

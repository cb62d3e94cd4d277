//! The features that the scheduler's options enable, for the rules about flavors, aggregates and server groups.

use std::collections::BTreeSet;

use berth_scheduler::filters;
use berth_scheduler::options::SchedulerOptions;
use berth_scheduler::weighers::Weighers;
use berth_scheduler_objects::request::PciAlias;

pub(super) struct EnabledFeatures {
    filters: BTreeSet<&'static str>,
    weighers: BTreeSet<&'static str>,
    /// Whether `filter_tenant_id` is read before filters are.
    pub(super) limits_tenants: bool,
    /// Whether traits that aggregates require are.
    pub(super) isolates_aggregates: bool,
    /// The prefix of aggregate keys that are image properties.
    pub(super) image_namespace: Option<String>,
    pub(super) aliases: Vec<PciAlias>,
    /// Whether devices are requested from Placement.
    pub(super) pci_in_placement: bool,
}

impl EnabledFeatures {
    pub(super) fn of(options: &SchedulerOptions) -> Self {
        let fs = &options.filter_scheduler;
        let named = fs
            .enabled_filters
            .iter()
            .filter_map(|it| filters::named(it));
        let namespace = fs.aggregate_image_properties_isolation_namespace.as_ref();
        let separator = &fs.aggregate_image_properties_isolation_separator;
        Self {
            filters: named.map(|it| it.name()).collect(),
            weighers: weighers_of(options),
            limits_tenants: options.scheduler.limit_tenants_to_placement_aggregate,
            isolates_aggregates: options.scheduler.enable_isolated_aggregate_filtering,
            image_namespace: namespace
                .filter(|it| !it.is_empty())
                .map(|it| format!("{it}{separator}")),
            aliases: options.pci.alias.clone(),
            pci_in_placement: fs.pci_in_placement,
        }
    }

    pub(super) fn has_filter(&self, name: &str) -> bool {
        self.filters.contains(name)
    }

    pub(super) fn has_weigher(&self, name: &str) -> bool {
        self.weighers.contains(name)
    }
}

/// The weighers that are there, whatever else is named.
fn weighers_of(options: &SchedulerOptions) -> BTreeSet<&'static str> {
    let classes = options.filter_scheduler.weight_classes.iter();
    let alone = classes.filter_map(|name| Weighers::new(&of_class(options, name)).ok());
    alone
        .flat_map(|all| all.names().collect::<Vec<_>>())
        .collect()
}

/// These options, with one weigher.
fn of_class(options: &SchedulerOptions, name: &str) -> SchedulerOptions {
    let mut alone = options.clone();
    alone.filter_scheduler.weight_classes = vec![name.to_owned()];
    alone
}

//! The options of the filter scheduler, by Nova's names, groups and defaults.

use super::row::{WEEK, row};
use crate::kind::OptionKind;
use crate::option::{Default, OptionRow};

/// So far a weight may be multiplied.
const MOST: f64 = 1e12;

#[rustfmt::skip]
pub(super) const ROWS: &[OptionRow] = &[
    row("", "default_availability_zone", OptionKind::Text, Default::Text("nova"),
        "The availability zone of hosts that no host aggregate gives one."),
    row("", "service_down_time", OptionKind::Integer(1, WEEK), Default::Integer(60),
        "Seconds for which a host counts as up whose agent says nothing: the scheduler gives it no guests after that."),

    row("compute", "packing_host_numa_cells_allocation_strategy", OptionKind::Flag, Default::Flag(false),
        "Whether a guest's NUMA cells go first to those cells of a host that have guests already."),
    row("compute", "consecutive_build_service_disable_threshold", OptionKind::Integer(0, 1_000_000), Default::Integer(10),
        "Builds that may fail in a row on a host before the scheduler prefers every other one; 0: they are not counted."),

    row("scheduler", "max_attempts", OptionKind::Integer(1, 1000), Default::Integer(3),
        "Hosts, or devices of one, on which a guest's build is tried before its request fails."),
    row("scheduler", "max_placement_results", OptionKind::Integer(1, 1_000_000), Default::Integer(1000),
        "Allocation candidates that Placement is asked for at most."),
    row("scheduler", "limit_tenants_to_placement_aggregate", OptionKind::Flag, Default::Flag(false),
        "Whether a project whose id an aggregate names (`filter_tenant_id`) has only hosts of such aggregates."),
    row("scheduler", "placement_aggregate_required_for_tenants", OptionKind::Flag, Default::Flag(false),
        "Whether a project that no aggregate names has no host at all."),
    row("scheduler", "enable_isolated_aggregate_filtering", OptionKind::Flag, Default::Flag(false),
        "Whether aggregates with `trait:NAME=required` are only for guests that ask for that trait."),
    row("scheduler", "image_metadata_prefilter", OptionKind::Flag, Default::Flag(false),
        "Whether Placement is asked for what an image's properties need (`COMPUTE_...` traits)."),
    row("scheduler", "query_placement_for_image_type_support", OptionKind::Flag, Default::Flag(false),
        "Whether Placement is asked for hosts that can read the image's disk format."),
    row("scheduler", "query_placement_for_routed_network_aggregates", OptionKind::Flag, Default::Flag(false),
        "Whether Placement is asked for hosts in the aggregates of a routed network's segments. It does nothing yet, with a warning at \
         start: no request tells its networks."),

    row("filter_scheduler", "available_filters", OptionKind::Texts, Default::List(&["nova.scheduler.filters.all_filters"]),
        "The filters that may be enabled; `nova.scheduler.filters.all_filters` are all of them."),
    row("filter_scheduler", "enabled_filters", OptionKind::Texts,
        Default::List(&["AvailabilityZoneFilter", "ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter",
            "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"]),
        "The filters that are asked, in this order; one that is not among `available_filters` is refused at start."),
    row("filter_scheduler", "weight_classes", OptionKind::Texts, Default::List(&["nova.scheduler.weights.all_weighers"]),
        "The weighers that are asked; `nova.scheduler.weights.all_weighers` are all of them."),
    row("filter_scheduler", "host_subset_size", OptionKind::Integer(-1_000_000, 1_000_000), Default::Integer(1),
        "Of so many of the best hosts one is taken by chance; below 1 counts as 1, with a warning at start."),
    row("filter_scheduler", "shuffle_best_same_weighed_hosts", OptionKind::Flag, Default::Flag(false),
        "Whether chance decides between the best hosts of one weight."),
    row("filter_scheduler", "candidates_per_host", OptionKind::Integer(0, 1_000_000), Default::Integer(0),
        "Berth's own: how many candidates of a host are tried before the host is given up; 0: all, 1: as Nova."),
    row("filter_scheduler", "weight_normalization", OptionKind::Choice(&["upstream", "list-min", "fixed", "percent"]),
        Default::Text("upstream"),
        "Berth's own: how weights are brought to one scale: as Nova does, between the list's least and most always, in units of \
         their own, or as shares of each host's capacity."),
    row("filter_scheduler", "max_instances_per_host", OptionKind::Integer(1, 1_000_000), Default::Integer(50),
        "The number of guests at which a host is full (`NumInstancesFilter`)."),
    row("filter_scheduler", "max_io_ops_per_host", OptionKind::Integer(0, 1_000_000), Default::Integer(8),
        "The number of builds, moves and snapshots at a time at which a host is full (`IoOpsFilter`)."),
    row("filter_scheduler", "isolated_images", OptionKind::Texts, Default::List(&[]),
        "Images by id that are only for `isolated_hosts` (`IsolatedHostsFilter`)."),
    row("filter_scheduler", "isolated_hosts", OptionKind::Texts, Default::List(&[]),
        "Hosts for `isolated_images`."),
    row("filter_scheduler", "restrict_isolated_hosts_to_isolated_images", OptionKind::Flag, Default::Flag(true),
        "Whether `isolated_hosts` take nothing else."),
    row("filter_scheduler", "aggregate_image_properties_isolation_namespace", OptionKind::Text, Default::Unset,
        "Keys of aggregates that begin otherwise are no image properties (`AggregateImagePropertiesIsolation`); unset: all are.")
        .example("\"image\""),
    row("filter_scheduler", "aggregate_image_properties_isolation_separator", OptionKind::Text, Default::Text("."),
        "What stands between that namespace and the property."),
    row("filter_scheduler", "image_properties_default_architecture", OptionKind::Text, Default::Unset,
        "The architecture of images that name none (`ImagePropertiesFilter`); an unknown one is refused at start.").example("\"x86_64\""),
    row("filter_scheduler", "compare_image_maxphysaddr_bits", OptionKind::Flag, Default::Flag(true),
        "Berth's own: whether an image's `hw_maxphysaddr_bits` is compared with what a host's processors have. Nova means to."),
    row("filter_scheduler", "pci_in_placement", OptionKind::Flag, Default::Flag(false),
        "Whether the PCI devices that flavors ask for are in Placement (`[pci] report_in_placement` of all hosts). Without it a \
         flavor that asks for devices by a `[pci] alias` is refused."),
    row("filter_scheduler", "ram_weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(1.0),
        "Of the memory that is free; below 0, hosts are filled one after another."),
    row("filter_scheduler", "cpu_weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(1.0), "Of the CPUs that are free."),
    row("filter_scheduler", "disk_weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(1.0), "Of the disk that is free."),
    row("filter_scheduler", "io_ops_weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(-1.0),
        "Of builds, moves and snapshots under way."),
    row("filter_scheduler", "num_instances_weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(0.0),
        "Of the number of guests."),
    row("filter_scheduler", "hypervisor_version_weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(1.0),
        "Of the hypervisor's version."),
    row("filter_scheduler", "pci_weight_multiplier", OptionKind::Number(0.0, MOST), Default::Float(1.0),
        "Of keeping guests without devices off hosts with devices."),
    row("filter_scheduler", "soft_affinity_weight_multiplier", OptionKind::Number(0.0, MOST), Default::Float(1.0),
        "Of members of the guest's soft-affinity group."),
    row("filter_scheduler", "soft_anti_affinity_weight_multiplier", OptionKind::Number(0.0, MOST), Default::Float(1.0),
        "Against members of the guest's soft-anti-affinity group."),
    row("filter_scheduler", "build_failure_weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(1_000_000.0),
        "Against builds that failed in a row."),
    row("filter_scheduler", "cross_cell_move_weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(1_000_000.0),
        "Of staying in the cell, when a guest is moved. No guest is yet: another number has a warning at start."),
    row("filter_scheduler", "image_props_weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(0.0),
        "Of guests that were booted with the same image properties."),
    row("filter_scheduler", "image_props_weight_setting", OptionKind::Texts, Default::List(&[]),
        "`PROPERTY=WEIGHT`; where there is one, properties that are not named count nothing.")
        .example("[\"os_distro=1\", \"hw_machine_type=0\"]"),

    row("scheduler_plugin_NAME", "program", OptionKind::Path, Default::Unset,
        "The program. Asked with `--manifest` it says what it is; for each guest it reads the request and its hosts as JSON and answers \
         with its verdicts and weights (the guide's page on plugins has both forms).")
        .example("\"/usr/libexec/berth/rack_power\""),
    row("scheduler_plugin_NAME", "time_budget", OptionKind::Seconds(0.1, 60.0), Default::Float(2.0),
        "Seconds that it may take for one guest; then it is ended with all that it started, and was not heard."),
    row("scheduler_plugin_NAME", "on_failure", OptionKind::Choice(&["pass", "reject"]), Default::Derived("`reject` for one that is enabled as a \
         filter, `pass` for one that is enabled as a weigher alone"),
        "What becomes of hosts where it was not heard: each of them passes, or none.")
        .example("\"pass\""),
    row("scheduler_plugin_NAME", "weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(1.0),
        "Of its weights; aggregates override it by the key `NAME_weight_multiplier`."),

    row("trusted_computing", "attestation_file", OptionKind::Path, Default::Unset,
        "Where the conductor is: a JSON file of what was attested of the nodes, as OpenAttestation answers (`TrustedFilter`). It is read for \
         each guest whose flavor asks for `trust:trusted_host`; unset, no node is trusted.")
        .example("\"/var/lib/attestation/hosts.json\""),
    row("trusted_computing", "attestation_auth_timeout", OptionKind::Integer(1, WEEK), Default::Integer(60),
        "Seconds for which an attestation holds after its `vtime`."),

    row("metrics", "weight_multiplier", OptionKind::Number(-MOST, MOST), Default::Float(1.0),
        "Of all metrics together (`MetricsWeigher`)."),
    row("metrics", "weight_setting", OptionKind::Texts, Default::List(&[]),
        "`METRIC=RATIO`: the metrics of `compute_monitors` that are weighed.")
        .example("[\"cpu.percent=-1\"]"),
    row("metrics", "required", OptionKind::Flag, Default::Flag(true),
        "Whether a host that does not measure one of them is out."),
    row("metrics", "weight_of_unavailable", OptionKind::Number(-MOST, MOST), Default::Float(-10_000.0),
        "The weight of such a host where it is not."),

    row("compute_service", "connection", OptionKind::Database, Default::Derived("`sqlite:` and `compute.sqlite` below `state_path`"),
        "The database of the compute API: flavors, key pairs, and what of servers nobody else keeps.")
        .example("\"sqlite:/var/lib/berth/compute.sqlite\""),
    row("compute_service", "listen", OptionKind::Listen, Default::Unset,
        "Address and port of the compute API (`/v2.1`), where agents of other hosts tell the scheduler their host's state, too (`[conductor] \
         endpoint_override` there). Unset: `berth up` serves no compute API, and this host's agent alone tells it.")
        .example("\"127.0.0.1:8774\""),
    row("compute_service", "images_file", OptionKind::Path, Default::Unset,
        "The images that servers are made of, where `[glance]` names no image service, and that the image service built in shows: a TOML file \
         with an `[[image]]` for each (`name`, `disk_format`, `file`, or `path` or `url` with `checksum`, and where wanted `id`, `size`, `min_ram` in \
         MiB, `min_disk` in GiB, `tags`, `properties`, `os_hidden`). It is read at the start.")
        .example("\"/etc/berth/images.toml\""),
    row("compute_service", "auto_network", OptionKind::Text, Default::Unset,
        "What a server is plugged into that asks for networks `auto`: `network:NAME` of a libvirt network or `bridge:NAME` of a Linux bridge, on \
         whichever host it is. Unset: it has no interface.").example("\"network:default\""),
    row("compute_service", "auth_strategy", OptionKind::Choice(&["noauth2", "keystone"]), Default::Text("noauth2"),
        "Who believes tokens: `noauth2` takes the token's own word and listens on loopback only, `keystone` asks by \
         `[keystone_authtoken]`; an agent's account needs the role `service`."),
    row("compute_service", "policy_file", OptionKind::Path, Default::Unset,
        "Who may do what, where it is other than the default: a YAML file in the language of oslo.policy, as Nova's policy.yaml; read at \
         start.").example("\"/etc/berth/compute-policy.yaml\""),

    row("quota", "hook", OptionKind::Path, Default::Unset,
        "A program that is asked before servers are made: it reads project, user, count and flavor as JSON and answers yes, or no with a \
         sentence (the guide's page on servers has the form). As root, one that others can change is not run.")
        .example("\"/usr/libexec/berth/quota\""),
    row("quota", "time_budget", OptionKind::Seconds(0.1, 60.0), Default::Float(2.0),
        "Seconds that it may take for one request; then it is ended with all that it started, and was not heard."),
    row("quota", "on_failure", OptionKind::Choice(&["refuse", "allow"]), Default::Text("refuse"),
        "What becomes of a request that it was not heard about: `refuse` answers 503."),

    row("workarounds", "disable_fallback_pcpu_query", OptionKind::Flag, Default::Flag(false),
        "Whether dedicated CPUs are asked for as PCPU only, and not as VCPU of hosts that tell no PCPU."),
];

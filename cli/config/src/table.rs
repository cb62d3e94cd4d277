//! Every option berth reads: the one list from which checks, defaults, the reference page and the sample file come.
//!
//! A new option is a row here and a field in `sections`; a test holds the two together.

mod api;
mod client;
mod guests;
mod identity;
mod row;
mod scheduler;

use super::kind::OptionKind;
use super::option::{Default, OptionRow};
use super::pattern;
use row::{WEEK, row};

/// Sections of the file, in the order of the reference. `mdev_TYPE` and `scheduler_plugin_NAME` are patterns.
pub const SECTIONS: &[(&str, &str)] = &[
    (
        "",
        "The compute node: Nova's `[DEFAULT]` options stand at the top level, before the first section.",
    ),
    (
        "compute",
        "How CPUs are offered, and how often Placement is looked at.",
    ),
    ("libvirt", "The libvirt driver."),
    (
        "pci",
        "PCI devices of this host that flavors name, as Nova gives them to guests.",
    ),
    (
        "accelerators",
        "Devices of this host that the accelerator service binds: device profiles name them.",
    ),
    ("devices", "Mediated devices."),
    (
        "mdev_TYPE",
        "One mediated device type; the section is named after it, as `[mdev_nvidia-35]`.",
    ),
    (
        "model",
        "How this host is modelled in Placement. Changing a word here means a reshape at the next start.",
    ),
    (
        "placement",
        "Placement as a client sees it: keystoneauth's options by their own names.",
    ),
    (
        "cyborg",
        "The accelerator service as a client sees it: Cyborg or Berth's own. `berth up` serves one, which needs no entry here.",
    ),
    (
        "conductor",
        "The service that keeps hosts' states for the scheduler, as a client sees it: Berth's own, beside its conductor. Without an \
         entry `berth agent` tells nobody; `berth up` has one, which needs no entry here.",
    ),
    (
        "glance",
        "The image service as a client sees it; images at a path or an HTTP URL need none, and `berth up` has one built in.",
    ),
    (
        "image_cache",
        "Base images that guests' disks rest on, each kept once on this host, in `_base` below `instances_path`.",
    ),
    (
        "api",
        "The one listener of `berth up` and `berth controller`: identity, compute, placement and accelerator behind one address.",
    ),
    (
        "placement_service",
        "The Placement service built in (`berth up`, `berth placement serve`).",
    ),
    (
        "cors",
        "Which web sites' scripts may ask the built-in Placement: oslo.middleware's options by their own names.",
    ),
    (
        "accelerator_service",
        "The accelerator service built in (`berth up`, `berth accelerator serve`).",
    ),
    ("conductor_service", "The conductor built in (`berth up`)."),
    (
        "compute_service",
        "The compute API built in (`berth up`, `berth compute serve`), and what the scheduler takes from agents of other hosts.",
    ),
    (
        "quota",
        "Whether a project may have more servers of the compute API built in. Without an entry each may.",
    ),
    (
        "scheduler",
        "How the scheduler built in asks Placement, and how often a guest is tried.",
    ),
    (
        "filter_scheduler",
        "Filters and weighers of the scheduler built in.",
    ),
    (
        "scheduler_plugin_NAME",
        "One program of one's own that filters hosts, weighs them, or both; the section is named after it, as \
         `[scheduler_plugin_rack_power]`, and it is enabled by that name in `enabled_filters` and `weight_classes`.",
    ),
    (
        "trusted_computing",
        "What was attested of hosts, for flavors that ask for trust.",
    ),
    ("metrics", "What hosts measure of themselves, as a weight."),
    ("workarounds", "What is done otherwise than it should be."),
    (
        "agent_client",
        "How agents of other hosts are asked: by the conductor (`[conductor_service] agents`), and by commands with `--agent`.",
    ),
    (
        "identity_service",
        "The Identity service built in (`berth up`, `berth controller`, `berth identity serve`): a minimal Keystone v3, for one machine and small \
         clouds.",
    ),
    (
        "keystone_authtoken",
        "The account by which a built-in service asks Keystone whose tokens are, where its `auth_strategy` is `keystone`: \
         keystonemiddleware's options by their own names.",
    ),
    ("agent", "The agent's own doors."),
    ("fake", "The fake driver: a machine described by a file."),
];

const MANY: i64 = i64::MAX;
/// The largest whole number Placement stores in an inventory.
const PLACEMENT_MAX: i64 = 2_147_483_647;
const NIL_UUID: &str = "00000000-0000-0000-0000-000000000000";

/// Every option. Those of a section stand together; the sections' order is that of [`SECTIONS`].
pub const OPTIONS: &[OptionRow] = &joined::<{ PARTS.0 }>(PARTS.1);

/// The parts of [`OPTIONS`] and how many rows they have together.
const PARTS: (usize, &[&[OptionRow]]) = {
    let parts: &[&[OptionRow]] = &[
        OWN,
        guests::ROWS,
        scheduler::ROWS,
        api::ROWS,
        identity::ROWS,
        &client::rows("placement", "placement", "\"http://127.0.0.1:8778\""),
        &client::rows("cyborg", "accelerator", "\"http://127.0.0.1:6666\""),
        &client::rows("conductor", "conductor", "\"http://127.0.0.1:8780\""),
        &client::rows("glance", "image", "\"http://127.0.0.1:9292\""),
    ];
    let (mut count, mut part) = (0, 0);
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    (count, parts)
};

const fn joined<const N: usize>(parts: &[&[OptionRow]]) -> [OptionRow; N] {
    let mut all = [parts[0][0]; N];
    let (mut next, mut part) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[next] = parts[part][index];
            next += 1;
            index += 1;
        }
        part += 1;
    }
    all
}

const OWN: &[OptionRow] = &[
    row("", "compute_driver", OptionKind::Driver(&["libvirt", "fake"]), Default::Text("libvirt"),
        "The driver of this host: `libvirt`, `fake` for a machine described by a file (`[fake] machine`), or `exec:/PATH` for a \
         program that speaks the protocol of exec-driver.md."),
    row("", "host", OptionKind::HostName, Default::Derived("the host name of the machine"),
        "Name of this compute node. It is the name of the root resource provider too, so changing it on a host with \
         guests is refused at start.").example("\"node-17\""),
    row("", "my_ip", OptionKind::IpAddress, Default::Derived("the address that the default route leaves by, else `127.0.0.1`"),
        "The address by which the scheduler knows this host: Nova's option of this name.").example("\"192.0.2.17\""),
    row("", "state_path", OptionKind::Path, Default::Text("/var/lib/berth"),
        "Directory of what must survive a restart: `compute_id`, the SQLite file of the built-in services."),
    row("", "instances_path", OptionKind::Path, Default::Derived("`instances` below `state_path`"),
        "Directory of the guests' disks; its file system's size is the DISK_GB inventory.")
        .example("\"/var/lib/berth/instances\""),
    row("", "update_resources_interval", OptionKind::Integer(-1, WEEK), Default::Integer(0),
        "Seconds between two periodic passes over the inventory; 0 means 60, -1 switches them off.").live(),
    row("", "periodic_fuzzy_delay", OptionKind::Integer(0, 3600), Default::Integer(60),
        "The first periodic pass waits up to this many seconds, at random, so that a fleet started at once does not \
         call Placement at once."),
    row("", "report_interval", OptionKind::Integer(1, 3600), Default::Integer(10),
        "Seconds between two signs of life to the scheduler (`[conductor]`), which takes a host for down that gives none for \
         longer than its `service_down_time`. A change of the host's state is told at once."),
    row("", "compute_monitors", OptionKind::Choices(&["cpu.virt_driver"]), Default::List(&[]),
        "What is measured once a minute and told the scheduler as metrics, for `MetricsFilter` and `MetricsWeigher`: \
         `cpu.virt_driver` is what the driver says the host's CPUs did (`cpu.user.percent` and so on, by Nova's names)."),
    row("", "reserved_host_memory_mb", OptionKind::Integer(0, PLACEMENT_MAX), Default::Integer(512),
        "Memory kept for the host, in MiB: `reserved` of the MEMORY_MB inventory.").live(),
    row("", "reserved_host_cpus", OptionKind::Integer(0, PLACEMENT_MAX), Default::Integer(0),
        "CPUs kept for the host: `reserved` of the VCPU inventory. Not together with `[compute] cpu_dedicated_set`.").live(),
    row("", "reserved_host_disk_mb", OptionKind::Integer(0, MANY / 1024), Default::Integer(0),
        "Disk kept for the host, in MiB, rounded up to GiB: `reserved` of the DISK_GB inventory.").live(),
    row("", "cpu_allocation_ratio", OptionKind::Ratio(10_000.0), Default::Unset,
        "Overcommit of VCPU. When set it always wins; unset, what Placement holds is kept.").live().example("16.0"),
    row("", "ram_allocation_ratio", OptionKind::Ratio(10_000.0), Default::Unset,
        "Overcommit of MEMORY_MB. When set it always wins; unset, what Placement holds is kept.").live().example("1.5"),
    row("", "disk_allocation_ratio", OptionKind::Ratio(10_000.0), Default::Unset,
        "Overcommit of DISK_GB. When set it always wins; unset, what Placement holds is kept.").live().example("1.0"),
    row("", "initial_cpu_allocation_ratio", OptionKind::Ratio(10_000.0), Default::Float(4.0),
        "Overcommit of VCPU for an inventory that Placement does not have yet.").live(),
    row("", "initial_ram_allocation_ratio", OptionKind::Ratio(10_000.0), Default::Float(1.0),
        "Overcommit of MEMORY_MB for an inventory that Placement does not have yet.").live(),
    row("", "initial_disk_allocation_ratio", OptionKind::Ratio(10_000.0), Default::Float(1.0),
        "Overcommit of DISK_GB for an inventory that Placement does not have yet.").live(),
    row("", "graceful_shutdown_timeout", OptionKind::Integer(0, 3600), Default::Integer(180),
        "Seconds work in hand may take after the request to stop; 0 stops at the next safe point.").live(),

    row("compute", "cpu_shared_set", OptionKind::CpuSet, Default::Unset,
        "Host CPUs that back VCPU. Unset: all online CPUs, or none if only `cpu_dedicated_set` is set.")
        .example("\"0-3,^2,8\""),
    row("compute", "cpu_dedicated_set", OptionKind::CpuSet, Default::Unset,
        "Host CPUs that back PCPU, one guest CPU each. Must share none with `cpu_shared_set`.").example("\"4-7\""),
    row("compute", "resource_provider_association_refresh", OptionKind::Integer(0, WEEK), Default::Integer(300),
        "Seconds for which inventories, traits and aggregates read from Placement are trusted; 0: for ever.").live(),
    row("compute", "sharing_providers_max_uuids_per_request", OptionKind::Integer(1, 10_000), Default::Integer(200),
        "How many aggregates one request for sharing providers names at most.").live(),
    row("compute", "owner_nova", OptionKind::Flag, Default::Flag(true),
        "Whether the root provider carries the trait OWNER_NOVA, as Nova's own compute nodes do.").live(),
    row("compute", "provider_config_location", OptionKind::Path, Default::Text("/etc/berth/provider_config"),
        "The directory whose files `*.yaml` add inventories and traits of one's own (`CUSTOM_…`) to providers: Nova's \
         provider.yaml, schema 1.x. They are read at start and at SIGHUP; what leaves them leaves Placement.").live(),

    row("libvirt", "connection_uri", OptionKind::LibvirtUri, Default::Derived("`qemu:///system`"),
        "The libvirt connection.").example("\"qemu:///system\""),
    row("libvirt", "virt_type", OptionKind::Choice(&["kvm", "qemu"]), Default::Text("kvm"),
        "How guests run: `kvm`, or `qemu` for emulation without hardware support. The `COMPUTE_*` traits are those of such \
         guests; a host that cannot run them has none that libvirt tells."),

    row("devices", "enabled_mdev_types", OptionKind::MdevTypes, Default::List(&[]),
        "Mediated device types this host offers. With more than one, each needs `device_addresses` in its own section."),
    row("mdev_TYPE", "device_addresses", OptionKind::PciAddresses, Default::List(&[]),
        "The physical GPUs (or virtual functions) that offer this type; empty: all, where only one type is enabled.")
        .example("[\"0000:84:00.0\", \"0000:85:00.0\"]"),
    row("mdev_TYPE", "mdev_class", OptionKind::MdevClass, Default::Text("VGPU"),
        "The resource class of this type's inventory."),
    row("mdev_TYPE", "max_instances", OptionKind::Integer(1, PLACEMENT_MAX), Default::Unset,
        "How many mediated devices of this type the host offers at most.").example("16"),

    row("model", "vgpu", OptionKind::Choice(&["root", "per-gpu"]), Default::Text("per-gpu"),
        "Where VGPU stands: `root` (one flat inventory) or `per-gpu` (a child provider for each physical GPU)."),
    row("model", "numa", OptionKind::Choice(&["flat", "cells"]), Default::Text("flat"),
        "Where CPUs and memory stand: `flat` (root) or `cells` (a child provider for each NUMA cell)."),
    row("model", "pcpu", OptionKind::Choice(&["vcpu", "pcpu"]), Default::Text("pcpu"),
        "What the CPUs of `cpu_dedicated_set` are reported as: `vcpu` (Nova before Train) or `pcpu`."),

    row("placement_service", "connection", OptionKind::Database, Default::Derived("`sqlite:` and `placement.sqlite` below `state_path`"),
        "The database; the variable BERTH_DATABASE_URL sets it too.").example("\"sqlite:/var/lib/berth/placement.sqlite\""),
    row("placement_service", "isolation_level", OptionKind::Choice(&["repeatable-read", "read-committed"]), Default::Text("repeatable-read"),
        "What the transactions that write see of others, where the database is on a server: Berth is right at both."),
    row("placement_service", "listen", OptionKind::Listen, Default::Text("127.0.0.1:8778"),
        "Address and port of the API."),
    row("placement_service", "auth_strategy", OptionKind::Choice(&["noauth2", "keystone"]), Default::Text("noauth2"),
        "Who believes tokens: `noauth2` takes the token's own word and listens on loopback only, `keystone` asks by \
         `[keystone_authtoken]`. Placement's option of this name, from its `[api]`."),
    row("placement_service", "policy_file", OptionKind::Path, Default::Unset,
        "Who may do what, where it is other than the default: a YAML file in the language of oslo.policy, as Placement's \
         policy.yaml; read at start.").example("\"/etc/berth/placement-policy.yaml\""),
    row("placement_service", "enforce_new_defaults", OptionKind::Flag, Default::Flag(true),
        "Whether only the newer default rules count. With false the role `admin` alone passes every default, a reshape \
         included: Placement's option of this name, from its `[oslo_policy]`."),
    row("placement_service", "path_prefix", OptionKind::UrlPath, Default::Unset,
        "What stands before every path of the API, in links too; where a proxy takes it away, requests are answered without it \
         as well.").example("\"/placement\""),
    row("placement_service", "incomplete_consumer_project_id", OptionKind::Text, Default::Text(NIL_UUID),
        "The project of consumers that were made without one, before microversion 1.8: Placement's option of this name."),
    row("placement_service", "incomplete_consumer_user_id", OptionKind::Text, Default::Text(NIL_UUID),
        "The user of consumers that were made without one: Placement's option of this name."),
    row("placement_service", "randomize_allocation_candidates", OptionKind::Flag, Default::Flag(false),
        "Whether allocation candidates come in another order each time, and another choice of them where there are more than the \
         limit: Placement's option of this name."),
    row("placement_service", "max_allocation_candidates", OptionKind::Integer(1, 1_000_000), Default::Integer(100_000),
        "How many allocation candidates are made for one request at most, whatever its limit says: Placement's option of this \
         name."),
    row("placement_service", "allocation_candidates_from", OptionKind::Choice(&["auto", "snapshot", "sql"]), Default::Text("auto"),
        "Where allocation candidates are searched: in a `snapshot` of all providers in memory, which is true while no other process \
         writes to the database, or by `sql`, which reads the providers that could serve the request. `auto` is `snapshot` on \
         SQLite, `sql` on PostgreSQL and MariaDB. Both find the same."),

    row("cors", "allowed_origin", OptionKind::Origins, Default::List(&[]),
        "Sites whose scripts may ask, each as a browser names it; `*` for all. Empty: none.")
        .example("[\"https://dashboard.example.org\"]"),
    row("cors", "allow_methods", OptionKind::Choices(&["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS"]),
        Default::List(&["GET", "PUT", "POST", "DELETE", "PATCH"]), "Methods that may be used."),
    row("cors", "allow_headers", OptionKind::Names, Default::List(&["X-Auth-Token", "OpenStack-API-Version", "X-Roles"]),
        "Request headers that may be sent beside the simple ones."),
    row("cors", "expose_headers", OptionKind::Names, Default::List(&["X-Openstack-Request-Id", "OpenStack-API-Version"]),
        "Answer headers that a script may read beside the simple ones."),
    row("cors", "max_age", OptionKind::Integer(0, 86_400), Default::Integer(3600),
        "Seconds for which a browser may remember what it was told."),

    row("accelerator_service", "connection", OptionKind::Database,
        Default::Derived("`sqlite:` and `accelerator.sqlite` below `state_path`"),
        "The database, not Placement's. Several processes may serve the API on one of a server.").example("\"sqlite:/var/lib/berth/accelerator.sqlite\""),
    row("accelerator_service", "listen", OptionKind::Listen, Default::Text("127.0.0.1:6666"),
        "Address and port of the API."),
    row("accelerator_service", "auth_strategy", OptionKind::Choice(&["noauth2", "keystone"]), Default::Text("noauth2"),
        "Who believes tokens: `noauth2` takes the token's own word and listens on loopback only, `keystone` asks by \
         `[keystone_authtoken]` and wants a service token for binds."),
    row("accelerator_service", "policy_file", OptionKind::Path, Default::Unset,
        "Who may do what, where it is other than the default: a YAML file in the language of oslo.policy, as Cyborg's \
         policy.yaml; read at start.").example("\"/etc/berth/accelerator-policy.yaml\""),
    row("accelerator_service", "external_events_endpoint", OptionKind::Url(&["http", "https"]), Default::Unset,
        "The compute API that is told of binds (POST /os-server-external-events): Nova's, or that of the only agent. With `{host}` \
         in the place of the host's name (`https://{host}:9178/v2.1`), each host's agent by its `[agent] listen`, with the \
         certificate of `[agent_client]`. Unset: nobody is told; `berth up` tells the agents that it knows (`[conductor_service] \
         agents`, and its own).").example("\"http://127.0.0.1:8774/v2.1\""),
    row("accelerator_service", "orphan_request_grace", OptionKind::Integer(60, WEEK), Default::Integer(3600),
        "Seconds for which a request stays bound for a guest that its host says it does not have; then it is deleted."),
    row("accelerator_service", "unbound_request_grace", OptionKind::Integer(0, WEEK), Default::Integer(3600),
        "Seconds after which a request that holds nothing (never bound, unbound, or its bind failed) is deleted; 0: never."),
    row("accelerator_service", "bind_timeout", OptionKind::Integer(1, 86_400), Default::Integer(60),
        "Seconds a bind waits for its devices to be programmed; after that it has failed."),

    row("keystone_authtoken", "auth_type", OptionKind::Choice(&["password", "v3applicationcredential"]), Default::Text("password"),
        "How to log in."),
    row("keystone_authtoken", "auth_url", OptionKind::Url(&["http", "https"]), Default::Unset, "The Identity service.")
        .example("\"https://keystone.example.org:5000/v3\""),
    row("keystone_authtoken", "username", OptionKind::Text, Default::Unset, "User name.").example("\"cyborg\""),
    row("keystone_authtoken", "password", OptionKind::Secret, Default::Unset, "Password."),
    row("keystone_authtoken", "user_domain_name", OptionKind::Text, Default::Unset, "Domain of the user.").example("\"Default\""),
    row("keystone_authtoken", "project_name", OptionKind::Text, Default::Unset, "Project to be scoped to.").example("\"service\""),
    row("keystone_authtoken", "project_domain_name", OptionKind::Text, Default::Unset, "Domain of the project.")
        .example("\"Default\""),
    row("keystone_authtoken", "application_credential_id", OptionKind::Text, Default::Unset, "Application credential, by id."),
    row("keystone_authtoken", "application_credential_secret", OptionKind::Secret, Default::Unset,
        "Secret of the application credential."),
    row("keystone_authtoken", "cafile", OptionKind::Path, Default::Unset, "PEM file of the authorities that may sign the server.")
        .example("\"/etc/ssl/certs/ca-certificates.crt\""),
    row("keystone_authtoken", "insecure", OptionKind::Flag, Default::Flag(false), "Whether any server certificate is believed."),
    row("keystone_authtoken", "token_cache_time", OptionKind::Integer(0, 3600), Default::Integer(300),
        "Seconds for which Keystone's word on a token is believed; a token that is revoked is good for so long."),

    row("agent", "admin_socket", OptionKind::SocketPath, Default::Text("/run/berth/agent.sock"),
        "The unix socket of the agent's own API; root and the group below may use it."),
    row("agent", "admin_group", OptionKind::Text, Default::Text("berth"), "The group that may use the admin socket."),
    row("agent", "metrics_listen", OptionKind::LoopbackListen, Default::Unset,
        "A loopback address for Prometheus; the metrics are on the admin socket in any case.")
        .example("\"127.0.0.1:9177\""),

    row("fake", "machine", OptionKind::Path, Default::Unset, "TOML file that describes the machine.")
        .example("\"/etc/berth/machine.toml\""),
];

/// The row of `key` in `section`, where `mdev_nvidia-35` and the like stand for `mdev_TYPE`.
#[must_use]
pub fn find(section: &str, key: &str) -> Option<&'static OptionRow> {
    let pattern = pattern_of(section);
    OPTIONS
        .iter()
        .find(|row| row.section == pattern && row.key == key)
}

/// The section as the table names it.
pub(super) fn pattern_of(section: &str) -> &str {
    pattern::of(section).map_or(section, |(pattern, _)| pattern.section)
}

/// Whether the table has this section.
pub(super) fn is_section(section: &str) -> bool {
    !section.is_empty()
        && pattern::named(section).is_none()
        && SECTIONS
            .iter()
            .any(|(name, _)| *name == pattern_of(section))
}

/// Options of OpenStack that a later version reads; an empty key means the whole section.
pub(super) const NOT_YET: &[(&str, &str)] = &[
    ("", "resume_guests_state_on_host_boot"),
    ("", "sync_power_state_interval"),
    ("", "vif_plugging_timeout"),
    ("", "vif_plugging_is_fatal"),
    ("", "transport_url"),
    ("placement", "domain_name"),
    ("placement", "domain_id"),
    ("placement", "trust_id"),
    ("placement", "retriable_status_codes"),
    ("placement", "min_version"),
    ("placement", "max_version"),
    ("compute", "max_concurrent_disk_ops"),
    ("libvirt", "cpu_model_extra_flags"),
    ("libvirt", "images_type"),
    ("pci", "enabled_live_migration"),
    ("image_cache", "precache_concurrency"),
    ("libvirt", "pmem_namespaces"),
];

/// Names that OpenStack gave up or that stand elsewhere here, with what to write.
pub(super) const RENAMED: &[(&str, &str, &str)] = &[
    (
        "DEFAULT",
        "",
        "the options of [DEFAULT] stand at the top level, before the first section",
    ),
    ("agent", "socket", "write admin_socket"),
    ("pci", "passthrough_whitelist", "write device_spec"),
    (
        "image_cache",
        "subdirectory_name",
        "base images stand in _base below instances_path",
    ),
    (
        "",
        "config_drive_format",
        "a config drive is an ISO 9660 file system; write config_drive_layout",
    ),
    ("", "vcpu_pin_set", "write cpu_shared_set in [compute]"),
    ("devices", "enabled_vgpu_types", "write enabled_mdev_types"),
    ("placement", "os_region_name", "write region_name"),
    ("placement", "os_interface", "write valid_interfaces"),
    ("placement", "interface", "write valid_interfaces"),
    ("placement", "tenant_name", "write project_name"),
    ("placement", "tenant_id", "write project_id"),
    ("placement", "user_name", "write username"),
    ("placement", "url", "write endpoint_override"),
    (
        "placement_database",
        "",
        "write connection in [placement_service]",
    ),
    ("database", "", "write connection in [placement_service]"),
];

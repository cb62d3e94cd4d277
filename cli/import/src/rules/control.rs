//! Rules for groups of Nova's control plane, of messaging, of logs, and of libraries.

use super::ImportRule::{Fixed, Impossible, Meaningless, NotYet};
use super::{RuleRow, row};

const API: &str = "nova-api reads it, not nova-compute; it stays with the control plane";
const SCHEDULER: &str = "nova-scheduler reads it, not nova-compute. If Berth's controller takes the scheduler's place, copy it to berth.toml \
                         there, where it has the same name";
const DATABASE: &str =
    "nova-compute has no database, and Berth keeps its journal in files below state_path";
const LIBRARY: &str = "a Python library of Nova reads it; Berth does not have this library";
const POOL: &str = "Berth keeps one connection to the broker, not a pool";

pub(super) const ROWS: &[RuleRow] = &[
    row(
        "oslo_messaging_rabbit",
        &["conn_pool_min_size", "conn_pool_ttl", "rpc_conn_pool_size"],
        Meaningless(POOL),
    ),
    row(
        "oslo_messaging_rabbit",
        &["ssl_enforce_fips_mode", "ssl_version"],
        Meaningless(
            "Berth has TLS 1.2 and 1.3 with the cipher suites of rustls, and no option for them",
        ),
    ),
    row(
        "oslo_messaging_rabbit",
        &["kombu_compression"],
        Impossible(
            "Berth sends messages without compression. Receivers understand both, so that nothing follows but larger messages",
        ),
    ),
    row(
        "oslo_messaging_rabbit",
        &["heartbeat_in_pthread"],
        Meaningless("only Python's threads need it; Berth's heartbeats do not wait for other work"),
    ),
    row(
        "profiler",
        &[],
        Meaningless("only the profiler of Python programs reads it"),
    ),
    row("oslo_messaging_rabbit", &[], NotYet),
    row("oslo_messaging_notifications", &[], NotYet),
    row("notifications", &[], NotYet),
    row("upgrade_levels", &["compute"], NotYet),
    row("upgrade_levels", &["conductor"], NotYet),
    row(
        "upgrade_levels",
        &[],
        Meaningless("only the other services of Nova send such messages"),
    ),
    row(
        "oslo_messaging_kafka",
        &[],
        Impossible(
            "Berth has no Kafka. Notifications need a broker that speaks AMQP; none are sent to Kafka",
        ),
    ),
    row("database", &[], Meaningless(DATABASE)),
    row("api_database", &[], Meaningless(DATABASE)),
    row(
        "conductor",
        &[],
        Meaningless(
            "nova-conductor reads it; Berth's section of this name is the connection to Berth's own conductor",
        ),
    ),
    row("api", &[], Meaningless(API)),
    row(
        "quota",
        &[],
        Meaningless(
            "nova-api and nova-conductor count quotas, not nova-compute; they stay with the control plane",
        ),
    ),
    row(
        "oslo_limit",
        &[],
        Meaningless(
            "nova-api and nova-conductor count quotas, not nova-compute; they stay with the control plane",
        ),
    ),
    row("scheduler", &[], Meaningless(SCHEDULER)),
    row("filter_scheduler", &[], Meaningless(SCHEDULER)),
    row("metrics", &[], Meaningless(SCHEDULER)),
    row("cors", &[], Meaningless(API)),
    row("wsgi", &[], Meaningless(API)),
    row("healthcheck", &[], Meaningless(API)),
    row("oslo_middleware", &[], Meaningless(API)),
    row("oslo_middleware_tracing", &[], Meaningless(API)),
    row("oslo_policy", &[], Meaningless(API)),
    row(
        "vendordata_dynamic_auth",
        &[],
        Impossible(
            "Berth puts no vendor data into config drives. Guests that read vendor_data2.json do not find it",
        ),
    ),
    row(
        "cache",
        &[],
        Meaningless("Berth keeps what it caches in its own memory"),
    ),
    row(
        "privsep",
        &[],
        Meaningless(
            "Berth starts no helper with other rights; its unit has the rights that it needs",
        ),
    ),
    row(
        "oslo_concurrency",
        &[],
        Meaningless("Berth locks in its own process and in its journal, without files of locks"),
    ),
    row("oslo_reports", &[], Meaningless(LIBRARY)),
    row("oslo_versionedobjects", &[], Meaningless(LIBRARY)),
    row(
        "spice",
        &["enabled"],
        Fixed(
            &["false"],
            "Berth has no SPICE. Consoles are VNC and serial; get-spice-console is refused",
        ),
    ),
    row(
        "spice",
        &[],
        Meaningless("Berth has no SPICE; consoles are VNC and serial"),
    ),
    row(
        "mks",
        &["enabled"],
        Fixed(
            &["false"],
            "Berth has no MKS, which only VMware has. Consoles are VNC and serial",
        ),
    ),
    row("mks", &[], Meaningless("only VMware has MKS")),
    row(
        "guestfs",
        &[],
        Meaningless("Berth puts no files into images"),
    ),
    row(
        "ephemeral_storage_encryption",
        &["enabled"],
        Fixed(
            &["false"],
            "Berth does not encrypt disks. Disks of guests would be stored as they are; encrypt the file system below instances_path",
        ),
    ),
    row(
        "ephemeral_storage_encryption",
        &[],
        Meaningless("Berth does not encrypt disks"),
    ),
];

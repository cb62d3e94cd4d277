//! Table of all metrics, and the reference page that is generated from it.

use std::fmt::Write as _;

use crate::metrics::process;

pub(crate) use berth_wire::metrics::{MetricKind, MetricRow};

pub(super) const PLAN_STATE: &str = "berth_plan_state";
pub(super) const TICK_DURATION: &str = "berth_tick_duration_seconds";
pub(super) const PLACEMENT_REQUESTS: &str = "berth_placement_requests_total";
pub(super) const GENERATION_CONFLICTS: &str = "berth_generation_conflicts_total";
pub(super) const RESHAPES: &str = "berth_reshapes_total";
pub(super) const HELD_UNITS: &str = "berth_held_units";
pub(super) const GUESTS_HELD: &str = "berth_guests_held";
pub(super) const FINDINGS: &str = "berth_reconcile_findings";
pub(super) const DEVICES: &str = "berth_devices";
pub(super) const DEVICE_INFO: &str = "berth_device_info";
pub(super) const DEVICES_UNFIT: &str = "berth_devices_unfit";
pub(super) const HOST_STATES: &str = "berth_host_state_requests_total";
pub(super) const HEALTH_MESSAGES: &str = "berth_health_messages";
pub(super) const BUILD_INFO: &str = "berth_build_info";

/// All metrics of the agent.
pub const METRICS: &[MetricRow] = &[
    MetricRow {
        name: PLAN_STATE,
        kind: MetricKind::Gauge,
        labels: &["state"],
        help: "Number of nodes by the outcome of their last plan (the difference between the node and Placement): in_sync, update (Placement did not accept a change), reshape_needed, unknown (no plan could be made).",
    },
    MetricRow {
        name: TICK_DURATION,
        kind: MetricKind::Histogram,
        labels: &[],
        help: "Duration of a tick: one comparison of a node with Placement and the resulting writes. Includes the first tick of a process.",
    },
    MetricRow {
        name: PLACEMENT_REQUESTS,
        kind: MetricKind::Counter,
        labels: &["method", "route", "code"],
        help: "Requests to Placement, including retries; route is a template, code the status or the kind of failure (refused, unreachable, tls, timeout, closed, too_large, unsendable).",
    },
    MetricRow {
        name: GENERATION_CONFLICTS,
        kind: MetricKind::Counter,
        labels: &[],
        help: "Writes that Placement answered with 409, because the provider or its allocations changed after it was read.",
    },
    MetricRow {
        name: RESHAPES,
        kind: MetricKind::Counter,
        labels: &["result"],
        help: "Reshapes by result: done, refused (the agent found it invalid and did not send it), failed (Placement rejected it), interrupted (no response or a conflict; a new plan is made).",
    },
    MetricRow {
        name: HELD_UNITS,
        kind: MetricKind::Gauge,
        labels: &["resource_class"],
        help: "Units that guests use and no provider offers, for example those of a removed device. Their allocations stay on the old provider, which accepts no new claim.",
    },
    MetricRow {
        name: GUESTS_HELD,
        kind: MetricKind::Gauge,
        labels: &[],
        help: "Blocked guests: their operation can neither be finished nor undone at present. The log names them with the reason.",
    },
    MetricRow {
        name: FINDINGS,
        kind: MetricKind::Gauge,
        labels: &["code"],
        help: "Findings of the last reconcile run (`berth reconcile`) by code; a finding that may be temporary is counted only after it has lasted five minutes.",
    },
    MetricRow {
        name: DEVICES,
        kind: MetricKind::Gauge,
        labels: &["state", "resource_class"],
        help: "Units of offered devices (a device, a virtual function, a mediated device) by state: free, used (a guest has it), unfit (no guest may get it). The units of a class are the total of its inventory.",
    },
    MetricRow {
        name: DEVICE_INFO,
        kind: MetricKind::Gauge,
        labels: &[
            "node",
            "pci_bus_id",
            "device_type",
            "resource_class",
            "vendor_id",
            "product_id",
            "model",
            "numa_node",
        ],
        help: "1 for each offered device, 0 for one that is no longer offered. pci_bus_id has the form of NVIDIA's tools, for joins with the DCGM exporter.",
    },
    MetricRow {
        name: DEVICES_UNFIT,
        kind: MetricKind::Gauge,
        labels: &["reason"],
        help: "Offered devices that no guest may get, by reason. An operator sets the reason disabled; the agent or an operator sets quarantined; the agent detects the other reasons.",
    },
    MetricRow {
        name: HOST_STATES,
        kind: MetricKind::Counter,
        labels: &["request", "result"],
        help: "Reports to the scheduler by request: state (the complete host state, after a change) or seen (a heartbeat); and by result: taken, unknown (the scheduler has an older state; the agent sends the complete one next), failed.",
    },
    MetricRow {
        name: HEALTH_MESSAGES,
        kind: MetricKind::Gauge,
        labels: &["severity"],
        help: "Currently shown health findings by severity.",
    },
    MetricRow {
        name: BUILD_INFO,
        kind: MetricKind::Gauge,
        labels: &["version"],
        help: "Always 1; the label has the version.",
    },
];

/// The text of `docs/guide/reference/metrics.md`. `embedded` has the metrics of the other services in `berth up`.
#[must_use]
pub fn metrics_page(embedded: &[MetricRow]) -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         Generated from the code; do not edit.\n\n\
         `GET /metrics` on the agent's admin socket, and on the loopback address of `[agent] metrics_listen` where that is\n\
         set, answers in Prometheus' text format. No label holds the UUID of a guest, consumer or request.\n\n\
         ## Agent\n\n\
         Reading these metrics sends no request to Placement or to the hypervisor.\n\n",
    );
    table(&mut page, METRICS.iter().chain(process::ROWS));
    page.push_str(
        "\n## Scheduler\n\n\
         The conductor serves these metrics at `GET /metrics` on its socket `conductor.sock` and on `[conductor_service] listen`.\n\
         With `berth up`, which runs all services in one process, the agent's page has them, too.\n\n\
         The headroom is computed from requests to Placement, only when the page is read, and at most once in\n\
         `[conductor_service] headroom_interval` seconds. A read waits for it for at most two seconds and otherwise shows the\n\
         previous values; `berth_scheduler_headroom_age_seconds` is their age.\n\n",
    );
    table(&mut page, embedded);
    page
}

fn table<'a>(page: &mut String, rows: impl IntoIterator<Item = &'a MetricRow>) {
    page.push_str("| Metric | Type | Labels | Meaning |\n| --- | --- | --- | --- |\n");
    for row in rows {
        let labels: Vec<String> = row.labels.iter().map(|it| format!("`{it}`")).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            row.name,
            row.kind.as_str(),
            labels.join(", "),
            row.help
        );
    }
}

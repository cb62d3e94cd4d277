//! Every metric as a row, and the page that is written from the rows.

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
pub(super) const DEVICES_UNFIT: &str = "berth_devices_unfit";
pub(super) const HOST_STATES: &str = "berth_host_state_requests_total";
pub(super) const HEALTH_MESSAGES: &str = "berth_health_messages";
pub(super) const BUILD_INFO: &str = "berth_build_info";

/// Every metric of the agent.
pub const METRICS: &[MetricRow] = &[
    MetricRow {
        name: PLAN_STATE,
        kind: MetricKind::Gauge,
        labels: &["state"],
        help: "Nodes by the outcome of their last pass: in_sync, update (Placement did not take a change), reshape_needed, unknown (no plan could be made yet, or at present).",
    },
    MetricRow {
        name: TICK_DURATION,
        kind: MetricKind::Histogram,
        labels: &[],
        help: "How long a pass over one node took, the first one of a process included.",
    },
    MetricRow {
        name: PLACEMENT_REQUESTS,
        kind: MetricKind::Counter,
        labels: &["method", "route", "code"],
        help: "Requests to Placement, repetitions included; route is a template, code the status or the kind of failure (refused, unreachable, tls, timeout, closed, too_large, unsendable).",
    },
    MetricRow {
        name: GENERATION_CONFLICTS,
        kind: MetricKind::Counter,
        labels: &[],
        help: "Writes that Placement answered with 409: somebody else changed the provider, or claimed on it, since it was read.",
    },
    MetricRow {
        name: RESHAPES,
        kind: MetricKind::Counter,
        labels: &["result"],
        help: "Reshapes by result: done, refused (not lawful, nothing sent), failed (Placement refused), interrupted (no answer or a conflict; planned anew).",
    },
    MetricRow {
        name: HELD_UNITS,
        kind: MetricKind::Gauge,
        labels: &["resource_class"],
        help: "Units without a home, held on inventory that nobody else can claim.",
    },
    MetricRow {
        name: GUESTS_HELD,
        kind: MetricKind::Gauge,
        labels: &[],
        help: "Guests that stand still: neither where they should be nor undone; the log says which and why.",
    },
    MetricRow {
        name: FINDINGS,
        kind: MetricKind::Gauge,
        labels: &["code"],
        help: "What the last comparison found (`berth reconcile`), by code; what may be under way counts once it has lasted for five minutes.",
    },
    MetricRow {
        name: DEVICES_UNFIT,
        kind: MetricKind::Gauge,
        labels: &["reason"],
        help: "Devices that are offered and nobody gets as they are, by reason; quarantined and disabled are an operator's word, the others were found.",
    },
    MetricRow {
        name: HOST_STATES,
        kind: MetricKind::Counter,
        labels: &["request", "result"],
        help: "What the scheduler was told of this host: state (all of it, when it changed) or seen (that the agent lives), by result: taken, unknown (it knows another state and is told all of it), failed.",
    },
    MetricRow {
        name: HEALTH_MESSAGES,
        kind: MetricKind::Gauge,
        labels: &["severity"],
        help: "Health findings shown at present.",
    },
    MetricRow {
        name: BUILD_INFO,
        kind: MetricKind::Gauge,
        labels: &["version"],
        help: "Always 1; the version is the label.",
    },
];

/// `docs/guide/reference/metrics.md`; `beside` are the metrics of what runs beside the agent in `berth up`.
#[must_use]
pub fn metrics_page(beside: &[MetricRow]) -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         Written from the code; do not edit.\n\n\
         `GET /metrics` on the agent's admin socket, and on the loopback address of `[agent] metrics_listen` where that is\n\
         set, answers in Prometheus' text format. No label holds the UUID of a guest, consumer or request.\n\n\
         ## The agent's\n\n\
         Nothing is asked of Placement or of the hypervisor for them.\n\n",
    );
    table(&mut page, METRICS.iter().chain(process::ROWS));
    page.push_str(
        "\n## The scheduler's\n\n\
         On the agent's page of `berth up`, and by `GET /metrics` on the conductor's socket `conductor.sock` and on\n\
         `[conductor_service] listen`. For the headroom Placement is asked: only when somebody reads the page, and at most once in\n\
         `[conductor_service] headroom_interval` seconds. A read waits two seconds for it and no longer; what comes later is on the next\n\
         page, and `berth_scheduler_headroom_age_seconds` says how old it is.\n\n",
    );
    table(&mut page, beside);
    page
}

fn table<'a>(page: &mut String, rows: impl IntoIterator<Item = &'a MetricRow>) {
    page.push_str("| metric | type | labels | what it says |\n| --- | --- | --- | --- |\n");
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

//! The list of all metrics of the conductor with their labels and help texts.

use berth_wire::metrics::{MetricKind, MetricRow};

pub(super) const SEARCHES: &str = "berth_scheduler_searches_total";
pub(super) const SEARCH_DURATION: &str = "berth_scheduler_search_duration_seconds";
pub(super) const REJECTED: &str = "berth_scheduler_hosts_rejected_total";
pub(super) const CLAIMS: &str = "berth_scheduler_claims_total";
pub(super) const BOOT_STAGES: &str = "berth_conductor_boot_stage_duration_seconds";
pub(crate) const WAITING_BOOTS: &str = "berth_conductor_waiting_boots";
pub(crate) const HEADROOM_HOSTS: &str = "berth_scheduler_headroom_hosts";
pub(crate) const HEADROOM_GUESTS: &str = "berth_scheduler_headroom_guests";
pub(crate) const HEADROOM_AGE: &str = "berth_scheduler_headroom_age_seconds";
pub(crate) const HEADROOM_FAILURES: &str = "berth_scheduler_headroom_failures_total";

/// Labels that identify a flavor.
const FLAVOR: &[&str] = &["flavor", "device_profile", "spec"];

/// All metrics of the conductor.
pub const METRICS: &[MetricRow] = &[
    MetricRow {
        name: SEARCHES,
        kind: MetricKind::Counter,
        labels: &["outcome"],
        help: "Host searches by outcome, one for each attempt: selected, no_valid_host (no host passed the filters), no_candidates (Placement has no candidates besides those on which earlier attempts failed), all_taken (other requests claimed all candidates), unknown (no state or no agent is known for the candidate hosts), undecided (a service failed, the server group changed, or the guest is being deleted).",
    },
    MetricRow {
        name: SEARCH_DURATION,
        kind: MetricKind::Histogram,
        labels: &[],
        help: "Duration of a host search: allocation candidates, host states, filters and weighers, and the claim.",
    },
    MetricRow {
        name: REJECTED,
        kind: MetricKind::Counter,
        labels: &["filter", "reason"],
        help: "Rejected hosts per search, by the first filter that rejected them (or the weigher that cannot weigh them) and the code of the reason as in berth scheduler explain.",
    },
    MetricRow {
        name: CLAIMS,
        kind: MetricKind::Counter,
        labels: &["result"],
        help: "Claims by Placement's answer: granted, refused (another request claimed the resources first; the next candidate is tried).",
    },
    MetricRow {
        name: BOOT_STAGES,
        kind: MetricKind::Histogram,
        labels: &["stage"],
        help: "Duration of a completed stage of a boot: place (search and claim), provide (create accelerator requests), bind (bind them), build (the agent builds the guest). A repeated stage counts again.",
    },
    MetricRow {
        name: WAITING_BOOTS,
        kind: MetricKind::Gauge,
        labels: &[],
        help: "Number of guests that wait for the turn of their project, because [conductor_service] workers are booting others.",
    },
    MetricRow {
        name: HEADROOM_HOSTS,
        kind: MetricKind::Gauge,
        labels: FLAVOR,
        help: "Number of hosts that could run one more guest of this flavor. Computed for the 32 most recently requested flavors, over at most [scheduler] max_placement_results candidates, for the project that last requested the flavor, in any zone and without hints or image properties. The spec label distinguishes flavors with the same name.",
    },
    MetricRow {
        name: HEADROOM_GUESTS,
        kind: MetricKind::Gauge,
        labels: FLAVOR,
        help: "Lower bound of the number of guests of this flavor that fit at the same time, counted by allocating Placement's candidates one after another until no host has free resources or passes the filters. At most 10000; candidates beyond [scheduler] max_placement_results are not counted.",
    },
    MetricRow {
        name: HEADROOM_AGE,
        kind: MetricKind::Gauge,
        labels: &[],
        help: "Age in seconds of the oldest headroom value on this page; absent if there is none.",
    },
    MetricRow {
        name: HEADROOM_FAILURES,
        kind: MetricKind::Counter,
        labels: &[],
        help: "Failed computations of a flavor's headroom because a service did not answer; the previous value is kept.",
    },
];

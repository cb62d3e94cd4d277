//! Every metric as a row.

use berth_wire::metrics::{Kind, MetricRow};

pub(super) const SEARCHES: &str = "berth_scheduler_searches_total";
pub(super) const SEARCH_DURATION: &str = "berth_scheduler_search_duration_seconds";
pub(super) const REJECTED: &str = "berth_scheduler_hosts_rejected_total";
pub(super) const CLAIMS: &str = "berth_scheduler_claims_total";
pub(super) const BOOT_STAGES: &str = "berth_conductor_boot_stage_duration_seconds";
pub(crate) const HEADROOM_HOSTS: &str = "berth_scheduler_headroom_hosts";
pub(crate) const HEADROOM_GUESTS: &str = "berth_scheduler_headroom_guests";
pub(crate) const HEADROOM_AGE: &str = "berth_scheduler_headroom_age_seconds";
pub(crate) const HEADROOM_FAILURES: &str = "berth_scheduler_headroom_failures_total";

/// What a flavor is told apart by.
const FLAVOR: &[&str] = &["flavor", "device_profile", "spec"];

/// Every metric of the conductor.
pub const METRICS: &[MetricRow] = &[
    MetricRow {
        name: SEARCHES,
        kind: Kind::Counter,
        labels: &["outcome"],
        help: "Searches for a guest's host, one for each attempt and each time one is repeated: selected, no_valid_host (no host came through the filters), no_candidates (Placement has none, or none that was not tried in vain), all_taken (somebody else was quicker with each), unknown (the scheduler knows none of the hosts with room, or reaches no agent), undecided (a service did not answer, the server group changed, or the guest is to end).",
    },
    MetricRow {
        name: SEARCH_DURATION,
        kind: Kind::Histogram,
        labels: &[],
        help: "How long a search took: Placement's answer, the hosts' states, filters and weighers, and the claim.",
    },
    MetricRow {
        name: REJECTED,
        kind: Kind::Counter,
        labels: &["filter", "reason"],
        help: "Hosts that were rejected, by the filter that was the first to do so (or the weigher that cannot weigh them) and the kind of its reason, the code of berth scheduler explain; once in each search.",
    },
    MetricRow {
        name: CLAIMS,
        kind: Kind::Counter,
        labels: &["result"],
        help: "Claims of hosts that came through, by Placement's answer: granted, refused (somebody else was there first; the next candidate is tried).",
    },
    MetricRow {
        name: BOOT_STAGES,
        kind: Kind::Histogram,
        labels: &["stage"],
        help: "How long a stage of a boot took that came to its end: place (the search and the claim), provide (accelerator requests are made), bind (they are bound), build (the agent is asked and waited for until the guest runs). A stage that is done again after a stop or a failure counts again.",
    },
    MetricRow {
        name: HEADROOM_HOSTS,
        kind: Kind::Gauge,
        labels: FLAVOR,
        help: "Hosts that would take one more guest of a flavor, among the candidates that Placement names ([scheduler] max_placement_results at most), by the filters: of the project that asked for the flavor last, without demands of an image, in any zone, without hints. Of the 32 flavors that were asked for last; spec tells flavors of one name apart that ask for different things.",
    },
    MetricRow {
        name: HEADROOM_GUESTS,
        kind: Kind::Gauge,
        labels: FLAVOR,
        help: "How many more guests of the flavor these hosts would take at least, asked for at once: Placement's candidates taken one after another until no host has room or passes the filters. A lower bound: another order may fit more, no candidate counts beyond [scheduler] max_placement_results, and counting ends at 10000.",
    },
    MetricRow {
        name: HEADROOM_AGE,
        kind: Kind::Gauge,
        labels: &[],
        help: "Age of the oldest headroom on this page, in seconds; none where there is no headroom.",
    },
    MetricRow {
        name: HEADROOM_FAILURES,
        kind: Kind::Counter,
        labels: &[],
        help: "How often a flavor's headroom could not be made because a service did not answer; what was there before stays, and grows old.",
    },
];

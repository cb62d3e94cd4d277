//! Explanations: table tests, and properties that hold for all.

mod relaxations;

use serde_json::{Value, json};

use super::*;
use berth_scheduler::options::SchedulerOptions;
use berth_scheduler::select::{
    Alternates, ClaimPolicy as Claimed, Scheduler, SelectionRequest, SelectionStep,
};
use berth_scheduler_objects::testing::{hosts, request};

fn scheduler(filters: &[&str], weighers: &[&str]) -> Scheduler {
    let own = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = own(filters);
    options.filter_scheduler.weight_classes = own(weighers);
    Scheduler::new(options).expect("filters and weighers")
}

/// A whole request; claims are granted except on hosts that refuse.
fn explained(
    scheduler: &Scheduler,
    asked: &Value,
    these: &Value,
    many: usize,
    refusing: &str,
) -> Explanation {
    let ask = SelectionRequest {
        request: request(asked),
        instance_uuids: (0..many).map(|at| format!("i{at}")).collect(),
        alternates: Alternates::Wanted,
        claims: Claimed::Needed,
        seed: 7,
    };
    let mut step = scheduler.select(ask, hosts(these));
    loop {
        step = match step {
            SelectionStep::Claim(claiming) if claiming.claim().host.host == refusing => {
                claiming.refused()
            }
            SelectionStep::Claim(claiming) => claiming.granted(),
            SelectionStep::Selected(selected) => return Explanation::of_selected(&selected),
            SelectionStep::NoValidHost(none) => {
                let diagnosis = diagnose(scheduler, &none);
                return Explanation::of_no_valid_host(&none, diagnosis);
            }
        }
    }
}

#[test]
fn nothing_that_others_wrote_reaches_the_terminal_as_it_is() {
    let evil = "a\u{1b}[2J\0\n  host7 was selected\u{9b}";
    let these = json!([{"host": format!("h1{evil}"), "service": {"disabled": true, "disabled_reason": evil}}, {"host": "h2"}]);
    let asked = json!({"availability_zone": evil, "project_id": evil, "hints": {"query": [evil]}, "flavor": {"name": evil,
        "extra_specs": {format!("capabilities:{evil}"): evil}}});
    let filters = [
        "ComputeFilter",
        "JsonFilter",
        "ComputeCapabilitiesFilter",
        "AvailabilityZoneFilter",
    ];
    let scheduler = scheduler(&filters, &["RAMWeigher"]);
    let explanation = explained(&scheduler, &asked, &these, 1, "");
    let verdicts = verdicts(&scheduler, &request(&asked), &hosts(&these)[0]);
    for text in [explanation.to_string(), verdicts.to_string()] {
        assert!(
            !text.contains(|it: char| it.is_control() && it != '\n'),
            "{text:?}"
        );
        assert!(
            !text
                .lines()
                .any(|line| line.contains("host7") && !line.contains("u001b")),
            "{text}"
        );
        assert!(text.contains("h1a\\u001b[2J\\u0000\\n  host7"), "{text}");
    }
    // Serialising and parsing it gives the same value.
    let json = serde_json::to_string(&explanation).expect("JSON");
    assert_eq!(serde_json::from_str(&json).ok(), Some(explanation));
}

#[test]
fn hosts_that_the_request_leaves_out_are_named() {
    let these = json!([{"host": "acc-01"}]);
    let scheduler = scheduler(&["ComputeFilter"], &[]);
    let asked = json!({"ignore_hosts": ["ACC-01", "nobody"]});
    let explained = explained(&scheduler, &asked, &these, 1, "");
    assert_eq!(round_trip(&explained), explained);
    let RequestOutcome::NoValidHost { text, .. } = &explained.outcome else {
        panic!("no host: {explained}");
    };
    assert_eq!(
        text,
        "no valid host was found: of 1 hosts, left out by the request: acc-01"
    );
    let shown = explained.to_string();
    let hosts = shown.lines().find(|line| line.starts_with("Hosts: "));
    assert_eq!(hosts, Some("Hosts: 1, left out by the request: acc-01"));
}

#[test]
fn of_many_hosts_that_are_left_out_and_others_that_are_not_meant_the_first_are_named() {
    let these: Vec<Value> = (0..9).map(|at| json!({"host": format!("h{at}")})).collect();
    let asked =
        json!({"ignore_hosts": ["h0", "h1", "h2", "h3", "h4", "h5"], "force_hosts": ["h7"]});
    let scheduler = scheduler(&["ComputeFilter"], &[]);
    let explained = explained(&scheduler, &asked, &json!(these), 1, "");
    let shown = explained.to_string();
    let hosts = shown.lines().find(|line| line.starts_with("Hosts: "));
    assert_eq!(
        hosts,
        Some(
            "Hosts: 9, left out by the request: h0, h1, h2, h3, h4 and 1 more, 2 of which are not what the request is for"
        )
    );
}

#[test]
fn a_hint_that_no_enabled_filter_reads_is_reported() {
    let these = json!([{"host": "h1"}]);
    for (filters, asked, unread) in [
        (
            ["ComputeFilter"],
            json!({"different_host": ["u"], "rack": "1", "group": ["g"]}),
            vec!["different_host", "rack"],
        ),
        (
            ["DifferentHostFilter"],
            json!({"different_host": ["u"]}),
            vec![],
        ),
        (["SimpleCIDRAffinityFilter"], json!({"cidr": "/24"}), vec![]),
        (
            ["ComputeFilter"],
            json!({"_nova_check_type": ["live_migrate"]}),
            vec![],
        ),
    ] {
        let scheduler = scheduler(&filters, &[]);
        let explained = explained(&scheduler, &json!({"hints": asked}), &these, 1, "");
        assert_eq!(explained.asked.unread_hints, unread);
        assert_eq!(round_trip(&explained), explained);
        let sentence = "The hint different_host does nothing: no enabled filter reads it (DifferentHostFilter would)";
        let is_reported = explained.to_string().contains(sentence);
        assert_eq!(is_reported, unread.contains(&"different_host"));
    }
}

#[test]
fn a_host_of_several_nodes_is_reported_with_its_node() {
    let these = json!([{"host": "cluster", "node": "cluster-1"}, {"host": "cluster", "node": "cluster-2", "service": {"disabled": true}},
        {"host": "alone"}]);
    let scheduler = scheduler(&["ComputeFilter"], &["RAMWeigher"]);
    let shown = explained(&scheduler, &json!({}), &these, 1, "").to_string();
    for line in [
        "cluster (node cluster-1) was selected",
        "    cluster (node cluster-2): its service is disabled",
        "1. cluster (node cluster-1)  ",
        "2. alone  ",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn a_no_host_of_an_answer_that_was_cut_reports_that_others_may_fit() {
    let these = json!([{"host": "h1", "free_ram_mb": 1}]);
    let cut = "Placement was asked for 2 candidates at most and gave as many: others may fit";
    for (limit, candidates, expected) in [
        (2, 2, true),
        (2, 3, true),
        (2, 1, false),
        (0, 0, false),
        (0, 2, false),
    ] {
        let placement = PlacementStage::found("resources=VCPU:1", candidates).with_limit(limit);
        assert_eq!(placement.cut(), expected.then(|| cut.to_owned()));
        let explained = explained(&scheduler(FILTERS, &[]), &json!({}), &these, 1, "");
        let explained = explained.with_placement(placement.clone());
        assert_eq!(round_trip(&explained), explained);
        let RequestOutcome::NoValidHost { text, .. } = &explained.outcome else {
            panic!("no host: {explained}");
        };
        assert_eq!(text.ends_with(&format!("; {cut}")), expected, "{text}");
        let first = explained.to_string();
        let first = first.lines().next().unwrap_or_default().to_owned();
        assert_eq!(first.contains(cut), expected, "{first}");

        let ask = SelectionRequest {
            request: request(&json!({})),
            instance_uuids: vec!["i".to_owned()],
            alternates: Alternates::Wanted,
            claims: Claimed::Needed,
            seed: 7,
        };
        let SelectionStep::NoValidHost(none) = scheduler(FILTERS, &[]).select(ask, hosts(&these))
        else {
            panic!("a host");
        };
        let none = none.after(&placement);
        assert_eq!(none.to_string().ends_with(&format!("; {cut}")), expected);
        let explanation = Explanation::of_no_valid_host(&none, None).with_placement(placement);
        assert_eq!(
            explanation.to_string().matches(cut).count(),
            usize::from(expected)
        );
        let RequestOutcome::NoValidHost { text, .. } = explanation.outcome else {
            panic!("no host");
        };
        assert_eq!(text.matches(cut).count(), usize::from(expected));
    }
    let these = json!([{"host": "h1", "total_ram_mb": 4096, "free_ram_mb": 4096}]);
    let found = explained(
        &scheduler(&["AllHostsFilter"], &[]),
        &json!({}),
        &these,
        1,
        "",
    );
    let found = found.with_placement(PlacementStage::found("q", 1).with_limit(1));
    assert!(!found.to_string().contains("others may fit"), "{found}");
}

fn round_trip(explanation: &Explanation) -> Explanation {
    let json = serde_json::to_string(explanation).expect("it goes into JSON");
    serde_json::from_str(&json).expect("it comes back")
}

const FILTERS: &[&str] = &["ComputeFilter", "ComputeCapabilitiesFilter", "RamFilter"];

#[test]
fn a_selected_host_is_reported_with_its_card_and_what_decided() {
    let these = json!([
        {"host": "h1", "cell": "cell1", "total_ram_mb": 4096, "free_ram_mb": 4096, "failed_builds": 2},
        {"host": "h2", "cell": "cell1", "total_ram_mb": 4096, "free_ram_mb": 2048},
        {"host": "h3", "cell": "cell1", "total_ram_mb": 4096, "free_ram_mb": 1024},
        {"host": "h4", "service": {"disabled": true, "disabled_reason": "memory is replaced"}},
        {"host": "h5", "total_ram_mb": 256, "free_ram_mb": 256},
    ]);
    let scheduler = scheduler(FILTERS, &["RAMWeigher", "BuildFailureWeigher"]);
    let got = explained(&scheduler, &json!({}), &these, 1, "h2");
    let expected = "\
h3 was selected in cell1, with the alternates h2, h1.
Asked for: m1.small (1 CPU, 512 MiB, 1 GiB) by the project p1

Hosts: 5

  FILTER                          IN      OUT
  ComputeFilter                    5        4
  ComputeCapabilitiesFilter        4        4
  RamFilter                        4        3

Rejected:
  ComputeFilter: 1 host, service_disabled
    h4: its service is disabled: memory is replaced
  RamFilter: 1 host, total_too_small
    h5: it has 256 MiB of memory in all, and 512 are asked for

The best of 3 hosts that are left:
   1. h2  0.500
        RAMWeigher                       2048 -> 0.500 x        1 = 0.500
   2. h3  0.250
        RAMWeigher                       1024 -> 0.250 x        1 = 0.250
   3. h1  -999999
        RAMWeigher                       4096 ->     1 x        1 = 1
        BuildFailureWeigher                 2 ->     1 x -1000000 = -1000000

BuildFailureWeigher decides: without it h1 would be the best.

Claims:
  h2 by its candidate 0: refused
  h3 by its candidate 0: granted";
    assert_eq!(got.to_string(), expected);
    assert_eq!(round_trip(&got), got);
}

#[test]
fn where_no_host_is_left_the_smallest_ways_out_are_reported() {
    let host = |name: &str, ram: i64, model: &str| {
        json!({"host": name, "total_ram_mb": 4096, "free_ram_mb": ram,
            "cpu_info": json!({"model": model}).to_string()})
    };
    let these = json!([
        host("h1", 128, "Haswell"),
        host("h2", 512, "Haswell"),
        host("h3", 4096, "Nehalem"),
        {"host": "h4", "service": {"forced_down": true}},
    ]);
    let asked = json!({"flavor": {"memory_mb": 1024,
        "extra_specs": {"capabilities:cpu_info:model": "Haswell"}}});
    let scheduler = scheduler(FILTERS, &[]);
    let got = explained(&scheduler, &asked, &these, 1, "");
    let text = got.to_string();
    let expected = "\
What rejects hosts (every filter, applied to each of 4 hosts):
  ComputeFilter             rejects       1, and 0 alone
  ComputeCapabilitiesFilter rejects       2, and 1 alone
  RamFilter                 rejects       3, and 2 alone
Without RamFilter 2 hosts would do. Nearest: h2
  RamFilter: it has 512 MiB of memory free, and 1024 are asked for
Without ComputeCapabilitiesFilter 1 host would do. Nearest: h3
  ComputeCapabilitiesFilter: its capability cpu_info:model is `Nehalem`, and should be `Haswell`";
    assert!(text.ends_with(expected), "{text}");
    assert!(text.starts_with("No valid host was found: every host was rejected.\n"));
    assert_eq!(round_trip(&got), got);
}

#[test]
fn what_is_kept_has_a_bound_whatever_there_is() {
    let one = json!({"total_ram_mb": 4096, "free_ram_mb": 4096,
        "aggregates": [{"metadata": {"cpu_weight_multiplier": "inf", "ram_weight_multiplier": "nan"}}]});
    let full = json!({"total_ram_mb": 4096, "free_ram_mb": 16});
    let scheduler = scheduler(FILTERS, &["nova.scheduler.weights.all_weighers"]);
    let size = |each: &Value, many: usize, instances: usize| {
        let these = Value::Array(vec![each.clone(); many]);
        let asked = json!({"hints": {"query": "x".repeat(50_000)}});
        let got = explained(&scheduler, &asked, &these, instances, "");
        let kept = serde_json::to_string(&round_trip(&got)).expect("JSON");
        assert_eq!(kept, serde_json::to_string(&got).expect("JSON"));
        assert!(got.to_string().len() < 100_000);
        kept.len()
    };
    assert!(size(&full, 30_000, 1) < 10_000);
    assert!(size(&one, 300, 150) < 300_000);
}

#[test]
fn a_search_that_failed_shows_why_as_far_as_it_came() {
    let why = "the trait CUSTOM_X is nobody's";
    let got = Explanation::of_failure(RequestSummary::default(), why);
    assert_eq!(round_trip(&got), got);
    let first = |it: &Explanation| it.to_string().lines().next().map(str::to_owned);
    let shown = format!("No host was chosen: {why}.");
    assert_eq!(first(&got), Some(shown.clone()));
    // The findings before the failure are kept, too.
    let scheduler = scheduler(&["ComputeFilter"], &[]);
    let these = json!([{"host": "a"}, {"host": "b", "service": {"disabled": true}}]);
    let got = explained(&scheduler, &json!({}), &these, 1, "").failed(why);
    assert_eq!(round_trip(&got), got);
    assert_eq!(first(&got), Some(shown));
    let search = &got.searches[0];
    assert_eq!((search.hosts, search.left), (2, 1));
    // A long reason is truncated.
    let long = Explanation::of_failure(RequestSummary::default(), &"x".repeat(100_000));
    assert!(long.to_string().len() < 1000);
}

#[test]
fn each_way_of_having_no_host_has_its_name() {
    let scheduler = scheduler(&["ComputeFilter"], &["MetricsWeigher"]);
    for (asked, these, why) in [
        (json!({}), json!([]), WhyNone::NoHosts),
        (
            json!({"force_hosts": ["x"]}),
            json!([{}]),
            WhyNone::NoneAtDestination,
        ),
        (
            json!({}),
            json!([{"service": {"disabled": true}}]),
            WhyNone::AllRejected,
        ),
        (json!({}), json!([{"host": "no"}]), WhyNone::NoneClaimed),
    ] {
        let got = explained(&scheduler, &asked, &these, 1, "no");
        let is = match &got.outcome {
            RequestOutcome::NoValidHost { why, .. } => Some(*why),
            RequestOutcome::Selected { .. } | RequestOutcome::Failed { .. } => None,
        };
        assert_eq!(is, Some(why));
        assert_eq!(got.diagnosis.is_some(), why == WhyNone::AllRejected);
        assert!(got.to_string().contains(&why.to_string()));
    }
    let stage = PlacementStage::empty(
        "resources=VCPU:9",
        ["VCPU 9".to_owned()],
        "no host has 9 VCPU",
    );
    let got = Explanation::of_no_candidates(RequestSummary::default(), stage);
    let text = got.to_string();
    assert!(
        text.starts_with("No valid host was found: Placement has no candidate."),
        "{text}"
    );
    assert!(text.ends_with(
        "for resources=VCPU:9\n  no host has 9 VCPU\n  there would be some without VCPU 9"
    ));
    assert_eq!(round_trip(&got), got);
}

#[test]
fn hosts_that_pass_and_cannot_be_weighed_are_reported() {
    let mut options = SchedulerOptions::default();
    options.metrics.weight_setting = vec!["cpu.percent=1".to_owned()];
    let scheduler = Scheduler::new(options).expect("filters and weighers");
    let got = explained(&scheduler, &json!({}), &json!([{}, {}]), 1, "");
    let diagnosis = got.diagnosis.as_ref().expect("a diagnosis");
    assert_eq!((diagnosis.passing, diagnosis.relaxations.len()), (2, 0));
    assert!(
        got.to_string()
            .contains("  MetricsWeigher: 2 hosts, metrics_missing\n")
    );
    assert!(
        got.to_string()
            .contains("2 hosts pass all filters, and cannot be weighed")
    );
}

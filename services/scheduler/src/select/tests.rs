//! Tests of the loop: claims, their results, and that short cuts do not change the outcome.

mod incremental;
mod many;

use serde_json::{Value, json};

use super::*;
use crate::host_state::SchedulerLimits;
use crate::reason::Reason;
use berth_scheduler_objects::testing::{hosts, request};

fn scheduler(change: impl FnOnce(&mut SchedulerOptions)) -> Scheduler {
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = [
        "ComputeFilter",
        "NumInstancesFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
    ]
    .map(str::to_owned)
    .to_vec();
    options.filter_scheduler.weight_classes = vec!["RAMWeigher".to_owned()];
    change(&mut options);
    Scheduler::new(options).expect("filters and weighers")
}

fn ask(asked: &Value, many: usize) -> SelectionRequest {
    SelectionRequest {
        request: request(asked),
        instance_uuids: (0..many).map(|at| format!("i{at}")).collect(),
        alternates: Alternates::Wanted,
        claims: ClaimPolicy::Needed,
        seed: 7,
    }
}

/// Runs to the end; returns each claim as `INSTANCE HOST CANDIDATE`.
fn run(
    mut step: SelectionStep<'_>,
    mut is_granted: impl FnMut(&str) -> bool,
) -> (Vec<String>, Result<SelectionResult, NoValidHost>) {
    let mut claims = Vec::new();
    loop {
        step = match step {
            SelectionStep::Claim(claiming) => {
                let claim = claiming.claim();
                let candidate = claim.candidate.mappings.get("").map(|it| it[0].as_str());
                let text = format!(
                    "{} {} {}",
                    claim.instance_uuid,
                    claim.host.host,
                    candidate.unwrap_or("-")
                );
                let is_granted = is_granted(&text);
                claims.push(text);
                match is_granted {
                    true => claiming.granted(),
                    false => claiming.refused(),
                }
            }
            SelectionStep::Selected(selected) => return (claims, Ok(selected)),
            SelectionStep::NoValidHost(why) => return (claims, Err(why)),
        };
    }
}

fn names(selections: &[Vec<Selection>]) -> Vec<Vec<&str>> {
    let mut names = Vec::new();
    for one in selections {
        names.push(one.iter().map(|it| it.host.host.as_str()).collect());
    }
    names
}

#[test]
fn hosts_are_narrowed_to_what_the_request_is_for() {
    let these = json!([
        {"host": "a", "node": "a1"}, {"host": "a", "node": "a2"}, {"host": "B", "node": "b"},
    ]);
    let check = |kind: &str| json!({"_nova_check_type": [kind]});
    for (asked, nodes, is_filtered) in [
        (json!({}), &["a1", "a2", "b"][..], true),
        (
            json!({"requested_destination": {"host": "a"}}),
            &["a1", "a2"],
            true,
        ),
        (
            json!({"requested_destination": {"host": "a", "node": "a2"}}),
            &["a2"],
            true,
        ),
        (json!({"requested_destination": {"host": "A"}}), &[], true),
        (
            json!({"requested_destination": {"node": "b"}}),
            &["b"],
            true,
        ),
        (
            json!({"requested_destination": {"cell": "c"}}),
            &["a1", "a2", "b"],
            true,
        ),
        (json!({"ignore_hosts": ["A", "x"]}), &["b"], true),
        (json!({"ignore_hosts": ["A", "b"]}), &[], false),
        (json!({"force_hosts": ["b"]}), &["b"], false),
        (
            json!({"force_hosts": ["a", "b"], "ignore_hosts": ["a"]}),
            &["b"],
            false,
        ),
        (json!({"force_nodes": ["a2", "B"]}), &["a2"], false),
        (
            json!({"force_hosts": ["b"], "hints": check("live-migrate")}),
            &["b"],
            true,
        ),
        (
            json!({"force_hosts": ["c"], "hints": check("rebuild")}),
            &[],
            true,
        ),
    ] {
        let narrowed = narrow(hosts(&these), &request(&asked));
        let left = narrowed.hosts.iter().map(|one| one.state.nodename.as_str());
        assert_eq!(left.collect::<Vec<_>>(), nodes, "{asked}");
        assert_eq!(narrowed.is_filtered, is_filtered, "{asked}");
    }
}

#[test]
fn an_instance_takes_its_resources_from_its_host() {
    let mut state = (*hosts(&json!([{
        "free_ram_mb": 5000, "free_disk_mb": 90_000, "vcpus_used": 1, "num_instances": 2,
        "num_io_ops": 3, "instances": ["x"],
    }]))[0]
        .state)
        .clone();
    let asked = request(&json!({
        "instance_uuid": "i",
        "flavor": {"vcpus": 2, "memory_mb": 1000, "root_gb": 3, "ephemeral_gb": 4, "swap": 512},
        "image": {"properties": {"os_distro": "linux"}},
    }));
    let (limits, options) = (SchedulerLimits::default(), SchedulerOptions::default());
    assert_eq!(consume(&mut state, &asked, None, &limits, &options), Ok(()));
    let consumed = (state.free_ram_mb, state.free_disk_mb, state.vcpus_used);
    assert_eq!(consumed, (4000, 90_000 - 7 * 1024, 3));
    assert_eq!((state.num_instances, state.num_io_ops), (3, 4));
    assert!(state.instances.contains("i") && state.instances.contains("x"));

    let mut volume = asked;
    volume.is_bfv = true;
    assert_eq!(
        consume(&mut state, &volume, None, &limits, &options),
        Ok(())
    );
    assert_eq!(state.free_disk_mb, 90_000 - (7 + 4) * 1024);
}

/// Hosts with decreasing memory, each with this number of candidates.
fn falling(many: usize, candidates: usize) -> Value {
    let host = |at: usize| {
        let candidate = |it: usize| json!({"mappings": {"": [format!("c{it}")]}});
        json!({
            "host": format!("h{at}"), "cell": format!("cell{}", at % 2), "free_ram_mb": 900_000 - 10_000 * at,
            "candidates": (0..candidates).map(candidate).collect::<Vec<_>>(),
        })
    };
    (0..many).map(host).collect()
}

#[test]
fn a_host_is_tried_by_its_candidates_before_the_next_one_is() {
    for (candidates_per_host, expected) in [
        (
            0,
            &["i0 h0 c0", "i0 h0 c1", "i0 h0 c2", "i0 h1 c0", "i0 h1 c1"][..],
        ),
        (2, &["i0 h0 c0", "i0 h0 c1", "i0 h1 c0", "i0 h1 c1"]),
        (1, &["i0 h0 c0", "i0 h1 c0", "i0 h2 c0"]),
    ] {
        let scheduler = scheduler(|options| {
            options.filter_scheduler.candidates_per_host = candidates_per_host;
        });
        let step = scheduler.select(ask(&json!({}), 1), hosts(&falling(3, 3)));
        let last = expected.last().copied();
        let (claims, ended) = run(step, |claim| Some(claim) == last);
        assert_eq!(claims, expected);
        let ended = ended.expect("the last one was granted");
        let selected = &ended.selections[0][0];
        let candidate = selected.candidate.as_ref().expect("it was claimed");
        assert!(last.is_some_and(|last| last.ends_with(&candidate.mappings[""][0])));
        assert_eq!(ended.record.turns[0].tried.len(), expected.len());
    }
}

#[test]
fn a_host_without_candidates_is_passed_over() {
    let mut these = falling(2, 1);
    these[0]["candidates"] = json!([]);
    let scheduler = scheduler(|_| {});
    let (claims, ended) = run(scheduler.select(ask(&json!({}), 1), hosts(&these)), |_| {
        true
    });
    assert_eq!(claims, ["i0 h1 c0"]);
    assert!(ended.is_ok());
    // Nor is it an alternate.
    these[0]["candidates"] = json!([{"mappings": {"": ["c0"]}}]);
    these[1]["candidates"] = json!([]);
    these[1]["cell"] = these[0]["cell"].clone();
    let (_, ended) = run(scheduler.select(ask(&json!({}), 1), hosts(&these)), |_| {
        true
    });
    assert_eq!(names(&ended.expect("selected").selections), [["h0"]]);
}

#[test]
fn what_an_instance_takes_the_next_one_sees() {
    let these = json!([
        {"host": "a", "free_ram_mb": 3000, "num_instances": 48},
        {"host": "b", "free_ram_mb": 2500},
        {"host": "c", "free_ram_mb": 10},
    ]);
    let scheduler = scheduler(|_| {});
    let asked = json!({"flavor": {"memory_mb": 600}});
    let (claims, ended) = run(scheduler.select(ask(&asked, 4), hosts(&these)), |_| true);
    // After its second instance `a` is full: 50 are too many.
    assert_eq!(claims, ["i0 a -", "i1 b -", "i2 a -", "i3 b -"]);
    let ended = ended.expect("each has a host");
    let after: Vec<_> = ended
        .after
        .iter()
        .map(|host| (host.host.as_str(), host.free_ram_mb, host.num_instances))
        .collect();
    assert_eq!(after, [("a", 1800, 50), ("b", 1300, 2)]);
    let rejected = &ended.record.turns[3].rejected;
    assert_eq!(rejected.hosts(), 1);
    assert!(matches!(
        rejected.kinds()[0].named[0].reason,
        Reason::TooManyInstances {
            num_instances: 50,
            ..
        }
    ));
    assert_eq!(
        names(&ended.selections),
        [["a", "c"], ["b", "c"], ["a", "c"], ["b", "c"]]
    );
}

#[test]
fn claims_of_a_request_that_fails_are_named() {
    let scheduler = scheduler(|_| {});
    let group = json!({"group": {"policy": "anti-affinity", "members": ["i0", "i1", "i2"]}});
    let (claims, ended) = run(
        scheduler.select(ask(&group, 3), hosts(&falling(2, 1))),
        |_| true,
    );
    assert_eq!(claims, ["i0 h0 c0", "i1 h1 c0"]);
    let why = ended.expect_err("there is no third host");
    assert_eq!((why.why, why.at), (NoHost::NoneLeft, 2));
    assert_eq!(why.claimed, ["i0", "i1"]);
    let sentence = why.to_string();
    assert!(
        sentence.starts_with(
            "no valid host was found: of 1 hosts, ServerGroupAntiAffinityFilter rejected 1 (h1: "
        ),
        "{sentence}"
    );

    let (claims, ended) = run(
        scheduler.select(ask(&json!({}), 2), hosts(&falling(2, 1))),
        |it| it.starts_with("i0"),
    );
    assert_eq!(claims, ["i0 h0 c0", "i1 h0 c0", "i1 h1 c0"]);
    let why = ended.expect_err("the second is refused everywhere");
    assert_eq!(why.why, NoHost::NoneClaimed);
    assert_eq!(why.claimed, ["i0"]);
    assert_eq!(
        why.to_string(),
        "no valid host was found: none of 2 claims was granted by Placement"
    );
}

#[test]
fn without_hosts_no_filter_runs() {
    let scheduler = scheduler(|_| {});
    let (claims, ended) = run(scheduler.select(ask(&json!({}), 1), Vec::new()), |_| true);
    assert!(claims.is_empty());
    let why = ended.expect_err("no host").to_string();
    assert_eq!(why, "no valid host was found: there is no host to check");
}

#[test]
fn a_caller_may_give_up() {
    let scheduler = scheduler(|_| {});
    let SelectionStep::Claim(first) = scheduler.select(ask(&json!({}), 2), hosts(&falling(2, 1)))
    else {
        panic!("a claim is first");
    };
    let SelectionStep::Claim(second) = first.granted() else {
        panic!("the second instance is claimed too");
    };
    let why = second.give_up();
    assert_eq!((why.why, why.at), (NoHost::GivenUp, 1));
    assert_eq!(why.claimed, ["i0"]);
}

#[test]
fn alternates_are_of_the_same_cell_and_unselected() {
    let these = hosts(&falling(7, 1));
    let of = |max_attempts, alternates, many| {
        let scheduler = scheduler(|options| options.scheduler.max_attempts = max_attempts);
        let ask = SelectionRequest {
            alternates,
            ..ask(&json!({}), many)
        };
        let (_, ended) = run(scheduler.select(ask, these.clone()), |_| true);
        let selections = ended.expect("each has a host").selections;
        let names = names(&selections);
        names.iter().map(|one| one.join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(of(3, Alternates::Wanted, 1), ["h0 h2 h4"]);
    assert_eq!(of(9, Alternates::Wanted, 1), ["h0 h2 h4 h6"]);
    assert_eq!(of(1, Alternates::Wanted, 1), ["h0"]);
    assert_eq!(of(3, Alternates::None, 2), ["h0", "h0"]);
    assert_eq!(of(3, Alternates::Wanted, 2), ["h0 h2 h4", "h0 h2 h4"]);
}

#[test]
fn an_instance_that_keeps_its_allocations_is_not_claimed() {
    let scheduler = scheduler(|_| {});
    let ask = SelectionRequest {
        claims: ClaimPolicy::Kept,
        ..ask(&json!({"hints": {"_nova_check_type": ["rebuild"]}}), 1)
    };
    let (claims, ended) = run(scheduler.select(ask, hosts(&falling(2, 0))), |_| false);
    assert!(claims.is_empty());
    let ended = ended.expect("no claim, no refusal");
    assert_eq!(ended.selections[0][0].host.host, "h0");
    assert_eq!(ended.selections[0][0].candidate, None);
}

#[test]
fn a_host_that_cannot_be_weighed_is_out() {
    let scheduler = scheduler(|options| {
        options.filter_scheduler.weight_classes = vec!["MetricsWeigher".to_owned()];
        options.metrics.weight_setting = vec!["cpu.percent=-1".to_owned()];
    });
    let metric = |value: i64| json!([{"name": "cpu.percent", "value": value}]);
    let these = json!([{}, {"metrics": metric(90)}, {}, {"metrics": metric(10)}]);
    let (sorted, turnout) = scheduler.sort(&request(&json!({})), hosts(&these), 0);
    let order: Vec<&str> = sorted
        .best_first()
        .map(|it| it.state.host.as_str())
        .collect();
    assert_eq!(order, ["h3", "h1"]);
    let mut out: Vec<_> = turnout
        .rejected
        .named()
        .map(|(filter, one)| (one.host.host.as_str(), filter))
        .collect();
    out.sort_unstable();
    assert_eq!(out, [("h0", "MetricsWeigher"), ("h2", "MetricsWeigher")]);
}

#[test]
fn a_seed_has_one_outcome() {
    let scheduler = scheduler(|options| options.filter_scheduler.host_subset_size = 3);
    let first = |seed| {
        let ask = SelectionRequest {
            seed,
            ..ask(&json!({}), 3)
        };
        let (claims, _) = run(scheduler.select(ask, hosts(&falling(5, 1))), |_| true);
        claims
    };
    let outcomes: std::collections::BTreeSet<_> = (0..50).map(first).collect();
    assert!(outcomes.len() > 3, "chance chooses");
    assert_eq!(first(4), first(4));
}

#[test]
fn the_best_ten_have_their_cards_kept() {
    let scheduler = scheduler(|_| {});
    let mut these = hosts(&falling(12, 1));
    these.reverse();
    let (sorted, turnout) = scheduler.sort(&request(&json!({})), these, 0);
    assert_eq!(turnout.cards.len(), 10);
    assert_eq!(turnout.cards[0].0.host, "h0");
    assert_eq!(turnout.cards[0].1.weight, sorted.weights()[0]);
    // Without it all are alike, and h11 came first.
    let pivotal = turnout
        .pivotal
        .iter()
        .map(|(name, host)| (*name, host.host.as_str()));
    assert_eq!(pivotal.collect::<Vec<_>>(), [("RAMWeigher", "h11")]);
}

#[test]
fn of_many_instances_and_many_claims_a_bounded_part_is_kept() {
    let scheduler = scheduler(|_| {});
    let mut refusals = 30;
    let (_, ended) = run(
        scheduler.select(ask(&json!({}), 12), hosts(&falling(40, 1))),
        |_| {
            refusals -= 1;
            refusals < 0
        },
    );
    let turns = ended.expect("each has a host").record.turns;
    let first = &turns[0];
    assert_eq!((first.tried.len(), first.more_tried), (21, 10));
    assert!(first.tried[20].is_granted);
    let cards: Vec<usize> = turns.iter().map(|turn| turn.cards.len()).collect();
    assert_eq!(cards, [10, 10, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn options_out_of_bounds_are_refused_and_doubtful_ones_are_reported() {
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.host_subset_size = 0;
    let scheduler = Scheduler::new(options.clone()).expect("filters and weighers");
    assert_eq!(
        scheduler.warnings(),
        [
            "[filter_scheduler] host_subset_size: should be a whole number from 1 on, and is 0; it counts as 1"
        ]
    );
    options.scheduler.max_attempts = 0;
    options.filter_scheduler.max_instances_per_host = -3;
    let refused = Scheduler::new(options)
        .map(|_| ())
        .map_err(|it| it.to_string());
    let sentence = "[scheduler] max_attempts: should be a whole number from 1 on, and is 0; \
        [filter_scheduler] max_instances_per_host: should be a whole number from 1 on, and is -3";
    assert_eq!(refused, Err(sentence.to_owned()));
}

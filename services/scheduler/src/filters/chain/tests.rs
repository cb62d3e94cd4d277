use serde_json::json;

use super::shares::HOSTS_PER_THREAD;
use super::*;
use berth_scheduler_objects::testing;

fn options(enabled: &[&str], available: &[&str]) -> SchedulerOptions {
    let own = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = own(enabled);
    options.filter_scheduler.available_filters = own(available);
    options
}

/// The filter and host of each rejection, and the result of each filter.
fn filtered(
    options: &SchedulerOptions,
    request: &serde_json::Value,
    turn: InstancePosition,
) -> (Vec<(&'static str, String)>, Vec<FilterCounts>) {
    let mut hosts = testing::hosts(&json!([
        {"host": "a", "num_instances": 99},
        {"host": "b", "service": {"disabled": true}},
        {"host": "c"},
    ]));
    let request = testing::request(request);
    let chain = Chain::new(options).expect("all are there");
    let mut out = Vec::new();
    let passed = chain.filter(&mut hosts, &request, options, turn, |one| {
        out.push((one.filter, one.host.state.host.clone()));
    });
    (out, passed)
}

fn passed(filter: &'static str, before: usize, after: usize) -> FilterCounts {
    FilterCounts {
        filter,
        before,
        after,
    }
}

#[test]
fn a_filter_is_asked_about_hosts_that_passed_before() {
    let options = options(
        &["ComputeFilter", "NumInstancesFilter", "AllHostsFilter"],
        &[ALL_FILTERS],
    );
    let pair = |filter: &'static str, host: &str| (filter, host.to_owned());
    let (out, did) = filtered(&options, &json!({}), InstancePosition::First);
    let expected = [pair("ComputeFilter", "b"), pair("NumInstancesFilter", "a")];
    assert_eq!(out, expected);
    let expected = [
        passed("ComputeFilter", 3, 2),
        passed("NumInstancesFilter", 2, 1),
        passed("AllHostsFilter", 1, 1),
    ];
    assert_eq!(did, expected);
}

#[test]
fn many_hosts_are_checked_as_one_is() {
    let many = 2 * HOSTS_PER_THREAD + 1;
    let host = |number: usize| json!({"num_instances": number % 3, "num_io_ops": number % 5});
    let hosts: Vec<_> = (0..many).map(host).collect();
    let mut left = testing::hosts(&json!(hosts));
    let mut options = options(&["NumInstancesFilter", "IoOpsFilter"], &[ALL_FILTERS]);
    options.filter_scheduler.max_instances_per_host = 2;
    options.filter_scheduler.max_io_ops_per_host = 4;
    let request = testing::request(&json!({}));
    let chain = Chain::new(&options).expect("both are there");
    let mut out = Vec::new();
    chain.filter(
        &mut left,
        &request,
        &options,
        InstancePosition::First,
        |one| {
            out.push((one.filter, one.host.state.host.clone()));
        },
    );
    let name = |number: usize| format!("h{number}");
    let passes = |number: &usize| number % 3 < 2 && number % 5 < 4;
    let names: Vec<String> = left.iter().map(|it| it.state.host.clone()).collect();
    let expected: Vec<String> = (0..many).filter(passes).map(name).collect();
    assert_eq!(names, expected);
    let by = |filter: &'static str, of: &dyn Fn(&usize) -> bool| -> Vec<_> {
        let these = (0..many).filter(|it| of(it));
        these.map(|it| (filter, name(it))).collect()
    };
    let mut expected = by("NumInstancesFilter", &|it| it % 3 == 2);
    expected.extend(by("IoOpsFilter", &|it| it % 3 < 2 && it % 5 == 4));
    assert_eq!(out, expected);
}

#[test]
fn a_later_instance_is_not_checked_by_what_no_claim_changes() {
    let options = options(&["ComputeFilter", "NumInstancesFilter"], &[ALL_FILTERS]);
    let (_, did) = filtered(&options, &json!({}), InstancePosition::Later);
    assert_eq!(did, [passed("NumInstancesFilter", 3, 2)]);
}

#[test]
fn no_filter_is_asked_after_the_last_host_is_out() {
    let enabled = ["JsonFilter", "AllHostsFilter"];
    let query = json!({"hints": {"query": "[\"=\", 1, 2]"}});
    let (out, did) = filtered(
        &options(&enabled, &[ALL_FILTERS]),
        &query,
        InstancePosition::First,
    );
    assert_eq!((out.len(), did), (3, vec![passed("JsonFilter", 3, 0)]));
}

#[test]
fn a_rebuild_is_only_checked_for_its_image() {
    let enabled = [
        "ComputeFilter",
        "NumInstancesFilter",
        "ImagePropertiesFilter",
    ];
    let request = json!({"hints": {"_nova_check_type": ["rebuild"]},
        "image": {"properties": {"architecture": "x86_64"}}});
    let (_, did) = filtered(
        &options(&enabled, &[ALL_FILTERS]),
        &request,
        InstancePosition::First,
    );
    let expected = [
        passed("ComputeFilter", 3, 3),
        passed("NumInstancesFilter", 3, 3),
        passed("ImagePropertiesFilter", 3, 0),
    ];
    assert_eq!(did, expected);
}

#[test]
fn what_is_enabled_must_be_available() {
    let ram = "nova.scheduler.filters.ram_filter.RamFilter";
    for (enabled, available, wrong) in [
        ("RamFilter", ram, None),
        (ram, "RamFilter", None),
        (ram, ALL_FILTERS, None),
        (
            "DiskFilter",
            ram,
            Some(
                "enabled_filters: DiskFilter is not among available_filters, which are RamFilter; ",
            ),
        ),
        (
            "NoFilter",
            ALL_FILTERS,
            Some("enabled_filters: there is no filter NoFilter; there are "),
        ),
        (
            "ComputFilter",
            ALL_FILTERS,
            Some("enabled_filters: there is no filter ComputFilter; did you mean ComputeFilter?"),
        ),
        (
            "RamFilter",
            "mine.Filter",
            Some("available_filters: there is no filter mine.Filter; there are "),
        ),
    ] {
        let error = Chain::new(&options(&[enabled], &[available])).err();
        let sentence = error.map(|it| it.to_string());
        assert_eq!(
            sentence.is_some(),
            wrong.is_some(),
            "{enabled}: {sentence:?}"
        );
        let wrong = wrong.map_or_else(String::new, |it| format!("[filter_scheduler] {it}"));
        assert!(sentence.unwrap_or_default().starts_with(&wrong));
    }
}

#[test]
fn a_later_instance_may_find_a_hundred_thousand_hosts_out() {
    let filters = ["ServerGroupAffinityFilter", "NumInstancesFilter"];
    let options = options(&filters, &[ALL_FILTERS]);
    let chain = Chain::new(&options).expect("both are there");
    let group = json!({"group": {"policy": "affinity", "hosts": ["in"]}});
    let request = testing::request(&group);
    let two = testing::hosts(&json!([{"host": "in"}, {"host": "out", "num_instances": 99}]));
    let mut hosts = vec![two[1].clone(); 100_001];
    hosts[50_000] = two[0].clone();
    let (did, out) = chain.filter_again(&mut hosts, 7, &request, &options);
    let expected = [passed(filters[0], 100_001, 1), passed(filters[1], 1, 1)];
    assert_eq!(did, expected);
    let places = out.iter().map(|it| it.place);
    assert!(places.eq((0..100_001).filter(|place| *place != 50_000)));
}

//! How many guests fit, by a table and against a search that leaves nothing out; which flavors are remembered; the page.

mod fits;
mod random;

use serde_json::json;

use super::recent_flavors::MAX_FLAVORS;
use super::*;

fn request(flavor: &serde_json::Value) -> BootRequest {
    let body = json!({"name": "vm", "flavor": flavor, "scheduler_hints": {"query": ["[]"]}, "availability_zone": "north"});
    let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
    BootRequest::new(body, uuid::Uuid::from_u128(7)).unwrap()
}

fn named(name: &str, vcpus: u32) -> BootRequest {
    request(&json!({"name": name, "vcpus": vcpus, "ram_mb": 64}))
}

fn record(request: BootRequest) -> BootRecord {
    BootRecord {
        request,
        goal: crate::journal::BootGoal::Active,
        attempt: 1,
        failures: Vec::new(),
        steps: BTreeMap::new(),
    }
}

fn names(headrooms: &HeadroomCache) -> Vec<String> {
    let flavors = headrooms.flavors();
    flavors.iter().map(|it| it.name().to_owned()).collect()
}

fn text(headrooms: &HeadroomCache) -> String {
    let mut page = BootMetricsPage::default();
    headrooms.write_to(&mut page);
    page.into_text()
}

#[test]
fn the_flavors_that_were_asked_for_last_are_remembered_and_the_journal_s_come_after_them() {
    let headrooms = HeadroomCache::default();
    headrooms.record_request(&named("now", 1));
    headrooms.record_request(&named("later", 1));
    headrooms.record_request(&named("now", 1));
    assert!(!headrooms.is_journal_loaded());
    let journal = ["before", "now", "before"];
    let journal: Vec<_> = journal.map(|name| record(named(name, 1))).into();
    headrooms.load_journal(&journal);
    assert!(headrooms.is_journal_loaded());
    assert_eq!(names(&headrooms), ["now", "later", "before"]);
    for number in 0..MAX_FLAVORS {
        headrooms.record_request(&named(&format!("f{number}"), 1));
    }
    headrooms.load_journal(&journal);
    let names = names(&headrooms);
    assert_eq!(names.len(), MAX_FLAVORS);
    assert_eq!(names[0], format!("f{}", MAX_FLAVORS - 1));
    assert!(!names.contains(&"now".to_owned()), "{names:?}");
}

#[test]
fn a_flavor_is_asked_for_without_what_only_one_guest_asks_for() {
    let headrooms = HeadroomCache::default();
    headrooms.record_request(&named("m1", 2));
    let flavors = headrooms.flavors();
    let body = flavors[0].request().body();
    assert_eq!((body.flavor.name.as_str(), body.flavor.vcpus), ("m1", 2));
    assert!(body.scheduler_hints.is_empty() && body.availability_zone.is_none());
    assert_ne!(*flavors[0].id().as_uuid(), uuid::Uuid::from_u128(7));
}

#[test]
fn flavors_of_one_name_that_ask_for_different_things_are_two_series() {
    let headrooms = HeadroomCache::default();
    let gpu = json!({"name": "m1", "vcpus": 2, "ram_mb": 64, "extra_specs": {"accel:device_profile": "gpu"}});
    for (place, request) in [named("m1", 2), named("m1", 4), request(&gpu)]
        .iter()
        .enumerate()
    {
        headrooms.record_request(request);
        let flavor = headrooms.flavors().remove(0);
        let headroom = Headroom {
            hosts: 1,
            guests: 10 + place,
        };
        headrooms.store(&flavor, headroom);
    }
    let text = text(&headrooms);
    let series = text
        .lines()
        .filter_map(|line| line.strip_prefix("berth_scheduler_headroom_guests{"));
    let series: Vec<&str> = series.collect();
    assert_eq!(series.len(), 3, "{text}");
    let labels = series.iter().filter_map(|line| line.split_once('}'));
    let labels: std::collections::BTreeSet<&str> = labels.map(|(labels, _)| labels).collect();
    assert_eq!(labels.len(), 3, "{text}");
    assert!(
        series[0].starts_with("flavor=\"m1\",device_profile=\"gpu\",spec=\"")
            && series[0].ends_with("\"} 12"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_made_keeps_what_was_there_and_is_news_once() {
    let headrooms = HeadroomCache::default();
    headrooms.record_request(&named("m1", 1));
    let flavor = headrooms.flavors().remove(0);
    // Nothing is known yet: there is no number, and no age of none.
    let before = text(&headrooms);
    assert!(!before.contains("headroom_hosts{"), "{before}");
    assert!(
        !before.contains("\nberth_scheduler_headroom_age_seconds "),
        "{before}"
    );
    assert!(headrooms.record_failure(&flavor) && !headrooms.record_failure(&flavor));
    assert!(text(&headrooms).contains("berth_scheduler_headroom_failures_total 2\n"));
    headrooms.store(
        &flavor,
        Headroom {
            hosts: 2,
            guests: 5,
        },
    );
    assert!(headrooms.record_failure(&flavor));
    headrooms.record_journal_failure();
    let after = text(&headrooms);
    assert!(after.contains("} 5\n"), "{after}");
    assert!(
        after.contains("\nberth_scheduler_headroom_age_seconds "),
        "{after}"
    );
    assert!(
        after.contains("berth_scheduler_headroom_failures_total 4\n"),
        "{after}"
    );
}

#[test]
fn a_flavor_that_is_forgotten_is_off_the_page() {
    let headrooms = HeadroomCache::default();
    headrooms.record_request(&named("old", 1));
    let old = headrooms.flavors().remove(0);
    for number in 0..MAX_FLAVORS {
        headrooms.record_request(&named(&format!("f{number}"), 1));
    }
    // It was being made when the others came.
    headrooms.store(&old, Headroom::default());
    assert!(!text(&headrooms).contains("\"old\""));
}

#[tokio::test]
async fn it_is_computed_once_per_interval_and_not_after_the_end() {
    let headrooms = HeadroomCache::default();
    let hour = Duration::from_secs(3600);
    let making = headrooms.begin_update(hour).unwrap();
    assert!(
        headrooms.begin_update(Duration::ZERO).is_none(),
        "another task does"
    );
    drop(making);
    headrooms.wait_for_update().await;
    assert!(headrooms.begin_update(hour).is_none(), "it is new");
    drop(headrooms.begin_update(Duration::ZERO).unwrap());
    headrooms.stop().await;
    assert!(headrooms.begin_update(Duration::ZERO).is_none());
}

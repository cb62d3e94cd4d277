//! The scheduler's metrics on the pages of `berth up`: the agent's, and the conductor's own.

use std::time::Instant;
use std::{fs, thread, time::Duration};

use berth_tests::exchange::HttpCall;

use crate::program::guests::Host;
use crate::program::hypervisor::PATIENCE;

const GUESTS: &str = "berth_scheduler_headroom_guests{";

/// Polls the page until the series has the value.
#[track_caller]
fn until(host: &Host, series: &str, wanted: f64) {
    let begun = Instant::now();
    loop {
        let value = host.node.metric(series);
        if value == Some(wanted) {
            return;
        }
        let log = host.up.stderr();
        assert!(begun.elapsed() < PATIENCE, "{series}: {value:?}\n{log}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_schedulers_metrics_are_on_the_agents_and_the_conductors_page() {
    let mut host = Host::start_with(
        "guests-metrics",
        &[
            ("BERTH__CONDUCTOR_SERVICE__HEADROOM_INTERVAL", "1"),
            ("BERTH__CONDUCTOR_SERVICE__LISTEN", "127.0.0.1:0"),
        ],
    );
    // Before anybody asks for a guest the rows are there, and no headroom.
    let page = host.node.ask("/metrics").expect("a page").text();
    assert!(
        page.contains("# TYPE berth_scheduler_searches_total counter"),
        "{page}"
    );
    assert!(page.contains("berth_plan_state{"), "{page}");
    assert!(!page.contains(GUESTS), "{page}");
    let profile = ["accelerator", "profile", "create", "gpu", "--group"];
    host.done(&[&profile[..], &["resources:PGPU=1"]].concat());
    // A device that is still being cleaned would make the conductor search twice.
    host.until(&["device", "list"], |all| {
        !all.is_empty() && all.iter().all(|it| it["state"] == "free")
    });
    // Of two devices each guest has one.
    for (number, name) in ["one", "two"].into_iter().enumerate() {
        host.create(name);
        host.until(&["guest", "list"], |guests| {
            guests.len() == number + 1 && guests.iter().all(|it| it["status"] == "active")
        });
        until(&host, GUESTS, if number == 0 { 1.0 } else { 0.0 });
    }
    until(
        &host,
        "berth_scheduler_searches_total{outcome=\"selected\"}",
        2.0,
    );
    let endpoint = host.node.home.state_dir().join("conductor.endpoint");
    let endpoint = fs::read_to_string(endpoint).expect("up says where the conductor is");
    let answer = HttpCall::get(format!("{}/metrics", endpoint.trim())).send();
    let answer = answer.expect("the conductor answers");
    assert!(
        answer
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    // Nobody said that every local user may create guests there.
    let guests = HttpCall::get(format!("{}/v1/guests", endpoint.trim())).send();
    let guests = guests.expect("the conductor answers");
    assert_eq!(guests.status, 404, "{}", guests.text());
    assert!(guests.text().contains("conductor.sock"), "{guests:?}");
    let own = answer.text();
    assert!(own.contains("berth_scheduler_headroom_hosts{"), "{own}");
    assert!(!own.contains("berth_plan_state"), "{own}");
    // The flavors are the journal's after a kill.
    host.kill_and_start_again();
    until(&host, GUESTS, 0.0);
    host.done(&["guest", "delete", "one", "--wait"]);
    until(&host, GUESTS, 1.0);
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}

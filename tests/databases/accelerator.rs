//! Several accelerator services on one database, each with separate connections as processes have them: who binds the
//! last handles, who sends the events, and what a killed service leaves.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use berth_store::{Isolation, SqlOptions, SqlStore, Statement};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::databases::accelerator_on_postgres::receiver::{Receiver, SILENT};
use crate::databases::accelerator_on_postgres::service::{
    HOST, RP, RP_2, Reply, Service, bind, card, guest, options, unbind,
};
use crate::databases::test_database::TestDatabase;

on_servers! {
    half_created_tables_are_recreated_and_others_are_kept
    of_sixteen_the_last_handles_are_each_one_requests_at_repeatable_read
    of_sixteen_the_last_handles_are_each_one_requests_at_read_committed
    a_request_is_one_guests_and_a_guest_is_bound_once
    hosts_that_end_their_programmings_at_once_end_the_bind
    a_request_that_two_services_wait_for_is_reported_once_and_by_the_survivor
    an_agent_hears_of_a_change_at_another_service
    a_kill_leaves_a_guest_with_all_its_handles_or_with_none_and_another_service_continues
}

async fn open(place: &TestDatabase, isolation: Isolation) -> SqlStore {
    let options = SqlOptions {
        isolation,
        // At REPEATABLE READ, which the service does not request, the loser of a conflict starts again.
        attempts: 100,
        ..SqlOptions::default()
    };
    place.open(&options).await
}

/// So many, started at once on an empty database.
async fn services(place: &TestDatabase, count: usize, isolation: Isolation) -> Vec<Service> {
    let starts = (0..count).map(|_| async {
        let store = open(place, isolation).await;
        Service::over(store, options()).await
    });
    join_all(starts).await
}

async fn of_sixteen_the_last_handles_are_each_one_requests_at_repeatable_read(place: TestDatabase) {
    contests(place, Isolation::RepeatableRead).await;
}

async fn of_sixteen_the_last_handles_are_each_one_requests_at_read_committed(place: TestDatabase) {
    contests(place, Isolation::ReadCommitted).await;
}

async fn contests(place: TestDatabase, isolation: Isolation) {
    let services = services(&place, 4, isolation).await;
    services[0].report(HOST, json!([card(0, RP, 6)])).await;
    services[0].profile("dp", 1).await;
    for (round, processes) in [1, 4, 4].into_iter().enumerate() {
        let binds = (0..16).map(|n| {
            let service = services[n % processes].clone();
            tokio::spawn(async move {
                let uuids = service.requests("dp").await;
                let guest = guest(round * 100 + n);
                (service.bind(&uuids, &guest).await, guest)
            })
        });
        let answers = join_all(binds).await;
        let mut held = BTreeSet::new();
        for answer in answers {
            let (reply, guest) = answer.unwrap();
            // At another process than it was asked of.
            let arqs = services[3].of_guest(&guest).await;
            let arq = &arqs.body["arqs"][0];
            match reply.status.as_u16() {
                202 => {
                    assert_eq!(arq["state"], "Bound");
                    let handle = arq["attach_handle_uuid"].to_string();
                    assert!(held.insert(handle), "a handle of two: {arq}");
                }
                409 => assert_eq!(arq["state"], "BindFailed"),
                other => panic!("{other}: {reply:?}"),
            }
            let path = format!("/v2/accelerator_requests?instance={guest}");
            // Handles are released after all have been checked, except for requests without any.
            if reply.status == 409 {
                assert_eq!(services[0].delete(&path).await.status, 204);
            }
        }
        assert_eq!(held.len(), 6, "no handle is free while a request lacks one");
        assert_eq!(services[1].held().await, 6);
        for n in 0..16 {
            let path = format!(
                "/v2/accelerator_requests?instance={}",
                guest(round * 100 + n)
            );
            assert_eq!(services[2].delete(&path).await.status, 204);
        }
        assert_eq!(services[1].held().await, 0);
    }
}

/// A kill while the tables were made leaves some of them on MariaDB, where each is kept as it is made, and none on PostgreSQL.
async fn half_created_tables_are_recreated_and_others_are_kept(place: TestDatabase) {
    let service = services(&place, 1, Isolation::ReadCommitted)
        .await
        .remove(0);
    for sql in [
        "DROP TABLE programmings",
        "DROP TABLE host_changes",
        "DELETE FROM accelerator_schema",
    ] {
        service.change(Statement::new(sql)).await;
    }
    let prepared = berth_accelerator::prepare(&service.store).await;
    match place {
        TestDatabase::Postgres(_) => {
            let refused = prepared.unwrap_err().to_string();
            assert!(
                refused.contains("does not contain the version"),
                "{refused}"
            );
        }
        _ => {
            prepared.unwrap();
            service.report(HOST, json!([card(0, RP, 1)])).await;
            service
                .change(Statement::new("DELETE FROM accelerator_schema"))
                .await;
            let refused = berth_accelerator::prepare(&service.store).await;
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.contains("does not contain the version"),
                "{refused}"
            );
            assert_eq!(service.devices().await.len(), 1);
        }
    }
}

fn statuses(replies: [Reply; 2]) -> [u16; 2] {
    let mut statuses = replies.map(|reply| reply.status.as_u16());
    statuses.sort_unstable();
    statuses
}

async fn a_request_is_one_guests_and_a_guest_is_bound_once(place: TestDatabase) {
    let services = services(&place, 2, Isolation::ReadCommitted).await;
    services[0].report(HOST, json!([card(0, RP, 16)])).await;
    services[0].profile("dp", 1).await;
    for round in 0..6 {
        let [one, other] = [guest(round * 10 + 1), guest(round * 10 + 2)];
        let request = services[0].requests("dp").await;
        let both = tokio::join!(
            services[0].bind(&request, &one),
            services[1].bind(&request, &other)
        );
        assert_eq!(statuses(both.into()), [202, 400], "one request, two guests");
        let (first, second) = (
            services[0].requests("dp").await,
            services[1].requests("dp").await,
        );
        let third = guest(round * 10 + 3);
        let both = tokio::join!(
            services[0].bind(&first, &third),
            services[1].bind(&second, &third)
        );
        assert_eq!(statuses(both.into()), [202, 400], "one guest, two patches");
        assert_eq!(services[0].held().await, 2);
        for guest in [one, other, third] {
            let path = format!("/v2/accelerator_requests?instance={guest}");
            assert_eq!(services[1].delete(&path).await.status, 204);
        }
    }
}

fn programmable(provider: &str, slot: usize) -> Value {
    let mut device = card(slot, provider, 1);
    device["deployables"][0]["programmable"] = json!(true);
    device
}

/// Each sees that the other has not finished; the second one must notice that the first has.
async fn hosts_that_end_their_programmings_at_once_end_the_bind(place: TestDatabase) {
    const OTHER: &str = "compute2";
    let services = services(&place, 2, Isolation::RepeatableRead).await;
    services[0].report(HOST, json!([programmable(RP, 0)])).await;
    services[0]
        .report(OTHER, json!([programmable(RP_2, 1)]))
        .await;
    let group = json!({"resources:FPGA": "1", "accel:function_id": "aes"});
    let body = json!([{"name": "aes", "groups": [group]}]);
    let made = services[0].post("/v2/device_profiles", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    for round in 0..6 {
        let guest = guest(round);
        let requests = [
            services[0].requests("aes").await,
            services[1].requests("aes").await,
        ];
        let mut patch = bind(&requests[0], &guest, HOST, RP);
        let more = bind(&requests[1], &guest, OTHER, RP_2);
        let more = more.as_object().unwrap().clone();
        patch.as_object_mut().unwrap().extend(more);
        assert_eq!(services[0].patch(patch).await.status, 202);
        let end = async |service: &Service, host: &str| {
            let client = service.client();
            let due = client.due_programmings(host).await.unwrap();
            let uuid = due.programmings[0].uuid;
            let end = berth_wire::accelerator::ProgrammingEnd { error: None };
            client.programming_ended(host, uuid, &end).await.unwrap();
        };
        tokio::join!(end(&services[0], HOST), end(&services[1], OTHER));
        let states = services[0].of_guest(&guest).await.states();
        assert_eq!(states, ["Bound", "Bound"]);
        let path = format!("/v2/accelerator_requests?instance={guest}");
        assert_eq!(services[1].delete(&path).await.status, 204);
    }
}

/// The events that a receiver got, one by one.
fn tags(received: &[Value]) -> Vec<String> {
    let events = received.iter().flat_map(|post| post["events"].as_array());
    let tags = events.flatten().map(|event| event["tag"].to_string());
    tags.collect()
}

async fn a_request_that_two_services_wait_for_is_reported_once_and_by_the_survivor(
    place: TestDatabase,
) {
    const GUESTS: usize = 12;
    let services = services(&place, 2, Isolation::ReadCommitted).await;
    services[0].report(HOST, json!([card(0, RP, 16)])).await;
    services[0].profile("dp", 1).await;
    let receiver = Receiver::answering([]);
    let deliveries = [&services[0], &services[1]].map(|service| receiver.deliver(service));
    for n in 0..GUESTS {
        let uuids = services[n % 2].requests("dp").await;
        assert_eq!(services[n % 2].bind(&uuids, &guest(n)).await.status, 202);
    }
    let received = receiver.received(GUESTS).await;
    let once: BTreeSet<_> = tags(&received).into_iter().collect();
    assert_eq!((once.len(), received.len()), (GUESTS, GUESTS));
    for delivery in deliveries {
        delivery.end().await;
    }
    assert_eq!(services[0].outbox().await, []);
    assert_eq!(tags(&receiver.received(GUESTS).await).len(), GUESTS);

    // One has taken an event and goes while it sends it.
    let silent = Receiver::answering([SILENT]);
    let uuids = services[0].requests("dp").await;
    assert_eq!(services[0].bind(&uuids, &guest(99)).await.status, 202);
    let going = silent.deliver(&services[0]);
    silent.received(1).await;
    let free = "SELECT COUNT(*) FROM events WHERE due_at <= created_at";
    assert_eq!(services[1].count(free).await, 0, "it is that one's");
    going.kill();
    let left = Receiver::answering([]);
    let delivery = left.deliver(&services[1]);
    // As if its time had passed.
    let due = Statement::new("UPDATE events SET due_at = created_at");
    services[1].change(due).await;
    assert_eq!(tags(&left.received(1).await), [format!("{:?}", uuids[0])]);
    delivery.end().await;
    assert_eq!(services[0].outbox().await, []);
}

async fn an_agent_hears_of_a_change_at_another_service(place: TestDatabase) {
    let services = services(&place, 2, Isolation::ReadCommitted).await;
    let reported = services[0].report(HOST, json!([card(0, RP, 1)])).await;
    let mark = reported["changes"].as_str().unwrap().to_owned();
    let wait = std::time::Duration::from_secs(50);
    let device = services[0].devices().await.remove(0);
    let path = format!("/v2/devices/{device}/disable");
    let client = services[0].client();
    let (changes, _) = tokio::join!(
        client.host_changes(HOST, &mark, wait),
        services[1].post(&path, json!({}))
    );
    let changes = changes.unwrap().changes;
    assert_ne!(changes, mark);
    // All services give the same answer, so that no agent switches between them.
    for service in &services {
        let path = format!("/internal/v1/hosts/{HOST}/changes");
        let agent = service.by("agent");
        let shown = agent.get(&path).await;
        assert_eq!(shown.body["changes"], changes);
    }
}

const URL: &str = "BERTH_TEST_ACCELERATOR_URL";
const BOUND: &str = "bound once";
const EACH: usize = 8;

/// Not a test by itself: the process that the next one kills. Without the variable it ends at once.
#[tokio::test]
async fn binder_that_is_to_be_killed() {
    let Ok(url) = std::env::var(URL) else {
        return;
    };
    let location = url.parse().unwrap();
    let store = SqlStore::open(&location, &SqlOptions::default()).await;
    let service = Service::over(store.unwrap(), options()).await;
    let uuids = service.get("/v2/accelerator_requests").await.uuids();
    let mut out = std::io::stdout();
    loop {
        assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
        writeln!(out, "{BOUND}").unwrap();
        assert_eq!(service.patch(unbind(&uuids)).await.status, 202);
    }
}

async fn a_kill_leaves_a_guest_with_all_its_handles_or_with_none_and_another_service_continues(
    place: TestDatabase,
) {
    let service = services(&place, 1, Isolation::ReadCommitted)
        .await
        .remove(0);
    service.report(HOST, json!([card(0, RP, EACH)])).await;
    service.profile("dp", EACH).await;
    let uuids = service.requests("dp").await;
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("databases::accelerator::binder_that_is_to_be_killed")
            .env(URL, place.url())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains(BOUND) {}
        std::thread::sleep(std::time::Duration::from_micros(1_700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        // The next writer commits after the dead one's last transaction.
        service.profile(&format!("after-{round}"), 1).await;
        let states = service.get("/v2/accelerator_requests").await.states();
        let events = service.outbox().await.len();
        let held = usize::try_from(service.held().await).unwrap();
        let whole = states == vec!["Bound"; EACH] && (events, held) == (EACH, EACH);
        let none = states.iter().all(|state| state == "Unbound") && (events, held) == (0, 0);
        assert!(
            whole || none,
            "round {round}: {states:?}, {events} events, {held} handles held"
        );
        if whole {
            // The remaining service sends the event.
            let receiver = Receiver::answering([]);
            let delivery = receiver.deliver(&service);
            assert_eq!(tags(&receiver.received(1).await).len(), EACH);
            delivery.end().await;
            assert_eq!(service.patch(unbind(&uuids)).await.status, 202);
        }
    }
}

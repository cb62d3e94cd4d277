//! The database server is stopped and restarted while writers claim the last units. Each request must
//! get an answer: the normal one, 503, or 500 if it is unknown whether the database committed. Afterwards all acknowledged claims
//! must exist, and the services must continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_tests::contest::{
    Contest, ContestAnswer, Event, Isolation, ProviderChangeLog, Services, ServicesError, ask,
    consumer_uuid, place, with_database,
};
use berth_tests::peer::{MariaDb, Postgres};
use http::Method;
use serde_json::Value;

use crate::claims::linear::{Verdict, verify};
use crate::claims::trials::runtime;

const WRITERS: u32 = 32;
/// The server is killed after this many events: each writer has sent its first request, and some were answered.
const EVENTS_BEFORE_KILL: u64 = WRITERS as u64 + 16;

/// Kills the database server during a contest, starts it again, and checks the history of the contest.
fn check_outage(url: &str, kill: impl FnOnce(), start_again: impl FnOnce()) {
    let begun = with_database(url, async |store| {
        let prepared = berth_placement::prepare(store).await;
        prepared.map_err(|error| ServicesError::Database(error.to_string()))?;
        Ok(ProviderChangeLog::begin(store).await?)
    });
    begun.expect("tables and triggers");
    let services = Services::on_existing(url, 2, Isolation::default()).expect("they start");
    let contest = Contest {
        number: 1,
        writers: WRITERS,
        capacity: 24,
        releases: false,
        services: services.urls(),
    };
    let runtime = runtime();
    let mut running = runtime.block_on(contest.open()).expect("a provider");
    let (event_count, over) = (running.event_count(), AtomicBool::new(false));
    runtime.block_on(async {
        let killing = async {
            while event_count() < EVENTS_BEFORE_KILL && !over.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::task::block_in_place(kill);
        };
        let writing = async {
            let written = running.run_writers().await;
            over.store(true, Ordering::SeqCst);
            written
        };
        let (written, ()) = tokio::join!(writing, killing);
        written.expect("every request finishes");
    });
    let path = format!("/allocations/{}", consumer_uuid(1, 0));
    // The processes of the server do not end at the same time.
    let begun = std::time::Instant::now();
    loop {
        let away = runtime.block_on(ask(&contest.services[0], Method::GET, &path, &Value::Null));
        let status = away.expect("an answer").status().as_u16();
        if status == 503 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "still {status}");
        std::thread::sleep(Duration::from_millis(50));
    }
    start_again();
    let mut history = runtime.block_on(running.claim_remaining(&contest.services));
    let last = history.events.last().and_then(|event| event.answer());
    assert!(
        matches!(last, Some(ContestAnswer::Seen { .. })),
        "it does not serve again: {last:?}"
    );
    for event in &mut history.events {
        if let Some(ContestAnswer::Failed(status)) = event.answer() {
            // The server is down, or it is unknown whether it committed.
            assert!([500, 503].contains(status), "{event:?}");
            event.answered = None;
        }
    }
    let is_done = |event: &Event| event.answer() == Some(&ContestAnswer::Done);
    assert!(history.events.iter().any(is_done), "no claim succeeded");
    let change_log = with_database(url, async |store| {
        Ok(ProviderChangeLog::of(store, contest.number, contest.consumers()).await?)
    });
    let order = place(&history, &change_log.expect("the database is there"));
    let order = order.unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(verify(&history, &order), Verdict::Linearizable);
}

#[test]
fn an_outage_of_postgresql_during_many_claims_is_survived() {
    let server = Arc::new(Postgres::start().expect("it starts"));
    let database = server.create().expect("a database");
    check_outage(
        &database.url(),
        || server.kill(),
        || server.start_again().expect("it starts again"),
    );
}

#[test]
fn an_outage_of_mariadb_during_many_claims_is_survived() {
    let server = Arc::new(MariaDb::start().expect("it starts"));
    let database = server.create().expect("a database");
    check_outage(
        &database.url(),
        || server.kill(),
        || server.start_again().expect("it starts again"),
    );
}

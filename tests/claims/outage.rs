//! The database server is stopped and restarted while writers claim the last units. Each request must be answered, with
//! 503 or normally. Afterwards all acknowledged claims must exist, and the services must continue.

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

fn outlived(url: &str, kill: impl FnOnce(), start_again: impl FnOnce()) {
    let begun = with_database(url, async |store| {
        let prepared = berth_placement::prepare(store).await;
        prepared.map_err(|error| ServicesError::Database(error.to_string()))?;
        Ok(ProviderChangeLog::begin(store).await?)
    });
    begun.expect("tables and triggers");
    let services = Services::on_existing(url, 2, Isolation::default()).expect("they start");
    let contest = Contest {
        number: 1,
        writers: 32,
        capacity: 24,
        releases: false,
        services: services.urls(),
    };
    let runtime = runtime();
    let mut field = runtime.block_on(contest.open()).expect("a provider");
    // By what has been asked and answered, not by time: when all have asked, and some were answered.
    let (moments, over) = (field.moments(), AtomicBool::new(false));
    runtime.block_on(async {
        let killing = async {
            while moments() < 48 && !over.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::task::block_in_place(kill);
        };
        let rushing = async {
            let rushed = field.rush().await;
            over.store(true, Ordering::SeqCst);
            rushed
        };
        let (rushed, ()) = tokio::join!(rushing, killing);
        rushed.expect("every request finishes");
    });
    let path = format!("/allocations/{}", consumer_uuid(1, 0));
    // The server's last process may end a moment after its first.
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
    let mut history = runtime.block_on(field.finish(&contest.services));
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
    let testimony = with_database(url, async |store| {
        Ok(ProviderChangeLog::of(store, contest.number, contest.consumers()).await?)
    });
    let order = place(&history, &testimony.expect("the database is there"));
    let order = order.unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(verify(&history, &order), Verdict::Linearizable);
}

#[test]
fn an_outage_of_postgresql_during_many_claims_is_survived() {
    let server = Arc::new(Postgres::start().expect("it starts"));
    let database = server.create().expect("a database");
    outlived(
        &database.url(),
        || server.kill(),
        || server.start_again().expect("it starts again"),
    );
}

#[test]
fn an_outage_of_mariadb_during_many_claims_is_survived() {
    let server = Arc::new(MariaDb::start().expect("it starts"));
    let database = server.create().expect("a database");
    outlived(
        &database.url(),
        || server.kill(),
        || server.start_again().expect("it starts again"),
    );
}

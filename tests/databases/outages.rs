//! Behaviour of the store when the database server fails.

use std::error::Error as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use berth_store::{
    Disposition, Location, OpenError, Retryable as _, SqlError, SqlOptions, SqlStore, SqlTimestamp,
    Statement, Transaction, Value, Work,
};
use berth_tests::peer::{MariaDb, Postgres};
use std::sync::Arc;
use tokio::sync::Barrier;

use crate::databases::test_database::TestDatabase;
use crate::databases::work::{Execute, count, in_time, named};

/// On a server of its own: others share one.
fn alone(place: &str) -> TestDatabase {
    match place {
        "postgres" => {
            TestDatabase::Postgres(Arc::new(Postgres::start().unwrap()).create().unwrap())
        }
        _ => TestDatabase::MariaDb(Arc::new(MariaDb::start().unwrap()).create().unwrap()),
    }
}

fn quick() -> SqlOptions {
    SqlOptions {
        acquire_timeout: Duration::from_secs(3),
        connect_timeout: Duration::from_secs(2),
        attempts: 3,
        ..SqlOptions::default()
    }
}

/// Writes, and waits until the server was killed in the first run.
struct InterruptedWrite {
    wrote: Barrier,
    killed: Barrier,
    runs: AtomicU32,
}

impl Work for InterruptedWrite {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.insert(named(SqlTimestamp::now().to_string()).0, "id")
            .await?;
        if self.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            self.wrote.wait().await;
            self.killed.wait().await;
        }
        tx.insert(named(SqlTimestamp::now().to_string()).0, "id")
            .await?;
        Ok(())
    }
}

async fn a_killed_server_leaves_nothing_half_and_the_work_is_run_again(place: TestDatabase) {
    let store = place.store_with(&quick()).await;
    store.write(&named("a")).await.unwrap();
    let work = InterruptedWrite {
        wrote: Barrier::new(2),
        killed: Barrier::new(2),
        runs: AtomicU32::new(0),
    };
    let killing = async {
        work.wrote.wait().await;
        place.kill_server();
        place.start_server_again();
        work.killed.wait().await;
    };
    let (written, ()) = in_time(async { tokio::join!(store.write(&work), killing) }).await;
    written.unwrap();
    assert_eq!(
        work.runs.load(Ordering::SeqCst),
        2,
        "the whole of it, once again"
    );
    assert_eq!(count(&store).await, 3);
}

async fn a_stopped_server_is_reported_and_found_again(place: TestDatabase) {
    let store = place.store_with(&quick()).await;
    store.write(&named("a")).await.unwrap();
    place.kill_server();
    let refused = store.rows(Statement::new("SELECT id FROM things")).await;
    let error = refused.err().unwrap();
    assert!(matches!(error, SqlError::Unreachable(_)), "{error:?}");
    assert!(
        error.hint().contains("database server runs"),
        "{}",
        error.hint()
    );
    assert!(error.will_pass());
    let refused = store.write(&named("b")).await.unwrap_err();
    assert!(matches!(refused, SqlError::Unreachable(_)), "{refused:?}");
    let opened = SqlStore::open(&place.location(), &quick()).await;
    let error = opened.unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::Server {
                source: SqlError::Unreachable(_),
                ..
            }
        ),
        "{error:?}"
    );
    place.start_server_again();
    assert_eq!(count(&store).await, 1);
    store.write(&named("b")).await.unwrap();
    assert_eq!(count(&store).await, 2);
}

/// A proxy that lets a COMMIT through, and not its answer, is the one way to an unknown outcome.
async fn a_connection_lost_at_commit_leaves_the_outcome_unknown(place: TestDatabase) {
    let store = place.store().await;
    let proxy = crate::databases::proxy::Proxy::start(&place).await;
    let through = SqlStore::open(&proxy.location(&place), &quick())
        .await
        .unwrap();
    proxy.cut_at_commit();
    let outcome = through.write(&named("a")).await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, SqlError::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(error.disposition(), Disposition::Fatal);
    assert!(error.source().is_some());
    // It was: and once, for it was not run again.
    assert_eq!(count(&store).await, 1);
}

async fn statements_that_take_too_long_are_ended(place: TestDatabase) {
    let options = SqlOptions {
        statement_timeout: Duration::from_secs(1),
        ..quick()
    };
    let store = place.store_with(&options).await;
    let sleep = match place {
        TestDatabase::Postgres(_) => "SELECT CAST(pg_sleep(30) AS TEXT)",
        _ => "SELECT SLEEP(30)",
    };
    let error = store.rows(Statement::new(sleep)).await.err().unwrap();
    assert!(matches!(error, SqlError::TookTooLong(_)), "{error:?}");
    assert_eq!(count(&store).await, 0);
}

async fn an_exhausted_pool_is_reported_as_busy(place: TestDatabase) {
    let options = SqlOptions {
        connections: 2,
        ..quick()
    };
    let store = place.store_with(&options).await;
    let _one = store.read().await.unwrap();
    let _other = store.read().await.unwrap();
    let error = store.rows(Statement::new("SELECT 1")).await.err().unwrap();
    assert!(matches!(error, SqlError::Busy(_)), "{error:?}");
}

async fn a_dropped_transaction_gives_its_connection_back(place: TestDatabase) {
    let options = SqlOptions {
        connections: 2,
        ..quick()
    };
    let store = place.store_with(&options).await;
    for _ in 0..20 {
        let mut tx = store.read().await.unwrap();
        tx.row(Statement::new("SELECT COUNT(*) FROM things"))
            .await
            .unwrap();
    }
    store
        .write(&Execute(Statement::new("DELETE FROM things")))
        .await
        .unwrap();
}

/// A returned connection is pinged, and closing the pool waits for that.
async fn a_silent_server_does_not_block_closing(place: TestDatabase) {
    let proxy = crate::databases::proxy::Proxy::start(&place).await;
    let opened = SqlStore::open(&proxy.location(&place), &quick()).await;
    let through = opened.unwrap();
    let sleep = match place {
        TestDatabase::Postgres(_) => "SELECT CAST(pg_sleep(3) AS TEXT)",
        _ => "SELECT SLEEP(3)",
    };
    let silence = async {
        // It has asked, and is not answered yet.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        proxy.fall_silent();
    };
    let (answered, ()) = tokio::join!(through.rows(Statement::new(sleep)), silence);
    answered.unwrap();
    in_time(through.close()).await;
}

/// Two rows or none.
struct InsertPair;

impl Work for InsertPair {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.insert(named(Value::Null).0, "id").await?;
        tx.rows(Statement::new("SELECT id, name FROM things LIMIT 100"))
            .await?;
        tx.insert(named(Value::Null).0, "id").await?;
        Ok(())
    }
}

/// A client that hangs up drops the future that works for it, wherever that is.
async fn abandoned_work_leaves_no_partial_change_and_no_broken_connection(place: TestDatabase) {
    let options = SqlOptions {
        connections: 3,
        ..SqlOptions::default()
    };
    let store = place.store_with(&options).await;
    let mut crowd = Vec::new();
    for n in 0..300_u64 {
        let store = store.clone();
        crowd.push(tokio::spawn(async move {
            let patience = Duration::from_micros(n * 37 % 9_000);
            let ended = tokio::time::timeout(patience, store.write(&InsertPair)).await;
            ended.is_ok_and(|ended| ended.is_ok())
        }));
        if n % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
    let mut acknowledged = 0;
    for one in crowd {
        acknowledged += i64::from(one.await.unwrap());
    }
    for _ in 0..10 {
        store.write(&InsertPair).await.unwrap();
        acknowledged += 1;
    }
    let rows = count(&store).await;
    assert_eq!(rows % 2, 0, "pairs only");
    assert!(
        rows >= acknowledged * 2,
        "{rows} rows, {acknowledged} pairs acknowledged"
    );
}

async fn a_refused_port_is_reported(scheme: &str) {
    let port = berth_tests::port::free_port().unwrap();
    let url = format!("{scheme}://placement:very-secret@127.0.0.1:{port}/placement");
    let location: Location = url.parse().unwrap();
    let error = SqlStore::open(&location, &quick()).await.unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::Server {
                source: SqlError::Unreachable(_),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .contains(&format!("127.0.0.1:{port}/placement")),
        "{error}"
    );
}

macro_rules! on_a_server_of_its_own {
    ($($name:ident)*) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() { super::$name(super::alone("postgres")).await; })*
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() { super::$name(super::alone("mariadb")).await; })*
        }
    };
}

on_a_server_of_its_own! {
    a_killed_server_leaves_nothing_half_and_the_work_is_run_again
    a_stopped_server_is_reported_and_found_again
}

mod everywhere {
    use super::abandoned_work_leaves_no_partial_change_and_no_broken_connection;
    on_all! {
        abandoned_work_leaves_no_partial_change_and_no_broken_connection
    }
}

mod shared {
    use super::{
        a_connection_lost_at_commit_leaves_the_outcome_unknown,
        a_dropped_transaction_gives_its_connection_back, a_silent_server_does_not_block_closing,
        an_exhausted_pool_is_reported_as_busy, statements_that_take_too_long_are_ended,
    };
    on_servers! {
        a_connection_lost_at_commit_leaves_the_outcome_unknown
        a_dropped_transaction_gives_its_connection_back
        an_exhausted_pool_is_reported_as_busy
        a_silent_server_does_not_block_closing
        statements_that_take_too_long_are_ended
    }
}

#[tokio::test]
async fn a_refused_port_is_reported_by_name() {
    a_refused_port_is_reported("postgresql").await;
    a_refused_port_is_reported("mysql").await;
}

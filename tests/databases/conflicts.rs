//! Conflicts of concurrent writers on each database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use berth_store::{Isolation, SqlError, SqlOptions, SqlStore, Statement, Transaction, Value, Work};
use tokio::sync::Barrier;

use crate::databases::test_database::TestDatabase;
use crate::databases::work::{Insert, WorkError, ask, count, in_time, named, one};

mod everywhere {
    use super::{
        a_failed_run_leaves_no_row, a_taken_key_is_reported_as_duplicate,
        a_transaction_reads_one_consistent_state,
    };
    on_all! {
        a_failed_run_leaves_no_row
        a_taken_key_is_reported_as_duplicate
        a_transaction_reads_one_consistent_state
    }
}

on_servers! {
    a_deadlock_runs_the_whole_of_one_again
    no_update_is_lost_at_repeatable_read
    no_update_is_lost_at_read_committed
    not_one_unit_too_many_is_claimed
    a_lock_timeout_is_a_conflict
    a_locked_row_is_read_in_its_current_state
    a_statement_after_a_failed_one_is_refused_where_the_server_would
}

/// Fails this number of times, after its write.
struct FailingWrite(AtomicU32);

impl Work for FailingWrite {
    type Output = i64;
    type Error = WorkError;

    async fn run(&self, tx: &mut Transaction) -> Result<i64, WorkError> {
        let id = tx.insert(named("a").0, "id").await?;
        let left = self.0.load(Ordering::Relaxed);
        if left > 0 {
            self.0.store(left - 1, Ordering::Relaxed);
            return Err(if left > 50 {
                WorkError::Never
            } else {
                WorkError::Outrun
            });
        }
        Ok(id)
    }
}

async fn a_failed_run_leaves_no_row(place: TestDatabase) {
    let store = place.store().await;
    let never = store.write(&FailingWrite(AtomicU32::new(51))).await;
    assert!(matches!(never, Err(WorkError::Never)), "{never:?}");
    assert_eq!(count(&store).await, 0);
    let often = FailingWrite(AtomicU32::new(50));
    assert!(matches!(store.write(&often).await, Err(WorkError::Outrun)));
    assert_eq!(often.0.load(Ordering::Relaxed), 40, "ten attempts");
    store.write(&FailingWrite(AtomicU32::new(3))).await.unwrap();
    assert_eq!(count(&store).await, 1);
}

async fn a_taken_key_is_reported_as_duplicate(place: TestDatabase) {
    let store = place.store().await;
    store.write(&named("a")).await.unwrap();
    let again = store.write(&named("a")).await;
    assert!(matches!(again, Err(SqlError::Duplicate(_))), "{again:?}");
    let orphan = "INSERT INTO parts (thing_id, used) VALUES (77, 1)";
    let orphan = store.write(&Insert(Statement::new(orphan))).await;
    assert!(matches!(orphan, Err(SqlError::Constraint(_))), "{orphan:?}");
    store.write(&named("b")).await.unwrap();
}

async fn a_transaction_reads_one_consistent_state(place: TestDatabase) {
    let options = SqlOptions {
        isolation: Isolation::ReadCommitted,
        ..SqlOptions::default()
    };
    let store = place.store_with(&options).await;
    let mut reading = store.read().await.unwrap();
    let all = || Statement::new("SELECT id FROM things");
    assert!(reading.rows(all()).await.unwrap().is_empty());
    store.write(&named("a")).await.unwrap();
    assert!(reading.rows(all()).await.unwrap().is_empty());
    drop(reading);
    assert_eq!(count(&store).await, 1);
}

/// Locks two rows, one after the other, when both writers hold their first.
struct LockTwoRows {
    first: i64,
    second: i64,
    both: Barrier,
    runs: AtomicU32,
}

struct LockTwoRowsMeeting(Arc<LockTwoRows>, i64, i64);

impl Work for LockTwoRowsMeeting {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let Self(opposite, first, second) = self;
        let raise = || Statement::new("UPDATE things SET generation = generation + 1 WHERE id = ?");
        tx.execute(raise().bind(*first)).await?;
        if opposite.runs.fetch_add(1, Ordering::SeqCst) < 2 {
            opposite.both.wait().await;
        }
        tx.execute(raise().bind(*second)).await?;
        Ok(())
    }
}

async fn a_deadlock_runs_the_whole_of_one_again(place: TestDatabase) {
    let store = place.store().await;
    let first = store.write(&named("a")).await.unwrap();
    let second = store.write(&named("b")).await.unwrap();
    let opposite = Arc::new(LockTwoRows {
        first,
        second,
        both: Barrier::new(2),
        runs: AtomicU32::new(0),
    });
    let one_way = LockTwoRowsMeeting(Arc::clone(&opposite), opposite.first, opposite.second);
    let other_way = LockTwoRowsMeeting(Arc::clone(&opposite), opposite.second, opposite.first);
    let both = async { tokio::join!(store.write(&one_way), store.write(&other_way)) };
    let (one, other) = in_time(both).await;
    one.unwrap();
    other.unwrap();
    assert!(
        opposite.runs.load(Ordering::SeqCst) >= 3,
        "one was run again"
    );
    let row = ask(
        &store,
        "SELECT MIN(generation), MAX(generation) FROM things",
    )
    .await;
    assert_eq!((row.int(0).unwrap(), row.int(1).unwrap()), (2, 2));
}

/// Reads a generation and raises it by compare and swap, as every write of Placement's does.
struct CompareAndSwap;

impl Work for CompareAndSwap {
    type Output = ();
    type Error = WorkError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), WorkError> {
        let read = Statement::new("SELECT generation FROM things WHERE id = 1");
        let generation = tx.row(read).await?.unwrap().int(0)?;
        tokio::task::yield_now().await;
        let swap = "UPDATE things SET generation = ? WHERE id = 1 AND generation = ?";
        let swap = Statement::new(swap).bind(generation + 1).bind(generation);
        match tx.execute(swap).await?.rows_affected {
            1 => Ok(()),
            _ => Err(WorkError::Outrun),
        }
    }
}

async fn no_update_is_lost(place: TestDatabase, isolation: Isolation) {
    const WRITERS: i64 = 8;
    const EACH: i64 = 25;
    let options = SqlOptions {
        isolation,
        attempts: 1_000,
        ..SqlOptions::default()
    };
    let store = place.store_with(&options).await;
    store.write(&named("a")).await.unwrap();
    // A second store stands for another process.
    let other = place.open(&options).await;
    let writers = (0..WRITERS).map(|n| {
        let store: SqlStore = if n % 2 == 0 {
            store.clone()
        } else {
            other.clone()
        };
        tokio::spawn(async move {
            for _ in 0..EACH {
                store.write(&CompareAndSwap).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let row = ask(&store, "SELECT generation FROM things").await;
    assert_eq!(row.int(0).unwrap(), WRITERS * EACH);
}

async fn no_update_is_lost_at_repeatable_read(place: TestDatabase) {
    no_update_is_lost(place, Isolation::RepeatableRead).await;
}

async fn no_update_is_lost_at_read_committed(place: TestDatabase) {
    no_update_is_lost(place, Isolation::ReadCommitted).await;
}

/// Takes one of six units of a thing, where one is left: the thing is locked, its parts are counted, and it is raised.
struct ClaimUnit(i64);

impl Work for ClaimUnit {
    type Output = ();
    type Error = WorkError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), WorkError> {
        let lock = tx.dialect().for_update();
        let read = format!("SELECT generation FROM things WHERE id = ?{lock}");
        let read = Statement::recurring(read).bind(self.0);
        let generation = tx.row(read).await?.unwrap().int(0)?;
        let used = "SELECT COALESCE(SUM(used), 0) FROM parts WHERE thing_id = ?";
        let used = tx.row(Statement::new(used).bind(self.0)).await?;
        if used.unwrap().int(0)? >= 6 {
            return Err(WorkError::Never);
        }
        let claim = Statement::new("INSERT INTO parts (thing_id, used) VALUES (?, 1)");
        tx.insert(claim.bind(self.0), "id").await?;
        let swap = "UPDATE things SET generation = ? WHERE id = ? AND generation = ?";
        let swap = Statement::new(swap).bind(generation + 1).bind(self.0);
        match tx.execute(swap.bind(generation)).await?.rows_affected {
            1 => Ok(()),
            _ => Err(WorkError::Outrun),
        }
    }
}

async fn not_one_unit_too_many_is_claimed(place: TestDatabase) {
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
        let options = SqlOptions {
            isolation,
            attempts: 1_000,
            ..SqlOptions::default()
        };
        let store = match isolation {
            Isolation::RepeatableRead => place.store_with(&options).await,
            Isolation::ReadCommitted => place.open(&options).await,
        };
        // A second store stands for another process.
        let other = place.open(&options).await;
        for _ in 0..8 {
            let thing = store.write(&named(Value::Null)).await.unwrap();
            let claims = (0..16).map(|n| {
                let store = if n % 2 == 0 {
                    store.clone()
                } else {
                    other.clone()
                };
                tokio::spawn(async move { store.write(&ClaimUnit(thing)).await })
            });
            let mut claimed = 0;
            for claim in claims.collect::<Vec<_>>() {
                match claim.await.unwrap() {
                    Ok(()) => claimed += 1,
                    Err(WorkError::Never) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            let sum = "SELECT COALESCE(SUM(used), 0) FROM parts WHERE thing_id = ?";
            let sum = one(&store, Statement::new(sum).bind(thing)).await;
            assert_eq!((sum.int(0).unwrap(), claimed), (6, 6), "{isolation:?}");
        }
        store.close().await;
        other.close().await;
    }
}

/// Locks the row and keeps it until a signal.
struct HoldLock(Barrier, Barrier);

impl Work for HoldLock {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let sql = format!(
            "SELECT id FROM things WHERE id = 1{}",
            tx.dialect().for_update()
        );
        tx.row(Statement::new(sql)).await?;
        self.0.wait().await;
        self.1.wait().await;
        tx.execute(Statement::new(
            "UPDATE things SET generation = 5 WHERE id = 1",
        ))
        .await?;
        Ok(())
    }
}

async fn a_lock_timeout_is_a_conflict(place: TestDatabase) {
    let options = SqlOptions {
        busy_timeout: Duration::from_secs(1),
        attempts: 2,
        ..SqlOptions::default()
    };
    let store = place.store_with(&options).await;
    store.write(&named("a")).await.unwrap();
    let hold = HoldLock(Barrier::new(2), Barrier::new(2));
    let refused = async {
        hold.0.wait().await;
        let refused = store.write(&CompareAndSwap).await;
        hold.1.wait().await;
        refused
    };
    let (held, refused) = in_time(async { tokio::join!(store.write(&hold), refused) }).await;
    held.unwrap();
    let Err(WorkError::Sql(SqlError::Conflict(_))) = refused else {
        panic!("{refused:?}");
    };
    let row = ask(&store, "SELECT generation FROM things").await;
    assert_eq!(row.int(0).unwrap(), 5);
}

/// Locks the row first of all and then reads.
struct LockThenRead;

impl Work for LockThenRead {
    type Output = i64;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<i64, SqlError> {
        let lock = tx.dialect().for_update();
        let sql = format!("SELECT generation FROM things WHERE id = 1{lock}");
        tx.row(Statement::new(sql))
            .await?
            .map_or(Ok(-1), |row| row.int(0))
    }
}

async fn a_locked_row_is_read_in_its_current_state(place: TestDatabase) {
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
        let options = SqlOptions {
            isolation,
            ..SqlOptions::default()
        };
        let store = match isolation {
            Isolation::RepeatableRead => place.store_with(&options).await,
            Isolation::ReadCommitted => place.open(&options).await,
        };
        // Taken the second time.
        store.write(&named("a")).await.ok();
        let hold = HoldLock(Barrier::new(2), Barrier::new(2));
        let looking = async {
            hold.0.wait().await;
            let looking = tokio::spawn({
                let store = store.clone();
                async move { store.write(&LockThenRead).await }
            });
            hold.1.wait().await;
            looking.await.unwrap()
        };
        let (held, seen) = in_time(async { tokio::join!(store.write(&hold), looking) }).await;
        held.unwrap();
        assert_eq!(seen.unwrap(), 5, "{isolation:?}");
        store.close().await;
    }
}

/// Continues after an error that it ignores.
struct IgnoreError;

impl Work for IgnoreError {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let insert = || Statement::new("INSERT INTO things (name) VALUES ('a')");
        let refused = tx.execute(insert()).await;
        assert!(
            matches!(refused, Err(SqlError::Duplicate(_))),
            "{refused:?}"
        );
        tx.execute(Statement::new("INSERT INTO things (name) VALUES ('b')"))
            .await?;
        Ok(())
    }
}

async fn a_statement_after_a_failed_one_is_refused_where_the_server_would(place: TestDatabase) {
    let store = place.store().await;
    store.write(&named("a")).await.unwrap();
    let went = store.write(&IgnoreError).await;
    match place {
        TestDatabase::Postgres(_) => {
            assert!(matches!(went, Err(SqlError::Ended { .. })), "{went:?}");
            assert_eq!(count(&store).await, 1);
        }
        _ => {
            went.unwrap();
            assert_eq!(count(&store).await, 2);
        }
    }
}

/// PostgreSQL may find out only at COMMIT.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_conflict_at_commit_runs_the_whole_again() {
    let place = TestDatabase::postgres();
    let store = place.store().await;
    place.query(
        "create sequence tries; grant all on sequence tries to placement;
         create function late() returns trigger language plpgsql as $$ begin
             if nextval('tries') < 3 then raise exception 'not now' using errcode = '40001'; end if;
             return null;
         end $$;
         create constraint trigger late after insert on things deferrable initially deferred for each row execute function late()",
    );
    store.write(&named("a")).await.unwrap();
    assert_eq!(count(&store).await, 1);
    let row = ask(&store, "SELECT last_value FROM tries").await;
    assert_eq!(row.int(0).unwrap(), 3);
}

//! Contests on Berth alone, by database, isolation level, number of processes and of writers.

use std::{env, thread};

use berth_tests::contest::{
    Contest, ContestAnswer, ContestHistory, Isolation, ProviderChangeLog, RowsLocation, Services,
    place,
};

use tokio::runtime::{Builder, Runtime};

use crate::claims::linear::{Verdict, search, verify};
use crate::claims::report::ContestSums;

/// A search without an order to try is given up after so many steps, and counts as nothing.
const STEPS: u64 = 5_000;

pub(crate) fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number, not {text}")))
}

/// What the search came to, or what is not as it must be.
pub(crate) fn judge(
    contest: &Contest,
    history: &ContestHistory,
    testimony: &ProviderChangeLog,
) -> Result<Verdict, String> {
    if !contest.releases {
        let order = place(history, testimony).map_err(|wrong| wrong.to_string())?;
        return match verify(history, &order) {
            Verdict::Linearizable => Ok(Verdict::Linearizable),
            _ => Err("the order by generations is none by the provider's rules".to_owned()),
        };
    }
    for event in &history.events {
        match event.answer() {
            Some(ContestAnswer::Failed(status)) if *status != 503 => {
                return Err(format!("a failure: {event:?}"));
            }
            Some(ContestAnswer::Seen { held, .. })
                if held.values().sum::<u64>() > history.capacity =>
            {
                return Err(format!("too much is held: {event:?}"));
            }
            _ => {}
        }
    }
    match search(history, STEPS) {
        Verdict::Refused => Err("it is not linearizable".to_owned()),
        verdict => Ok(verdict),
    }
}

pub(crate) fn runtime() -> Runtime {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

/// Contests of one kind, one after another; what the database saw is read at their end.
fn contests(
    services: &Services,
    writers: u32,
    from: u64,
    count: u64,
) -> Vec<(Contest, ContestHistory)> {
    let runtime = runtime();
    let held = (from..from + count).map(|number| {
        let contest = Contest {
            number,
            writers,
            // Most find the provider full.
            capacity: 6 + u64::from(writers) / 8,
            releases: number % 4 == 0,
            services: services.urls(),
        };
        let history = runtime.block_on(contest.hold()).expect("a contest");
        (contest, history)
    });
    held.collect()
}

/// One database, by one or several processes.
fn never_a_unit_too_many(at: RowsLocation, processes: usize, isolation: Isolation) -> Vec<String> {
    let count = number("BERTH_CLAIMS_TRIALS");
    let from = number("BERTH_CLAIMS_FROM").unwrap_or(3);
    let mut services = Services::start(at, processes, isolation).expect("services");
    let kinds = [(16, 2, from), (64, 1, from + (1 << 32))];
    // A file is its process's own, so what is in it is read after the process has ended.
    let held =
        kinds.map(|(writers, few, from)| contests(&services, writers, from, count.unwrap_or(few)));
    let mut violations = Vec::new();
    services.stop().expect("they end well");
    for ((writers, ..), held) in kinds.into_iter().zip(held) {
        let mut sum = ContestSums::default();
        for (contest, history) in held {
            let testimony = services.with_database(async |store| {
                Ok(ProviderChangeLog::of(store, contest.number, contest.consumers()).await?)
            });
            let testimony = testimony.expect("the database is there");
            let verdict = judge(&contest, &history, &testimony);
            let verdict = verdict.map_err(|why| format!("contest {}: {why}", contest.number));
            sum.add(&history, &verdict);
        }
        let kind = format!("{at:?}\t{processes}\t{}\t{writers}", isolation.as_str());
        sum.publish(&kind);
        let named = sum.violations().iter();
        violations.extend(named.map(|why| format!("{kind}: {why}")));
        if sum.are_idle() {
            violations.push(format!("{kind}: no claim succeeded"));
        }
        // On a busy machine, requests of the quick run may wait for a connection until their deadline.
        let most = if count.is_some() { 1 } else { 50 };
        if sum.are_away(most) {
            violations.push(format!("{kind}: more than {most} % got 503"));
        }
    }
    violations
}

/// One and four processes at both isolation levels, each kind on a database of its own: they wait for each other more than they
/// work.
fn on_a_server(at: RowsLocation) {
    let violations = thread::scope(|scope| {
        let kinds = [1, 4].into_iter().flat_map(|processes| {
            [Isolation::RepeatableRead, Isolation::ReadCommitted].map(|isolation| {
                scope.spawn(move || never_a_unit_too_many(at, processes, isolation))
            })
        });
        let kinds: Vec<_> = kinds.collect();
        let ended = kinds.into_iter().map(|kind| kind.join().expect("no panic"));
        ended.flatten().collect::<Vec<_>>()
    });
    assert_eq!(violations, [""; 0]);
}

#[test]
fn on_sqlite_never_a_unit_too_many() {
    let violations = never_a_unit_too_many(RowsLocation::Sqlite, 1, Isolation::default());
    assert_eq!(violations, [""; 0]);
}

#[test]
fn on_postgresql_one_and_four_processes_never_give_a_unit_too_many() {
    on_a_server(RowsLocation::Postgres);
}

#[test]
fn on_mariadb_one_and_four_processes_never_give_a_unit_too_many() {
    on_a_server(RowsLocation::MariaDb);
}

//! SIGKILLs of the shipped binary at the requests of its start, against the real Placement: an upgrade with a reshape,
//! a first start, a renamed host, another MIG geometry, unfit devices. After each, the next start must lead to the same state as an
//! undisturbed one.
//!
//! Also SIGKILLs of `berth placement serve` under load (`service`), and of `berth up`, or of a controller and its
//! agents, while servers are created and deleted (`boots`).
//!
//! `BERTH_KILLS` is the number of seeds (20), `BERTH_KILL_SEED_FROM` the first (1), `BERTH_KILL_REPORT` a file for the
//! table.

mod boots;
mod case;
mod contents;
mod report;
mod reshaped;
mod route;
mod scenario;
mod service;
mod stand;
mod tenant;

use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use case::{KillCase, case, places};
use contents::statements;
use report::Report;
use scenario::KillScenario;
use stand::{PreparedScenario, Stand};

/// Each thread has a Placement of its own.
const THREADS: usize = 2;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number, not {text}")))
}

/// Does the work's parts, each on a stand that is free.
fn on_stands<T: Send>(
    stands: &mut [Stand],
    parts: usize,
    work: impl Fn(&mut Stand, usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::default();
    thread::scope(|scope| {
        for stand in stands {
            scope.spawn(|| {
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part >= parts {
                        break;
                    }
                    let value = work(stand, part);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((part, value));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(part, _)| *part);
    done.into_iter().map(|(_, value)| value).collect()
}

#[test]
fn a_start_killed_anywhere_leaves_every_unit_on_its_provider() {
    let from = number("BERTH_KILL_SEED_FROM").or_else(|| number("BERTH_SEED_FROM"));
    let first = from.unwrap_or(1);
    let seeds = number("BERTH_KILLS").unwrap_or(20);
    let mut stands: Vec<Stand> = (0..THREADS).map(|_| Stand::new()).collect();
    let prepared = on_stands(&mut stands, KillScenario::ALL.len(), |stand, scenario| {
        stand.prepare(KillScenario::ALL[scenario])
    });
    let places = places(&prepared);
    let report = Mutex::new(Report::default());
    let parts = usize::try_from(seeds).expect("a number of seeds");
    on_stands(&mut stands, parts, |stand, part| {
        let seed = first + part as u64;
        let case = case(seed, &places, &prepared);
        let struck = strike(stand, &prepared[case.scenario], case);
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        for crossing in struck.kills {
            report.killed(crossing, struck.violations.len());
        }
        if !struck.violations.is_empty() {
            report.failed(
                seed,
                &format!("{case:?}\n    {}", struck.violations.join("\n    ")),
            );
        }
    });
    let report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.publish(places.len(), first, first + seeds.saturating_sub(1));
    assert!(
        report.failures().is_empty(),
        "{}",
        report.failures().join("\n")
    );
}

/// What a case came to.
struct CaseResult {
    /// Where a process was killed.
    kills: Vec<String>,
    violations: Vec<String>,
}

fn strike(stand: &mut Stand, prepared: &PreparedScenario, case: KillCase) -> CaseResult {
    let mut struck = CaseResult {
        kills: Vec::new(),
        violations: Vec::new(),
    };
    let mut compute_id = None;
    stand.put(prepared);
    let starts = [Some(case.kill), case.recovery.kill()];
    for attempt in 0..3 {
        let ended = stand.start(prepared.scenario, |sword| match attempt {
            0 => vec![case.kill.rule_among(&prepared.crossings, sword)],
            1 => case.recovery.rules(sword),
            _ => Vec::new(),
        });
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                struck.violations.push(error);
                return struck;
            }
        };
        compute_id = compute_id.or_else(|| stand.compute_id());
        if ended.outcome.code == 0 {
            break;
        }
        match starts.get(attempt).copied().flatten() {
            Some(kill) if ended.was_killed() => {
                let seen = match attempt {
                    0 => &prepared.crossings,
                    _ => &ended.crossings,
                };
                let crossing = seen.get(kill.request - 1).map_or("?", String::as_str);
                let scenario = prepared.scenario.as_str();
                let moment = kill.moment;
                struck.kills.push(format!("{scenario} {crossing} {moment}"));
            }
            _ => {
                let (code, log) = (ended.outcome.code, &ended.outcome.stderr);
                struck
                    .violations
                    .push(format!("start {attempt} ended with {code}: {log}"));
                return struck;
            }
        }
    }
    if struck.kills.is_empty() {
        struck.violations.push("nothing was killed".to_owned());
    }
    struck
        .violations
        .extend(stand.violations(prepared, compute_id.as_deref()));
    struck
}

#[test]
fn lost_duplicated_and_left_over_units_and_files_are_detected() {
    let mut stand = Stand::new();
    let scenario = KillScenario::ALL[0];
    let prepared = stand.prepare(scenario);
    let id = stand.compute_id();
    let check = |stand: &Stand| stand.violations(&prepared, id.as_deref());
    assert_eq!(check(&stand), Vec::<String>::new());
    let after = statements(&stand.placement);
    for damage in [
        "delete from allocations where id = (select min(id) from allocations)",
        "update allocations set used = used + 1 where id = (select max(id) from allocations)",
        "insert into allocations (resource_provider_id, consumer_id, resource_class_id, used) \
         select resource_provider_id, consumer_id, resource_class_id, used from allocations limit 1",
        "insert into resource_providers (uuid, name, generation, root_provider_id, parent_provider_id) \
         select 'x', 'half-made', 0, id, id from resource_providers where name = 'gpu-01'",
        "update inventories set reserved = 0 where reserved = total",
        "insert into consumers (uuid, project_id, user_id, generation) \
         select 'x', project_id, user_id, 0 from consumers limit 1",
    ] {
        stand
            .placement
            .query(damage)
            .expect("the database takes it");
        assert_ne!(check(&stand), Vec::<String>::new(), "{damage}");
        stand.placement.reset().expect("an empty Placement");
        stand.placement.query(&after).expect("rows that fit");
        assert_eq!(check(&stand), Vec::<String>::new());
    }
    stand.leave(".tmp123");
    assert_eq!(check(&stand).len(), 1);
    stand.leave("compute_id");
    assert_eq!(check(&stand).len(), 2);
}

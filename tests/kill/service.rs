//! A Placement that is killed under load: by SIGKILL at random times, while sixteen writers claim the last units of a
//! provider and three hosts are reshaped back and forth. After each kill it is restarted: all acknowledged changes must
//! exist, none may be partial, and the rows must be consistent.
//!
//!   BERTH_SERVICE_KILLS=200   the number of kills on each database (8)
//!   BERTH_SERVICE_KILLS_FROM=1   the first seed
//!   BERTH_SERVICE_KILLS_REPORT=FILE   a file to which a line is added for each database, for `make soak`

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs};

use berth_client::JitterRng;
use berth_store::Statement;
use berth_tests::contest::{
    Contest, ContestAnswer, ContestHistory, Isolation, ProviderChangeLog, RowsLocation, Services,
    ServicesError, place,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::kill::number;
use crate::kill::reshaped::ReshapedHost;

/// Rows that do not fit each other: whatever one of these finds is wrong.
const MISFITS: [(&str, &str); 9] = [
    (
        "allocations of no provider",
        "SELECT COUNT(*) FROM allocations a LEFT JOIN resource_providers p ON p.id = a.resource_provider_id \
         WHERE p.id IS NULL",
    ),
    (
        "allocations of no consumer",
        "SELECT COUNT(*) FROM allocations a LEFT JOIN consumers c ON c.uuid = a.consumer_id WHERE c.id IS NULL",
    ),
    (
        "consumers without an allocation",
        "SELECT COUNT(*) FROM consumers c LEFT JOIN allocations a ON a.consumer_id = c.uuid WHERE a.id IS NULL",
    ),
    (
        "allocations without an inventory",
        "SELECT COUNT(*) FROM allocations a LEFT JOIN inventories i ON i.resource_provider_id = a.resource_provider_id \
         AND i.resource_class_id = a.resource_class_id WHERE i.id IS NULL",
    ),
    (
        "allocations that are there twice",
        "SELECT COUNT(*) FROM (SELECT 1 AS it FROM allocations \
         GROUP BY consumer_id, resource_provider_id, resource_class_id HAVING COUNT(*) > 1) twice",
    ),
    (
        "inventories that are overdrawn",
        "SELECT COUNT(*) FROM (SELECT i.id FROM inventories i JOIN allocations a ON \
         a.resource_provider_id = i.resource_provider_id AND a.resource_class_id = i.resource_class_id \
         GROUP BY i.id, i.total, i.reserved, i.allocation_ratio \
         HAVING SUM(a.used) > (i.total - i.reserved) * i.allocation_ratio) overdrawn",
    ),
    (
        "inventories of no provider",
        "SELECT COUNT(*) FROM inventories i LEFT JOIN resource_providers p ON p.id = i.resource_provider_id \
         WHERE p.id IS NULL",
    ),
    (
        "consumers of no project or user",
        "SELECT COUNT(*) FROM consumers c LEFT JOIN projects p ON p.id = c.project_id \
         LEFT JOIN users u ON u.id = c.user_id WHERE p.id IS NULL OR u.id IS NULL",
    ),
    (
        "generations that are not the last that was written down",
        "SELECT COUNT(*) FROM resource_providers p JOIN (SELECT provider, MAX(amount) AS last FROM testimony \
         WHERE consumer IS NULL GROUP BY provider) t ON t.provider = p.id WHERE t.last <> p.generation",
    ),
];

/// How often is looked whether the sessions of the dead are gone: two minutes, and a lock is waited for half of one.
const CHECKS: u32 = 12_000;
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// What came of the kills.
#[derive(Debug, Default)]
struct KillTotals {
    kills: u64,
    acknowledged: u64,
    unknown: u64,
    violations: Vec<String>,
}

/// Services that are killed, with what they have to hold.
struct KilledServices {
    services: Services,
    hosts: Vec<ReshapedHost>,
    runtime: Runtime,
    sums: KillTotals,
}

impl KilledServices {
    fn new(at: RowsLocation, processes: usize) -> Self {
        let services = Services::start(at, processes, Isolation::default()).expect("services");
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let urls = services.urls();
        let made = |number| runtime.block_on(ReshapedHost::make(number, &urls[0]));
        let hosts = (1..=3).map(|number| made(number).expect("a host"));
        Self {
            hosts: hosts.collect(),
            services,
            runtime,
            sums: KillTotals::default(),
        }
    }

    /// One kill, and the start after it.
    fn strike(&mut self, seed: u64) -> Result<(), String> {
        let rng = JitterRng::seeded(seed);
        let urls = self.services.urls();
        let contest = Contest {
            number: seed,
            writers: 16,
            capacity: 12,
            releases: false,
            services: urls.clone(),
        };
        let mut running = self.runtime.block_on(contest.open())?;
        // If there are several services, one of them may survive.
        let spared = match urls.len() {
            1 => urls.len(),
            several => (rng.next() % (several as u64 + 1)) as usize,
        };
        // The kill waits for a number of events, not for a time: it comes at the same place on a slow machine.
        let (kill_after, event_count) = (1 + rng.next() % 90, running.event_count());
        let over = AtomicBool::new(false);
        // The first kill waits until a reshape was done, so that each run contains one.
        let waits = self.sums.kills == 0;
        let moved = Arc::new(AtomicBool::new(false));
        let services = &mut self.services;
        let hosts = std::mem::take(&mut self.hosts);
        let (written, hosts) = self.runtime.block_on(async {
            let mut reshaping = JoinSet::new();
            for mut host in hosts {
                let (urls, moved) = (urls.clone(), Arc::clone(&moved));
                reshaping.spawn(async move {
                    host.move_to_and_fro(&urls, &moved).await;
                    host
                });
            }
            let killing = async {
                while event_count() < kill_after && !over.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                // Each host holds a reference; the last one is this task's.
                while waits && !moved.load(Ordering::SeqCst) && Arc::strong_count(&moved) > 1 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tokio::task::block_in_place(|| {
                    for which in (0..urls.len()).filter(|which| *which != spared) {
                        services.kill(which);
                    }
                });
            };
            let writing = async {
                let written = running.run_writers().await;
                over.store(true, Ordering::SeqCst);
                written
            };
            let (written, ()) = tokio::join!(writing, killing);
            (written, reshaping.join_all().await)
        });
        self.hosts = hosts;
        written?;
        self.sums.kills += 1;
        self.settle()?;
        self.services
            .start_again()
            .map_err(|error| error.to_string())?;
        let urls = self.services.urls();
        let history = self.runtime.block_on(running.claim_remaining(&urls));
        self.runtime.block_on(async {
            for host in &mut self.hosts {
                host.check(&urls[0]).await?;
            }
            Ok::<(), String>(())
        })?;
        self.services.stop().map_err(|error| error.to_string())?;
        self.judge(&contest, &history)?;
        self.services
            .start_again()
            .map_err(|error| error.to_string())
    }

    /// Stops the surviving processes, and lets the server finish the statements of the killed ones.
    fn settle(&mut self) -> Result<(), String> {
        for which in 0..self.services.urls().len() {
            self.services.kill(which);
        }
        let waited = self.services.with_database(async |store| {
            for _ in 0..CHECKS {
                let left = store.other_sessions().await?.seen;
                if left.is_empty() {
                    return Ok(Vec::new());
                }
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
            Ok(store.other_sessions().await?.seen)
        });
        let left = waited.map_err(|error| error.to_string())?;
        match left.is_empty() {
            true => Ok(()),
            false => {
                let left: Vec<_> = left.iter().map(ToString::to_string).collect();
                Err(format!("sessions of the dead stay: {}", left.join(", ")))
            }
        }
    }

    /// Checks the database, while no service uses it.
    fn judge(&mut self, contest: &Contest, history: &ContestHistory) -> Result<(), String> {
        for event in &history.events {
            self.sums.acknowledged += u64::from(event.answer() == Some(&ContestAnswer::Done));
            self.sums.unknown += u64::from(event.is_unknown());
        }
        let read = self.services.with_database(async |store| {
            let mut found = Vec::new();
            for (what, sql) in MISFITS {
                let rows = store.rows(Statement::new(sql)).await?;
                let count = rows.first().map_or(Ok(0), |row| row.int(0))?;
                if count != 0 {
                    found.push(format!("{count} {what}"));
                }
            }
            let testimony =
                ProviderChangeLog::of(store, contest.number, contest.consumers()).await?;
            Ok::<_, ServicesError>((found, testimony))
        });
        let (found, testimony) = read.map_err(|error| error.to_string())?;
        if !found.is_empty() {
            return Err(found.join(", "));
        }
        place(history, &testimony).map_err(|wrong| wrong.to_string())?;
        Ok(())
    }
}

fn killed_at_random(at: RowsLocation, processes: usize) {
    let count = number("BERTH_SERVICE_KILLS").unwrap_or(8);
    let from = number("BERTH_SERVICE_KILLS_FROM").unwrap_or(1);
    let mut struck = KilledServices::new(at, processes);
    for seed in from..from + count {
        if let Err(why) = struck.strike(seed) {
            struck.sums.violations.push(format!("seed {seed}: {why}"));
            // What is wrong stays, and would be found again.
            break;
        }
    }
    let reshapes: u64 = struck.hosts.iter().map(ReshapedHost::done).sum();
    let sums = struck.sums;
    let line = format!(
        "{at:?}\t{processes}\t{}\t{}\t{}\t{}\t{}\n",
        sums.kills,
        sums.acknowledged,
        reshapes,
        sums.unknown,
        sums.violations.len()
    );
    let _ = std::io::stdout().write_all(line.as_bytes());
    if let Some(file) = env::var_os("BERTH_SERVICE_KILLS_REPORT") {
        let file = fs::File::options().create(true).append(true).open(file);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("the report's file can be written");
    }
    assert_eq!(sums.violations, [""; 0]);
    // Kills of those who do nothing show nothing.
    assert!(
        sums.kills == 0 || sums.acknowledged > 0,
        "no claim was done: {line}"
    );
    assert!(
        sums.kills == 0 || reshapes > 0,
        "no reshape was done: {line}"
    );
}

#[test]
fn a_placement_on_sqlite_killed_under_load_keeps_acknowledged_writes_and_no_partial_ones() {
    killed_at_random(RowsLocation::Sqlite, 1);
}

#[test]
fn two_placements_on_postgresql_killed_under_load_keep_acknowledged_writes() {
    killed_at_random(RowsLocation::Postgres, 2);
}

//! The same checks on OpenStack's own Placement, which overallocates when several of its workers write: the checks must
//! detect it. In addition, Berth's Placement on the same tables at the same time: it must never overallocate.

use std::{env, fs};

use berth_tests::contest::{
    Contest, ContestHistory, Isolation, OrderViolation, ProviderChangeLog, Services, place,
    place_of, with_database,
};
use berth_tests::peer::{PlacementSettings, RealPlacement};
use serde::{Deserialize, Serialize};

use crate::claims::linear::{Verdict, search};
use crate::claims::report::ContestSums;
use crate::claims::trials::{number, runtime};

/// A contest that was held: what the judges need of it.
#[derive(Serialize, Deserialize)]
struct RecordedContest {
    what: String,
    history: ContestHistory,
    testimony: ProviderChangeLog,
}

/// The real service with four workers on MariaDB, with testimony.
fn real() -> RealPlacement {
    let settings = PlacementSettings {
        workers: 4,
        ..PlacementSettings::on_mariadb()
    };
    let real = RealPlacement::start(settings).expect("Placement starts");
    let begun = with_database(&real.database_url(), async |store| {
        Ok(ProviderChangeLog::begin(store).await?)
    });
    begun.expect("the database takes triggers");
    real
}

fn testimony(url: &str, contest: &Contest) -> ProviderChangeLog {
    let read = with_database(url, async |store| {
        Ok(ProviderChangeLog::of(store, contest.number, contest.consumers()).await?)
    });
    read.expect("the database is there")
}

fn contest(number: u64, services: Vec<String>) -> Contest {
    Contest {
        number,
        writers: 16,
        capacity: 6,
        releases: false,
        services,
    }
}

#[test]
fn overallocation_by_openstacks_own_placement_is_detected() {
    let text = include_str!("fixtures/openstack_placement_gives_too_much.json");
    let recorded: RecordedContest = serde_json::from_str(text).expect("a record");
    let wrong = place(&recorded.history, &recorded.testimony);
    assert!(
        matches!(wrong, Err(OrderViolation::TooMuch { .. })),
        "{wrong:?}"
    );
    // By the answers alone as well.
    assert_eq!(search(&recorded.history, 1_000_000), Verdict::Refused);
}

#[test]
fn berth_next_to_openstacks_own_placement_never_overallocates() {
    let real = real();
    let url = real.database_url();
    let ours = Services::on_existing(&url, 1, Isolation::default()).expect("it starts");
    let mut services = ours.urls();
    services.push(real.url());
    let runtime = runtime();
    let count = number("BERTH_CLAIMS_BESIDE").unwrap_or(3);
    let mut sums = ContestSums::default();
    for number in 1..=count {
        let contest = contest(number, services.clone());
        let history = runtime.block_on(contest.hold()).expect("a contest");
        let testimony = testimony(&url, &contest);
        let judged = place_of(&history, &testimony, |event| event.service == 0);
        let verdict = judged.map(|_| Verdict::Linearizable);
        let verdict = verdict.map_err(|wrong| format!("contest {number}: {wrong}"));
        sums.add(&history, &verdict);
    }
    sums.publish("MariaDb with the real Placement\t1\trepeatable-read\t16");
    assert!(!sums.are_idle(), "no claim succeeded");
    assert_eq!(sums.violations(), [""; 0]);
}

/// Not in `make test`: on a machine that does little at once it may not happen.
#[test]
#[ignore = "`make soak` looks for it"]
fn openstacks_own_placement_gives_too_much() {
    let real = real();
    let url = real.database_url();
    let runtime = runtime();
    let (mut sums, mut caught) = (ContestSums::default(), 0);
    for number in 1..=number("BERTH_CLAIMS_HUNT").unwrap_or(30) {
        let contest = contest(number, vec![real.url()]);
        let history = runtime.block_on(contest.hold()).expect("a contest");
        let testimony = testimony(&url, &contest);
        let wrong = place(&history, &testimony);
        let too_much = matches!(wrong, Err(OrderViolation::TooMuch { .. }));
        caught += u64::from(too_much);
        let verdict = match wrong {
            Ok(_) => Ok(Verdict::Linearizable),
            Err(wrong) => Err(format!("contest {number}: {wrong}")),
        };
        sums.add(&history, &verdict);
        if too_much && let Some(file) = env::var_os("BERTH_CLAIMS_RECORD") {
            let recorded = RecordedContest {
                what:
                    "openstack-placement 16.0.0 with 4 workers on MariaDB 10.11 at REPEATABLE READ"
                        .to_owned(),
                history,
                testimony,
            };
            let text = serde_json::to_string(&recorded).expect("JSON");
            fs::write(file, text + "\n").expect("the record can be written");
        }
    }
    sums.publish("MariaDb the real Placement alone\t4\trepeatable-read\t16");
    for line in sums.violations() {
        println!("{line}");
    }
    assert!(caught > 0, "it never overallocated: is the bug fixed?");
}

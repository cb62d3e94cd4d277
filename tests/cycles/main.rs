//! Creates and deletes guests repeatedly on the real libvirtd and QEMU with simulated cards, while `berth up` is killed
//! at random. After each round the host, libvirt, Placement, the accelerator service and Berth's own files must be as
//! at the start, and Berth's memory must not grow.
//!
//! A cycle is one guest from its request to its end. A round ([`round`]) has up to eight of them at once. [`host`] is
//! the environment, [`leftovers`] the comparison, and [`report`] the table for `make soak`.
//!
//! `BERTH_CYCLES` is the number of cycles (4), `BERTH_CYCLES_SEED` their seed (1). `BERTH_CYCLES_KILLS=0` turns the
//! kills off: one process then does all cycles, and its memory is checked. `BERTH_CYCLES_REPORT` is a file for the
//! table.

mod host;
mod leftovers;
mod report;
mod round;

use std::env;

use berth_client::JitterRng;
use host::Host;
use report::Report;
use round::Round;

/// Below this many the memory says nothing: the first guests bring in what the others use again.
const WARM_AFTER: u64 = 20;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number, not {text}")))
}

#[test]
fn guests_are_created_and_deleted_through_kills_and_leave_nothing() {
    let cycles = number("BERTH_CYCLES").unwrap_or(4);
    let seed = number("BERTH_CYCLES_SEED").unwrap_or(1);
    let kills = number("BERTH_CYCLES_KILLS") != Some(0);
    let rng = JitterRng::seeded(seed);
    let mut host = Host::start();
    let mut report = Report::new(seed);
    let before = host.settled(None).expect("a host at rest");
    let mut done = 0;
    while done < cycles {
        let drawn = Round::draw(&rng, cycles - done, kills);
        done += drawn.guests.len() as u64;
        let result = drawn.run(&mut host);
        report.add_round(&drawn, &result);
        if let Err(left) = host.settled(Some(&before)) {
            report.violated(format!(
                "after {done} cycles, {drawn:?}:\n    {}",
                left.join("\n    ")
            ));
        }
        report.add_sample(done, host.lives(), host.resident(), host.open_files());
        // A leftover of this round would be found again after each later round.
        if report.is_broken() {
            break;
        }
    }
    if !kills && done >= 2 * WARM_AFTER {
        report.judge_samples(WARM_AFTER);
    }
    report.publish();
    let log = if report.is_broken() {
        host.log()
    } else {
        String::new()
    };
    assert!(!report.is_broken(), "{}\n{log}", report.violations());
    assert_eq!(host.stop(), 0);
}

//! [`ContestSums`]: the totals of many contests of one kind, for the report of a test run.
//!
//! A *contest* is one trial: many writers concurrently claim the last units of one Placement provider, until the provider
//! is full. A kind of contest is a combination of database, number of Placement processes, isolation level and number of
//! writers.

use std::io::Write as _;
use std::{env, fs};

use berth_tests::contest::{ContestAnswer, ContestHistory};

use crate::claims::linear::Verdict;

#[derive(Debug, Default)]
pub(crate) struct ContestSums {
    /// Contests.
    trials: u64,
    /// Requests that succeeded.
    done: u64,
    /// Requests that were refused because they exceed the capacity.
    full: u64,
    /// Requests that were refused because another writer was first.
    conflicts: u64,
    /// Requests without an answer, or with an error other than 503: they may have taken effect.
    unknown: u64,
    /// Requests with a 503.
    away: u64,
    /// Contests for which the search found a valid order. It gives up on the others if there are too many orders.
    searched: u64,
    /// A description of each contest that broke a rule.
    violations: Vec<String>,
}

impl ContestSums {
    /// Adds one contest, with the verdict on its history.
    pub(crate) fn add(&mut self, history: &ContestHistory, verdict: &Result<Verdict, String>) {
        self.trials += 1;
        for event in &history.events {
            let sum = match event.answer() {
                Some(ContestAnswer::Done) => &mut self.done,
                Some(ContestAnswer::Full) => &mut self.full,
                Some(ContestAnswer::Conflict) => &mut self.conflicts,
                Some(ContestAnswer::Failed(503)) => &mut self.away,
                None | Some(ContestAnswer::Failed(_)) => &mut self.unknown,
                Some(ContestAnswer::NotThere | ContestAnswer::Seen { .. }) => continue,
            };
            *sum += 1;
        }
        match verdict {
            Ok(Verdict::Linearizable) => self.searched += 1,
            Ok(_) => {}
            Err(why) => self.violations.push(why.clone()),
        }
    }

    /// Whether there were contests, but no claim succeeded. Then the absence of overallocation proves nothing.
    pub(crate) fn are_idle(&self) -> bool {
        self.trials > 0 && self.done == 0
    }

    /// Whether more than this percentage of the answers were a 503. Nothing disturbs the service in these contests. The checks accept
    /// any 503, so without this limit they would accept a service that gives no other answer.
    pub(crate) fn are_away(&self, percent: u64) -> bool {
        self.away * 100 > percent * (self.done + self.full + self.conflicts + self.away)
    }

    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Prints one line with tabs, and appends it to the file of `BERTH_CLAIMS_REPORT`. Its columns are `kind` (itself four
    /// columns: database, processes, isolation level, writers), trials, done, full, conflicts, unknown, away, searched and
    /// the number of violations.
    ///
    /// The line is written directly to the standard output, because `print!` shows nothing for tests that pass.
    pub(crate) fn publish(&self, kind: &str) {
        let line = format!(
            "{kind}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
            self.trials,
            self.done,
            self.full,
            self.conflicts,
            self.unknown,
            self.away,
            self.searched,
            self.violations.len()
        );
        let _ = std::io::stdout().write_all(line.as_bytes());
        if let Some(file) = env::var_os("BERTH_CLAIMS_REPORT") {
            let file = fs::File::options().create(true).append(true).open(file);
            let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
            written.expect("the report's file can be written");
        }
    }
}

//! The totals of many contests of one kind.

use std::io::Write as _;
use std::{env, fs};

use berth_tests::contest::{ContestAnswer, ContestHistory};

use crate::claims::linear::Verdict;

#[derive(Debug, Default)]
pub(crate) struct ContestSums {
    trials: u64,
    done: u64,
    full: u64,
    conflicts: u64,
    unknown: u64,
    away: u64,
    searched: u64,
    violations: Vec<String>,
}

impl ContestSums {
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

    /// Whether there were contests but no claim succeeded; then the absence of overallocation proves nothing.
    pub(crate) fn are_idle(&self) -> bool {
        self.trials > 0 && self.done == 0
    }

    /// Whether more than one answer in a hundred was that the service is away for now, where nothing disturbs it: what it answers then
    /// is excused by the judges, so they would excuse a service that does nothing else.
    pub(crate) fn are_away(&self) -> bool {
        self.away * 100 > self.done + self.full + self.conflicts + self.away
    }

    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// The line for the table. Printed past the capturing of passing tests' output.
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

//! The report of a run: the kills by request, and their violations.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::{env, fs, io};

/// Kills and violations by request.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// By `SCENARIO METHOD /route before|after`.
    crossings: BTreeMap<String, (usize, usize)>,
    failures: Vec<String>,
}

impl Report {
    pub(crate) fn killed(&mut self, crossing: String, violations: usize) {
        let row = self.crossings.entry(crossing).or_default();
        row.0 += 1;
        row.1 += violations;
    }

    /// A seed that failed, with the line that repeats it.
    pub(crate) fn failed(&mut self, seed: u64, what: &str) {
        let program = env::var_os("BERTH_PROGRAM")
            .map(|program| format!("BERTH_PROGRAM={} ", program.display()))
            .unwrap_or_default();
        self.failures.push(format!(
            "seed {seed}: {what}\n  {program}BERTH_KILLS=1 BERTH_KILL_SEED_FROM={seed} cargo test -p berth-tests --test processes a_start_killed_anywhere"
        ));
    }

    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The table, the summary, and the file that `make soak` reads. Printed past the capturing of passing tests' output.
    pub(crate) fn publish(&self, places: usize, first: u64, last: u64) {
        let mut kills = 0;
        let violations = self.failures.len();
        let (mut table, mut lines) = (String::new(), String::new());
        for (crossing, (times, bad)) in &self.crossings {
            kills += times;
            // Writing to a String cannot fail.
            let _ = writeln!(table, "{times:>6}  {crossing}");
            let _ = writeln!(lines, "{crossing}\t{times}\t{bad}");
        }
        let _ = writeln!(table, "the journeys have {places} places to strike at");
        let _ = writeln!(
            table,
            "kills: seeds {first}..{last} kills {kills} violations {violations}"
        );
        let _ = io::stdout().write_all(format!("\n{table}").as_bytes());
        if let Some(file) = env::var_os("BERTH_KILL_REPORT") {
            fs::write(file, lines).expect("the report's file can be written");
        }
    }
}

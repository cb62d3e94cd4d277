//! The report of a run: its cycles, the leftovers, and Berth's memory.

use std::io::Write as _;
use std::{env, fs, io};

use crate::cycles::round::{Round, RoundResult};

/// The variable that names the file for the table.
const REPORT: &str = "BERTH_CYCLES_REPORT";

/// By how much berth's memory may grow over a life without end, in KiB: what its allocator keeps for a busier moment than
/// those so far. What grows by each guest exceeds it.
const GROWTH: u64 = 2048;

/// A sample of berth's process after a round.
#[derive(Debug, Clone, Copy)]
struct ProcessSample {
    cycles: u64,
    life: usize,
    resident: u64,
    open_files: usize,
}

/// The results of a run.
pub(crate) struct Report {
    seed: u64,
    kills: usize,
    active_guests: usize,
    samples: Vec<ProcessSample>,
    violations: Vec<String>,
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

impl Report {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            kills: 0,
            active_guests: 0,
            samples: Vec::new(),
            violations: Vec::new(),
        }
    }

    pub(crate) fn add_round(&mut self, round: &Round, result: &RoundResult) {
        self.kills += result.kills;
        self.active_guests += result.active_guests;
        let violations = result
            .violations
            .iter()
            .map(|what| format!("{what}; {round:?}"));
        self.violations.extend(violations);
        // Someone may watch a long run.
        if env::var_os(REPORT).is_some() {
            let line = format!("{:.1} s  {round:?}\n", result.took.as_secs_f64());
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    pub(crate) fn add_sample(
        &mut self,
        cycles: u64,
        life: usize,
        resident: u64,
        open_files: usize,
    ) {
        self.samples.push(ProcessSample {
            cycles,
            life,
            resident,
            open_files,
        });
    }

    pub(crate) fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    pub(crate) fn is_broken(&self) -> bool {
        !self.violations.is_empty()
    }

    /// All violations, and the line that repeats the run.
    pub(crate) fn violations(&self) -> String {
        let cycles = self.samples.last().map_or(0, |sample| sample.cycles);
        let seed = self.seed;
        format!(
            "{}\n  BERTH_CYCLES={cycles} BERTH_CYCLES_SEED={seed} cargo test -p berth-tests --test processes cycles::",
            self.violations.join("\n")
        )
    }

    /// Checks memory and open files of a single process after its warm-up: the last fifth of the samples against the
    /// first.
    pub(crate) fn judge_samples(&mut self, warm_after: u64) {
        let warm: Vec<ProcessSample> = self
            .samples
            .iter()
            .filter(|sample| sample.cycles >= warm_after)
            .copied()
            .collect();
        let fifth = warm.len().div_ceil(5);
        let (early, late) = (&warm[..fifth], &warm[warm.len() - fifth..]);
        for (what, bound, of) in [
            (
                "KiB of memory",
                GROWTH,
                (|sample: &ProcessSample| sample.resident) as fn(&ProcessSample) -> u64,
            ),
            ("open files", 4, |sample| sample.open_files as u64),
        ] {
            let (first, last) = (median(early.iter().map(of)), median(late.iter().map(of)));
            if last > first + bound {
                self.violations.push(format!(
                    "berth had {first} {what} when warm, and has {last}"
                ));
            }
        }
    }

    /// The line that `make soak` reads: cycles, guests that ran, kills, lives, violations, memory first, median, last and most.
    pub(crate) fn publish(&self) {
        let memory = || self.samples.iter().map(|sample| sample.resident);
        let line = format!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
            self.samples.last().map_or(0, |sample| sample.cycles),
            self.active_guests,
            self.kills,
            self.samples.last().map_or(0, |sample| sample.life),
            self.violations.len(),
            memory().next().unwrap_or(0),
            median(memory()),
            memory().next_back().unwrap_or(0),
            memory().max().unwrap_or(0),
        );
        let _ = io::stdout().write_all(format!("\ncycles, seed {}: {line}", self.seed).as_bytes());
        if let Some(file) = env::var_os(REPORT) {
            fs::write(file, line).expect("the report's file can be written");
        }
    }
}

//! `make bench`: what Berth costs beside what the real Placement and nova-compute cost, in one run on one machine. Called
//! by `run.sh` beside this file; the table goes to standard output and to `docs/bench/DATE.md`.
//!
//! CPU time is the figure to compare: wall time follows what else the machine does. Nothing here is a test: a goal that is
//! missed is a line of the table, not a failure.

mod agent;
mod candidates;
mod host;
mod idle;
mod machine;
mod meter;
mod nova;
mod placement;
mod reshaper;
mod startup;
mod table;
mod tick;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use berth_tests::peer::checkout;

use crate::machine::Machine;
use crate::nova::NovaPeer;
use crate::startup::Startup;
use crate::table::Section;

/// What a part of the run gives, or why it could not.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// How many guests the measured host has.
const GUESTS: [u32; 4] = [0, 10, 100, 1000];

fn main() -> ExitCode {
    match measure() {
        Ok(file) => {
            say(&format!("written to {}", file.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Outcome<PathBuf> {
    let machine = Machine::here()?;
    let nova = NovaPeer::installed();
    if let Err(reason) = &nova {
        say(&format!("nova-compute is left out: {reason}"));
    }
    let nova = nova.ok();
    let guests = chosen_guests()?;
    let mut startups = Vec::new();
    for guests in guests {
        startups.push(Startup::measure(guests, nova.as_ref())?);
    }
    let mut sections = vec![
        tick::steady(&startups),
        tick::aged(&startups),
        startup::built_in(&startups),
        startup::real(&startups),
    ];
    if let Some(guests) = startups.iter().map(|startup| startup.guests).max() {
        sections.push(reshaper::measure(guests)?);
    }
    sections.push(candidates::measure()?);
    sections.push(idle::measure(nova.as_ref())?);
    Ok(write(&machine, &sections)?)
}

/// `BENCH_GUESTS=10,100` makes a shorter run.
fn chosen_guests() -> Outcome<Vec<u32>> {
    match std::env::var("BENCH_GUESTS") {
        Ok(list) => Ok(list
            .split(',')
            .map(|n| n.trim().parse())
            .collect::<Result<_, _>>()?),
        Err(_) => Ok(GUESTS.to_vec()),
    }
}

fn write(machine: &Machine, sections: &[Section]) -> std::io::Result<PathBuf> {
    let text = table::page(machine, sections);
    print(&text);
    let folder = checkout().join("docs/bench");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{}.md", machine.date));
    std::fs::write(&file, text)?;
    Ok(file)
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn print(text: &str) {
    println!("{text}");
}

/// What the run is at, for those who wait.
#[expect(clippy::print_stderr, reason = "standard output is the table's")]
fn say(text: &str) {
    eprintln!("bench: {text}");
}

//! `make bench`: the cost of Berth next to that of the real Placement and nova-compute, in one run on one machine.
//! `run.sh` in this folder calls it; the table goes to standard output and to `docs/bench/DATE.md`.
//!
//! CPU time is the figure to compare, because wall time depends on the machine's other load. A missed goal is a line of
//! the table, not a failure.

mod agent;
mod bind;
mod boots;
mod candidates;
mod claims;
mod growth;
mod host;
mod idle;
mod machine;
mod meter;
mod nova;
mod placement;
mod reshaper;
mod scheduler;
mod spawn;
mod startup;
mod statements;
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
/// The parts of a run, in their order.
const PARTS: [&str; 10] = [
    "agent",
    "reshaper",
    "candidates",
    "claims",
    "growth",
    "bind",
    "spawn",
    "boots",
    "scheduler",
    "idle",
];

fn main() -> ExitCode {
    match measure() {
        Ok(file) => {
            log(&format!("written to {}", file.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            log(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Outcome<PathBuf> {
    let machine = Machine::here()?;
    let nova = NovaPeer::installed();
    if let Err(reason) = &nova {
        log(&format!("nova-compute is left out: {reason}"));
    }
    let nova = nova.ok();
    let parts = chosen_parts()?;
    let guests = chosen_guests()?;
    let mut sections = Vec::new();
    for part in parts {
        match part.as_str() {
            "agent" => {
                let mut startups = Vec::new();
                for guests in &guests {
                    startups.push(Startup::measure(*guests, nova.as_ref())?);
                }
                sections.push(tick::steady(&startups));
                sections.push(tick::aged(&startups));
                sections.push(startup::built_in(&startups));
                sections.push(startup::real(&startups));
            }
            "reshaper" => {
                if let Some(guests) = guests.iter().max() {
                    sections.push(reshaper::measure(*guests)?);
                }
            }
            "candidates" => sections.push(candidates::measure()?),
            "claims" => sections.extend(claims::measure()?),
            "growth" => sections.push(growth::measure()?),
            "bind" => sections.push(bind::measure()?),
            "spawn" => sections.push(spawn::measure()?),
            "boots" => sections.push(boots::measure()?),
            "scheduler" => sections.extend(scheduler::measure(nova.as_ref())?),
            _ => sections.push(idle::measure(nova.as_ref())?),
        }
    }
    Ok(write(&machine, &sections)?)
}

/// `BENCH_PARTS=bind,spawn` makes a run of these parts alone.
fn chosen_parts() -> Outcome<Vec<String>> {
    let Ok(list) = std::env::var("BENCH_PARTS") else {
        return Ok(PARTS.map(str::to_owned).to_vec());
    };
    let parts: Vec<_> = list.split(',').map(|part| part.trim().to_owned()).collect();
    match parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        None => Ok(parts),
        Some(part) => Err(format!("BENCH_PARTS: there is no part {part:?}, but {PARTS:?}").into()),
    }
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
    // `BENCH_PAGE=placement` keeps a run of some parts next to that of all.
    let page =
        std::env::var("BENCH_PAGE").map_or_else(|_| String::new(), |page| format!("-{page}"));
    let file = folder.join(format!("{}{page}.md", machine.date));
    std::fs::write(&file, text)?;
    Ok(file)
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn print(text: &str) {
    println!("{text}");
}

/// What the run is at, for those who wait.
#[expect(clippy::print_stderr, reason = "standard output is the table's")]
fn log(text: &str) {
    eprintln!("bench: {text}");
}

//! Writes the sweep's results as tables: `docs/faults.md`, compared with each run. `BLESS=1` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use berth_fault_injection::{Boundary, EffectKind};

use crate::rows::{FaultOutcome, Rows};
use crate::scenarios::FaultScenario;
use crate::sweep::{CellTally, CleanRun};

const HEAD: &str = "# Faults\n\n\
Written by the fault sweep (`cargo test -p berth-tests --test fault`, `BLESS=1` to renew); do not edit.\n\n\
Each scenario is run once without a fault, which records every effect at a boundary: each request, observation of the hypervisor\n\
and access to a state file. It is then repeated for each effect, each side of it (before and after the effect), and each applicable\n\
fault, one at a time, until the unit is idle. The allowed outcomes were written first, in `tests/fault/rows.toml`, which explains\n\
the four outcomes. After every run, Placement is compared row by row with a run without a fault, every unit with its expected\n\
provider, and everything is audited.\n";

/// Cells and outcomes that `rows.toml` lists and no case had.
pub(crate) fn never_exercised(rows: &Rows, tally: &CellTally) -> Vec<String> {
    let mut findings = Vec::new();
    for (cell, allowed) in rows {
        for outcome in allowed {
            let had = tally
                .get(cell)
                .is_some_and(|seen| seen.contains_key(outcome));
            if !had {
                findings.push(format!("rows.toml: {cell} = {outcome} was never exercised"));
            }
        }
    }
    findings
}

/// The tally in the format of `rows.toml`, as a start for a new scenario's table; review it before use.
pub(crate) fn as_rows(tally: &CellTally) -> String {
    let mut text = String::new();
    let mut before = None;
    for (cell, seen) in tally {
        let table = format!("[{}.\"{}\"]", cell.journey.as_str(), cell.fault);
        if before.as_ref() != Some(&table) {
            let _ = writeln!(text, "{table}");
            before = Some(table);
        }
        let words: Vec<_> = seen.keys().map(|outcome| outcome.as_str()).collect();
        let counts: Vec<_> = seen.values().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "{} = \"{}\" # {}",
            cell.kind,
            words.join(" or "),
            counts.join(" ")
        );
    }
    text
}

/// A part of the page: each is written and compared by a test of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Node,
    Guests,
}

/// Where the part on guests begins.
const GUESTS: &str = "# Guests\n";

/// Held while the page is read or written.
static PAGE: Mutex<()> = Mutex::new(());

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md")
}

fn sections() -> (String, String) {
    let there = std::fs::read_to_string(path()).unwrap_or_default();
    let at = there.find(GUESTS).unwrap_or(there.len());
    let (node, guests) = there.split_at(at);
    (format!("{}\n", node.trim_end()), guests.to_owned())
}

/// A part of the page as it is.
pub(crate) fn section(section: Section) -> String {
    let _held = PAGE.lock().unwrap();
    let (node, guests) = sections();
    match section {
        Section::Node => node,
        Section::Guests => guests,
    }
}

/// Replaces a part of the page.
pub(crate) fn replace(section: Section, text: &str) {
    let _held = PAGE.lock().unwrap();
    let (node, guests) = sections();
    let (node, guests) = match section {
        Section::Node => (text, guests.as_str()),
        Section::Guests => (node.as_str(), text),
    };
    let gap = if guests.is_empty() { "" } else { "\n" };
    std::fs::write(path(), format!("{node}{gap}{guests}")).unwrap();
}

/// Compares the page with what was seen.
pub(crate) fn compare(swept: &[CleanRun], tally: &CellTally) {
    let page = page(swept, tally);
    if std::env::var_os("BLESS").is_some() {
        replace(Section::Node, &page);
        return;
    }
    assert!(
        section(Section::Node) == page,
        "docs/faults.md is not what the sweep found: BLESS=1 cargo test -p berth-tests --test fault"
    );
}

fn page(swept: &[CleanRun], tally: &CellTally) -> String {
    let mut text = HEAD.to_owned();
    let _ = write!(
        text,
        "\n| scenario | effects | of them writes | cases |\n|---|---|---|---|\n"
    );
    for swept in swept {
        let journey = swept.situation.journey;
        let crossings = swept.clean.trace.effects();
        let writes = swept.clean.trace.effects().filter(|line| {
            line.effect.kind == EffectKind::Write && line.effect.boundary == Boundary::Http
        });
        let cases: usize = of(journey, tally).flat_map(|(_, seen)| seen.values()).sum();
        let (name, crossings, writes) = (journey.as_str(), crossings.count(), writes.count());
        let _ = writeln!(text, "| {name} | {crossings} | {writes} | {cases} |");
    }
    let all: usize = tally.values().flat_map(BTreeMap::values).sum();
    let _ = writeln!(text, "| all | | | {all} |");
    for swept in swept {
        table(&mut text, swept.situation.journey, tally);
    }
    text
}

fn of(
    journey: FaultScenario,
    tally: &CellTally,
) -> impl Iterator<Item = (&crate::rows::Cell, &BTreeMap<FaultOutcome, usize>)> {
    tally
        .iter()
        .filter(move |(cell, _)| cell.journey == journey)
}

/// Rows of a fault, columns of kinds, cells with outcomes and their numbers of cases.
fn table(text: &mut String, journey: FaultScenario, tally: &CellTally) {
    let kinds: BTreeSet<&str> = of(journey, tally)
        .map(|(cell, _)| cell.kind.as_str())
        .collect();
    let mut faults: Vec<&str> = of(journey, tally)
        .map(|(cell, _)| cell.fault.as_str())
        .collect();
    faults.sort_by_key(|fault| (number(fault), *fault));
    faults.dedup();
    let _ = write!(text, "\n## {}\n\n| fault |", journey.as_str());
    kinds
        .iter()
        .for_each(|kind| text.push_str(&format!(" {kind} |")));
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(kinds.len()));
    for fault in faults {
        let _ = write!(text, "| {fault} |");
        for kind in &kinds {
            let seen =
                of(journey, tally).find(|(cell, _)| cell.fault == fault && cell.kind == *kind);
            let seen =
                seen.map(|(_, seen)| seen.iter().map(|(outcome, n)| format!("{outcome} {n}")));
            let cell: Vec<String> = seen.into_iter().flatten().collect();
            let _ = write!(text, " {} |", cell.join(", "));
        }
        text.push('\n');
    }
}

fn number(fault: &str) -> u32 {
    let digits: String = fault
        .chars()
        .skip(1)
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or_default()
}

//! What the sweep found, as tables: `docs/faults.md`, compared with each run. `BLESS=1` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use berth_fault_injection::{Boundary, EffectKind};

use crate::journeys::Journey;
use crate::rows::{Outcome, Rows};
use crate::sweep::{Swept, Tally};

const HEAD: &str = "# Faults\n\n\
Written by the fault sweep (`cargo test -p berth-tests --test fault`, `BLESS=1` to renew); do not edit.\n\n\
Each journey is run once without a fault, which records every crossing of a seam: each request, look at the hypervisor, and\n\
state file. Then it is run again for each crossing, each side of it (before it has an effect, after it had), and each fault that\n\
makes sense there, one at a time, until the unit is at rest. What a journey may make of a fault is written first, in\n\
`tests/fault/rows.toml`; there the four outcomes are explained. After every run Placement is compared row by row with a run\n\
without a fault, every unit with where it belongs, and all is audited.\n";

/// Cells and outcomes that `rows.toml` lists and no case had.
pub(crate) fn never_exercised(rows: &Rows, tally: &Tally) -> Vec<String> {
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

/// The tally in the form of `rows.toml`, for whoever writes a new journey's table: to be judged, not to be copied.
pub(crate) fn as_rows(tally: &Tally) -> String {
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
const GUESTS: &str = "# Guests' journeys\n";

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
pub(crate) fn compare(swept: &[Swept], tally: &Tally) {
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

fn page(swept: &[Swept], tally: &Tally) -> String {
    let mut text = HEAD.to_owned();
    let _ = write!(
        text,
        "\n| journey | crossings | of them writes | cases |\n|---|---|---|---|\n"
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
    journey: Journey,
    tally: &Tally,
) -> impl Iterator<Item = (&crate::rows::Cell, &BTreeMap<Outcome, usize>)> {
    tally
        .iter()
        .filter(move |(cell, _)| cell.journey == journey)
}

/// Rows of a fault, columns of kinds, cells with outcomes and their numbers of cases.
fn table(text: &mut String, journey: Journey, tally: &Tally) {
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

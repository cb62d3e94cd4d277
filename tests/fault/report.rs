//! Writes the sweep's results as tables: `docs/faults.md`, compared with each run. `BLESS=1` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use berth_fault_injection::{Boundary, EffectKind};

use crate::rows::Rows;
use crate::scenarios::FaultScenario;
use crate::sweep::{CellTally, CleanRun};

const HEAD: &str = "# Faults\n\n\
Written by the fault sweep (`cargo test -p berth-tests --test fault`, `BLESS=1` to renew); do not edit.\n\n\
Each scenario is run once without a fault, which records every effect at a boundary: each request, observation of the hypervisor\n\
and access to a state file. It is then repeated for each effect, each side of it (before and after the effect), and each applicable\n\
fault, one at a time, until the unit is idle. The allowed outcomes were written first, in `tests/fault/rows.toml`, which explains\n\
the four outcomes. After every run, Placement is compared row by row with a run without a fault, every unit with its expected\n\
provider, and everything is audited.\n";

/// Cells and outcomes of a scenario that `rows.toml` lists and no case had.
pub(crate) fn never_exercised(
    scenario: FaultScenario,
    rows: &Rows,
    tally: &CellTally,
) -> Vec<String> {
    let mut findings = Vec::new();
    let cells = rows.iter().filter(|(cell, _)| cell.journey == scenario);
    for (cell, allowed) in cells {
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
    Node(FaultScenario),
    Guests,
}

/// Where the part on guests begins.
const GUESTS: &str = "# Guests\n";
/// Where the part on ports begins, which the sweep against the real Neutron writes (`tests/real_neutron/report.rs`).
const PORTS: &str = "# Ports\n";

/// Held while the page is read or written.
static PAGE: Mutex<()> = Mutex::new(());

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md")
}

/// The scenarios' sections, the part on guests and the part on ports, as the file has them.
fn sections() -> (BTreeMap<FaultScenario, String>, String, String) {
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    let (text, ports) = text.split_at(text.find(PORTS).unwrap_or(text.len()));
    let (node, guests) = text.split_at(text.find(GUESTS).unwrap_or(text.len()));
    let guests = match guests.trim_end() {
        "" => String::new(),
        guests => format!("{guests}\n"),
    };
    let section = |scenario: FaultScenario| {
        let from = node.find(&title(scenario))?;
        let rest = &node[from..];
        let to = rest.find("\n## ").map_or(rest.len(), |at| at + 1);
        Some((scenario, format!("{}\n", rest[..to].trim_end())))
    };
    let node = FaultScenario::ALL.into_iter().filter_map(section);
    (node.collect(), guests, ports.to_owned())
}

fn title(scenario: FaultScenario) -> String {
    format!("## {}\n", scenario.as_str())
}

/// A part of the page as it is.
pub(crate) fn section(section: Section) -> String {
    let _held = PAGE.lock().unwrap();
    let (mut node, guests, _) = sections();
    match section {
        Section::Node(scenario) => node.remove(&scenario).unwrap_or_default(),
        Section::Guests => guests,
    }
}

/// Replaces a part of the page.
pub(crate) fn replace(section: Section, text: &str) {
    let _held = PAGE.lock().unwrap();
    let (mut node, mut guests, ports) = sections();
    match section {
        Section::Node(scenario) => drop(node.insert(scenario, text.to_owned())),
        Section::Guests => text.clone_into(&mut guests),
    }
    let mut parts = vec![HEAD.to_owned()];
    parts.extend(node.into_values());
    parts.extend([guests, ports].into_iter().filter(|part| !part.is_empty()));
    std::fs::write(path(), parts.join("\n")).unwrap();
}

/// Compares a scenario's part of the page with what was seen.
pub(crate) fn compare(swept: &CleanRun, tally: &CellTally) {
    let own = Section::Node(swept.situation.journey);
    let text = text_of(swept, tally);
    if std::env::var_os("BLESS").is_some() {
        replace(own, &text);
        return;
    }
    assert!(
        section(own) == text,
        "docs/faults.md is not what the sweep found: BLESS=1 cargo test -p berth-tests --test fault"
    );
}

/// Compares a scenario's part of the page with a sample: its effects, and each outcome that was seen.
pub(crate) fn compare_sample(swept: &CleanRun, tally: &CellTally) {
    let page = section(Section::Node(swept.situation.journey));
    let mut wrong = Vec::new();
    if !page.contains(&effects(swept)) {
        wrong.push(effects(swept));
    }
    for (cell, seen) in tally {
        let found = table_cell(&page, &cell.fault, &cell.kind).unwrap_or_default();
        let missing = seen.keys().filter(|it| !found.contains(it.as_str()));
        wrong.extend(missing.map(|outcome| format!("{cell} = {outcome}, and not {found:?}")));
    }
    assert!(
        wrong.is_empty(),
        "docs/faults.md is not what the sweep found: BLESS=1 cargo test -p berth-tests --test fault\n{}",
        wrong.join("\n")
    );
}

/// The cell of a table: in the row of a fault, in the column of a kind of effect. `None` without such a column.
pub(crate) fn table_cell<'a>(table: &'a str, fault: &str, kind: &str) -> Option<&'a str> {
    let cells = |line: &'a str| line.split('|').map(str::trim);
    let row = |name: &str| {
        let mut lines = table.lines();
        lines.find(|line| cells(line).nth(1) == Some(name))
    };
    let column = cells(row("fault")?).position(|head| head == kind)?;
    Some(
        row(fault)
            .and_then(|line| cells(line).nth(column))
            .unwrap_or_default(),
    )
}

/// How many effects a scenario has.
fn effects(swept: &CleanRun) -> String {
    let effects = swept.clean.trace.effects();
    let writes = swept.clean.trace.effects().filter(|line| {
        line.effect.kind == EffectKind::Write && line.effect.boundary == Boundary::Http
    });
    let (effects, writes) = (effects.count(), writes.count());
    format!("{effects} effects, {writes} of them writes")
}

/// A scenario's part of the page.
fn text_of(swept: &CleanRun, tally: &CellTally) -> String {
    let cases: usize = tally.values().flat_map(BTreeMap::values).sum();
    let mut text = title(swept.situation.journey);
    let _ = write!(text, "\n{}; {cases} cases.\n\n", effects(swept));
    table(&mut text, tally);
    text
}

/// Rows of a fault, columns of kinds, cells with outcomes and their numbers of cases.
fn table(text: &mut String, tally: &CellTally) {
    let kinds: BTreeSet<&str> = tally.keys().map(|cell| cell.kind.as_str()).collect();
    let mut faults: Vec<&str> = tally.keys().map(|cell| cell.fault.as_str()).collect();
    faults.sort_by_key(|fault| (number(fault), *fault));
    faults.dedup();
    text.push_str("| fault |");
    kinds
        .iter()
        .for_each(|kind| text.push_str(&format!(" {kind} |")));
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(kinds.len()));
    for fault in faults {
        let _ = write!(text, "| {fault} |");
        for kind in &kinds {
            let seen = tally
                .iter()
                .find(|(cell, _)| cell.fault == fault && cell.kind == *kind);
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

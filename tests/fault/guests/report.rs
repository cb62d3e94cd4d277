//! What the whole sweep of guests' journeys found, as the last part of `docs/faults.md`. A sample is compared with it: it may
//! find nothing that is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use berth_fault_injection::EffectKind;
use berth_model::ProviderTree;
use berth_tests::guest_cloud::Crossed;

use super::journeys::{Journey, Outcome};
use super::rows::{Strike, kind};
use super::sweep::FAULTS;
use crate::report::{Section, replace, section};

const HEAD: &str = "# Guests' journeys\n\n\
Written by the whole sweep of guests' journeys (`BLESS=1 BERTH_GUEST_FAULTS=1 cargo test -p berth-tests --test fault\n\
every_journey_of_a_guest`); `make test` runs a sample of it and compares that with this page, `make soak` runs all of it, and\n\
again with a second kill in the recovery from each kill.\n\n\
A whole cloud of one host: Placement, the accelerator service, the database of hosts, a conductor that chooses by filters and\n\
weighers, an agent, guests and cards of the fake driver. Every request, call of the driver and statement of a journal of the agent\n\
and of the conductor is a crossing, and so is every transaction of the conductor with the database of hosts (their states,\n\
aggregates, a guest's place in its server group, the record of the decision). The journeys of servers are asked of the compute\n\
API, in the conductor's process, before two such hosts: the client's requests are crossings, too, and so is all that the second\n\
host's agent does; the API's own database is none. Placement and the accelerator service are processes that die of a request and\n\
are away for a second, before and after its effect (served). What each journey may come to is written first, in\n\
`tests/fault/guests.toml`; there the outcomes are explained. After every run the seven truths (Placement, accelerator requests,\n\
server groups, hypervisor, devices, journals, the compute API's servers) are audited, and the guest is deleted again, which must\n\
leave nothing in any of them.\n";

/// A journey that ran without a fault.
pub(super) struct Swept {
    pub(super) journey: Journey,
    pub(super) crossed: Vec<Crossed>,
    /// What Placement had of the node afterwards.
    pub(super) tree: Option<ProviderTree>,
}

/// How often which outcome came of a strike at a kind of crossing.
pub(super) type Tally = BTreeMap<(Journey, Strike, &'static str), BTreeMap<Outcome, usize>>;

/// Writes the part of the page.
pub(super) fn write(swept: &[Swept], tally: &Tally) {
    replace(Section::Guests, &page(swept, tally));
}

/// Writes one journey's line and table anew, and leaves the others' as they are.
pub(super) fn write_journey(swept: &Swept, tally: &Tally) {
    let page = section(Section::Guests);
    let (top, tables) = page.split_once("\n## ").expect("the page has tables");
    let start = format!("| {} |", swept.journey.as_str());
    let (head, lines) = top
        .split_once("|---|---|---|---|\n")
        .expect("a first table");
    let of_journeys = lines.lines().filter(|it| !it.starts_with("| all |"));
    let mut lines: Vec<String> = of_journeys.map(|it| format!("{it}\n")).collect();
    match lines.iter().position(|it| it.starts_with(&start)) {
        Some(at) => lines[at] = line(swept),
        None => lines.push(line(swept)),
    }
    let cases = |line: &String| line.split('|').nth(4)?.trim().parse::<usize>().ok();
    let all: usize = lines.iter().filter_map(cases).sum();
    let mut own = String::new();
    table(&mut own, swept, tally);
    let name = format!("{}\n", title(swept.journey));
    let mut tables: Vec<String> = tables.split("\n## ").map(str::to_owned).collect();
    let own = own.trim_start_matches("\n## ").to_owned();
    match tables.iter().position(|it| it.starts_with(&name)) {
        Some(at) => tables[at] = own,
        None => tables.push(own),
    }
    let (lines, tables) = (lines.concat(), tables.join("\n## "));
    let text = format!("{head}|---|---|---|---|\n{lines}| all | | | {all} |\n\n## {tables}");
    replace(Section::Guests, &text);
}

/// Compares the page with what was found: each outcome is one of the page's. Nothing is compared before it was written first.
/// A kind of crossing that the journey had not when the page was written (a watcher's read that fell into a hot plug, say) is no
/// column of the page: `guests.toml` alone judges it. So it does what strikes for ever: whether somebody waits to the end of that is a
/// matter of moments.
pub(super) fn compare(tally: &Tally) {
    let page = section(Section::Guests);
    if page.is_empty() {
        return;
    }
    let passing = tally.iter().filter(|((_, it, _), _)| it.is_once());
    for ((journey, strike, kind), seen) in passing {
        let table = format!("\n## {}\n", title(*journey));
        let table = page.split(&table).nth(1).unwrap_or_default();
        let table = table.split("\n## ").next().unwrap_or_default();
        let row = |start: &str| table.lines().find(|line| line.starts_with(start));
        let cells = |line: &str| line.split('|').map(str::trim).map(str::to_owned).collect();
        let heads: Vec<String> = row("| fault |").map(cells).unwrap_or_default();
        let found: Vec<String> = row(&format!("| {} {strike} |", strike.fault.row()))
            .map(cells)
            .unwrap_or_default();
        assert!(
            !heads.is_empty(),
            "docs/faults.md has no table of {}",
            title(*journey)
        );
        let Some(column) = heads.iter().position(|head| head == kind) else {
            continue;
        };
        let cell = found.get(column).cloned().unwrap_or_default();
        for outcome in seen.keys() {
            let name = journey.as_str();
            assert!(
                cell.contains(outcome.as_str()),
                "{name}: {strike} at {kind} is {}, docs/faults.md says {cell:?}: BLESS=1 BERTH_GUEST_FAULTS=1",
                outcome.as_str()
            );
        }
    }
}

fn title(journey: Journey) -> String {
    format!("guest {}", journey.as_str())
}

/// A journey's line in the first table.
fn line(swept: &Swept) -> String {
    let crossed = &swept.crossed;
    let writes = crossed
        .iter()
        .filter(|it| it.crossing.kind == EffectKind::Write);
    let cases: usize = crossed.iter().map(|it| it.points(&FAULTS).count()).sum();
    let (name, crossings, writes) = (swept.journey.as_str(), crossed.len(), writes.count());
    format!("| {name} | {crossings} | {writes} | {cases} |\n")
}

fn page(swept: &[Swept], tally: &Tally) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n| journey | crossings | of them writes | cases |\n|---|---|---|---|\n");
    swept.iter().for_each(|swept| text.push_str(&line(swept)));
    let all: usize = tally.values().flat_map(BTreeMap::values).sum();
    let _ = writeln!(text, "| all | | | {all} |");
    for swept in swept {
        table(&mut text, swept, tally);
    }
    text
}

/// Rows of a fault, columns of kinds, cells with outcomes and their numbers of cases.
fn table(text: &mut String, swept: &Swept, tally: &Tally) {
    let journey = swept.journey;
    let kinds: BTreeSet<&str> = swept.crossed.iter().map(kind).collect();
    let _ = write!(text, "\n## {}\n\n| fault |", title(journey));
    kinds
        .iter()
        .for_each(|kind| text.push_str(&format!(" {kind} |")));
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(kinds.len()));
    let strikes = Strike::all(&FAULTS);
    let seen = tally.keys().map(|(_, strike, _)| *strike);
    let seen: BTreeSet<Strike> = seen.collect();
    for strike in strikes.filter(|strike| seen.contains(strike)) {
        let _ = write!(text, "| {} {strike} |", strike.fault.row());
        for kind in &kinds {
            let seen = tally.get(&(journey, strike, *kind));
            let seen = seen.into_iter().flatten();
            let cell: Vec<String> = seen
                .map(|(outcome, n)| format!("{} {n}", outcome.as_str()))
                .collect();
            let _ = write!(text, " {} |", cell.join(", "));
        }
        text.push('\n');
    }
}

//! Writes the results of the complete guest sweep as the last part of `docs/faults.md`. A sample is compared with the
//! page: it may find no outcome that is not on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use berth_fault_injection::EffectKind;
use berth_model::ProviderTree;
use berth_tests::guest_cloud::RecordedEffect;

use super::rows::{FaultStrike, kind};
use super::scenarios::{GuestOutcome, GuestScenario};
use super::sweep::FAULTS;
use crate::report::{Section, replace, section, table_cell};

const HEAD: &str = "# Guests\n\n\
Written by the complete guest sweep (`BLESS=1 BERTH_GUEST_FAULTS=1 cargo test -p berth-tests --test fault\n\
every_scenario_of_a_guest`); `make test` runs a sample and compares it with this page. `make soak` runs the complete sweep, and\n\
repeats it with a second kill in the recovery from each kill.\n\n\
The sweep runs a whole cloud of one host: Placement, the accelerator service, the hosts database, a conductor that selects hosts by\n\
filters and weighers, an agent, and guests and cards of the fake driver. Effects are every request, driver call and journal\n\
statement of the agent and of the conductor, and every transaction of the conductor with the hosts database (host states,\n\
aggregates, server group members, scheduling records). The scenarios of servers use the compute API in the conductor's process and\n\
two such hosts. The client's requests and those of the second host's agent are effects, too; the API's own database is not.\n\
Placement and the accelerator service are processes that can die at a request and are down for a second, before or after its effect\n\
(served). The allowed outcomes were written first, in `tests/fault/guests.toml`, which explains them. After every run, the seven\n\
stores (Placement, accelerator requests, server groups, hypervisor, devices, journals, the compute API's servers) are audited. The\n\
guest is then deleted, which must leave nothing in any of them.\n";

/// A scenario that ran without a fault.
pub(super) struct CleanGuestRun {
    pub(super) scenario: GuestScenario,
    pub(super) crossed: Vec<RecordedEffect>,
    /// What Placement had of the node afterwards.
    pub(super) tree: Option<ProviderTree>,
}

/// How often each outcome followed a fault at a kind of effect.
pub(super) type OutcomeTally =
    BTreeMap<(GuestScenario, FaultStrike, &'static str), BTreeMap<GuestOutcome, usize>>;

/// Writes the part of the page.
pub(super) fn write(swept: &[CleanGuestRun], tally: &OutcomeTally) {
    replace(Section::Guests, &page(swept, tally));
}

/// Rewrites the line and the table of one scenario, and keeps those of the others.
pub(super) fn write_scenario(swept: &CleanGuestRun, tally: &OutcomeTally) {
    let page = section(Section::Guests);
    let (top, tables) = page.split_once("\n## ").expect("the page has tables");
    let start = format!("| {} |", swept.scenario.as_str());
    let (head, lines) = top
        .split_once("|---|---|---|---|\n")
        .expect("a first table");
    let scenario_lines = lines.lines().filter(|it| !it.starts_with("| all |"));
    let mut lines: Vec<String> = scenario_lines.map(|it| format!("{it}\n")).collect();
    match lines.iter().position(|it| it.starts_with(&start)) {
        Some(at) => lines[at] = line(swept),
        None => lines.push(line(swept)),
    }
    let cases = |line: &String| line.split('|').nth(4)?.trim().parse::<usize>().ok();
    let all: usize = lines.iter().filter_map(cases).sum();
    let mut own = String::new();
    table(&mut own, swept, tally);
    let name = format!("{}\n", title(swept.scenario));
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

/// Compares the page with the findings: each outcome must be on the page. Nothing is compared before the page exists. A
/// kind of effect that the scenario did not have when the page was written (for example, a watcher's read during a hot
/// plug) has no column; only `guests.toml` checks it. The same applies to the faults of
/// [`FaultStrike::has_timed_outcome`]: each of their cases may have either outcome that `guests.toml` allows, depending on the
/// cases before it on the same cloud. Which ones those are differs between a sample and the complete sweep that wrote the page.
/// The audit of the stores after each case makes no such difference.
pub(super) fn compare(tally: &OutcomeTally) {
    let page = section(Section::Guests);
    if page.is_empty() {
        return;
    }
    let passing = tally
        .iter()
        .filter(|((_, it, _), _)| !it.has_timed_outcome());
    for ((scenario, strike, kind), seen) in passing {
        let table = format!("\n## {}\n", title(*scenario));
        let table = page.split(&table).nth(1).unwrap_or_default();
        let table = table.split("\n## ").next().unwrap_or_default();
        assert!(
            table.contains("| fault |"),
            "docs/faults.md has no table of {}",
            title(*scenario)
        );
        let fault = format!("{} {strike}", strike.fault.row());
        let Some(cell) = table_cell(table, &fault, kind) else {
            continue;
        };
        for outcome in seen.keys() {
            let name = scenario.as_str();
            assert!(
                cell.contains(outcome.as_str()),
                "{name}: {strike} at {kind} is {}, docs/faults.md says {cell:?}: BLESS=1 BERTH_GUEST_FAULTS=1",
                outcome.as_str()
            );
        }
    }
}

fn title(scenario: GuestScenario) -> String {
    format!("guest {}", scenario.as_str())
}

/// A scenario's line in the first table.
fn line(swept: &CleanGuestRun) -> String {
    let crossed = &swept.crossed;
    let writes = crossed
        .iter()
        .filter(|it| it.crossing.kind == EffectKind::Write);
    let cases: usize = crossed.iter().map(|it| it.points(&FAULTS).count()).sum();
    let (name, crossings, writes) = (swept.scenario.as_str(), crossed.len(), writes.count());
    format!("| {name} | {crossings} | {writes} | {cases} |\n")
}

fn page(swept: &[CleanGuestRun], tally: &OutcomeTally) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n| scenario | effects | of them writes | cases |\n|---|---|---|---|\n");
    swept.iter().for_each(|swept| text.push_str(&line(swept)));
    let all: usize = tally.values().flat_map(BTreeMap::values).sum();
    let _ = writeln!(text, "| all | | | {all} |");
    for swept in swept {
        table(&mut text, swept, tally);
    }
    text
}

/// Rows of a fault, columns of kinds, cells with outcomes and their numbers of cases.
fn table(text: &mut String, swept: &CleanGuestRun, tally: &OutcomeTally) {
    let scenario = swept.scenario;
    let kinds: BTreeSet<&str> = swept.crossed.iter().map(kind).collect();
    let _ = write!(text, "\n## {}\n\n| fault |", title(scenario));
    kinds
        .iter()
        .for_each(|kind| text.push_str(&format!(" {kind} |")));
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(kinds.len()));
    let strikes = FaultStrike::all(&FAULTS);
    let seen = tally.keys().map(|(_, strike, _)| *strike);
    let seen: BTreeSet<FaultStrike> = seen.collect();
    for strike in strikes.filter(|strike| seen.contains(strike)) {
        let _ = write!(text, "| {} {strike} |", strike.fault.row());
        for kind in &kinds {
            let seen = tally.get(&(scenario, strike, *kind));
            let seen = seen.into_iter().flatten();
            let cell: Vec<String> = seen
                .map(|(outcome, n)| format!("{} {n}", outcome.as_str()))
                .collect();
            let _ = write!(text, " {} |", cell.join(", "));
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use berth_fault_injection::Fault;

    use super::*;

    /// What one case of [`GuestScenario::ServerBootOnNext`] adds, with the fault at an act of the driver.
    fn tally(fault: Fault, outcome: GuestOutcome) -> OutcomeTally {
        let mut strikes = FaultStrike::all(&FAULTS).filter(|strike| strike.is_once());
        let strike = strikes.find(|strike| strike.fault == fault).unwrap();
        let scenario = GuestScenario::ServerBootOnNext;
        BTreeMap::from([((scenario, strike, "act"), BTreeMap::from([(outcome, 1)]))])
    }

    #[test]
    fn the_outcome_after_a_clock_jump_is_not_compared_with_the_page() {
        for fault in [Fault::ClockForward, Fault::ClockBackward] {
            for outcome in [GuestOutcome::Done, GuestOutcome::Undone] {
                compare(&tally(fault, outcome));
            }
        }
    }

    #[test]
    #[should_panic(expected = "kill at act is undone, docs/faults.md says")]
    fn another_outcome_than_the_page_has_fails() {
        compare(&tally(Fault::Kill, GuestOutcome::Undone));
    }
}

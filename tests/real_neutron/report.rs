//! Writes the results of the complete sweep of ports as the last part of `docs/faults.md`. A sample is compared with it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use berth_tests::boot::{BootFault, EffectSide};
use berth_tests::peer::checkout;

use crate::real_neutron::port_stage::Goal;

const START: &str = "# Ports\n";

const HEAD: &str = "# Ports\n\n\
Written by the complete sweep of ports (`BLESS=1 cargo test -p berth-tests --features soak --test servers no_port_is_left`);\n\
`make test` runs a sample and compares it with this page. The sweep runs a conductor with the real Neutron: it boots a guest with a\n\
new port and a given one, deletes it, attaches one more port to a running guest, and detaches that. It fails each call of Neutron\n\
in each way, one at a time. Each operation is then repeated until it is done. After every case, the conductor's journal, the host\n\
and Neutron must have the same ports, and after the deletion of the guest none.\n\n\
The host's side is swept in the tests of `agent/instances`, with a kill and with an error at each call of the agent: boots and\n\
deletions with ports, attachments, detachments, and the boot of a host. The agent does not ask Neutron, so none of Neutron's\n\
faults can occur there. The tests of `drivers/net` kill and restart the real Open vSwitch database while a port is plugged, is\n\
waited for and is unplugged. `servers_keep_their_ports_through_kills_and_a_host_boot` kills the shipped program.\n";

/// How a call of Neutron fails.
fn fault_name((side, fault): (EffectSide, BootFault)) -> &'static str {
    match (fault, side.after) {
        (BootFault::Kill, false) => "F7 kill before the call",
        (BootFault::Kill, true) => "F7 kill after the call",
        (BootFault::Error, false) => "F1 no connection",
        (BootFault::Error, true) => "F2 answer lost",
        (BootFault::InternalError, _) => "F1 500",
        (BootFault::Conflict, _) => "F5 409",
        (BootFault::Late, _) => "F4 late",
        (BootFault::Twice, _) => "F3 twice",
    }
}

const OPERATIONS: [Goal; 4] = [Goal::Boot, Goal::Delete, Goal::Attach, Goal::Detach];

fn operation_name(goal: Goal) -> &'static str {
    match goal {
        Goal::Boot => "boot",
        Goal::Delete => "delete",
        Goal::Attach => "attach",
        Goal::Detach => "detach",
    }
}

/// The cases of the sweep that were done.
#[derive(Default)]
pub(super) struct PortSweepTally {
    /// By operation: the calls of Neutron, and how many of them are writes.
    calls: BTreeMap<&'static str, (usize, usize)>,
    /// By fault and operation.
    cases: BTreeMap<(&'static str, &'static str), usize>,
}

impl PortSweepTally {
    /// Records the calls of Neutron that an operation makes without a fault.
    pub(super) fn add_operation(&mut self, goal: Goal, calls: &[(usize, String)]) {
        let writes = calls.iter().filter(|(_, what)| !is_read(what)).count();
        let calls = (calls.len(), writes);
        self.calls.insert(operation_name(goal), calls);
    }

    pub(super) fn add_case(&mut self, goal: Goal, fault: (EffectSide, BootFault)) {
        let cell = (fault_name(fault), operation_name(goal));
        *self.cases.entry(cell).or_default() += 1;
    }

    /// The number of cases.
    pub(super) fn count(&self) -> usize {
        self.cases.values().sum()
    }

    /// Compares the page with the cases, or writes it.
    pub(super) fn compare(&self) {
        let path = checkout().join("docs/faults.md");
        let page = std::fs::read_to_string(&path).expect("docs/faults.md");
        let (others, known) = page.split_at(page.find(START).unwrap_or(page.len()));
        let command =
            "BLESS=1 cargo test -p berth-tests --features soak --test servers no_port_is_left";
        if !cfg!(feature = "soak") {
            let wrong = self.unknown(known);
            assert!(
                wrong.is_empty(),
                "docs/faults.md does not have {wrong:?}: {command}"
            );
            return;
        }
        let text = self.page();
        if std::env::var_os("BLESS").is_some() {
            let whole = format!("{}\n\n{text}", others.trim_end());
            std::fs::write(&path, whole).expect("docs/faults.md");
            return;
        }
        assert!(
            known == text,
            "docs/faults.md is not what the sweep found: {command}\n{text}"
        );
    }

    /// What a sample found that is not on the page.
    fn unknown(&self, page: &str) -> Vec<String> {
        let lines = OPERATIONS.map(|goal| self.line(goal));
        let lines = lines.into_iter().filter(|line| !page.contains(line));
        let has_cell = |fault: &str, operation: &str| {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| {fault} |")));
            let column = OPERATIONS
                .iter()
                .position(|goal| operation_name(*goal) == operation);
            let cell = row.zip(column).and_then(|(row, column)| {
                let cell = row.split('|').nth(column + 2)?;
                Some(!cell.trim().is_empty())
            });
            cell.unwrap_or(false)
        };
        let cells = self.cases.keys();
        let cells = cells.filter(|(fault, operation)| !has_cell(fault, operation));
        let cells = cells.map(|(fault, operation)| format!("{fault} of {operation}"));
        lines.chain(cells).collect()
    }

    /// An operation's line in the first table, without its number of cases.
    fn line(&self, goal: Goal) -> String {
        let name = operation_name(goal);
        let (calls, writes) = self.calls.get(name).copied().unwrap_or_default();
        format!("| {name} | {calls} | {writes} |")
    }

    fn page(&self) -> String {
        let mut text = HEAD.to_owned();
        let cases = |operation: &str| -> usize {
            let cases = self.cases.iter();
            let of = cases.filter(|((_, name), _)| *name == operation);
            of.map(|(_, count)| count).sum()
        };
        text.push_str(
            "\n| operation | calls of Neutron | of them writes | cases |\n|---|---|---|---|\n",
        );
        for goal in OPERATIONS {
            let count = cases(operation_name(goal));
            let _ = writeln!(text, "{} {count} |", self.line(goal));
        }
        let _ = writeln!(text, "| all | | | {} |", self.count());
        let names = OPERATIONS.map(operation_name);
        let _ = writeln!(text, "\n## ports\n\n| fault | {} |", names.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
        let mut faults: Vec<_> = self.cases.keys().map(|(fault, _)| *fault).collect();
        faults.dedup();
        for fault in faults {
            let cells = names.map(|name| match self.cases.get(&(fault, name)) {
                Some(count) => format!("done {count}"),
                None => String::new(),
            });
            let _ = writeln!(text, "| {fault} | {} |", cells.join(" | "));
        }
        text
    }
}

fn is_read(what: &str) -> bool {
    what.starts_with("network GET")
}

//! Parses a machine file. One pass finds all errors, each with its position.

mod device;
mod fault;
mod field;
mod guest;
mod node;

use std::collections::BTreeMap;
use std::ops::Range;

use berth_virt::{HypervisorInfo, NumaModel, PcpuModel, ResourceModel, VgpuModel};
use toml::de::DeTable;

use crate::machine::{Machine, MachineNode};
use crate::problem::{MachineError, Problem, Problems};
use field::{MachineField, Table};

/// The most of anything (Placement's largest total): 2^31 - 1.
const MOST: u64 = i32::MAX as u64;

const AT_LEAST_ONE: &str = "a machine has at least one [[node]]";

impl Machine {
    /// Parses a machine file. `file` is the file name in error texts.
    ///
    /// Errors: All problems, if the text is not TOML or not a valid machine.
    pub fn from_text(file: &str, text: &str) -> Result<Machine, MachineError> {
        read(text).map_err(|problems| MachineError::Refused {
            file: file.to_owned(),
            problems,
        })
    }
}

/// State of the parser.
struct MachineParser<'t> {
    problems: Problems<'t>,
    /// Unique values seen so far, by kind and text, with the key of the first occurrence.
    taken: BTreeMap<(&'static str, String), String>,
}

impl MachineParser<'_> {
    fn wrong(&mut self, span: &Range<usize>, key: &str, text: impl Into<String>) {
        self.problems.add(span, key, text);
    }

    /// Reports a second occurrence of a value that must be unique.
    fn once(&mut self, what: &'static str, shown: impl ToString, field: &MachineField<'_>) {
        let place = (what, shown.to_string());
        if let Some(first) = self.taken.get(&place) {
            let text = format!("{what} {} is already at {first}", place.1);
            self.wrong(&field.span(), &field.key, text);
        } else {
            self.taken.insert(place, field.key.clone());
        }
    }
}

fn read(text: &str) -> Result<Machine, Vec<Problem>> {
    let mut reading = MachineParser {
        problems: Problems::of(text),
        taken: BTreeMap::new(),
    };
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            let first = error.message().lines().next().unwrap_or("no TOML");
            reading.wrong(&span, "", format!("this is not valid TOML: {first}"));
            return Err(reading.problems.into_sorted());
        }
    };
    let top = Table::top(document.get_ref());
    let machine = machine(&top, &mut reading);
    let problems = reading.problems.into_sorted();
    match machine {
        Some(machine) if problems.is_empty() => Ok(machine),
        _ => Err(problems),
    }
}

fn machine(top: &Table<'_>, reading: &mut MachineParser<'_>) -> Option<Machine> {
    top.only(&["hypervisor", "model", "node"], reading);
    let model = match top.field("model") {
        Some(field) => model(&field, ResourceModel::default(), reading),
        None => ResourceModel::default(),
    };
    let field = top.need("node", AT_LEAST_ONE, reading)?;
    let tables = field.tables(reading);
    if tables.is_empty() && field.is_list() {
        field.wrong(AT_LEAST_ONE, reading);
    }
    let nodes: Vec<MachineNode> = tables
        .iter()
        .filter_map(|table| node::node(table, model, reading))
        .collect();
    let hostname = nodes.first()?.name.to_string();
    let hypervisor = hypervisor(top, hostname, reading);
    Some(Machine { hypervisor, nodes })
}

fn hypervisor(
    top: &Table<'_>,
    hostname: String,
    reading: &mut MachineParser<'_>,
) -> HypervisorInfo {
    let table = top
        .field("hypervisor")
        .and_then(|field| field.table(reading));
    let mut hypervisor = HypervisorInfo {
        kind: "fake".to_owned(),
        version: "1.0".to_owned(),
        hostname,
    };
    if let Some(table) = table {
        table.only(&["kind", "version", "hostname"], reading);
        for (key, place) in [
            ("kind", &mut hypervisor.kind),
            ("version", &mut hypervisor.version),
            ("hostname", &mut hypervisor.hostname),
        ] {
            if let Some(text) = table.field(key).and_then(|field| field.text(reading)) {
                *place = text.to_owned();
            }
        }
    }
    hypervisor
}

/// Parses a `[model]`; the given model provides missing keys.
fn model(
    field: &MachineField<'_>,
    otherwise: ResourceModel,
    reading: &mut MachineParser<'_>,
) -> ResourceModel {
    let Some(table) = field.table(reading) else {
        return otherwise;
    };
    table.only(&["vgpu", "numa", "pcpu"], reading);
    let mut model = otherwise;
    if let Some(field) = table.field("vgpu") {
        let words = [("root", VgpuModel::Root), ("per-gpu", VgpuModel::PerGpu)];
        model.vgpu = field.one_of(&words, reading).unwrap_or(model.vgpu);
    }
    if let Some(field) = table.field("numa") {
        let words = [("flat", NumaModel::Flat), ("cells", NumaModel::Cells)];
        model.numa = field.one_of(&words, reading).unwrap_or(model.numa);
    }
    if let Some(field) = table.field("pcpu") {
        let words = [("vcpu", PcpuModel::Vcpu), ("pcpu", PcpuModel::Pcpu)];
        model.pcpu = field.one_of(&words, reading).unwrap_or(model.pcpu);
    }
    model
}

//! Parses a machine file. One pass finds all errors, each with its position.

mod device;
mod fault;
mod guest;
mod node;

use berth_options::document::{DocumentField, DocumentParser, DocumentTable, parse_document};
use berth_virt::{HypervisorInfo, NumaModel, PcpuModel, ResourceModel, VgpuModel};

use crate::machine::{Machine, MachineNode};
use crate::problem::MachineError;

/// The most of anything (Placement's largest total): 2^31 - 1.
const MOST: u64 = i32::MAX as u64;

const AT_LEAST_ONE: &str = "a machine has at least one [[node]]";

impl Machine {
    /// Parses a machine file. `file` is the file name in error texts.
    ///
    /// Errors: All problems, if the text is not TOML or not a valid machine.
    pub fn from_text(file: &str, text: &str) -> Result<Machine, MachineError> {
        parse_document(text, machine).map_err(|problems| MachineError::Refused {
            file: file.to_owned(),
            problems,
        })
    }
}

fn machine(top: &DocumentTable<'_>, reading: &mut DocumentParser<'_>) -> Option<Machine> {
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
    top: &DocumentTable<'_>,
    hostname: String,
    reading: &mut DocumentParser<'_>,
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
    field: &DocumentField<'_>,
    otherwise: ResourceModel,
    reading: &mut DocumentParser<'_>,
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

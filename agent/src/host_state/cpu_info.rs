//! A node's processor in Nova's form: a text that contains JSON. Pure.

use std::collections::BTreeSet;

use berth_virt::Processor;
use serde::Serialize;

#[derive(Serialize)]
struct NovaCpuInfo<'a> {
    arch: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vendor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topology: Option<Topology>,
    features: &'a BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maxphysaddr: Option<Width>,
}

#[derive(Serialize)]
struct Topology {
    cells: u32,
    sockets: u32,
    cores: u32,
    threads: u32,
}

#[derive(Serialize)]
struct Width {
    bits: u32,
}

pub(super) fn text(processor: &Processor) -> String {
    let info = NovaCpuInfo {
        arch: &processor.arch,
        model: processor.model.as_deref(),
        vendor: processor.vendor.as_deref(),
        topology: processor.topology.map(|it| Topology {
            cells: it.cells,
            sockets: it.sockets,
            cores: it.cores,
            threads: it.threads,
        }),
        features: &processor.features,
        maxphysaddr: processor.physical_address_bits.map(|bits| Width { bits }),
    };
    String::from_utf8_lossy(&berth_wire::encode(&info)).into_owned()
}

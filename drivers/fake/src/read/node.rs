//! Parses a `[[node]]` and its tables.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{NodeName, PciAddress, ResourceClass, did_you_mean};
use berth_options::document::{DocumentField, DocumentParser, DocumentTable};
use berth_virt::{
    CpuSet, CustomResource, DeviceOwner, HostNumaCell, NodeCpus, NodeDisk, OfferedDevice,
    PciInPlacement, ResourceModel, VirtualFunctions,
};

use super::{MOST, device, fault, guest, model};
use crate::machine::{Gpu, MachineNode};

const KEYS: [&str; 15] = [
    "name",
    "uuid",
    "model",
    "memory_mib",
    "disk",
    "traits",
    "cpus",
    "cell",
    "gpu",
    "nic",
    "device",
    "report_pci_in_placement",
    "custom",
    "fault",
    "guest",
];

pub(super) fn node(
    table: &DocumentTable<'_>,
    otherwise: ResourceModel,
    reading: &mut DocumentParser<'_>,
) -> Option<MachineNode> {
    table.only(&KEYS, reading);
    let right = "the node's name, for example name = \"gpu-01\"";
    let name = table.need("name", right, reading);
    let name: Option<NodeName> = name.and_then(|field| {
        let name: NodeName = field.parsed(reading)?;
        reading.once("node", &name, &field);
        Some(name)
    });
    let uuid = table.field("uuid").and_then(|field| {
        let uuid = field.parsed(reading)?;
        reading.once("UUID", uuid, &field);
        Some(uuid)
    });
    let model = match table.field("model") {
        Some(field) => model(&field, otherwise, reading),
        None => otherwise,
    };
    let memory_mib = table
        .need("memory_mib", "the node's memory in MiB", reading)
        .and_then(|field| field.number(0..=MOST, "MiB", reading));
    let disk = table
        .need(
            "disk",
            "GiB of its own disk, \"shared\" or \"none\"",
            reading,
        )
        .and_then(|field| disk(&field, reading));
    let traits = table.field("traits").map(|field| field.list(reading));
    let traits = traits.into_iter().flatten();
    let traits = traits.filter_map(|field| field.parsed(reading)).collect();
    let cpus = table.need("cpus", "a table, as cpus = { online = \"0-63\" }", reading);
    let cpus = cpus.and_then(|field| cpus_of(&field, reading));
    let cells = each(table, "cell", cell, reading);
    // The model may combine the devices of all GPUs in one inventory.
    let mut offered: u64 = 0;
    let mut gpus = each(
        table,
        "gpu",
        |table, reading| {
            let gpu = gpu(table, &cells, reading)?;
            let enabled = gpu.enabled.as_ref().and_then(|name| gpu.types.get(name));
            offered = offered.saturating_add(enabled.copied().unwrap_or(0));
            if offered > MOST
                && let Some(field) = table.field("types")
            {
                let text = format!(
                    "the node's GPUs offer {offered} devices; at most {MOST} fit an inventory"
                );
                field.wrong(text, reading);
            }
            Some(gpu)
        },
        reading,
    );
    gpus.sort_by_key(|gpu| gpu.address);
    let nics = each(
        table,
        "nic",
        |table, reading| nic(table, &cells, reading),
        reading,
    );
    let mut devices = each(
        table,
        "device",
        |table, reading| device::device(table, name.as_ref(), &cells, reading),
        reading,
    );
    devices.sort_by_key(|device| device.address);
    let pci = pci(table, &devices, reading);
    let customs = each(table, "custom", custom, reading);
    let mut node = MachineNode {
        name: name?,
        uuid,
        model,
        cpus: cpus?,
        memory_mib: memory_mib?,
        disk: disk?,
        cells,
        gpus,
        nics,
        devices,
        pci: pci?,
        customs,
        traits,
        faults: each(table, "fault", fault::fault, reading)
            .into_iter()
            .collect(),
        guests: Vec::new(),
    };
    node.guests = each(
        table,
        "guest",
        |table, reading| guest::guest(table, &node, reading),
        reading,
    );
    Some(node)
}

/// The tables below a key; empty without the key.
fn each<'a, T>(
    table: &DocumentTable<'a>,
    key: &str,
    mut read: impl FnMut(&DocumentTable<'a>, &mut DocumentParser<'_>) -> Option<T>,
    reading: &mut DocumentParser<'_>,
) -> Vec<T> {
    let tables = table.tables(key, reading);
    tables
        .iter()
        .filter_map(|table| read(table, reading))
        .collect()
}

fn disk(field: &DocumentField<'_>, reading: &mut DocumentParser<'_>) -> Option<NodeDisk> {
    if field.is_text() {
        return field.one_of(
            &[("shared", NodeDisk::Shared), ("none", NodeDisk::None)],
            reading,
        );
    }
    let gib = field.number(0..=MOST, "GiB", reading)?;
    Some(NodeDisk::Local { gib })
}

fn cpus_of(field: &DocumentField<'_>, reading: &mut DocumentParser<'_>) -> Option<NodeCpus> {
    let table = field.table(reading)?;
    table.only(&["online", "shared", "dedicated"], reading);
    let online = table.need("online", "the CPUs that are online, as \"0-63\"", reading)?;
    let online: CpuSet = online.parsed(reading)?;
    let mut part = |name: &str| {
        let field = table.field(name)?;
        let cpus: CpuSet = field.parsed(reading)?;
        let offline = cpus.difference(&online);
        if !offline.is_empty() {
            let text = format!("CPUs {offline} are not online; use CPUs of {online}");
            field.wrong(text, reading);
        }
        Some(cpus)
    };
    let (shared, dedicated) = (part("shared"), part("dedicated"));
    if let (Some(shared), Some(dedicated)) = (&shared, &dedicated) {
        let both = shared.intersection(dedicated);
        if !both.is_empty() {
            let text = format!("CPUs {both} are shared and dedicated; a CPU is one of them");
            field.wrong(text, reading);
        }
    }
    Some(NodeCpus {
        online,
        shared,
        dedicated,
    })
}

fn cell(table: &DocumentTable<'_>, reading: &mut DocumentParser<'_>) -> Option<HostNumaCell> {
    table.only(
        &[
            "id",
            "cpus",
            "memory_mib",
            "siblings",
            "huge_pages",
            "small_page_kib",
            "socket",
        ],
        reading,
    );
    let id = table.need("id", "the cell's number", reading);
    let cpus = table.need("cpus", "the cell's CPUs, as \"0-31\"", reading);
    let memory = table.need("memory_mib", "the cell's memory in MiB", reading);
    let id = id.and_then(|field| {
        let id = cell_id(&field, reading)?;
        reading.once("cell", within(table, id), &field);
        Some(id)
    });
    let cpus = cpus.and_then(|field| field.parsed(reading));
    let memory_mib = memory.and_then(|field| field.number(0..=MOST, "MiB", reading));
    let siblings = table.field("siblings").map(|field| field.list(reading));
    let siblings = siblings.into_iter().flatten();
    let siblings = siblings.filter_map(|field| field.parsed(reading)).collect();
    let huge_pages = table
        .field("huge_pages")
        .map(|field| huge_pages(&field, reading));
    let small_page = table.field("small_page_kib");
    let small_page = small_page.and_then(|field| field.number(1..=65_536, "KiB", reading));
    let socket = table.field("socket");
    let socket = socket.and_then(|field| field.number(0..=65_535, "the socket's number", reading));
    let cell = HostNumaCell::new(id?, cpus?, memory_mib?);
    Some(HostNumaCell {
        socket: socket.and_then(|it| u32::try_from(it).ok()),
        siblings,
        huge_pages: huge_pages.unwrap_or_default(),
        small_page_kib: small_page.unwrap_or(cell.small_page_kib),
        ..cell
    })
}

/// `{ 2048 = 512 }`: how many, by size in KiB.
fn huge_pages(field: &DocumentField<'_>, reading: &mut DocumentParser<'_>) -> BTreeMap<u64, u64> {
    let mut pages = BTreeMap::new();
    let table = field.table(reading);
    for (size, field) in table.iter().flat_map(DocumentTable::fields) {
        match size.parse() {
            Ok(size) => {
                pages.extend(
                    field
                        .number(0..=MOST, "pages", reading)
                        .map(|count| (size, count)),
                );
            }
            Err(_) => {
                let text = format!(
                    "{size:?} is not a page size; expected a number of KiB, for example 2048 = 512"
                );
                field.wrong(text, reading);
            }
        }
    }
    pages
}

/// Whether PCI devices are reported to Placement: as configured, by default if the node has some.
fn pci(
    table: &DocumentTable<'_>,
    devices: &[OfferedDevice],
    reading: &mut DocumentParser<'_>,
) -> Option<PciInPlacement> {
    let has_some = devices
        .iter()
        .any(|device| device.owner == DeviceOwner::Compute);
    let field = table.field("report_pci_in_placement");
    let reported = field.map_or(Some(has_some), |field| field.flag(reading))?;
    Some(match reported {
        true => PciInPlacement::Reported,
        false => PciInPlacement::NotReported,
    })
}

/// A name qualified by its node, because two nodes may have the same addresses and cells.
pub(super) fn within(table: &DocumentTable<'_>, shown: impl ToString) -> String {
    let node = table.key.split('.').next().unwrap_or_default();
    format!("{} of {node}", shown.to_string())
}

/// The number of a NUMA cell.
pub(super) fn cell_id(field: &DocumentField<'_>, reading: &mut DocumentParser<'_>) -> Option<u32> {
    let cell = field.number(0..=1023, "the NUMA cell (its number)", reading)?;
    u32::try_from(cell).ok()
}

/// The NUMA cell of a device. It must exist if the node lists its cells.
pub(super) fn numa(
    table: &DocumentTable<'_>,
    cells: &[HostNumaCell],
    reading: &mut DocumentParser<'_>,
) -> Option<u32> {
    let field = table.field("numa")?;
    let id = cell_id(&field, reading)?;
    if !cells.is_empty() && !cells.iter().any(|cell| cell.id == id) {
        field.wrong(no_such_cell(id, cells), reading);
    }
    Some(id)
}

pub(super) fn no_such_cell(id: u32, cells: &[HostNumaCell]) -> String {
    let known: Vec<_> = cells.iter().map(|cell| cell.id.to_string()).collect();
    if known.is_empty() {
        return format!("unknown NUMA cell {id}; the node has none");
    }
    format!("unknown NUMA cell {id}; the node has {}", known.join(", "))
}

pub(super) fn address(
    table: &DocumentTable<'_>,
    reading: &mut DocumentParser<'_>,
) -> Option<PciAddress> {
    let field = table.need("address", "its PCI address, as \"0000:84:00.0\"", reading)?;
    let address: PciAddress = field.parsed(reading)?;
    reading.once("PCI device", within(table, address), &field);
    Some(address)
}

fn gpu(
    table: &DocumentTable<'_>,
    cells: &[HostNumaCell],
    reading: &mut DocumentParser<'_>,
) -> Option<Gpu> {
    table.only(&["address", "numa", "types", "enabled", "class"], reading);
    let address = address(table, reading);
    let numa_node = numa(table, cells, reading);
    let right = "its mediated device types, for example types = { nvidia-558 = 16 }";
    let types = table.need("types", right, reading);
    let types = types.and_then(|field| field.table(reading))?;
    let types = types.fields().into_iter().filter_map(|(name, field)| {
        let count = field.number(0..=MOST, "devices there can be", reading)?;
        Some((name.to_owned(), count))
    });
    let types: std::collections::BTreeMap<_, _> = types.collect();
    let enabled = table.field("enabled").and_then(|field| {
        let enabled = field.text(reading)?;
        if !types.contains_key(enabled) {
            let known: Vec<_> = types.keys().map(String::as_str).collect();
            let right = did_you_mean(enabled, &known);
            let text = format!("the GPU has no type {enabled:?}; {right}");
            field.wrong(text, reading);
        }
        Some(enabled.to_owned())
    });
    let class = table.field("class");
    let class = class.map_or(Some(ResourceClass::VGPU), |field| field.parsed(reading));
    Some(Gpu {
        address: address?,
        numa_node,
        types,
        enabled,
        class: class?,
    })
}

fn nic(
    table: &DocumentTable<'_>,
    cells: &[HostNumaCell],
    reading: &mut DocumentParser<'_>,
) -> Option<VirtualFunctions> {
    table.only(&["address", "numa", "class", "functions"], reading);
    let physical = address(table, reading);
    let numa_node = numa(table, cells, reading);
    let class = table.field("class");
    let class = class.map_or(Some(ResourceClass::SRIOV_NET_VF), |field| {
        field.parsed(reading)
    });
    let right = "the PCI addresses of its virtual functions, a list";
    let functions = table.need("functions", right, reading)?.list(reading);
    let mut addresses = BTreeSet::new();
    for field in functions {
        if let Some(function) = field.parsed::<PciAddress>(reading) {
            reading.once("PCI device", within(table, function), &field);
            addresses.insert(function);
        }
    }
    Some(VirtualFunctions {
        physical: physical?,
        addresses,
        numa_node,
        class: class?,
    })
}

fn custom(table: &DocumentTable<'_>, reading: &mut DocumentParser<'_>) -> Option<CustomResource> {
    table.only(&["class", "formerly", "total"], reading);
    let class = table.need("class", "a resource class, as \"CUSTOM_CARD\"", reading);
    let class = class.and_then(|field| {
        let class: ResourceClass = field.parsed(reading)?;
        if REPORTED_ELSEWHERE.contains(&class) {
            let text = format!("{class} is reported from the node's own keys; use another class");
            field.wrong(text, reading);
        }
        reading.once("class", within(table, &class), &field);
        Some(class)
    });
    let total = table.need("total", "the total amount", reading);
    let total = total.and_then(|field| field.number(0..=MOST, "units", reading));
    let formerly = table.field("formerly").map(|field| field.list(reading));
    let mut names = BTreeSet::new();
    for field in formerly.into_iter().flatten() {
        if let Some(name) = field.parsed::<ResourceClass>(reading) {
            reading.once("former class", within(table, &name), &field);
            names.insert(name);
        }
    }
    Some(CustomResource {
        class: class?,
        formerly: names,
        total: total?,
    })
}

const REPORTED_ELSEWHERE: [ResourceClass; 5] = [
    ResourceClass::VCPU,
    ResourceClass::PCPU,
    ResourceClass::MEMORY_MB,
    ResourceClass::DISK_GB,
    ResourceClass::VGPU,
];

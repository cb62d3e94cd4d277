//! Parses a guest's document (the domain XML): its devices and placement.
//!
//! Read-only: a guest is never changed by writing back this value, because it omits most of the document.

mod placement;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::PciAddress;
use berth_sysfs::{Sysfs, SysfsError};
use berth_virt::{CpuSet, PowerState};
use roxmltree::Node;
use uuid::Uuid;

use crate::guest_metadata::GuestMetadata;
use crate::xml::{self, Reader, XmlError};

/// A guest, as described by its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LibvirtGuest {
    /// The UUID of the guest and its instance.
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) power: PowerState,
    pub(crate) vcpus: u32,
    /// Its memory in MiB.
    pub(crate) memory_mib: u64,
    /// The allowed host CPUs of each virtual CPU; missing if unrestricted.
    pub(crate) pins: BTreeMap<u32, CpuSet>,
    /// The guest's NUMA cells by number: virtual CPUs, and memory in MiB.
    pub(crate) cells: BTreeMap<u32, (CpuSet, u64)>,
    /// The host cells of each guest cell's memory.
    pub(crate) cell_nodes: BTreeMap<u32, CpuSet>,
    /// The host cells of its memory as a whole.
    pub(crate) nodes: Option<CpuSet>,
    pub(crate) mdevs: Vec<Uuid>,
    /// The functions that are passed through.
    pub(crate) functions: BTreeSet<PciAddress>,
    /// The host's network interfaces below its macvtaps.
    pub(crate) macvtap_links: BTreeSet<String>,
    /// Our metadata, if the guest is ours.
    pub(crate) mark: Option<GuestMetadata>,
}

impl LibvirtGuest {
    pub(crate) fn read(text: &str) -> Result<Self, XmlError> {
        let reader = Reader::new("a guest", "domain", text)?;
        let domain = reader.root();
        let memory = xml::find(domain, &["memory"]);
        Ok(Self {
            uuid: reader.required("uuid", xml::text(domain, &["uuid"]), "a UUID", |text| {
                Uuid::parse_str(text).ok()
            })?,
            name: reader.required("name", xml::text(domain, &["name"]), "a name", |text| {
                (!text.is_empty()).then(|| text.to_owned())
            })?,
            // libvirt numbers active guests only.
            power: match domain.attribute("id") {
                Some(_) => PowerState::Running,
                None => PowerState::ShutOff,
            },
            vcpus: reader.required("vcpu", xml::text(domain, &["vcpu"]), "a number", |text| {
                text.parse().ok()
            })?,
            memory_mib: memory.and_then(xml::kibibytes).ok_or_else(|| {
                reader.unexpected("memory", "", "an amount in a unit libvirt knows")
            })? / 1024,
            pins: pins(&reader, domain)?,
            cells: cells(&reader, domain)?,
            cell_nodes: cell_nodes(&reader, domain)?,
            nodes: nodes(&reader, domain)?,
            mdevs: mdevs(&reader, domain)?,
            functions: functions(&reader, domain)?,
            macvtap_links: macvtap_links(domain),
            mark: GuestMetadata::read(&reader, domain)?,
        })
    }
}

const A_SET: &str = "numbers and ranges, as in 0-3,8";

/// The allowed host CPUs of each virtual CPU, if the document restricts them.
pub(crate) fn pins(
    reader: &Reader<'_>,
    domain: Node<'_, '_>,
) -> Result<BTreeMap<u32, CpuSet>, XmlError> {
    let mut pins = BTreeMap::new();
    // `<vcpu cpuset=..>` applies to virtual CPUs without a pin of their own.
    if let Some(every) = xml::find(domain, &["vcpu"]).and_then(|vcpu| vcpu.attribute("cpuset")) {
        let every: CpuSet = set(reader, "vcpu/@cpuset", Some(every))?;
        let count: u32 =
            reader.required("vcpu", xml::text(domain, &["vcpu"]), "a number", |n| {
                n.parse().ok().filter(|count| *count <= MOST_VCPUS)
            })?;
        pins.extend((0..count).map(|vcpu| (vcpu, every.clone())));
    }
    for pin in xml::find(domain, &["cputune"])
        .into_iter()
        .flat_map(|tune| xml::children(tune, "vcpupin"))
    {
        let vcpu = reader.required(
            "cputune/vcpupin/@vcpu",
            pin.attribute("vcpu"),
            "a number",
            |text| text.parse().ok(),
        )?;
        let cpus = set(reader, "cputune/vcpupin/@cpuset", pin.attribute("cpuset"))?;
        pins.insert(vcpu, cpus);
    }
    Ok(pins)
}

/// More virtual CPUs than any machine type takes.
const MOST_VCPUS: u32 = 65_535;

fn set(reader: &Reader<'_>, element: &'static str, text: Option<&str>) -> Result<CpuSet, XmlError> {
    reader.required(element, text, A_SET, |text| {
        text.parse().ok().filter(|set: &CpuSet| !set.is_empty())
    })
}

fn cells(
    reader: &Reader<'_>,
    domain: Node<'_, '_>,
) -> Result<BTreeMap<u32, (CpuSet, u64)>, XmlError> {
    let mut cells = BTreeMap::new();
    let listed = xml::find(domain, &["cpu", "numa"])
        .into_iter()
        .flat_map(|numa| xml::children(numa, "cell"));
    for (position, cell) in (0u32..).zip(listed) {
        let id = match cell.attribute("id") {
            Some(id) => reader.required("cpu/numa/cell/@id", Some(id), "a number", |text| {
                text.parse().ok()
            })?,
            None => position,
        };
        // A cell of memory alone names no CPUs.
        let cpus = match cell.attribute("cpus") {
            Some(cpus) => set(reader, "cpu/numa/cell/@cpus", Some(cpus))?,
            None => CpuSet::default(),
        };
        let memory = reader.required(
            "cpu/numa/cell/@memory",
            cell.attribute("memory"),
            "an amount",
            |amount| xml::kibibytes_of(amount, cell.attribute("unit")),
        )?;
        cells.insert(id, (cpus, memory / 1024));
    }
    Ok(cells)
}

fn cell_nodes(
    reader: &Reader<'_>,
    domain: Node<'_, '_>,
) -> Result<BTreeMap<u32, CpuSet>, XmlError> {
    let mut nodes = BTreeMap::new();
    for one in xml::find(domain, &["numatune"])
        .into_iter()
        .flat_map(|tune| xml::children(tune, "memnode"))
    {
        let cell = reader.required(
            "numatune/memnode/@cellid",
            one.attribute("cellid"),
            "a number",
            |text| text.parse().ok(),
        )?;
        let from = set(
            reader,
            "numatune/memnode/@nodeset",
            one.attribute("nodeset"),
        )?;
        nodes.insert(cell, from);
    }
    Ok(nodes)
}

fn nodes(reader: &Reader<'_>, domain: Node<'_, '_>) -> Result<Option<CpuSet>, XmlError> {
    let memory = xml::find(domain, &["numatune", "memory"]);
    // Automatic placement names no cells in the document of a guest that is off.
    match memory.and_then(|memory| memory.attribute("nodeset")) {
        Some(from) => set(reader, "numatune/memory/@nodeset", Some(from)).map(Some),
        None => Ok(None),
    }
}

/// The passthrough devices of one type.
fn hostdevs<'a, 't: 'a>(
    domain: Node<'a, 't>,
    wanted: &'static str,
) -> impl Iterator<Item = Node<'a, 't>> {
    xml::find(domain, &["devices"])
        .into_iter()
        .flat_map(|devices| xml::children(devices, "hostdev"))
        .filter(move |device| device.attribute("type") == Some(wanted))
}

fn mdevs(reader: &Reader<'_>, domain: Node<'_, '_>) -> Result<Vec<Uuid>, XmlError> {
    hostdevs(domain, "mdev")
        .map(|device| {
            let address = xml::find(device, &["source", "address"]);
            reader.required(
                "hostdev/source/address/@uuid",
                address.and_then(|address| address.attribute("uuid")),
                "a UUID",
                |text| Uuid::parse_str(text).ok(),
            )
        })
        .collect()
}

fn functions(reader: &Reader<'_>, domain: Node<'_, '_>) -> Result<BTreeSet<PciAddress>, XmlError> {
    let network = xml::find(domain, &["devices"])
        .into_iter()
        .flat_map(|devices| xml::children(devices, "interface"))
        .filter(|interface| interface.attribute("type") == Some("hostdev"));
    hostdevs(domain, "pci")
        .chain(network)
        .filter_map(|device| xml::find(device, &["source", "address"]))
        .map(|address| {
            pci_address(address)
                .ok_or_else(|| reader.unexpected("source/address", "", "a PCI function's address"))
        })
        .collect()
}

/// The host's network interfaces below a guest's macvtaps.
pub(crate) fn macvtap_links(domain: Node<'_, '_>) -> BTreeSet<String> {
    xml::find(domain, &["devices"])
        .into_iter()
        .flat_map(|devices| xml::children(devices, "interface"))
        .filter(|interface| interface.attribute("type") == Some("direct"))
        .filter_map(|interface| xml::find(interface, &["source"])?.attribute("dev"))
        .map(str::to_owned)
        .collect()
}

/// The functions below a guest's macvtaps.
///
/// None for a guest of Berth that is off: its definition may have the previous name of an interface, and is written again
/// before it starts. The journal has its functions.
pub(crate) fn macvtap_functions(
    links: &BTreeSet<String>,
    (state, is_own): (PowerState, bool),
    sysfs: Option<&Sysfs>,
) -> Result<BTreeSet<PciAddress>, SysfsError> {
    let sysfs = sysfs.filter(|_| !(is_own && state == PowerState::ShutOff));
    let Some(sysfs) = sysfs else {
        return Ok(BTreeSet::new());
    };
    let functions = links
        .iter()
        .map(|link| sysfs.function_of_network_name(link));
    functions.filter_map(Result::transpose).collect()
}

/// Parses a PCI address. libvirt writes numbers as `0x..` and also accepts decimal ones. A missing domain is 0.
pub(crate) fn pci_address(address: Node<'_, '_>) -> Option<PciAddress> {
    let number = |name: &str| -> Option<u32> {
        let text = address.attribute(name)?;
        match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let domain = match address.attribute("domain") {
        Some(_) => number("domain")?,
        None => 0,
    };
    let (bus, slot, function) = (number("bus")?, number("slot")?, number("function")?);
    format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
        .parse()
        .ok()
}

#[cfg(test)]
mod tests;

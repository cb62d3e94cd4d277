//! A guest's document (the domain XML): what it was given and where it was placed. From text to value.
//!
//! Reading only: a guest is never changed by writing back what was read here, since most of the document is left out.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::PciAddress;
use berth_virt::{CpuPolicy, CpuSet, GuestCell, NumaCell, PowerState};
use roxmltree::Node;
use uuid::Uuid;

use crate::xml::{self, Reader, XmlError};

/// A guest, as its document states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guest {
    /// Its UUID, which is the instance's.
    pub(crate) uuid: Uuid,
    /// Its name.
    pub(crate) name: String,
    /// Whether it runs.
    pub(crate) power: PowerState,
    /// Its virtual CPUs.
    pub(crate) vcpus: u32,
    /// Its memory in MiB.
    pub(crate) memory_mib: u64,
    /// The host CPUs each virtual CPU may run on; none where it may run on any.
    pub(crate) pins: BTreeMap<u32, CpuSet>,
    /// Its own NUMA cells, by number: virtual CPUs and memory in MiB.
    pub(crate) cells: BTreeMap<u32, (CpuSet, u64)>,
    /// The host cells the memory of each of its own cells is from.
    pub(crate) cell_nodes: BTreeMap<u32, CpuSet>,
    /// The host cells its memory is from as a whole.
    pub(crate) nodes: Option<CpuSet>,
    /// The mediated devices it was given.
    pub(crate) mdevs: Vec<Uuid>,
    /// The PCI functions it was given.
    pub(crate) functions: BTreeSet<PciAddress>,
}

impl Guest {
    /// Reads the document.
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
            // libvirt numbers the guests that are active, and only those.
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
        })
    }

    /// How its CPUs are placed, given the CPUs that guests are pinned to: a virtual CPU is dedicated where all host CPUs it
    /// may run on are.
    pub(crate) fn cpu_policy(&self, dedicated: &CpuSet) -> CpuPolicy {
        let is_dedicated =
            |pin: &CpuSet| !pin.is_empty() && pin.iter().all(|cpu| dedicated.contains(cpu));
        let count = self
            .pins
            .iter()
            .filter(|(vcpu, pin)| **vcpu < self.vcpus && is_dedicated(pin))
            .count() as u64;
        match count {
            0 => CpuPolicy::Shared,
            all if all >= u64::from(self.vcpus) => CpuPolicy::Dedicated,
            dedicated => CpuPolicy::Mixed { dedicated },
        }
    }

    /// The host's cells it is placed on, and what of it is on each. Empty for a guest without NUMA placement, and for one
    /// whose document does not say for certain.
    pub(crate) fn placement(&self, host: &[NumaCell]) -> Vec<GuestCell> {
        let shares = if self.cells.is_empty() {
            self.whole_on_one_cell(host).map(|cell| vec![cell])
        } else {
            self.cells
                .iter()
                .map(|(id, (vcpus, memory_mib))| {
                    Some(GuestCell {
                        host_cell: self.host_cell(*id, vcpus, host)?,
                        vcpus: vcpus.len() as u64,
                        memory_mib: *memory_mib,
                    })
                })
                .collect::<Option<Vec<_>>>()
        };
        together(shares.unwrap_or_default())
    }

    /// The host's cell of one of the guest's: where its memory is from, else where its CPUs are pinned to.
    fn host_cell(&self, cell: u32, vcpus: &CpuSet, host: &[NumaCell]) -> Option<u32> {
        let from = self.cell_nodes.get(&cell).or(self.nodes.as_ref());
        from.map_or_else(|| self.pinned_to_one(vcpus.iter(), host), single)
    }

    fn whole_on_one_cell(&self, host: &[NumaCell]) -> Option<GuestCell> {
        let host_cell = match &self.nodes {
            Some(nodes) => single(nodes),
            None => self.pinned_to_one(0..self.vcpus, host),
        }?;
        Some(GuestCell {
            host_cell,
            vcpus: u64::from(self.vcpus),
            memory_mib: self.memory_mib,
        })
    }

    /// The one cell that has all host CPUs these virtual CPUs may run on.
    fn pinned_to_one(&self, vcpus: impl Iterator<Item = u32>, host: &[NumaCell]) -> Option<u32> {
        let mut pins = vcpus.map(|vcpu| self.pins.get(&vcpu)).peekable();
        pins.peek()?;
        let allowed: Vec<&CpuSet> = pins.collect::<Option<_>>()?;
        let mut holding = host.iter().filter(|cell| {
            allowed
                .iter()
                .all(|pin| !pin.is_empty() && pin.iter().all(|cpu| cell.cpus.contains(cpu)))
        });
        holding.next().map(|cell| cell.id)
    }
}

/// The only member of a set of one.
fn single(set: &CpuSet) -> Option<u32> {
    let mut members = set.iter();
    members.next().filter(|_| members.next().is_none())
}

/// Shares on one host cell added up, by cell.
fn together(shares: Vec<GuestCell>) -> Vec<GuestCell> {
    let mut by_cell: BTreeMap<u32, GuestCell> = BTreeMap::new();
    for share in shares {
        by_cell
            .entry(share.host_cell)
            .and_modify(|sum| {
                sum.vcpus += share.vcpus;
                sum.memory_mib += share.memory_mib;
            })
            .or_insert(share);
    }
    by_cell.into_values().collect()
}

const A_SET: &str = "numbers and ranges, as in 0-3,8";

fn pins(reader: &Reader<'_>, domain: Node<'_, '_>) -> Result<BTreeMap<u32, CpuSet>, XmlError> {
    let mut pins = BTreeMap::new();
    // `<vcpu cpuset=..>` is where virtual CPUs run that are not pinned one by one.
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

/// The devices that are handed to the guest whole, of one type.
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

/// libvirt writes the numbers as `0x..`; it reads decimal ones too, and so do we. A missing domain is 0.
fn pci_address(address: Node<'_, '_>) -> Option<PciAddress> {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "8c1a2a5e-0b53-4d2c-8d3f-8f8f3ad0a001";
    const MDEV: &str = "4b20d080-1b54-4048-85b3-a6a62d165c01";

    fn document(attributes: &str, inner: &str) -> String {
        format!(
            "<domain type='kvm' {attributes}><name>instance-00000001</name><uuid>{UUID}</uuid>\
             <memory unit='KiB'>4194304</memory><vcpu placement='static'>4</vcpu>{inner}</domain>"
        )
    }

    fn guest(inner: &str) -> Guest {
        Guest::read(&document("", inner)).unwrap()
    }

    fn host() -> Vec<NumaCell> {
        [(0, "0-3"), (1, "4-7")]
            .map(|(id, cpus)| NumaCell {
                id,
                cpus: cpus.parse().unwrap(),
                memory_mib: 8192,
            })
            .into()
    }

    const DEVICES: &str = "<devices>
        <hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>
          <source><address uuid='4b20d080-1b54-4048-85b3-a6a62d165c01'/></source></hostdev>
        <hostdev mode='subsystem' type='pci' managed='yes'><driver name='vfio'/>
          <source><address domain='0x0000' bus='0x06' slot='0x02' function='0x1'/></source>
          <address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/></hostdev>
        <hostdev mode='subsystem' type='usb'><source><vendor id='0x1234'/></source></hostdev>
        <interface type='hostdev' managed='yes'><source><address type='pci' bus='129' slot='0' function='4'/></source></interface>
        <interface type='bridge'><source bridge='br0'/></interface>
      </devices>";

    #[test]
    fn a_guest_is_read_with_its_devices() {
        let read = Guest::read(&document("id='3'", DEVICES)).unwrap();
        assert_eq!(
            (read.name.as_str(), read.vcpus, read.memory_mib),
            ("instance-00000001", 4, 4096)
        );
        assert_eq!(read.power, PowerState::Running);
        assert_eq!(read.uuid, Uuid::parse_str(UUID).unwrap());
        assert_eq!(read.mdevs, [Uuid::parse_str(MDEV).unwrap()]);
        let functions: Vec<String> = read.functions.iter().map(ToString::to_string).collect();
        assert_eq!(functions, ["0000:06:02.1", "0000:81:00.4"]);
        assert_eq!(guest("").power, PowerState::ShutOff);
    }

    #[test]
    fn a_cpu_is_dedicated_where_it_is_pinned_to_dedicated_ones() {
        let dedicated: CpuSet = "4-7".parse().unwrap();
        for (tune, policy) in [
            ("", CpuPolicy::Shared),
            (
                "<cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='5'/>\
                 <vcpupin vcpu='2' cpuset='6'/><vcpupin vcpu='3' cpuset='7'/></cputune>",
                CpuPolicy::Dedicated,
            ),
            (
                "<cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='0-3'/></cputune>",
                CpuPolicy::Mixed { dedicated: 1 },
            ),
            (
                "<cputune><vcpupin vcpu='0' cpuset='3-4'/></cputune>",
                CpuPolicy::Shared,
            ),
            (
                "<cputune><vcpupin vcpu='9' cpuset='4'/></cputune>",
                CpuPolicy::Shared,
            ),
        ] {
            assert_eq!(guest(tune).cpu_policy(&dedicated), policy, "{tune}");
        }
        assert_eq!(guest("").cpu_policy(&CpuSet::default()), CpuPolicy::Shared);
    }

    #[test]
    fn placement_is_read_where_the_document_says_it_for_certain() {
        let two_cells = "<cpu><numa><cell id='0' cpus='0-2' memory='3145728' unit='KiB'/>\
                         <cell id='1' cpus='3' memory='1' unit='GiB'/></numa></cpu>";
        let pinned = |cpus: &str| {
            let pins: String = (0..4)
                .map(|vcpu| format!("<vcpupin vcpu='{vcpu}' cpuset='{cpus}'/>"))
                .collect();
            format!("<cputune>{pins}</cputune>")
        };
        for (what, inner, shares) in [
            ("no placement", String::new(), vec![]),
            (
                "whole, by memory",
                "<numatune><memory mode='strict' nodeset='1'/></numatune>".to_owned(),
                vec![(1, 4, 4096)],
            ),
            (
                "memory from two cells",
                "<numatune><memory mode='strict' nodeset='0-1'/></numatune>".to_owned(),
                vec![],
            ),
            ("whole, by pins", pinned("4-5"), vec![(1, 4, 4096)]),
            ("pins over two cells", pinned("3-4"), vec![]),
            (
                "by all CPUs' set",
                "<vcpu cpuset='0-3'>4</vcpu>".to_owned(),
                vec![],
            ),
            (
                "two cells on two",
                format!(
                    "{two_cells}<numatune><memnode cellid='0' mode='strict' nodeset='1'/><memnode cellid='1' mode='strict' nodeset='0'/></numatune>"
                ),
                vec![(0, 1, 1024), (1, 3, 3072)],
            ),
            (
                "two cells on one",
                format!("{two_cells}<numatune><memory mode='strict' nodeset='0'/></numatune>"),
                vec![(0, 4, 4096)],
            ),
            (
                "one cell not told",
                format!(
                    "{two_cells}<numatune><memnode cellid='0' mode='strict' nodeset='1'/></numatune>"
                ),
                vec![],
            ),
        ] {
            let read: Vec<_> = guest(&inner)
                .placement(&host())
                .iter()
                .map(|cell| (cell.host_cell, cell.vcpus, cell.memory_mib))
                .collect();
            assert_eq!(read, shares, "{what}");
        }
    }

    #[test]
    fn a_set_for_all_cpus_places_the_guest() {
        let text =
            document("", "").replace("placement='static'", "placement='static' cpuset='4-7'");
        let read = Guest::read(&text).unwrap();
        assert_eq!(read.placement(&host())[0].host_cell, 1);
        assert_eq!(
            read.cpu_policy(&"4-7".parse().unwrap()),
            CpuPolicy::Dedicated
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let whole = document("", DEVICES);
        for (text, named) in [
            (whole.replace(UUID, "mine"), "uuid"),
            (whole.replace("instance-00000001", ""), "name"),
            (whole.replace("'KiB'", "'furlong'"), "memory"),
            (whole.replace(">4<", ">four<"), "vcpu"),
            (whole.replace(MDEV, "1"), "hostdev/source/address/@uuid"),
            (
                whole.replace("slot='0x02'", "slot='0x99'"),
                "source/address",
            ),
            (
                document("", "<cputune><vcpupin vcpu='0' cpuset='x'/></cputune>"),
                "cputune/vcpupin/@cpuset",
            ),
            (
                document("", "<cputune><vcpupin cpuset='1'/></cputune>"),
                "cputune/vcpupin/@vcpu",
            ),
            (
                document("", "<numatune><memnode cellid='0' nodeset=''/></numatune>"),
                "numatune/memnode/@nodeset",
            ),
            (
                document("", "<cpu><numa><cell id='0' cpus='0'/></numa></cpu>"),
                "cpu/numa/cell/@memory",
            ),
        ] {
            let error = Guest::read(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(at in 0usize..1800, cut in 0usize..60, put in "[<>/'a-z0-9 &;=-]{0,12}|\\PC{0,8}") {
            let whole = document("id='1'", &format!(
                "<cpu><numa><cell id='0' cpus='0-3' memory='4' unit='GiB'/></numa></cpu>\
                 <numatune><memnode cellid='0' nodeset='1'/></numatune>\
                 <cputune><vcpupin vcpu='0' cpuset='4'/></cputune>{DEVICES}"
            ));
            let (at, end) = (at.min(whole.len()), (at + cut).min(whole.len()));
            for text in [format!("{}{put}{}", &whole[..at], &whole[end..]), put] {
                if let Ok(guest) = Guest::read(&text) {
                    let _ = guest.placement(&host());
                    let _ = guest.cpu_policy(&"4-7".parse().unwrap());
                }
            }
        }
    }
}

//! Parses the host's capabilities document: processor, NUMA cells, kinds of guests.

use std::collections::{BTreeMap, BTreeSet};

use berth_virt::{CpuSet, HostNumaCell, Processor, ProcessorTopology};
use roxmltree::Node;

use crate::options::VirtType;
use crate::xml::{self, Reader, XmlError};

/// The parts of `virConnectGetCapabilities` that are used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Capabilities {
    /// The host's architecture, for example `x86_64`.
    pub(crate) arch: String,
    /// The `<cpu>` element, which libvirt can expand; `None` if the driver shows none.
    pub(crate) cpu: Option<String>,
    /// The processor, without its features (`cpu_features`); `None` if the driver shows none.
    pub(crate) processor: Option<Processor>,
    /// The features listed in addition to those of the CPU model.
    pub(crate) cpu_features: BTreeSet<String>,
    /// NUMA cells; empty if the driver shows none.
    pub(crate) cells: Vec<HostNumaCell>,
    /// The size of normal pages in KiB, if shown.
    pub(crate) small_page_kib: Option<u64>,
    /// Whether some core runs more than one thread.
    pub(crate) hyperthreading: bool,
    /// Guests that the host can run.
    pub(crate) guests: Vec<GuestKind>,
}

/// One architecture of guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuestKind {
    /// For example `aarch64`.
    pub(crate) arch: String,
    /// The guest OS type: `hvm`, `exe`.
    pub(crate) os_type: String,
    /// Domain types, for example `qemu` and `kvm`.
    pub(crate) domain_types: BTreeSet<String>,
}

impl Capabilities {
    pub(crate) fn read(text: &str) -> Result<Self, XmlError> {
        let reader = Reader::new("the host's capabilities", "capabilities", text)?;
        let Some(host) = xml::find(reader.root(), &["host"]) else {
            return Err(reader.unexpected("host", "", "an element"));
        };
        let cpu = xml::find(host, &["cpu"]);
        let cells = xml::find(host, &["topology", "cells"]);
        Ok(Self {
            arch: cpu
                .and_then(|cpu| xml::text(cpu, &["arch"]))
                .unwrap_or_default()
                .to_owned(),
            cpu: cpu.map(|cpu| text[cpu.range()].to_owned()),
            processor: cpu.map(|cpu| processor(cpu, cells)),
            cpu_features: cpu.map(features).unwrap_or_default(),
            cells: match cells {
                Some(cells) => xml::children(cells, "cell")
                    .map(|cell| numa_cell(&reader, cell))
                    .collect::<Result<_, _>>()?,
                None => Vec::new(),
            },
            small_page_kib: small_page(host),
            hyperthreading: cells.is_some_and(has_siblings),
            guests: xml::children(reader.root(), "guest")
                .filter_map(guest_kind)
                .collect(),
        })
    }

    /// Whether the host runs guests of its own architecture with this virtualisation type.
    pub(crate) fn runs(&self, virt_type: VirtType) -> bool {
        let mut own = self.guests.iter().filter(|kind| kind.arch == self.arch);
        own.any(|kind| kind.domain_types.contains(virt_type.as_str()))
    }
}

/// The processor in a host's `<cpu>` element, without features. The topology is that of one cell.
fn processor(cpu: Node<'_, '_>, cells: Option<Node<'_, '_>>) -> Processor {
    let text = |name| xml::text(cpu, &[name]).map(str::to_owned);
    let topology = xml::find(cpu, &["topology"]).and_then(|topology| {
        let number = |name| topology.attribute(name)?.parse().ok();
        let cells = cells.map_or(0, |cells| xml::children(cells, "cell").count());
        Some(ProcessorTopology {
            cells: u32::try_from(cells.max(1)).ok()?,
            sockets: number("sockets")?,
            cores: number("cores")?,
            threads: number("threads")?,
        })
    });
    let width = xml::find(cpu, &["maxphysaddr"]);
    let width = width.and_then(|width| width.attribute("bits")?.parse().ok());
    Processor {
        arch: text("arch").unwrap_or_default(),
        model: text("model"),
        vendor: text("vendor"),
        features: BTreeSet::new(),
        topology,
        physical_address_bits: width,
    }
}

/// The features in a `<cpu>` element, without disabled ones.
pub(crate) fn features(cpu: Node<'_, '_>) -> BTreeSet<String> {
    xml::children(cpu, "feature")
        .filter(|feature| !matches!(feature.attribute("policy"), Some("disable" | "forbid")))
        .filter_map(|feature| feature.attribute("name"))
        .map(str::to_owned)
        .collect()
}

/// The features in an expanded `<cpu>` document.
pub(crate) fn expanded_features(text: &str) -> Result<BTreeSet<String>, XmlError> {
    let reader = Reader::new("the expanded CPU", "cpu", text)?;
    Ok(features(reader.root()))
}

fn numa_cell(reader: &Reader<'_>, cell: Node<'_, '_>) -> Result<HostNumaCell, XmlError> {
    let id = reader.required(
        "cell/@id",
        cell.attribute("id"),
        "a cell's number",
        |text| text.parse().ok(),
    )?;
    // A cell that libvirt could not size states no memory.
    let memory = xml::find(cell, &["memory"]).and_then(xml::kibibytes);
    let (mut cpus, mut siblings) = (BTreeSet::new(), BTreeSet::new());
    let mut sockets = BTreeSet::new();
    for cpu in xml::find(cell, &["cpus"])
        .into_iter()
        .flat_map(|cpus| xml::children(cpus, "cpu"))
    {
        let number: u32 = reader.required(
            "cell/cpus/cpu/@id",
            cpu.attribute("id"),
            "a CPU's number",
            |text| text.parse().ok(),
        )?;
        cpus.insert(number);
        let socket = cpu.attribute("socket_id");
        sockets.extend(socket.and_then(|text| text.parse::<u32>().ok()));
        let of_core = cpu.attribute("siblings");
        siblings.extend(of_core.and_then(|text| text.parse::<CpuSet>().ok()));
    }
    let mut pages = pages(reader, cell)?;
    let small = pages.pop_first();
    let new = HostNumaCell::new(id, CpuSet::from_iter(cpus), memory.unwrap_or(0) / 1024);
    let mut sockets = sockets.into_iter();
    Ok(HostNumaCell {
        socket: sockets.next().filter(|_| sockets.next().is_none()),
        siblings: siblings.into_iter().collect(),
        huge_pages: pages,
        small_page_kib: small.map_or(new.small_page_kib, |(size, _)| size.max(1)),
        ..new
    })
}

/// A cell's pages by size in KiB. libvirt includes the normal ones, which are the smallest.
fn pages(reader: &Reader<'_>, cell: Node<'_, '_>) -> Result<BTreeMap<u64, u64>, XmlError> {
    let mut pages = BTreeMap::new();
    for listed in xml::children(cell, "pages") {
        // libvirt always uses KiB here.
        let size = reader.required(
            "cell/pages/@size",
            listed.attribute("size"),
            "a page's size in KiB",
            |text| text.parse().ok(),
        )?;
        let count = reader.required(
            "cell/pages",
            listed.text().map(str::trim),
            "a number of pages",
            |text| text.parse().ok(),
        )?;
        pages.insert(size, count);
    }
    Ok(pages)
}

/// The smallest page size of the processor, in KiB.
fn small_page(host: Node<'_, '_>) -> Option<u64> {
    let listed = xml::children(xml::find(host, &["cpu"])?, "pages");
    let sizes = listed.filter_map(|pages| pages.attribute("size")?.parse().ok());
    sizes.filter(|size| *size > 0).min()
}

fn has_siblings(cells: Node<'_, '_>) -> bool {
    cells
        .descendants()
        .filter(|node| node.tag_name().name() == "cpu")
        .filter_map(|cpu| cpu.attribute("siblings")?.parse::<CpuSet>().ok())
        .any(|siblings| siblings.len() > 1)
}

fn guest_kind(guest: Node<'_, '_>) -> Option<GuestKind> {
    let arch = xml::find(guest, &["arch"])?;
    Some(GuestKind {
        arch: arch.attribute("name")?.to_owned(),
        os_type: xml::text(guest, &["os_type"])
            .unwrap_or_default()
            .to_owned(),
        domain_types: arch
            .descendants()
            .filter(|node| node.tag_name().name() == "domain")
            .filter_map(|domain| domain.attribute("type"))
            .map(str::to_owned)
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO_CELLS: &str = "<capabilities>
      <host>
        <cpu><arch>x86_64</arch><model>EPYC</model><vendor>AMD</vendor>
          <topology sockets='1' dies='1' cores='1' threads='2'/><maxphysaddr mode='emulate' bits='48'/>
          <feature name='svm'/><feature policy='disable' name='mpx'/><pages unit='KiB' size='4'/></cpu>
        <topology><cells num='2'>
          <cell id='0'><memory unit='KiB'>16777216</memory>
            <pages unit='KiB' size='4'>4063232</pages><pages unit='KiB' size='2048'>512</pages><cpus num='2'>
            <cpu id='0' socket_id='0' core_id='0' siblings='0-1'/><cpu id='1' socket_id='0' core_id='0' siblings='0-1'/></cpus></cell>
          <cell id='1'><memory unit='GiB'>8</memory><cpus num='1'><cpu id='4' siblings='4'/></cpus></cell>
        </cells></topology>
      </host>
      <guest><os_type>hvm</os_type><arch name='aarch64'><wordsize>64</wordsize><domain type='qemu'/></arch></guest>
      <guest><os_type>hvm</os_type><arch name='x86_64'><domain type='qemu'/><domain type='kvm'/></arch></guest>
    </capabilities>";

    #[test]
    fn cells_processor_and_guests_are_read() {
        let read = Capabilities::read(TWO_CELLS).unwrap();
        assert_eq!(read.arch, "x86_64");
        assert_eq!(read.cpu_features, ["svm".to_owned()].into());
        let processor = read.processor.clone().unwrap();
        assert_eq!(processor.model.as_deref(), Some("EPYC"));
        assert_eq!(processor.vendor.as_deref(), Some("AMD"));
        assert_eq!(processor.physical_address_bits, Some(48));
        let topology = processor.topology.unwrap();
        assert_eq!((topology.cells, topology.sockets), (2, 1));
        assert_eq!((topology.cores, topology.threads), (1, 2));
        let kinds: Vec<_> = read.guests.iter().map(|kind| &*kind.os_type).collect();
        assert_eq!(kinds, ["hvm", "hvm"]);
        assert!(read.hyperthreading);
        assert!(read.runs(VirtType::Kvm) && read.runs(VirtType::Qemu));
        let emulating = Capabilities::read(&TWO_CELLS.replace("<domain type='kvm'/>", "")).unwrap();
        assert!(!emulating.runs(VirtType::Kvm) && emulating.runs(VirtType::Qemu));
        let cells: Vec<_> = read
            .cells
            .iter()
            .map(|cell| (cell.id, cell.cpus.to_string(), cell.memory_mib))
            .collect();
        assert_eq!(
            cells,
            [(0, "0-1".to_owned(), 16_384), (1, "4".to_owned(), 8_192)]
        );
        assert_eq!(read.cells[0].siblings, ["0-1".parse().unwrap()]);
        assert_eq!(read.cells[0].huge_pages, [(2048, 512)].into());
        assert!(read.cells[1].huge_pages.is_empty());
        assert_eq!(read.cells[0].small_page_kib, 4);
        assert_eq!(read.small_page_kib, Some(4));
        assert_eq!(
            (read.cells[0].socket, read.cells[1].socket),
            (Some(0), None)
        );
        let apart = TWO_CELLS.replace("id='1' socket_id='0'", "id='1' socket_id='1'");
        let apart = Capabilities::read(&apart).unwrap();
        assert_eq!(apart.cells[0].socket, None, "it is in two");
        let cpu = read.cpu.unwrap();
        assert!(cpu.starts_with("<cpu>") && cpu.ends_with("</cpu>"), "{cpu}");
    }

    #[test]
    fn the_default_page_is_as_large_as_the_host_reports() {
        let of_64_kib = TWO_CELLS
            .replace(
                "<pages unit='KiB' size='4'/>",
                "<pages unit='KiB' size='2048'/><pages unit='KiB' size='64'/>",
            )
            .replace(
                "<pages unit='KiB' size='4'>",
                "<pages unit='KiB' size='64'>",
            );
        let read = Capabilities::read(&of_64_kib).unwrap();
        assert_eq!(read.small_page_kib, Some(64));
        let sizes: Vec<_> = read.cells.iter().map(|cell| cell.small_page_kib).collect();
        // The second cell lists no pages.
        assert_eq!(sizes, [64, 4]);
        assert_eq!(read.cells[0].huge_pages, [(2048, 512)].into());
    }

    #[test]
    fn a_driver_that_shows_little_is_read_too() {
        let read = Capabilities::read("<capabilities><host/></capabilities>").unwrap();
        assert_eq!(read, Capabilities::default());
        assert!(!read.runs(VirtType::Qemu));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, named) in [
            ("<capabilities/>", "host"),
            (
                "<capabilities><host><topology><cells><cell id='x'/></cells></topology></host></capabilities>",
                "cell/@id",
            ),
            (
                "<capabilities><host><topology><cells><cell id='0'><cpus><cpu/></cpus></cell></cells></topology></host></capabilities>",
                "cell/cpus/cpu/@id",
            ),
        ] {
            let error = Capabilities::read(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn an_expanded_cpu_lists_its_features() {
        let text = "<cpu mode='custom'><model>x</model><feature policy='require' name='avx2'/>\
                    <feature policy='disable' name='xop'/></cpu>";
        assert_eq!(expanded_features(text).unwrap(), ["avx2".to_owned()].into());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(at in 0..TWO_CELLS.len(), cut in 0usize..60, put in "[<>/'a-z0-9 &;=-]{0,12}|\\PC{0,8}") {
            let end = (at + cut).min(TWO_CELLS.len());
            let damaged = format!("{}{put}{}", &TWO_CELLS[..at], &TWO_CELLS[end..]);
            let _ = Capabilities::read(&damaged);
            let _ = expanded_features(&damaged);
            let _ = Capabilities::read(&put);
        }
    }
}

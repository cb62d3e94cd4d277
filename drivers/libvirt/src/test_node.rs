//! [`TestNode`]: a host for tests, with GPUs, guests and their devices, without hardware. It is written as an XML file that
//! libvirt's test driver (`test://PATH`) reads. Other crates can use it with the feature `test-node`.
//!
//! libvirt's test driver does not validate the file, so a wrong element has no effect and no error. It cannot describe NUMA
//! cells in a file. They are therefore written as a fake `/sys` in the folder `sys` next to the file, where Berth's
//! libvirt driver looks for them if it uses the test driver.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use berth_model::PciAddress;
use berth_virt::PowerState;
use uuid::Uuid;

use crate::options::LibvirtOptions;

#[derive(Debug, Clone, Default)]
pub struct TestNode {
    /// CPUs, numbered from 0.
    pub cpus: u32,
    pub memory_mib: u64,
    /// NUMA cells, numbered from 0: the list of CPUs (`0-3`) and memory in MiB of each.
    pub cells: Vec<(String, u64)>,
    /// GPUs that can be divided into mediated devices.
    pub gpus: Vec<TestGpu>,
    /// Mediated devices that exist.
    pub mdevs: Vec<TestMdev>,
    pub guests: Vec<TestGuest>,
}

#[derive(Debug, Clone)]
pub struct TestGpu {
    pub address: PciAddress,
    pub numa_node: Option<u32>,
    /// The types of mediated devices that it supports, and how many of each can still be created.
    pub available: Vec<(String, u64)>,
}

#[derive(Debug, Clone)]
pub struct TestMdev {
    pub uuid: Uuid,
    pub type_id: String,
    pub gpu: PciAddress,
}

#[derive(Debug, Clone)]
pub struct TestGuest {
    pub uuid: Uuid,
    pub name: String,
    pub power: PowerState,
    pub vcpus: u32,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// Metadata of another management application, as XML.
    pub metadata: String,
    /// The host CPUs (`4-7`) that virtual CPU 0, 1, ... is pinned to. Further virtual CPUs are not pinned.
    pub pins: Vec<String>,
    /// Its NUMA cells: virtual CPUs (`0-1`), memory in MiB, and the host cell.
    pub cells: Vec<(String, u64, u32)>,
    pub mdevs: Vec<Uuid>,
    /// PCI functions that are passed through.
    pub functions: Vec<PciAddress>,
}

impl TestGuest {
    /// A running guest of 2 virtual CPUs and 2048 MiB without placement or devices.
    #[must_use]
    pub fn new(name: &str, uuid: Uuid) -> Self {
        Self {
            uuid,
            name: name.to_owned(),
            power: PowerState::Running,
            vcpus: 2,
            memory_mib: 2048,
            metadata: String::new(),
            pins: Vec::new(),
            cells: Vec::new(),
            mdevs: Vec::new(),
            functions: Vec::new(),
        }
    }
}

impl TestNode {
    /// Writes the node into `directory` and returns the options of a libvirt driver for it. Changes that a driver makes are
    /// lost when its connection closes, and other connections do not see them.
    pub fn write(&self, directory: &Path) -> io::Result<LibvirtOptions> {
        let file = directory.join("node.xml");
        fs::write(&file, self.document())?;
        let uri = file
            .to_str()
            .map(|path| format!("test://{path}"))
            .ok_or(io::ErrorKind::InvalidFilename)?;
        if !self.cells.is_empty() {
            self.write_sysfs(&directory.join("sys"))?;
        }
        Ok(LibvirtOptions::new(&uri))
    }

    fn write_sysfs(&self, tree: &Path) -> io::Result<()> {
        let write = |path: String, content: String| {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap_or(tree))?;
            fs::write(path, content)
        };
        let last = self.cpus.saturating_sub(1);
        write(
            "devices/system/cpu/online".to_owned(),
            format!("0-{last}\n"),
        )?;
        for (id, (cpus, memory_mib)) in self.cells.iter().enumerate() {
            let cell = format!("devices/system/node/node{id}");
            write(format!("{cell}/cpulist"), format!("{cpus}\n"))?;
            let memory = memory_mib * 1024;
            write(
                format!("{cell}/meminfo"),
                format!("Node {id} MemTotal:       {memory} kB\n"),
            )?;
        }
        Ok(())
    }

    /// The node's document for libvirt's test driver.
    #[must_use]
    pub fn document(&self) -> String {
        let (cpus, memory) = (self.cpus, self.memory_mib * 1024);
        let mut text = format!(
            "<node>\n<cpu><mhz>2400</mhz><model>x86_64</model><active>{cpus}</active><nodes>1</nodes>\
             <sockets>1</sockets><cores>{cpus}</cores><threads>1</threads></cpu>\n<memory>{memory}</memory>\n\
             <device><name>computer</name><capability type='system'><hardware><uuid>00000000-0000-4000-8000-000000000001</uuid></hardware></capability></device>\n"
        );
        for gpu in &self.gpus {
            text.push_str(&gpu.document());
        }
        for mdev in &self.mdevs {
            text.push_str(&mdev.document());
        }
        for guest in &self.guests {
            text.push_str(&guest.document());
        }
        text.push_str("</node>\n");
        text
    }
}

impl TestGpu {
    fn document(&self) -> String {
        let at = self.address;
        let (domain, bus, slot, function) = (at.domain(), at.bus(), at.slot(), at.function());
        let mut types = String::new();
        for (id, available) in &self.available {
            let _ = write!(
                types,
                "<type id='{id}'><deviceAPI>vfio-pci</deviceAPI>\
                 <availableInstances>{available}</availableInstances></type>"
            );
        }
        let numa = self
            .numa_node
            .map_or_else(String::new, |node| format!("<numa node='{node}'/>"));
        format!(
            "<device><name>{name}</name><parent>computer</parent><capability type='pci'>\
             <class>0x030200</class><domain>{domain}</domain><bus>{bus}</bus><slot>{slot}</slot>\
             <function>{function}</function><product id='0x1eb8'/><vendor id='0x10de'/>\
             <capability type='mdev_types'>{types}</capability>{numa}</capability></device>\n",
            name = at.nodedev_name(),
        )
    }
}

impl TestMdev {
    fn document(&self) -> String {
        let (uuid, id, gpu) = (self.uuid, &self.type_id, self.gpu);
        let parent = gpu.nodedev_name();
        let name = format!("mdev_{uuid}_{gpu}").replace(['-', ':', '.'], "_");
        format!(
            "<device><name>{name}</name><parent>{parent}</parent><capability type='mdev'>\
             <type id='{id}'/><uuid>{uuid}</uuid><parent_addr>{gpu}</parent_addr>\
             <iommuGroup number='1'/></capability></device>\n"
        )
    }
}

impl TestGuest {
    fn document(&self) -> String {
        let (name, uuid, memory, vcpus) = (&self.name, self.uuid, self.memory_mib, self.vcpus);
        // The numbers of guests' states in libvirt's test driver.
        let state = match self.power {
            PowerState::Running => 1,
            PowerState::Paused => 3,
            PowerState::ShutOff => 5,
            PowerState::Crashed => 6,
        };
        format!(
            "<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>\
             <name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>{memory}</memory>\
             <vcpu>{vcpus}</vcpu><metadata>{metadata}</metadata><os><type>hvm</type></os>{placement}<devices>{devices}</devices>\
             <test:runstate>{state}</test:runstate></domain>\n",
            metadata = self.metadata,
            placement = self.placement(),
            devices = self.devices(),
        )
    }

    fn placement(&self) -> String {
        let (mut pins, mut cells, mut nodes) = (String::new(), String::new(), String::new());
        for (vcpu, cpus) in self.pins.iter().enumerate() {
            let _ = write!(pins, "<vcpupin vcpu='{vcpu}' cpuset='{cpus}'/>");
        }
        for (id, (cpus, memory, host_cell)) in self.cells.iter().enumerate() {
            let _ = write!(
                cells,
                "<cell id='{id}' cpus='{cpus}' memory='{memory}' unit='MiB'/>"
            );
            let _ = write!(
                nodes,
                "<memnode cellid='{id}' mode='strict' nodeset='{host_cell}'/>"
            );
        }
        let mut text = format!("<cputune>{pins}</cputune>");
        if !self.cells.is_empty() {
            let _ = write!(
                text,
                "<numatune>{nodes}</numatune><cpu><numa>{cells}</numa></cpu>"
            );
        }
        text
    }

    fn devices(&self) -> String {
        let mut text = String::new();
        for uuid in &self.mdevs {
            let _ = write!(
                text,
                "<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>\
                 <source><address uuid='{uuid}'/></source></hostdev>"
            );
        }
        for at in &self.functions {
            let _ = write!(
                text,
                "<hostdev mode='subsystem' type='pci' managed='yes'><source><address \
                 domain='0x{:04x}' bus='0x{:02x}' slot='0x{:02x}' function='0x{:x}'/></source></hostdev>",
                at.domain(),
                at.bus(),
                at.slot(),
                at.function()
            );
        }
        text
    }
}

//! Converts a guest spec to libvirt's domain XML. Pure: the same spec and options give the same text.
//!
//! The document consists of typed elements (`domain`, `devices`), so no name or path can break out of an element. Tests validate
//! every shape against libvirt's own schema. Some properties are not configurable: the machine is `q35` with ACPI (newer QEMU
//! requires it), a disk's backing chain is written out completely, so that no image file can refer to another one, and every
//! device has its alias and metadata, by which it is recognised.
//!
//! Called by the driver's `spawn`. `guest`, `guests` and `guest_metadata` read the document back.

mod devices;
mod domain;

use std::collections::BTreeSet;
use std::path::PathBuf;

use berth_model::{CpuTopology, MachineType};
use berth_virt::guest_spec::{
    CpuModel, GuestBoot, GuestSpec, GuestTopology, LinkName, MemoryPages, VcpuPin,
};

use crate::guest_metadata::GuestMetadata;
use crate::options::DiskCache;
use domain::{
    BootMenu, CellElement, Clock, CpuElement, CpuModelElement, CpuTune, DomainElement, Features,
    Firmware, FirmwareFeature, HugePagesElement, KvmElement, MemoryBacking, MemoryElement,
    MemoryNode, MemoryPlacement, Metadata, NumaElement, NumaTune, Os, OsType, Page, Pin,
    SetElement, StateElement, Timer, TopologyElement, TypeElement, Vcpu,
};

/// A domain's `type`: how the guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Virtualisation {
    /// With the processor's help.
    Kvm,
    Qemu,
    /// libvirt's test driver, which runs no guests.
    Test,
}

/// Options that apply to all guests of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestXmlOptions {
    pub virtualisation: Virtualisation,
    /// How their disks are cached.
    pub disk_cache: DiskCache,
    /// The emulator; none for the one libvirt picks.
    pub emulator: Option<PathBuf>,
    /// The network filter of interfaces on a Linux bridge.
    pub nwfilter: Option<String>,
    /// Whether interfaces on one Linux bridge are isolated from each other.
    pub port_isolation: bool,
    /// The networks of libvirt that are not on a Linux bridge.
    pub unfilterable: BTreeSet<LinkName>,
}

impl Default for GuestXmlOptions {
    /// Nova's defaults: KVM, disks past the page cache, libvirt's emulator. No network filter.
    fn default() -> Self {
        Self {
            virtualisation: Virtualisation::Kvm,
            disk_cache: DiskCache::Bypassed,
            emulator: None,
            nwfilter: None,
            port_isolation: false,
            unfilterable: BTreeSet::new(),
        }
    }
}

#[must_use]
pub fn guest_xml(spec: &GuestSpec, options: &GuestXmlOptions) -> String {
    let topology = &spec.topology;
    let domain = DomainElement {
        kind: match options.virtualisation {
            Virtualisation::Kvm => "kvm",
            Virtualisation::Qemu => "qemu",
            Virtualisation::Test => "test",
        },
        name: spec.name.as_str(),
        uuid: spec.uuid.to_string(),
        metadata: Metadata {
            guest: GuestMetadata::of(spec).element(),
        },
        memory: MemoryElement {
            unit: "MiB",
            amount: topology.memory_mib(),
        },
        memory_backing: memory_backing(topology.pages()),
        vcpu: Vcpu {
            placement: "static",
            cpuset: topology.cpu_set().map(ToString::to_string),
            count: topology.vcpus(),
        },
        cputune: cpu_tune(topology),
        numatune: numa_tune(topology),
        os: os(spec, options.virtualisation),
        features: Features {
            acpi: (),
            apic: (),
            kvm: spec.machine.hides_hypervisor.then_some(KvmElement {
                hidden: StateElement { state: "on" },
            }),
            pmu: spec.machine.pmu.map(|is_on| StateElement {
                state: if is_on { "on" } else { "off" },
            }),
            // Without SMM the guest could change the secure boot state.
            smm: matches!(spec.boot, GuestBoot::Uefi { secure_boot: true })
                .then_some(StateElement { state: "on" }),
        },
        cpu: cpu(&spec.cpu_model, topology, spec.machine.cpu_topology),
        clock: clock(),
        on_poweroff: "destroy",
        on_reboot: "restart",
        on_crash: "destroy",
        devices: devices::devices(spec, options),
    };
    let mut text = String::new();
    let mut serializer = quick_xml::se::Serializer::new(&mut text);
    serializer.indent(' ', 2);
    serde::Serialize::serialize(&domain, serializer)
        .expect("elements of fixed names and plain texts always make a document");
    text
}

fn memory_backing(pages: MemoryPages) -> Option<MemoryBacking> {
    match pages {
        MemoryPages::Small => None,
        MemoryPages::Huge { size_kib } => Some(MemoryBacking {
            hugepages: HugePagesElement {
                page: Page {
                    size: size_kib,
                    unit: "KiB",
                },
            },
        }),
    }
}

fn cpu_tune(topology: &GuestTopology) -> Option<CpuTune> {
    let pinning = topology.pinning()?;
    let pins = (0..).zip(pinning.pins());
    Some(CpuTune {
        vcpupin: pins
            .map(|(vcpu, pin)| Pin {
                vcpu,
                cpuset: match pin {
                    VcpuPin::Dedicated(cpu) => cpu.to_string(),
                    VcpuPin::Shared(cpus) => cpus.to_string(),
                },
            })
            .collect(),
        emulatorpin: SetElement {
            cpuset: pinning.emulator().to_string(),
        },
    })
}

fn numa_tune(topology: &GuestTopology) -> Option<NumaTune> {
    let cells = topology.cells();
    if cells.is_empty() {
        return None;
    }
    let all: berth_virt::CpuSet = cells.iter().map(|cell| cell.host_cell).collect();
    Some(NumaTune {
        memory: MemoryPlacement {
            mode: "strict",
            nodeset: all.to_string(),
        },
        memnode: (0..)
            .zip(cells)
            .map(|(cellid, cell)| MemoryNode {
                cellid,
                mode: "strict",
                nodeset: cell.host_cell,
            })
            .collect(),
    })
}

fn os(spec: &GuestSpec, virtualisation: Virtualisation) -> Os<'_> {
    let (boot, machine) = (&spec.boot, &spec.machine);
    let (kernel, initrd, cmdline) = match boot {
        GuestBoot::Disk | GuestBoot::Uefi { .. } => (None, None, None),
        GuestBoot::Kernel {
            kernel,
            ramdisk,
            command_line,
        } => (
            Some(kernel.as_str()),
            ramdisk.as_ref().map(|path| path.as_str()),
            Some(command_line.as_str()).filter(|line| !line.is_empty()),
        ),
    };
    let uefi = match boot {
        GuestBoot::Uefi { secure_boot } if virtualisation != Virtualisation::Test => {
            Some(*secure_boot)
        }
        _ => None,
    };
    Os {
        auto: uefi.map(|_| "efi"),
        firmware: uefi.map(|secure_boot| Firmware {
            feature: FirmwareFeature {
                enabled: if secure_boot { "yes" } else { "no" },
                name: "secure-boot",
            },
        }),
        os_type: match virtualisation {
            Virtualisation::Kvm | Virtualisation::Qemu => OsType {
                arch: Some("x86_64"),
                machine: Some(
                    machine
                        .machine_type
                        .as_ref()
                        .map_or("q35", MachineType::as_str),
                ),
                kind: "hvm",
            },
            // The test driver has one machine only.
            Virtualisation::Test => OsType {
                arch: None,
                machine: None,
                kind: "hvm",
            },
        },
        kernel,
        initrd,
        cmdline,
        boot: kernel.is_none().then_some(domain::Boot { dev: "hd" }),
        boot_menu: machine.boot_menu.then_some(BootMenu { enable: "yes" }),
    }
}

fn cpu<'a>(
    model: &'a CpuModel,
    topology: &GuestTopology,
    shape: Option<CpuTopology>,
) -> Option<CpuElement<'a>> {
    let numa = (!topology.cells().is_empty()).then(|| NumaElement {
        cell: (0..)
            .zip(topology.cells())
            .map(|(id, cell)| CellElement {
                id,
                // A cell of memory alone has none.
                cpus: Some(cell.vcpus.to_string()).filter(|cpus| !cpus.is_empty()),
                memory: cell.memory_mib,
                unit: "MiB",
            })
            .collect(),
    });
    let (mode, named) = match model {
        CpuModel::Default => (None, None),
        CpuModel::HostModel => (Some("host-model"), None),
        CpuModel::HostPassthrough => (Some("host-passthrough"), None),
        CpuModel::Maximum => (Some("maximum"), None),
        CpuModel::Named(name) => (Some("custom"), Some(name.as_str())),
    };
    let shape = shape.map(|shape| TopologyElement {
        sockets: shape.sockets,
        cores: shape.cores,
        threads: shape.threads,
    });
    let is_needed = mode.is_some() || numa.is_some() || shape.is_some();
    is_needed.then_some(CpuElement {
        mode,
        matching: named.map(|_| "exact"),
        model: named.map(|name| CpuModelElement {
            fallback: "forbid",
            name,
        }),
        topology: shape,
        numa,
    })
}

/// Like Nova: the clock of a delayed guest catches up.
fn clock() -> Clock {
    let timer = |name, tickpolicy, present| Timer {
        name,
        tickpolicy,
        present,
    };
    Clock {
        offset: "utc",
        timer: vec![
            timer("pit", Some("delay"), None),
            timer("rtc", Some("catchup"), None),
            timer("hpet", None, Some("no")),
        ],
    }
}

/// An element that only has a type.
fn of_type(kind: &'static str) -> TypeElement {
    TypeElement { kind }
}

#[cfg(test)]
mod tests;

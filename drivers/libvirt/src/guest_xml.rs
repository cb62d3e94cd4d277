//! Converts a guest spec to libvirt's domain XML. Pure: the same spec and options give the same text.
//!
//! The document consists of typed elements (`domain`, `devices`), so no name or path can break out of an element. Tests validate
//! every shape against libvirt's own schema. Some properties are not configurable: the machine has ACPI (newer QEMU
//! requires it), a disk's backing chain is written out completely, so that no image file can refer to another one, and every
//! device has its alias and metadata, by which it is recognised.
//!
//! Called by the driver's `spawn`. `guest`, `guests` and `guest_metadata` read the document back.

mod controller;
mod devices;
mod disks;
mod domain;
mod screen;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use berth_model::{
    AddressWidth, CpuLimits, MacAddress, MachineOptions, MachineType, MemoryEncryption, PciAddress,
};
use berth_virt::guest_spec::{
    CpuModel, GuestBoot, GuestPciTree, GuestSpec, GuestSpecError, GuestTopology, LinkName,
    MemoryPages, VcpuPin,
};

use crate::architecture::GuestArchitecture;
use crate::guest_metadata::{GuestMetadata, NovaInstance};
use crate::options::{DiskCache, QueueSizes};
use domain::{
    AddressWidthElement, BootMenu, CellElement, Clock, CpuElement, CpuModelElement, CpuTune,
    DomainElement, Features, Firmware, FirmwareFeature, HugePagesElement, HypervElement,
    KvmElement, LaunchSecurity, Loader, MemoryBacking, MemoryElement, MemoryNode, MemoryPlacement,
    Metadata, ModeElement, NumaElement, NumaTune, Os, OsType, Page, Pin, SetElement,
    SpinlocksElement, StateElement, SystemEntries, SystemEntry, SystemInformation, Timer,
    TopologyElement, TypeElement, Vcpu, VendorElement,
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
    /// The host's.
    pub architecture: GuestArchitecture,
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
    /// The network interfaces of the functions that macvtaps are on, by the functions' addresses.
    pub function_links: BTreeMap<PciAddress, String>,
    /// The PCI Express root ports, for devices that are attached later; 0: as many as the first devices need.
    pub pcie_root_ports: u32,
    /// How often the balloon reads the guest's memory statistics, in seconds; 0: never.
    pub memory_statistics_s: u32,
    /// The sizes of the queues of virtio interfaces.
    pub queue_sizes: QueueSizes,
    /// The address that the guests' VNC servers listen on; none: guests have no video card.
    pub vnc_listen: Option<IpAddr>,
}

impl Default for GuestXmlOptions {
    /// Nova's defaults: KVM, disks past the page cache, libvirt's emulator. No network filter, no VNC server.
    fn default() -> Self {
        Self {
            virtualisation: Virtualisation::Kvm,
            architecture: GuestArchitecture::X86_64,
            disk_cache: DiskCache::Bypassed,
            emulator: None,
            nwfilter: None,
            port_isolation: false,
            unfilterable: BTreeSet::new(),
            function_links: BTreeMap::new(),
            pcie_root_ports: 0,
            memory_statistics_s: 10,
            queue_sizes: QueueSizes::default(),
            vnc_listen: None,
        }
    }
}

/// Errors: the guest requests the host's PCI topology, and cannot have it ([`GuestPciTree::of`]).
pub fn guest_xml(spec: &GuestSpec, options: &GuestXmlOptions) -> Result<String, GuestSpecError> {
    let tree = pci_tree(spec, options)?;
    let topology = &spec.topology;
    let encryption = spec.machine.memory_encryption;
    // libvirt's test driver knows few of the elements of a real machine.
    let is_real = options.virtualisation != Virtualisation::Test;
    // Hyper-V's interfaces are the kernel's: an emulator does not start with them.
    let is_x86 = options.architecture == GuestArchitecture::X86_64;
    let is_hyperv = spec.machine.windows && options.virtualisation == Virtualisation::Kvm && is_x86;
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
            instance: NovaInstance::of(spec),
        },
        memory: MemoryElement {
            unit: "MiB",
            amount: topology.memory_mib(),
        },
        memory_backing: memory_backing(topology.pages(), encryption),
        vcpu: Vcpu {
            placement: "static",
            cpuset: topology.cpu_set().map(ToString::to_string),
            count: topology.vcpus(),
        },
        cputune: cpu_tune(topology, &spec.machine),
        numatune: numa_tune(topology),
        sysinfo: is_real.then(|| system_information(spec)),
        os: os(spec, options),
        features: Features {
            acpi: (),
            apic: is_x86.then_some(()),
            hyperv: is_hyperv.then(|| hyperv(&spec.machine)),
            kvm: spec
                .machine
                .hides_hypervisor
                .then_some(KvmElement { hidden: ON }),
            pmu: spec.machine.pmu.map(|is_on| StateElement {
                state: if is_on { "on" } else { "off" },
            }),
            // Without SMM the guest could change the secure boot state.
            smm: (is_x86
                && matches!(
                    spec.boot,
                    GuestBoot::Uefi {
                        secure_boot: true,
                        ..
                    }
                ))
            .then_some(ON),
            // It needs memory that guest and host share.
            vmcoreinfo: (is_real && encryption.is_none()).then_some(ON),
        },
        cpu: cpu(&spec.cpu_model, topology, &spec.machine, options),
        clock: clock(&spec.machine, is_hyperv, options.architecture),
        on_poweroff: "destroy",
        on_reboot: "restart",
        on_crash: "destroy",
        devices: devices::devices(spec, &tree, options),
        launch_security: encryption.map(launch_security),
    };
    Ok(document(&domain))
}

/// libvirt's test driver has no PCI Express.
fn pci_tree(spec: &GuestSpec, options: &GuestXmlOptions) -> Result<GuestPciTree, GuestSpecError> {
    match options.virtualisation {
        Virtualisation::Test => Ok(GuestPciTree::default()),
        Virtualisation::Kvm | Virtualisation::Qemu => GuestPciTree::of(spec),
    }
}

/// The document of the guest's interface with this Ethernet address; `None` if its specification has none. The hypervisor chooses
/// its slot.
pub(crate) fn interface_xml(
    spec: &GuestSpec,
    mac: MacAddress,
    options: &GuestXmlOptions,
) -> Option<String> {
    let mut all = spec.interfaces.as_slice().iter();
    let interface = all.find(|interface| interface.mac == mac)?;
    let tree = GuestPciTree::default();
    Some(document(&devices::interface(
        interface, spec, &tree, options,
    )))
}

fn document(element: &impl serde::Serialize) -> String {
    let mut text = String::new();
    let mut serializer = quick_xml::se::Serializer::new(&mut text);
    serializer.indent(' ', 2);
    element
        .serialize(serializer)
        .expect("elements of fixed names and plain texts always make a document");
    text
}

/// As in Nova: the host cannot move encrypted memory, so it is locked.
fn memory_backing(
    pages: MemoryPages,
    encryption: Option<MemoryEncryption>,
) -> Option<MemoryBacking> {
    let hugepages = match pages {
        MemoryPages::Small => None,
        MemoryPages::Huge { size_kib } => Some(HugePagesElement {
            page: Page {
                size: size_kib,
                unit: "KiB",
            },
        }),
    };
    let locked = encryption.map(|_| ());
    (hugepages.is_some() || locked.is_some()).then_some(MemoryBacking { hugepages, locked })
}

/// Nova's policies: no debugging, no shared key, no guests on another platform; with SEV-ES also bit 2.
fn launch_security(encryption: MemoryEncryption) -> LaunchSecurity {
    LaunchSecurity {
        kind: "sev",
        policy: match encryption {
            MemoryEncryption::AmdSev => "0x0033",
            MemoryEncryption::AmdSevEs => "0x0037",
        },
    }
}

fn cpu_tune(topology: &GuestTopology, machine: &MachineOptions) -> Option<CpuTune> {
    let limits = machine.limits.cpu;
    let pinning = topology.pinning();
    if pinning.is_none() && limits == CpuLimits::default() {
        return None;
    }
    let pins = pinning.map(|pinning| (0..).zip(pinning.pins()));
    Some(CpuTune {
        shares: limits.shares,
        period: limits.period_us,
        quota: limits.quota_us,
        vcpupin: pins
            .into_iter()
            .flatten()
            .map(|(vcpu, pin)| Pin {
                vcpu,
                cpuset: match pin {
                    VcpuPin::Dedicated(cpu) => cpu.to_string(),
                    VcpuPin::Shared(cpus) => cpus.to_string(),
                },
            })
            .collect(),
        emulatorpin: pinning.map(|pinning| SetElement {
            cpuset: pinning.emulator().to_string(),
        }),
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

fn os<'a>(spec: &'a GuestSpec, options: &GuestXmlOptions) -> Os<'a> {
    let (virtualisation, architecture) = (options.virtualisation, options.architecture);
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
        GuestBoot::Uefi {
            secure_boot,
            stateless,
        } if virtualisation != Virtualisation::Test => Some((*secure_boot, *stateless)),
        // There is no BIOS for it.
        GuestBoot::Disk if architecture == GuestArchitecture::Aarch64 => Some((false, false)),
        _ => None,
    };
    Os {
        auto: uefi.map(|_| "efi"),
        firmware: uefi.map(|(secure_boot, _)| Firmware {
            feature: FirmwareFeature {
                enabled: if secure_boot { "yes" } else { "no" },
                name: "secure-boot",
            },
        }),
        loader: uefi.and_then(|(_, stateless)| stateless.then_some(Loader { stateless: "yes" })),
        os_type: match virtualisation {
            Virtualisation::Kvm | Virtualisation::Qemu => OsType {
                arch: Some(architecture.as_str()),
                machine: Some(
                    machine
                        .machine_type
                        .as_ref()
                        .map_or(architecture.machines()[0], MachineType::as_str),
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
        smbios: (virtualisation != Virtualisation::Test).then_some(ModeElement { mode: "sysinfo" }),
    }
}

fn cpu<'a>(
    model: &'a CpuModel,
    topology: &GuestTopology,
    machine: &MachineOptions,
    options: &GuestXmlOptions,
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
    let is_arm = options.architecture == GuestArchitecture::Aarch64;
    let is_kvm = options.virtualisation == Virtualisation::Kvm;
    let (mode, named) = match model {
        // As in Nova: KVM of this architecture has the host's processor alone, and the emulator's default has 32 bits.
        CpuModel::Default | CpuModel::HostModel if is_arm && is_kvm => {
            (Some("host-passthrough"), None)
        }
        CpuModel::Default if is_arm => (Some("maximum"), None),
        CpuModel::Default => (None, None),
        CpuModel::HostModel => (Some("host-model"), None),
        CpuModel::HostPassthrough => (Some("host-passthrough"), None),
        CpuModel::Maximum => (Some("maximum"), None),
        CpuModel::Named(name) => (Some("custom"), Some(name.as_str())),
    };
    let shape = machine.cpu_topology.map(|shape| TopologyElement {
        sockets: shape.sockets,
        cores: shape.cores,
        threads: shape.threads,
    });
    let address_width = machine.address_width.map(|width| match width {
        AddressWidth::Passthrough => AddressWidthElement {
            mode: "passthrough",
            bits: None,
        },
        AddressWidth::Emulated(bits) => AddressWidthElement {
            mode: "emulate",
            bits: Some(bits),
        },
    });
    let is_needed = mode.is_some() || numa.is_some() || shape.is_some() || address_width.is_some();
    is_needed.then_some(CpuElement {
        mode,
        matching: named.map(|_| "exact"),
        model: named.map(|name| CpuModelElement {
            fallback: "forbid",
            name,
        }),
        address_width,
        topology: shape,
        numa,
    })
}

const ON: StateElement = StateElement { state: "on" };

/// As Nova has it: cloud-init finds the metadata service by the name of the product.
fn system_information(spec: &GuestSpec) -> SystemInformation {
    let uuid = spec.uuid.to_string();
    let version = concat!("Berth ", env!("CARGO_PKG_VERSION"));
    let entries = [
        ("manufacturer", "OpenStack Foundation"),
        ("product", "OpenStack Nova"),
        ("version", version),
        ("serial", uuid.as_str()),
        ("uuid", uuid.as_str()),
        ("family", "Virtual Machine"),
    ];
    let entry = |(name, text): (&'static str, &str)| SystemEntry {
        name,
        text: text.to_owned(),
    };
    SystemInformation {
        kind: "smbios",
        system: SystemEntries {
            entry: entries.map(entry).into(),
        },
    }
}

/// The interfaces that Nova gives Windows. The number of retries is the one that Microsoft recommends.
fn hyperv(machine: &MachineOptions) -> HypervElement {
    HypervElement {
        relaxed: ON,
        vapic: ON,
        spinlocks: SpinlocksElement {
            state: "on",
            retries: 8191,
        },
        vpindex: ON,
        runtime: ON,
        synic: ON,
        reset: ON,
        // Drivers of GPUs look for Microsoft's name to recognise a virtual machine.
        vendor_id: machine.hides_hypervisor.then_some(VendorElement {
            state: "on",
            value: "1234567890ab",
        }),
        frequencies: ON,
        tlbflush: ON,
        ipi: ON,
    }
}

/// Like Nova: the clock of a delayed guest catches up, and Windows expects local time.
fn clock(machine: &MachineOptions, is_hyperv: bool, architecture: GuestArchitecture) -> Clock {
    let timer = |name, tickpolicy, present| Timer {
        name,
        tickpolicy,
        present,
    };
    let hpet = if machine.hpet { "yes" } else { "no" };
    let mut timers = match architecture {
        GuestArchitecture::X86_64 => vec![
            timer("pit", Some("delay"), None),
            timer("rtc", Some("catchup"), None),
            timer("hpet", None, Some(hpet)),
        ],
        // Its processor has the timer.
        GuestArchitecture::Aarch64 => Vec::new(),
    };
    if is_hyperv {
        timers.push(timer("hypervclock", None, Some("yes")));
    }
    Clock {
        offset: if machine.windows { "localtime" } else { "utc" },
        timer: timers,
    }
}

/// An element that only has a type.
fn of_type(kind: &'static str) -> TypeElement {
    TypeElement { kind }
}

#[cfg(test)]
mod tests;

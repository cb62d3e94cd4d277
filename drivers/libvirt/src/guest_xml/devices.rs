//! The devices in the document except disks: interfaces, the serial console, the screen, and passthrough devices.

use berth_model::{
    DiskBus, InterfaceModel, MachineOptions, PciAddress, RngDevice, ScsiController, TrafficLimit,
};
use berth_virt::HostDeviceId;
use berth_virt::guest_spec::{
    AttachedDevice, DeviceOrigin, GuestDevice, GuestInterface, GuestPciTree, GuestPort, GuestSpec,
    InterfaceSource, PciManagement, PortConnection,
};
use serde::Serialize;

use super::controller::{Controller, SlotAddress};
use super::disks::{DiskElement, bus_of_drive, disks};
use super::domain::TypeElement;
use super::screen::{Graphics, Input, Video, graphics, inputs, video};
use super::{GuestXmlOptions, Virtualisation, of_type};
use crate::architecture::GuestArchitecture;
use crate::network_filter::is_filterable;
use crate::options::QueueSizes;

#[derive(Serialize)]
pub(super) struct DevicesElement<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    emulator: Option<String>,
    disk: Vec<DiskElement<'a>>,
    controller: Vec<Controller>,
    interface: Vec<Interface<'a>>,
    serial: Serial<'a>,
    console: Console,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<Channel>,
    input: Vec<Input>,
    #[serde(skip_serializing_if = "Option::is_none")]
    graphics: Option<Graphics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    video: Option<Video>,
    hostdev: Vec<HostDeviceElement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    watchdog: Option<Watchdog>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rng: Option<Rng>,
    memballoon: Balloon,
}

/// The devices of a guest.
pub(super) fn devices<'a>(
    spec: &'a GuestSpec,
    tree: &GuestPciTree,
    options: &'a GuestXmlOptions,
) -> DevicesElement<'a> {
    let host_devices = spec.devices.as_slice();
    DevicesElement {
        emulator: options
            .emulator
            .as_ref()
            .map(|path| path.display().to_string()),
        disk: disks(spec, options),
        controller: controllers(spec, tree, options),
        interface: interfaces(spec, tree, options),
        serial: Serial {
            kind: "pty",
            log: Log {
                file: spec.console_log.as_str(),
                append: "off",
            },
            target: SerialTarget { port: 0 },
        },
        console: Console {
            kind: "pty",
            target: ConsoleTarget {
                kind: "serial",
                port: 0,
            },
        },
        channel: spec.machine.guest_agent.then_some(Channel {
            kind: "unix",
            target: ChannelTarget {
                kind: "virtio",
                name: "org.qemu.guest_agent.0",
            },
        }),
        input: inputs(spec, options),
        graphics: graphics(options),
        video: video(spec, options),
        hostdev: host_devices
            .iter()
            .filter(|attached| !is_interface(spec, attached))
            .map(|attached| host_device(attached, tree))
            .collect(),
        watchdog: spec.machine.watchdog.map(|action| Watchdog {
            model: "i6300esb",
            action: action.as_str(),
        }),
        rng: (options.virtualisation != Virtualisation::Test)
            .then(|| rng(spec.machine.rng))
            .flatten(),
        // Passthrough devices access all of the guest's memory, so the balloon must not return any.
        memballoon: Balloon {
            model: if host_devices.is_empty() {
                "virtio"
            } else {
                "none"
            },
            stats: (host_devices.is_empty() && options.memory_statistics_s > 0).then_some(
                BalloonStatistics {
                    period: options.memory_statistics_s,
                },
            ),
        },
    }
}

/// Whether a device is in the interface of its port. A whole network card is not: the guest sets its MAC address and VLAN.
fn is_interface(spec: &GuestSpec, attached: &AttachedDevice) -> bool {
    let DeviceOrigin::Port(id) = attached.origin else {
        return false;
    };
    let mut ports = spec.interfaces.ports();
    !ports.any(|(_, port)| port.id() == id && port.is_physical())
}

/// The controllers that libvirt would not choose by itself.
fn controllers(
    spec: &GuestSpec,
    tree: &GuestPciTree,
    options: &GuestXmlOptions,
) -> Vec<Controller> {
    let count = match spec.machine.is_pc() {
        true => 0,
        false => options.pcie_root_ports,
    };
    let root_ports = (0..count).map(|_| Controller::new("pci", "pcie-root-port"));
    // The ports of devices have the first indexes, so the number of other ports does not move devices.
    let of_devices = tree
        .buses()
        .map(|(index, bus)| Controller::of_bus(index, bus));
    let of_devices: Vec<_> = of_devices.collect();
    let has_ports = count > 0 || !of_devices.is_empty();
    let root = has_ports.then(|| Controller::new("pci", "pcie-root"));
    let is_arm = options.architecture == GuestArchitecture::Aarch64;
    let default = (is_arm && has_scsi(spec, options)).then_some(ScsiController::VirtioScsi);
    let scsi = spec.machine.scsi_controller.or(default);
    let scsi = scsi.map(|model| Controller::new("scsi", model.as_str()));
    // libvirt gives this machine no controller for the tablet and USB disks.
    let usb = is_arm.then(|| Controller::new("usb", "qemu-xhci"));
    root.into_iter()
        .chain(of_devices)
        .chain(root_ports)
        .chain(scsi)
        .chain(usb)
        .collect()
}

/// Whether a disk or the config drive is on the SCSI bus.
fn has_scsi(spec: &GuestSpec, options: &GuestXmlOptions) -> bool {
    let of_drive = bus_of_drive(&spec.machine, options.architecture);
    let is_drive = spec.disks.config_drive().is_some() && of_drive == DiskBus::Scsi;
    is_drive || spec.machine.bus_of_disks() == DiskBus::Scsi
}

#[derive(Serialize)]
#[serde(rename = "interface")]
pub(super) struct Interface<'a> {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@managed", skip_serializing_if = "Option::is_none")]
    managed: Option<&'static str>,
    mac: Mac,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<InterfaceSourceElement<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vlan: Option<Vlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<UnmanagedTap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<TypeElement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<Mtu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<InterfaceDriver>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<Bandwidth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filterref: Option<FilterRef<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<Port>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<Alias>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SlotAddress>,
}

#[derive(Serialize)]
struct Vlan {
    tag: VlanTag,
}

#[derive(Serialize)]
struct VlanTag {
    #[serde(rename = "@id")]
    id: u16,
}

#[derive(Serialize, Default)]
struct InterfaceDriver {
    #[serde(rename = "@name", skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    #[serde(rename = "@queues", skip_serializing_if = "Option::is_none")]
    queues: Option<u32>,
    #[serde(rename = "@rx_queue_size", skip_serializing_if = "Option::is_none")]
    rx_queue_size: Option<u32>,
    #[serde(rename = "@tx_queue_size", skip_serializing_if = "Option::is_none")]
    tx_queue_size: Option<u32>,
    #[serde(rename = "@packed", skip_serializing_if = "Option::is_none")]
    packed: Option<&'static str>,
}

/// The traffic as the guest sees it: `inbound` goes to the guest.
#[derive(Serialize)]
struct Bandwidth {
    #[serde(skip_serializing_if = "Option::is_none")]
    inbound: Option<Traffic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outbound: Option<Traffic>,
}

#[derive(Serialize)]
struct Traffic {
    #[serde(rename = "@average")]
    average: u32,
    #[serde(rename = "@peak", skip_serializing_if = "Option::is_none")]
    peak: Option<u32>,
    #[serde(rename = "@burst", skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
}

#[derive(Serialize)]
struct FilterRef<'a> {
    #[serde(rename = "@filter")]
    filter: &'a str,
}

/// A port of a Linux bridge.
#[derive(Serialize)]
struct Port {
    #[serde(rename = "@isolated")]
    isolated: &'static str,
}

#[derive(Serialize)]
struct Mac {
    #[serde(rename = "@address")]
    address: String,
}

/// One of the four.
#[derive(Serialize, Default)]
struct InterfaceSourceElement<'a> {
    #[serde(rename = "@dev", skip_serializing_if = "Option::is_none")]
    dev: Option<&'a str>,
    #[serde(rename = "@mode", skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(rename = "@network", skip_serializing_if = "Option::is_none")]
    network: Option<&'a str>,
    #[serde(rename = "@bridge", skip_serializing_if = "Option::is_none")]
    bridge: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<HostAddress>,
}

/// A tap that the agent made and removes.
#[derive(Serialize)]
struct UnmanagedTap {
    #[serde(rename = "@dev")]
    dev: String,
    #[serde(rename = "@managed")]
    managed: &'static str,
}

/// In bytes.
#[derive(Serialize)]
struct Mtu {
    #[serde(rename = "@size")]
    size: u32,
}

fn interfaces<'a>(
    spec: &'a GuestSpec,
    tree: &GuestPciTree,
    options: &'a GuestXmlOptions,
) -> Vec<Interface<'a>> {
    let all = spec.interfaces.as_slice().iter();
    let is_physical = |one: &&GuestInterface| matches!(&one.source, InterfaceSource::Port(port) if port.is_physical());
    all.filter(|one| !is_physical(one))
        .map(|one| interface(one, spec, tree, options))
        .collect()
}

/// Several queues, their sizes, and packed rings.
fn interface_driver(spec: &GuestSpec, options: &GuestXmlOptions) -> Option<InterfaceDriver> {
    let machine = &spec.machine;
    if machine.interface_model != InterfaceModel::Virtio {
        return None;
    }
    // libvirt's test driver has no such interfaces.
    let sizes = match options.virtualisation {
        Virtualisation::Kvm | Virtualisation::Qemu => options.queue_sizes,
        Virtualisation::Test => QueueSizes::default(),
    };
    let queues = spec.interface_queues();
    let is_needed = queues.is_some() || sizes != QueueSizes::default() || machine.packed_ring;
    is_needed.then_some(InterfaceDriver {
        name: None,
        queues,
        rx_queue_size: sizes.receive,
        tx_queue_size: sizes.transmit,
        packed: machine.packed_ring.then_some("on"),
    })
}

fn bandwidth(machine: &MachineOptions) -> Option<Bandwidth> {
    let traffic = |limit: TrafficLimit| Traffic {
        average: limit.average,
        peak: limit.peak,
        burst: limit.burst,
    };
    let limits = &machine.limits;
    let is_limited = limits.inbound.is_some() || limits.outbound.is_some();
    is_limited.then(|| Bandwidth {
        inbound: limits.inbound.map(traffic),
        outbound: limits.outbound.map(traffic),
    })
}

pub(super) fn interface<'a>(
    interface: &'a GuestInterface,
    spec: &GuestSpec,
    tree: &GuestPciTree,
    options: &'a GuestXmlOptions,
) -> Interface<'a> {
    if let InterfaceSource::Port(port) = &interface.source {
        match port.connection() {
            PortConnection::NetworkFunction { address, vlan, .. } => {
                return network_function(interface, port, (*address, *vlan), spec, tree);
            }
            PortConnection::Macvtap { address, vlan, .. } => {
                let link = options.function_links.get(address);
                return macvtap(interface, (link.map(String::as_str), *vlan), spec, options);
            }
            PortConnection::OpenVswitch { .. } | PortConnection::PhysicalFunction { .. } => {}
        }
    }
    let on_bridge = is_filterable(interface, &options.unfilterable);
    let filter = options.nwfilter.as_deref().filter(|_| on_bridge);
    let (kind, network, bridge, port) = match &interface.source {
        InterfaceSource::Network(name) => ("network", Some(name.as_str()), None, None),
        InterfaceSource::Bridge(name) => ("bridge", None, Some(name.as_str()), None),
        InterfaceSource::Port(port) => ("ethernet", None, None, Some(port)),
    };
    Interface {
        kind,
        managed: None,
        mac: Mac {
            address: interface.mac.to_string(),
        },
        source: port.is_none().then_some(InterfaceSourceElement {
            network,
            bridge,
            ..InterfaceSourceElement::default()
        }),
        vlan: None,
        target: port.map(|port| UnmanagedTap {
            dev: port.tap().to_string(),
            managed: "no",
        }),
        mtu: port.and_then(|port| port.mtu()).map(|size| Mtu { size }),
        model: Some(of_type(spec.machine.interface_model.as_str())),
        driver: interface_driver(spec, options),
        bandwidth: bandwidth(&spec.machine),
        filterref: filter.map(|filter| FilterRef { filter }),
        port: (options.port_isolation && on_bridge).then_some(Port { isolated: "yes" }),
        alias: None,
        address: None,
    }
}

/// The interface of a port that is a function of a network card. libvirt sets its MAC address and VLAN at the physical function.
fn network_function<'a>(
    interface: &GuestInterface,
    port: &GuestPort,
    (address, vlan): (PciAddress, Option<u16>),
    spec: &GuestSpec,
    tree: &GuestPciTree,
) -> Interface<'a> {
    let origin = DeviceOrigin::Port(port.id());
    let mut devices = spec.devices.as_slice().iter();
    let attached = devices.find(|attached| attached.origin == origin);
    let is_prepared = attached.is_some_and(|attached| {
        let managed = PciManagement::Prepared;
        attached.device == GuestDevice::Pci { address, managed }
    });
    Interface {
        kind: "hostdev",
        managed: Some(if is_prepared { "no" } else { "yes" }),
        mac: Mac {
            address: interface.mac.to_string(),
        },
        source: Some(InterfaceSourceElement {
            address: Some(HostAddress {
                kind: Some("pci"),
                ..pci_address(address)
            }),
            ..InterfaceSourceElement::default()
        }),
        vlan: vlan.map(|id| Vlan {
            tag: VlanTag { id },
        }),
        target: None,
        model: None,
        mtu: None,
        driver: Some(InterfaceDriver {
            name: Some("vfio"),
            ..InterfaceDriver::default()
        }),
        bandwidth: None,
        filterref: None,
        port: None,
        alias: attached.map(|attached| Alias {
            name: attached.alias(),
        }),
        address: tree
            .bus_of(HostDeviceId::Function(address))
            .map(SlotAddress::of_device),
    }
}

/// The interface of a port that is a macvtap of a function. libvirt sets the VLAN at the physical function. Without `vlan` it
/// removes the VLAN that the agent has set.
fn macvtap<'a>(
    interface: &'a GuestInterface,
    (link, vlan): (Option<&'a str>, Option<u16>),
    spec: &GuestSpec,
    options: &GuestXmlOptions,
) -> Interface<'a> {
    Interface {
        kind: "direct",
        managed: None,
        mac: Mac {
            address: interface.mac.to_string(),
        },
        source: Some(InterfaceSourceElement {
            dev: link,
            mode: Some("passthrough"),
            ..InterfaceSourceElement::default()
        }),
        vlan: vlan.map(|id| Vlan {
            tag: VlanTag { id },
        }),
        target: None,
        model: Some(of_type(spec.machine.interface_model.as_str())),
        mtu: None,
        driver: interface_driver(spec, options),
        bandwidth: bandwidth(&spec.machine),
        filterref: None,
        port: None,
        alias: None,
        address: None,
    }
}

#[derive(Serialize)]
struct Serial<'a> {
    #[serde(rename = "@type")]
    kind: &'static str,
    log: Log<'a>,
    target: SerialTarget,
}

#[derive(Serialize)]
struct Log<'a> {
    #[serde(rename = "@file")]
    file: &'a str,
    #[serde(rename = "@append")]
    append: &'static str,
}

#[derive(Serialize)]
struct SerialTarget {
    #[serde(rename = "@port")]
    port: u32,
}

#[derive(Serialize)]
struct Console {
    #[serde(rename = "@type")]
    kind: &'static str,
    target: ConsoleTarget,
}

#[derive(Serialize)]
struct ConsoleTarget {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@port")]
    port: u32,
}

/// A channel between the guest and the host.
#[derive(Serialize)]
struct Channel {
    #[serde(rename = "@type")]
    kind: &'static str,
    target: ChannelTarget,
}

#[derive(Serialize)]
struct ChannelTarget {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@name")]
    name: &'static str,
}

#[derive(Serialize)]
struct HostDeviceElement {
    #[serde(rename = "@mode")]
    mode: &'static str,
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@managed")]
    managed: &'static str,
    #[serde(rename = "@model", skip_serializing_if = "Option::is_none")]
    model: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<NameOf>,
    source: HostSource,
    alias: Alias,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SlotAddress>,
}

#[derive(Serialize)]
struct NameOf {
    #[serde(rename = "@name")]
    name: &'static str,
}

#[derive(Serialize)]
struct Alias {
    #[serde(rename = "@name")]
    name: String,
}

#[derive(Serialize)]
struct HostSource {
    address: HostAddress,
}

#[derive(Serialize, Default)]
struct HostAddress {
    #[serde(rename = "@type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(rename = "@uuid", skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    #[serde(rename = "@domain", skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    #[serde(rename = "@bus", skip_serializing_if = "Option::is_none")]
    bus: Option<String>,
    #[serde(rename = "@slot", skip_serializing_if = "Option::is_none")]
    slot: Option<String>,
    #[serde(rename = "@function", skip_serializing_if = "Option::is_none")]
    function: Option<String>,
}

fn host_device(attached: &AttachedDevice, tree: &GuestPciTree) -> HostDeviceElement {
    let alias = Alias {
        name: attached.alias(),
    };
    let bus = tree.bus_of(HostDeviceId::of(attached.device));
    let slot = bus.map(SlotAddress::of_device);
    match attached.device {
        GuestDevice::Pci { address, managed } => {
            let managed = match managed {
                PciManagement::Hypervisor => "yes",
                PciManagement::Prepared | PciManagement::HostDriver => "no",
            };
            function(address, managed, alias, slot)
        }
        GuestDevice::VendorVfio { address } => function(address, "no", alias, slot),
        GuestDevice::Mdev { uuid } => HostDeviceElement {
            mode: "subsystem",
            kind: "mdev",
            managed: "no",
            model: Some("vfio-pci"),
            driver: None,
            source: HostSource {
                address: HostAddress {
                    uuid: Some(uuid.hyphenated().to_string()),
                    ..HostAddress::default()
                },
            },
            alias,
            address: slot,
        },
    }
}

fn function(
    address: PciAddress,
    managed: &'static str,
    alias: Alias,
    slot: Option<SlotAddress>,
) -> HostDeviceElement {
    HostDeviceElement {
        mode: "subsystem",
        kind: "pci",
        managed,
        model: None,
        driver: Some(NameOf { name: "vfio" }),
        source: HostSource {
            address: pci_address(address),
        },
        alias,
        address: slot,
    }
}

fn pci_address(address: PciAddress) -> HostAddress {
    HostAddress {
        domain: Some(format!("0x{:04x}", address.domain())),
        bus: Some(format!("0x{:02x}", address.bus())),
        slot: Some(format!("0x{:02x}", address.slot())),
        function: Some(format!("0x{:x}", address.function())),
        ..HostAddress::default()
    }
}

#[derive(Serialize)]
struct Watchdog {
    #[serde(rename = "@model")]
    model: &'static str,
    #[serde(rename = "@action")]
    action: &'static str,
}

fn rng(wanted: RngDevice) -> Option<Rng> {
    let rate = match wanted {
        RngDevice::Absent => return None,
        RngDevice::Unlimited => None,
        RngDevice::Limited { bytes, period_ms } => Some(RngRate {
            bytes,
            period: period_ms,
        }),
    };
    Some(Rng {
        model: "virtio",
        rate,
        backend: Backend {
            model: "random",
            device: "/dev/urandom",
        },
    })
}

#[derive(Serialize)]
struct RngRate {
    #[serde(rename = "@bytes")]
    bytes: u32,
    /// In milliseconds.
    #[serde(rename = "@period", skip_serializing_if = "Option::is_none")]
    period: Option<u32>,
}

#[derive(Serialize)]
struct Rng {
    #[serde(rename = "@model")]
    model: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<RngRate>,
    backend: Backend,
}

#[derive(Serialize)]
struct Backend {
    #[serde(rename = "@model")]
    model: &'static str,
    #[serde(rename = "$text")]
    device: &'static str,
}

#[derive(Serialize)]
struct Balloon {
    #[serde(rename = "@model")]
    model: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<BalloonStatistics>,
}

#[derive(Serialize)]
struct BalloonStatistics {
    #[serde(rename = "@period")]
    period: u32,
}

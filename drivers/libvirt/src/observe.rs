//! One look at the host: everything libvirt and the device tree say, gathered on the connection's thread, then put together
//! into a [`HostView`] by a pure function.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use berth_model::{ConsumerUuid, NodeName, PciAddress};
use berth_sysfs::{Sysfs, SysfsError};
use berth_virt::{
    CpuSet, Cpus, Disk, GuestMdev, GuestView, HostView, Hypervisor, NodeView, NumaCell,
    ObserveError,
};
use virt::connect::{Connect, NodeInfo};
use virt::error::{Error, ErrorNumber};
use virt_sys as sys;

use crate::capabilities::{self, Capabilities};
use crate::connection::{ConnectionError, Session};
use crate::domain_capabilities::DomainCapabilities;
use crate::gpus::physical_gpus;
use crate::guest::Guest;
use crate::node_device::{Mdev, MdevParent, NodeDevice};
use crate::options::{DiskPlacement, LibvirtOptions};
use crate::traits::traits;
use crate::xml::XmlError;

/// What cannot change while a connection lives: it is costly to ask, and another answer needs another libvirtd.
#[derive(Debug, Clone)]
pub(crate) struct SteadyFacts {
    /// The driver's kind as libvirt names it, for example `QEMU` or `Test`.
    kind: String,
    /// The hypervisor's version, for example `7.2.13`.
    version: String,
    /// The processor's features, expanded.
    features: BTreeSet<String>,
    /// What guests can have.
    domain: DomainCapabilities,
}

/// What one look brought.
#[derive(Debug, Clone)]
struct Facts {
    steady: SteadyFacts,
    hostname: String,
    capabilities: Capabilities,
    /// Online CPUs, where the device tree says.
    online: Option<CpuSet>,
    /// NUMA cells of the device tree, for a libvirt driver that shows none.
    cells: Vec<NumaCell>,
    /// CPUs that are active, as a number: all that some drivers say.
    active_cpus: u32,
    memory_kib: u64,
    disk: Disk,
    parents: Vec<MdevParent>,
    mdevs: Vec<Mdev>,
    guests: Vec<Guest>,
}

/// One look. Blocks; called on the connection's thread.
pub(crate) fn observe(
    session: &Session,
    options: &LibvirtOptions,
) -> Result<HostView, ObserveError> {
    let facts = facts(session, options)?;
    view(facts, options)
}

fn facts(session: &Session, options: &LibvirtOptions) -> Result<Facts, ObserveError> {
    let connect = session.connect();
    let text = connect
        .capabilities()
        .map_err(refused("virConnectGetCapabilities"))?;
    let capabilities = Capabilities::read(&text).map_err(malformed)?;
    let steady = match session.steady().get() {
        Some(steady) => steady.clone(),
        None => {
            let read = steady_facts(connect, &capabilities)?;
            session.steady().get_or_init(|| read).clone()
        }
    };
    let NodeInfo { cpus, memory, .. } = connect.node_info().map_err(refused("virNodeGetInfo"))?;
    let sysfs = options.sysfs.as_ref().map(Sysfs::at);
    let (parents, mdevs) = mediated_devices(connect, &steady.kind, sysfs.as_ref())?;
    Ok(Facts {
        hostname: connect
            .hostname()
            .map_err(refused("virConnectGetHostname"))?,
        online: online_cpus(sysfs.as_ref())?,
        cells: numa_cells(sysfs.as_ref())?,
        active_cpus: cpus,
        memory_kib: memory,
        disk: disk(&options.disk)?,
        guests: guests(connect)?,
        steady,
        capabilities,
        parents,
        mdevs,
    })
}

fn steady_facts(
    connect: &Connect,
    capabilities: &Capabilities,
) -> Result<SteadyFacts, ObserveError> {
    let version = connect
        .hyp_version()
        .map_err(refused("virConnectGetVersion"))?;
    Ok(SteadyFacts {
        kind: connect
            .driver_type()
            .map_err(refused("virConnectGetType"))?,
        version: format!(
            "{}.{}.{}",
            version / 1_000_000,
            version / 1_000 % 1_000,
            version % 1_000
        ),
        features: features(connect, capabilities)?,
        domain: domain_capabilities(connect, capabilities)?,
    })
}

/// The processor's features: libvirt is asked to name also those that the processor's model implies. Drivers that cannot do
/// that name what they name.
fn features(
    connect: &Connect,
    capabilities: &Capabilities,
) -> Result<BTreeSet<String>, ObserveError> {
    let mut features = capabilities.cpu_features.clone();
    if let Some(cpu) = &capabilities.cpu {
        let expand = sys::VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES;
        if let Ok(expanded) = connect.baseline_cpu(&[cpu.as_str()], expand) {
            features.extend(capabilities::expanded_features(&expanded).map_err(malformed)?);
        }
    }
    Ok(features)
}

/// What guests can have on any of the usual machine types; nothing where the driver does not tell (libvirt's test driver) or
/// has no emulator for this host's own architecture.
fn domain_capabilities(
    connect: &Connect,
    capabilities: &Capabilities,
) -> Result<DomainCapabilities, ObserveError> {
    let machines: &[Option<&str>] = match capabilities.arch.as_str() {
        "x86_64" => &[Some("pc"), Some("q35")],
        _ => &[None],
    };
    let mut all = DomainCapabilities::default();
    let Some(kind) = capabilities.domain_type() else {
        return Ok(all);
    };
    for machine in machines {
        let arch = Some(capabilities.arch.as_str());
        match connect.domain_capabilities(None, arch, *machine, Some(kind), 0) {
            Ok(text) => all = all.and(DomainCapabilities::read(&text).map_err(malformed)?),
            // A machine type this emulator was built without.
            Err(error) if is(&error, ErrorNumber::InvalidArg) => {}
            Err(error) if is(&error, ErrorNumber::NoSupport) => return Ok(all),
            Err(error) => return Err(refused("virConnectGetDomainCapabilities")(error)),
        }
    }
    Ok(all)
}

/// The cards with mediated devices and the devices that exist, from libvirt, or from the device tree where libvirt has no
/// node devices.
fn mediated_devices(
    connect: &Connect,
    kind: &str,
    sysfs: Option<&Sysfs>,
) -> Result<(Vec<MdevParent>, Vec<Mdev>), ObserveError> {
    let wanted = sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES
        | sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV;
    // Without ACTIVE, newer libvirts also list mediated devices that are only defined. The test driver refuses the flag.
    let flags = match kind {
        "Test" | "TEST" => wanted,
        _ => wanted | sys::VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE,
    };
    let listed = match connect.list_all_node_devices(flags) {
        // A libvirt from before that flag.
        Err(error) if is(&error, ErrorNumber::InvalidArg) => connect.list_all_node_devices(wanted),
        listed => listed,
    };
    let devices = match (listed, sysfs) {
        (Ok(devices), _) => devices,
        (Err(error), sysfs) if is(&error, ErrorNumber::NoSupport) => {
            return sysfs.map_or_else(|| Ok((Vec::new(), Vec::new())), mediated_devices_of_tree);
        }
        (Err(error), _) => return Err(refused("virConnectListAllNodeDevices")(error)),
    };
    let (mut parents, mut mdevs) = (Vec::new(), Vec::new());
    for device in devices {
        let text = match device.xml_desc(0) {
            Ok(text) => text,
            // It went away since it was listed.
            Err(error) if is(&error, ErrorNumber::NoNodeDevice) => continue,
            Err(error) => return Err(refused("virNodeDeviceGetXMLDesc")(error)),
        };
        match NodeDevice::read(&text).map_err(malformed)? {
            NodeDevice::MdevParent(parent) => parents.push(parent),
            NodeDevice::Mdev(mdev) => mdevs.push(mdev),
            NodeDevice::Other => {}
        }
    }
    Ok((parents, mdevs))
}

fn mediated_devices_of_tree(sysfs: &Sysfs) -> Result<(Vec<MdevParent>, Vec<Mdev>), ObserveError> {
    let mut parents = Vec::new();
    for parent in sysfs.mdev_parents().map_err(unreadable)? {
        let Ok(address) = parent.name.parse() else {
            continue;
        };
        parents.push(MdevParent {
            address,
            numa_node: numa_node(sysfs, address)?,
            available: parent
                .types
                .into_iter()
                .map(|one| (one.id, u64::from(one.available_instances)))
                .collect(),
        });
    }
    let mdevs = sysfs.mdev_devices().map_err(unreadable)?;
    let mdevs = mdevs.into_iter().map(|mdev| Mdev {
        uuid: mdev.uuid,
        type_id: mdev.type_id,
        parent: mdev.parent.parse().ok(),
    });
    Ok((parents, mdevs.collect()))
}

fn numa_node(sysfs: &Sysfs, address: PciAddress) -> Result<Option<u32>, ObserveError> {
    let function = sysfs.pci_function(address).map_err(unreadable)?;
    Ok(function.and_then(|function| function.numa_node))
}

fn online_cpus(sysfs: Option<&Sysfs>) -> Result<Option<CpuSet>, ObserveError> {
    let online = sysfs.map(Sysfs::online_cpus).transpose();
    Ok(online.map_err(unreadable)?.flatten().map(CpuSet::from_iter))
}

fn numa_cells(sysfs: Option<&Sysfs>) -> Result<Vec<NumaCell>, ObserveError> {
    let cells = sysfs.map(Sysfs::numa_cells).transpose();
    let cells = cells.map_err(unreadable)?.unwrap_or_default();
    let cells = cells.into_iter().map(|cell| NumaCell {
        id: cell.id,
        cpus: CpuSet::from_iter(cell.cpus),
        memory_mib: cell.memory_kib / 1024,
    });
    Ok(cells.collect())
}

/// The size of the file system that a path is, or will be, on.
fn disk(placement: &DiskPlacement) -> Result<Disk, ObserveError> {
    let DiskPlacement::Local(path) = placement else {
        return Ok(Disk::Shared);
    };
    // The directory is made with the first guest.
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    let existing = existing.unwrap_or(Path::new("/"));
    let statistics =
        nix::sys::statvfs::statvfs(existing).map_err(|errno| ObserveError::Unreadable {
            path: existing.display().to_string(),
            source: errno.into(),
        })?;
    let bytes = statistics
        .blocks()
        .saturating_mul(statistics.fragment_size());
    Ok(Disk::Local { gib: bytes >> 30 })
}

fn guests(connect: &Connect) -> Result<Vec<Guest>, ObserveError> {
    let domains = connect
        .list_all_domains(0)
        .map_err(refused("virConnectListAllDomains"))?;
    let mut guests = Vec::with_capacity(domains.len());
    for domain in domains {
        match domain.xml_desc(0) {
            Ok(text) => guests.push(Guest::read(&text).map_err(malformed)?),
            // It went away since it was listed.
            Err(error) if is(&error, ErrorNumber::NoDomain) => {}
            Err(error) => return Err(refused("virDomainGetXMLDesc")(error)),
        }
    }
    Ok(guests)
}

/// The view that the facts make.
fn view(facts: Facts, options: &LibvirtOptions) -> Result<HostView, ObserveError> {
    let node = match &options.node {
        Some(node) => node.clone(),
        None => NodeName::new(&facts.hostname).map_err(|error| ObserveError::Malformed {
            origin: "the hypervisor's hostname".to_owned(),
            reason: error.to_string(),
        })?,
    };
    let hypervisor = Hypervisor {
        kind: facts.steady.kind.clone(),
        version: facts.steady.version.clone(),
        hostname: facts.hostname.clone(),
    };
    let seen = node_view(facts, options)?;
    Ok(HostView {
        hypervisor,
        nodes: BTreeMap::from([(node, seen)]),
    })
}

fn node_view(facts: Facts, options: &LibvirtOptions) -> Result<NodeView, ObserveError> {
    let cells = if facts.capabilities.cells.is_empty() {
        facts.cells
    } else {
        facts.capabilities.cells.clone()
    };
    let cpus = Cpus {
        online: online(facts.online, &cells, facts.active_cpus),
        shared: options.cpu_shared_set.clone(),
        dedicated: options.cpu_dedicated_set.clone(),
    };
    check_cpu_sets(&cpus)?;
    let parent_of: BTreeMap<_, _> = facts
        .mdevs
        .iter()
        .filter_map(|mdev| Some((mdev.uuid, mdev.parent?)))
        .collect();
    let dedicated = cpus.dedicated.clone().unwrap_or_default();
    let guests = facts.guests.into_iter().map(|guest| {
        let parent = |uuid| parent_of.get(&uuid).copied();
        (
            ConsumerUuid::from(guest.uuid),
            guest_view(guest, &cells, &dedicated, parent),
        )
    });
    Ok(NodeView {
        uuid: None,
        memory_mib: facts.memory_kib / 1024,
        disk: facts.disk,
        gpus: physical_gpus(&facts.parents, &facts.mdevs, &options.mdev_types),
        functions: Vec::new(),
        customs: Vec::new(),
        traits: traits(
            &facts.capabilities,
            &facts.steady.features,
            &facts.steady.domain,
        ),
        guests: guests.collect(),
        model: options.model,
        cpus,
        cells,
    })
}

/// The online CPUs: what the device tree says, else all that the cells have, else as many as are active, from 0 on.
fn online(of_tree: Option<CpuSet>, cells: &[NumaCell], active: u32) -> CpuSet {
    let of_cells = || CpuSet::from_iter(cells.iter().flat_map(|cell| cell.cpus.iter()));
    of_tree.unwrap_or_else(|| match of_cells() {
        none if none.is_empty() => CpuSet::first(active),
        cpus => cpus,
    })
}

/// Refuses CPUs that are not there, as Nova does: an inventory smaller than configured would be found out by nobody.
fn check_cpu_sets(cpus: &Cpus) -> Result<(), ObserveError> {
    let sets = [
        ("[compute] cpu_shared_set", &cpus.shared),
        ("[compute] cpu_dedicated_set", &cpus.dedicated),
    ];
    for (option, set) in sets {
        let offline = set.as_ref().map(|set| set.difference(&cpus.online));
        if let Some(offline) = offline.filter(|offline| !offline.is_empty()) {
            return Err(ObserveError::Configuration {
                option: option.to_owned(),
                reason: format!(
                    "CPUs {offline} are not online on this host, which has {}",
                    cpus.online
                ),
            });
        }
    }
    Ok(())
}

fn guest_view(
    guest: Guest,
    cells: &[NumaCell],
    dedicated: &CpuSet,
    parent: impl Fn(uuid::Uuid) -> Option<PciAddress>,
) -> GuestView {
    GuestView {
        cpu_policy: guest.cpu_policy(dedicated),
        cells: guest.placement(cells),
        mdevs: guest
            .mdevs
            .iter()
            .map(|uuid| GuestMdev {
                uuid: *uuid,
                parent: parent(*uuid),
            })
            .collect(),
        name: guest.name,
        power: guest.power,
        also: BTreeSet::new(),
        vcpus: u64::from(guest.vcpus),
        memory_mib: guest.memory_mib,
        functions: guest.functions,
    }
}

fn is(error: &Error, number: ErrorNumber) -> bool {
    error.code().is_known_and(|code| code == number)
}

fn refused(call: &'static str) -> impl FnOnce(Error) -> ObserveError {
    move |error| ObserveError::Refused {
        call,
        reason: error.message().to_owned(),
    }
}

fn malformed(error: XmlError) -> ObserveError {
    let reason = match &error {
        XmlError::Syntax { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    ObserveError::Malformed {
        origin: "libvirt".to_owned(),
        reason,
    }
}

fn unreadable(error: SysfsError) -> ObserveError {
    match error {
        SysfsError::Unreadable { path, source } => ObserveError::Unreadable {
            path: path.display().to_string(),
            source,
        },
        SysfsError::Malformed { .. } => ObserveError::Malformed {
            origin: "the kernel's device tree".to_owned(),
            reason: error.to_string(),
        },
    }
}

impl From<ConnectionError> for ObserveError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Load(error) => ObserveError::LibraryMissing {
                library: "libvirt.so.0".to_owned(),
                mend: error.to_string(),
            },
            ConnectionError::TimedOut { uri, call, limit } => ObserveError::TimedOut {
                target: uri,
                call,
                limit,
            },
            ConnectionError::Open { uri, source } => ObserveError::Unreachable {
                target: uri,
                reason: source.message().to_owned(),
            },
            ConnectionError::EventLoop(_) | ConnectionError::Thread(_) => {
                ObserveError::Unreachable {
                    target: "libvirt".to_owned(),
                    reason: with_source(&error),
                }
            }
            ConnectionError::Hanging { ref uri, .. } | ConnectionError::CutOff { ref uri, .. } => {
                ObserveError::Unreachable {
                    target: uri.clone(),
                    reason: error.to_string(),
                }
            }
        }
    }
}

fn with_source(error: &ConnectionError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

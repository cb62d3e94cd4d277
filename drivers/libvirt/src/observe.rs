//! One observation of the host: reads libvirt and the device tree on the connection's thread, then builds a [`HostView`] with a
//! pure function (`view`).

mod devices;
mod error;
mod mediated;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use berth_sysfs::{LastObservation, SeenFunction, Sysfs};
use berth_virt::{CpuSet, HostNumaCell, HostView, NodeDisk, ObserveError, UnreadableGuest};
use uuid::Uuid;
use virt::connect::{Connect, NodeInfo};
use virt::domain::Domain;
use virt::error::{Error, ErrorNumber};
use virt_sys as sys;

use crate::architecture::GuestArchitecture;
use crate::capabilities::{self, Capabilities};
use crate::connection::Session;
use crate::domain_capabilities::DomainCapabilities;
use crate::guest::{LibvirtGuest, macvtap_functions};
use crate::node_device::{Mdev, MdevParentFunction};
use crate::options::{CpuMode, DiskPlacement, LibvirtOptions, VirtType};
use crate::stateless_firmware::has_stateless_firmware;
use error::malformed;
pub(crate) use error::unreadable;
use mediated::mediated_devices;

/// Facts that cannot change while a connection lives: expensive to query, and changed only by another libvirtd.
#[derive(Debug, Clone)]
pub(crate) struct SteadyFacts {
    /// The driver type in libvirt, `QEMU`, `TEST`.
    kind: String,
    /// The hypervisor's version, for example `7.2.13`.
    version: String,
    /// The same as a number: 7002013.
    emulator: u32,
    /// libvirt's version in the same form.
    libvirt: u32,
    /// The processor's features, expanded.
    features: BTreeSet<String>,
    /// The features of the processor that guests see.
    guest_features: BTreeSet<String>,
    /// The guests' possible devices and firmware.
    domain: DomainCapabilities,
    /// Whether there is UEFI firmware that keeps no variables.
    has_stateless_firmware: bool,
    /// Whether the kernel runs guests with AMD SEV-ES. With SEV-SNP the processor has no contexts left for them.
    has_sev_es: bool,
}

/// The results of one observation.
#[derive(Debug, Clone)]
struct ObservedFacts {
    steady: SteadyFacts,
    hostname: String,
    capabilities: Capabilities,
    /// Online CPUs, if the device tree shows them.
    online: Option<CpuSet>,
    /// NUMA cells of the device tree, for a libvirt driver that shows none.
    cells: Vec<HostNumaCell>,
    /// The number of active CPUs; some drivers report nothing else.
    active_cpus: u32,
    memory_kib: u64,
    disk: NodeDisk,
    parents: Vec<MdevParentFunction>,
    mdevs: Vec<Mdev>,
    guests: Vec<LibvirtGuest>,
    unreadable: BTreeMap<Uuid, UnreadableGuest>,
    /// The functions that the operator's lists mean.
    functions: Vec<SeenFunction>,
}

/// One observation. Blocks; called on the connection's thread.
pub(crate) fn observe(
    session: &Session,
    options: &LibvirtOptions,
    last: &Mutex<LastObservation>,
) -> Result<HostView, ObserveError> {
    let facts = facts(session, options, last)?;
    let (view, refused) = view::view(facts, options)?;
    devices::record_conditions(last, refused)?;
    Ok(view)
}

fn facts(
    session: &Session,
    options: &LibvirtOptions,
    last: &Mutex<LastObservation>,
) -> Result<ObservedFacts, ObserveError> {
    let connect = session.connect();
    let text = connect
        .capabilities()
        .map_err(refused("virConnectGetCapabilities"))?;
    let capabilities = Capabilities::read(&text).map_err(malformed)?;
    let steady = match session.steady().get() {
        Some(steady) => steady.clone(),
        None => {
            let read = steady_facts(connect, &capabilities, options)?;
            session.steady().get_or_init(|| read).clone()
        }
    };
    let NodeInfo { cpus, memory, .. } = connect.node_info().map_err(refused("virNodeGetInfo"))?;
    let sysfs = options.sysfs.as_ref().map(Sysfs::at);
    // Before the mediated devices: the ones that a guest holds exist as long as the guest.
    let (guests, unreadable) = guests(connect, sysfs.as_ref())?;
    let (parents, mdevs) = mediated_devices(connect, &steady.kind, sysfs.as_ref())?;
    let functions = devices::observe_devices(sysfs.as_ref(), options, last, &parents, &mdevs)?;
    Ok(ObservedFacts {
        functions,
        hostname: connect
            .hostname()
            .map_err(refused("virConnectGetHostname"))?,
        online: online_cpus(sysfs.as_ref())?,
        cells: numa_cells(sysfs.as_ref(), capabilities.small_page_kib)?,
        active_cpus: cpus,
        memory_kib: memory,
        disk: disk(&options.disk)?,
        guests,
        unreadable,
        steady,
        capabilities,
        parents,
        mdevs,
    })
}

fn steady_facts(
    connect: &Connect,
    capabilities: &Capabilities,
    options: &LibvirtOptions,
) -> Result<SteadyFacts, ObserveError> {
    let version = connect
        .hyp_version()
        .map_err(refused("virConnectGetVersion"))?;
    let libvirt = connect
        .lib_version()
        .map_err(refused("virConnectGetLibVersion"))?;
    let features = features(connect, capabilities)?;
    let domain = domain_capabilities(connect, capabilities, options.virt_type)?;
    let kind = options.virt_type.as_str();
    let has_uefi = domain.firmwares.contains("efi");
    let sysfs = options.sysfs.as_ref().map(Sysfs::at);
    let kernel_has = |parameter| match &sysfs {
        Some(sysfs) => sysfs.kvm_amd_has(parameter).map_err(unreadable),
        None => Ok(false),
    };
    let architecture = GuestArchitecture::named(&capabilities.arch).filter(|_| has_uefi);
    let stateless = |architecture| has_stateless_firmware(connect, architecture, kind, false);
    let stateless = architecture.map_or(Ok(false), stateless);
    Ok(SteadyFacts {
        has_stateless_firmware: stateless.map_err(refused("virConnectDomainXMLToNative"))?,
        has_sev_es: kernel_has("sev_es")? && !kernel_has("sev_snp")?,
        emulator: version,
        libvirt,
        kind: connect
            .driver_type()
            .map_err(refused("virConnectGetType"))?,
        version: format!(
            "{}.{}.{}",
            version / 1_000_000,
            version / 1_000 % 1_000,
            version % 1_000
        ),
        guest_features: guest_features(connect, capabilities, options, &features, &domain)?,
        features,
        domain,
    })
}

/// The processor's features, expanded by libvirt to include those of its model. Drivers that cannot expand
/// list what they list.
fn features(
    connect: &Connect,
    capabilities: &Capabilities,
) -> Result<BTreeSet<String>, ObserveError> {
    let mut features = capabilities.cpu_features.clone();
    if let Some(cpu) = &capabilities.cpu {
        features.extend(expanded_cpu(connect, cpu)?.unwrap_or_default());
    }
    Ok(features)
}

/// The features of the processor that guests see, by their CPU model. As in Nova, they are the host's where guests see the
/// host's processor. A model that libvirt does not know has none. QEMU emulates a model without the features that it does not
/// emulate, and starts the guest.
fn guest_features(
    connect: &Connect,
    capabilities: &Capabilities,
    options: &LibvirtOptions,
    of_host: &BTreeSet<String>,
    domain: &DomainCapabilities,
) -> Result<BTreeSet<String>, ObserveError> {
    /// QEMU's default model.
    const DEFAULT: &str = "qemu64";
    let is_kvm = options.virt_type == VirtType::Kvm;
    let model = match (options.cpu_mode, &options.cpu_model) {
        (CpuMode::HostModel | CpuMode::HostPassthrough | CpuMode::Maximum, _) if is_kvm => {
            return Ok(of_host.clone());
        }
        (CpuMode::Custom, Some(model)) => model,
        _ => DEFAULT,
    };
    let arch = &capabilities.arch;
    let cpu = format!("<cpu><arch>{arch}</arch><model>{model}</model></cpu>");
    let mut features = expanded_cpu(connect, &cpu)?.unwrap_or_default();
    if let Some(emulated) = domain.host_model.as_ref().filter(|_| !is_kvm)
        && let Some(all) = expanded_cpu(connect, &emulated.cpu(arch))?
    {
        features.retain(|name| all.contains(name) && !emulated.removed.contains(name));
    }
    Ok(features)
}

/// All features of a `<cpu>`; `None` if libvirt cannot expand it.
fn expanded_cpu(connect: &Connect, cpu: &str) -> Result<Option<BTreeSet<String>>, ObserveError> {
    let expand = sys::VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES;
    let expanded = connect.baseline_cpu(&[cpu], expand).ok();
    let features = expanded.map(|text| capabilities::expanded_features(&text));
    features.transpose().map_err(malformed)
}

/// The domain capabilities for guests of type `virt_type` on the machines that guests have; empty if the driver does not tell
/// (libvirt's test driver) or cannot run such guests.
fn domain_capabilities(
    connect: &Connect,
    capabilities: &Capabilities,
    virt_type: VirtType,
) -> Result<DomainCapabilities, ObserveError> {
    if !capabilities.runs(virt_type) {
        return Ok(DomainCapabilities::default());
    }
    let (arch, kind) = (capabilities.arch.as_str(), virt_type.as_str());
    let machines = GuestArchitecture::named(arch).map_or(&[][..], GuestArchitecture::machines);
    let mut all = DomainCapabilities::default();
    for machine in machines {
        match connect.domain_capabilities(None, Some(arch), Some(machine), Some(kind), 0) {
            Ok(text) => all = all.and(DomainCapabilities::read(&text).map_err(malformed)?),
            // A machine that this emulator was built without, or a driver that does not tell.
            Err(error)
                if is(&error, ErrorNumber::InvalidArg) || is(&error, ErrorNumber::NoSupport) => {}
            Err(error) => return Err(refused("virConnectGetDomainCapabilities")(error)),
        }
    }
    Ok(all)
}

fn online_cpus(sysfs: Option<&Sysfs>) -> Result<Option<CpuSet>, ObserveError> {
    let online = sysfs.map(Sysfs::online_cpus).transpose();
    Ok(online.map_err(unreadable)?.flatten())
}

/// NUMA cells from sysfs. Only libvirt knows the size of normal pages, in KiB.
fn numa_cells(
    sysfs: Option<&Sysfs>,
    small_page_kib: Option<u64>,
) -> Result<Vec<HostNumaCell>, ObserveError> {
    let cells = sysfs.map(Sysfs::numa_cells).transpose();
    let mut cells = cells.map_err(unreadable)?.unwrap_or_default();
    for cell in &mut cells {
        cell.small_page_kib = small_page_kib.unwrap_or(cell.small_page_kib);
    }
    Ok(cells)
}

/// The size of the file system that a path is, or will be, on.
fn disk(placement: &DiskPlacement) -> Result<NodeDisk, ObserveError> {
    let DiskPlacement::Local(path) = placement else {
        return Ok(NodeDisk::Shared);
    };
    // The directory is created with the first guest.
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
    Ok(NodeDisk::Local { gib: bytes >> 30 })
}

/// The guests, and the unreadable ones, which must not hide the whole host.
fn guests(
    connect: &Connect,
    sysfs: Option<&Sysfs>,
) -> Result<(Vec<LibvirtGuest>, BTreeMap<Uuid, UnreadableGuest>), ObserveError> {
    let domains = connect
        .list_all_domains(0)
        .map_err(refused("virConnectListAllDomains"))?;
    let mut guests = Vec::with_capacity(domains.len());
    let mut unreadable = BTreeMap::new();
    for domain in domains {
        let reason = match domain.xml_desc(0) {
            Ok(text) => match guest(&text, sysfs) {
                Ok(guest) => {
                    guests.push(guest);
                    continue;
                }
                Err(error) => error.to_string(),
            },
            // It disappeared since it was listed.
            Err(error) if is(&error, ErrorNumber::NoDomain) => continue,
            Err(error) if !connect.is_alive().unwrap_or(false) => {
                return Err(refused("virDomainGetXMLDesc")(error));
            }
            Err(error) => refused("virDomainGetXMLDesc")(error).to_string(),
        };
        let (uuid, guest) = unreadable_guest(&domain, reason)?;
        unreadable.insert(uuid, guest);
    }
    Ok((guests, unreadable))
}

/// A guest with all its functions.
fn guest(text: &str, sysfs: Option<&Sysfs>) -> Result<LibvirtGuest, ObserveError> {
    let mut guest = LibvirtGuest::read(text).map_err(malformed)?;
    let kind = (guest.power, guest.mark.is_some());
    let below = macvtap_functions(&guest.macvtap_links, kind, sysfs);
    guest.functions.extend(below.map_err(unreadable)?);
    Ok(guest)
}

/// A guest's UUID and name, which come from the listing.
fn unreadable_guest(
    domain: &Domain,
    reason: String,
) -> Result<(Uuid, UnreadableGuest), ObserveError> {
    let uuid = domain.uuid().map_err(refused("virDomainGetUUID"))?;
    let name = domain.name().map_err(refused("virDomainGetName"))?;
    Ok((uuid, UnreadableGuest { name, reason }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_yet_is_on_its_ancestors_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let local = |path| disk(&DiskPlacement::Local(path)).unwrap();
        assert_eq!(
            local(directory.path().join("not/there/yet")),
            local(directory.path().to_path_buf())
        );
        assert_eq!(disk(&DiskPlacement::Shared).unwrap(), NodeDisk::Shared);
    }
}

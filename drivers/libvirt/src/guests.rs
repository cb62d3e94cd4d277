//! Creates, changes and deletes guests: `spawn`, `destroy`, `guests` and `power` of the driver contract.
//!
//! Every function here blocks and runs on a connection's thread. Each checks the current state before it acts, so it can be
//! repeated after a lost answer. A guest is defined and then started; if the start fails it stays defined, and the caller
//! destroys it.

mod change;
mod console;
mod destroy;
mod document;
mod error;
mod firmware;
mod hardware;
mod power;
mod statistics;
mod stuck;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::ConsumerUuid;
use berth_sysfs::Sysfs;
use berth_virt::guest_spec::{GuestDevice, GuestSpec, PciManagement};
use berth_virt::{
    GuestError, GuestHardware, GuestOnHost, GuestPowerOutcome, GuestSpawnOutcome, HeldDevice,
    HostDeviceId, PowerState,
};
use virt::connect::Connect;
use virt::domain::{
    Domain, DomainShutoffReason, DomainState, DomainStateEnum, DomainStateReason,
    DomainStateReasonEnum,
};
use virt::enumutil::Enum;
use virt::error::ErrorNumber;
use virt_sys as sys;

use crate::architecture::GuestArchitecture;
use crate::capabilities::Capabilities;
use crate::connection::Session;
use crate::guest_xml::{GuestXmlOptions, Virtualisation, guest_xml};
use crate::network_filter::{self, is_filterable};
pub(crate) use change::{
    DetachStep, attach_interface, detach_interface, has_interface, live_migrate, redefine,
    suspend as save,
};
pub(crate) use console::console;
pub(crate) use destroy::destroy;
use error::{is, refused};
use firmware::check_firmware;
pub(crate) use power::{PowerStep, is_off, power};
use power::{bring_to, retry_if_changed};
pub(crate) use statistics::{diagnostics, interface_addresses};
pub(crate) use stuck::Starts;

/// Refuses a success on a connection that broke meanwhile: libvirtd may have ended before it did the work. The caller
/// repeats the work, which changes nothing if it is done.
pub(crate) fn check_reliable<T>(session: &Session, call: &str, done: T) -> Result<T, GuestError> {
    match session.is_alive() {
        true => Ok(done),
        false => Err(GuestError::Unreachable {
            target: "libvirt".to_owned(),
            reason: format!("the connection was lost in {call}"),
        }),
    }
}

/// Maps an error on a possibly broken connection: libvirt may report a refusal there although the call was executed.
pub(crate) fn map_unreliable(session: &Session, error: GuestError) -> GuestError {
    match error {
        GuestError::Refused { call, reason, .. } if !session.is_alive() => {
            GuestError::Unreachable {
                target: "libvirt".to_owned(),
                reason: format!("the connection was lost in {call}: {reason}"),
            }
        }
        other => other,
    }
}

/// All guests that libvirt has. The functions below their macvtaps are in `sysfs`.
pub(crate) fn guests(
    connect: &Connect,
    starts: &Starts,
    sysfs: Option<&Sysfs>,
) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
    let mut guests = BTreeMap::new();
    for (uuid, domain, mut guest) in listed(connect, sysfs)? {
        guest.stuck = starts.stuck(&domain, uuid);
        guests.insert(uuid, guest);
    }
    starts.only_of(&guests);
    Ok(guests)
}

/// The guest of this UUID. The functions below its macvtaps are in `sysfs`.
pub(crate) fn one(
    connect: &Connect,
    starts: &Starts,
    uuid: ConsumerUuid,
    sysfs: Option<&Sysfs>,
) -> Result<Option<GuestOnHost>, GuestError> {
    let Some(domain) = find(connect, uuid)? else {
        return Ok(None);
    };
    let found = readable(connect, &domain, uuid, sysfs)?;
    Ok(found.map(|mut guest| {
        guest.stuck = starts.stuck(&domain, uuid);
        guest
    }))
}

/// All guests that libvirt has, each with its handle.
fn listed(
    connect: &Connect,
    sysfs: Option<&Sysfs>,
) -> Result<Vec<(ConsumerUuid, Domain, GuestOnHost)>, GuestError> {
    let no_guest = ConsumerUuid::from(uuid::Uuid::nil());
    let domains = connect
        .list_all_domains(0)
        .map_err(refused(no_guest, "virConnectListAllDomains"))?;
    let mut guests = Vec::new();
    for domain in domains {
        let uuid = domain
            .uuid()
            .map_err(refused(no_guest, "virDomainGetUUID"))?;
        let uuid = ConsumerUuid::from(uuid);
        let found = readable(connect, &domain, uuid, sysfs)?;
        guests.extend(found.map(|guest| (uuid, domain, guest)));
    }
    Ok(guests)
}

/// One guest; an unreadable one does not hide others.
fn readable(
    connect: &Connect,
    domain: &Domain,
    uuid: ConsumerUuid,
    sysfs: Option<&Sysfs>,
) -> Result<Option<GuestOnHost>, GuestError> {
    match guest_with_macvtaps(domain, uuid, sysfs) {
        Err(error) if connect.is_alive().unwrap_or(false) => {
            Ok(Some(unreadable(domain, uuid, &error)))
        }
        found => found,
    }
}

/// An unreadable guest. It counts as running unless it is known to be off, because it holds its resources.
fn unreadable(domain: &Domain, uuid: ConsumerUuid, error: &GuestError) -> GuestOnHost {
    GuestOnHost {
        name: domain.name().unwrap_or_else(|_| uuid.to_string()),
        state: state(domain).unwrap_or(PowerState::Running),
        owner: None,
        devices: BTreeSet::new(),
        unreadable: Some(error.to_string()),
        hardware: None,
        stuck: None,
        ended_by_hypervisor: false,
    }
}

/// One guest without the functions below its macvtaps; `None` if it disappeared since it was listed.
fn guest(domain: &Domain, uuid: ConsumerUuid) -> Result<Option<GuestOnHost>, GuestError> {
    guest_with_macvtaps(domain, uuid, None)
}

/// One guest; `None` if it disappeared since it was listed.
fn guest_with_macvtaps(
    domain: &Domain,
    uuid: ConsumerUuid,
    sysfs: Option<&Sysfs>,
) -> Result<Option<GuestOnHost>, GuestError> {
    let seen = domain
        .name()
        .and_then(|name| Ok((name, domain.xml_desc(0)?, domain.state()?)));
    match seen {
        Ok((name, text, (state, reason))) => {
            let guest = document::guest(name, &text, power_state(state), sysfs)?;
            Ok(Some(GuestOnHost {
                ended_by_hypervisor: was_ended_by_libvirtd(reason),
                ..guest
            }))
        }
        Err(error) if is(&error, ErrorNumber::NoDomain) => Ok(None),
        Err(error) => Err(refused(uuid, "virDomainGetXMLDesc")(error)),
    }
}

fn state(domain: &Domain) -> Result<PowerState, virt::error::Error> {
    domain.state().map(|(state, _)| power_state(state))
}

fn power_state(state: DomainStateEnum) -> PowerState {
    let known = |wanted| state.is_known_and(|known| known == wanted);
    if known(DomainState::Paused) || known(DomainState::PMSuspended) {
        PowerState::Paused
    } else if known(DomainState::Shutoff) {
        PowerState::ShutOff
    } else if known(DomainState::Crashed) {
        PowerState::Crashed
    } else {
        // Also during shutdown: it holds its resources until it is off.
        PowerState::Running
    }
}

/// Whether libvirtd ended the guest when it restarted, because it could not take it over.
fn was_ended_by_libvirtd(reason: DomainStateReasonEnum) -> bool {
    matches!(
        reason,
        Enum::Known(DomainStateReason::Shutoff(Enum::Known(
            DomainShutoffReason::Daemon
        )))
    )
}

fn find(connect: &Connect, uuid: ConsumerUuid) -> Result<Option<Domain>, GuestError> {
    match connect.lookup_domain_by_uuid(*uuid.as_uuid()) {
        Ok(domain) => Ok(Some(domain)),
        Err(error) if is(&error, ErrorNumber::NoDomain) => Ok(None),
        Err(error) => Err(refused(uuid, "virDomainLookupByUUID")(error)),
    }
}

/// Creates and starts a guest according to its spec, as long as the caller is waiting. A caller that gave up may have
/// checked for the guest before it was defined, and would not know of one started later.
pub(crate) fn spawn(
    connect: &Connect,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
    sysfs: Option<&Sysfs>,
    is_waited_for: &dyn Fn() -> bool,
) -> Result<GuestSpawnOutcome, GuestError> {
    let uuid = spec.uuid;
    let waited_for = |call| match is_waited_for() {
        true => Ok(()),
        false => Err(GuestError::Changed {
            uuid,
            call,
            reason: "the caller no longer waits for it".to_owned(),
        }),
    };
    let (domain, defined) = match find(connect, uuid)? {
        Some(domain) => {
            is_the_same(&domain, spec)?;
            let domain = with_its_hardware(connect, domain, spec, options)?;
            (domain, GuestSpawnOutcome::AlreadyThere)
        }
        None => {
            waited_for("virDomainDefineXMLFlags")?;
            (
                define(connect, spec, options, sysfs)?,
                GuestSpawnOutcome::Spawned,
            )
        }
    };
    if let Err(given_up) = waited_for("virDomainCreate") {
        if defined == GuestSpawnOutcome::Spawned
            && matches!(state(&domain), Ok(PowerState::ShutOff))
        {
            destroy::undefine(connect, uuid)?;
        }
        return Err(given_up);
    }
    let powered = retry_if_changed(|| bring_to(&domain, uuid, spec.power, sysfs))?;
    Ok(match (defined, powered) {
        (GuestSpawnOutcome::AlreadyThere, GuestPowerOutcome::Unchanged) => {
            GuestSpawnOutcome::AlreadyThere
        }
        _ => GuestSpawnOutcome::Spawned,
    })
}

/// Refuses if another guest has the UUID. It compares what must never be confused: owner and resources.
fn is_the_same(domain: &Domain, spec: &GuestSpec) -> Result<(), GuestError> {
    let uuid = spec.uuid;
    let Some(guest) = guest(domain, uuid)? else {
        return Ok(());
    };
    match guest.difference(spec) {
        None => Ok(()),
        Some(difference) => Err(GuestError::Another { uuid, difference }),
    }
}

/// Restores processors, memory, disks and interfaces of a guest that is off, if they were changed, and gives it the screen
/// that guests of this host have now. Writes macvtaps in each case. A guest with saved memory is not changed.
fn with_its_hardware(
    connect: &Connect,
    domain: Domain,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
) -> Result<Domain, GuestError> {
    let uuid = spec.uuid;
    let found = guest(&domain, uuid)?.filter(|found| found.state == PowerState::ShutOff);
    let Some(has) = found.and_then(|found| found.hardware) else {
        return Ok(domain);
    };
    let difference = has.difference(&GuestHardware::of(spec));
    let devices = spec.devices.as_slice().iter();
    let mut devices = devices.map(|attached| attached.device);
    // The definition has the name of a macvtap's network interface, and another function may have that name by now.
    let has_macvtap = devices.any(|device| is_host_driven(&device));
    let is_current =
        difference.is_none() && !has_macvtap && console::has_screen_of(&domain, uuid, options)?;
    if is_current || change::has_memory(&domain, uuid)? {
        return Ok(domain);
    }
    match difference {
        Some(difference) => {
            tracing::warn!(guest = %uuid, difference, "the guest was changed on the hypervisor and is redefined");
        }
        None => {
            tracing::info!(guest = %uuid, "the guest is redefined with the screen of [vnc], and with its macvtaps");
        }
    }
    write_definition(connect, spec, options)
}

fn define(
    connect: &Connect,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
    sysfs: Option<&Sysfs>,
) -> Result<Domain, GuestError> {
    let uuid = spec.uuid;
    // libvirt checks a device only when the guest starts, and the test driver never; by then a second document may name
    // it.
    let wanted = spec.held_devices();
    let wants = |held: &HeldDevice| wanted.iter().any(|one| one.device == held.device);
    // Nothing of the guest reaches a function below a macvtap, so its IOMMU group does not matter.
    let of_guest = spec
        .devices
        .as_slice()
        .iter()
        .map(|attached| attached.device);
    let of_guest = of_guest.filter(|device| !is_host_driven(device));
    let shared = document::group_members(of_guest.map(HostDeviceId::of), sysfs)?;
    for (holder, _, other) in listed(connect, sysfs)? {
        if other.name == spec.name.as_str() {
            return Err(GuestError::NameTaken {
                name: other.name,
                holder,
            });
        }
        if let Some(held) = other.devices.iter().find(|held| wants(held)) {
            let reason = format!("{} belongs to guest {holder}", held.device);
            return Err(GuestError::DeviceBusy { uuid, reason });
        }
        if !wanted.is_empty() {
            other.is_readable(holder)?;
        }
        let mut held = other.devices.iter().map(|held| held.device);
        if let Some(held) = held.find(|held| shared.contains(held)) {
            let reason = format!("{held} of its IOMMU group belongs to guest {holder}");
            return Err(GuestError::DeviceBusy { uuid, reason });
        }
    }
    write_definition(connect, spec, options)
}

/// Whether a device stays on the host's network driver, below a macvtap.
fn is_host_driven(device: &GuestDevice) -> bool {
    let managed = PciManagement::HostDriver;
    matches!(device, GuestDevice::Pci { managed: found, .. } if *found == managed)
}

/// Writes the definition of a guest that is off.
fn write_definition(
    connect: &Connect,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
) -> Result<Domain, GuestError> {
    let uuid = spec.uuid;
    let kind = connect
        .driver_type()
        .map_err(refused(uuid, "virConnectGetType"))?;
    let mut options = options.clone();
    if kind == "TEST" {
        options.virtualisation = Virtualisation::Test;
        options.nwfilter = None;
        options.port_isolation = false;
    } else {
        options.architecture = architecture(connect, spec)?;
    }
    check_firmware(connect, spec, &options)?;
    protect_interfaces(connect, spec, &mut options)?;
    let call = "virDomainDefineXMLFlags";
    let xml = guest_xml(spec, &options).map_err(|error| GuestError::Refused {
        uuid,
        call,
        reason: error.to_string(),
    })?;
    connect
        .define_domain_xml_flags(&xml, sys::VIR_DOMAIN_DEFINE_VALIDATE)
        .map_err(refused(uuid, call))
}

/// The host's architecture. Refuses a guest with what its machine does not have.
fn architecture(connect: &Connect, spec: &GuestSpec) -> Result<GuestArchitecture, GuestError> {
    let (uuid, call) = (spec.uuid, "virConnectGetCapabilities");
    let text = connect.capabilities().map_err(refused(uuid, call))?;
    let capabilities = Capabilities::read(&text).map_err(|error| GuestError::Malformed {
        origin: "libvirt".to_owned(),
        reason: error.to_string(),
    })?;
    let host = &capabilities.arch;
    let refuse = |reason| GuestError::Refused { uuid, call, reason };
    let architecture = GuestArchitecture::named(host)
        .ok_or_else(|| refuse(format!("guests of a host of {host:?} are not supported")))?;
    match architecture.unsupported(&spec.machine) {
        None => Ok(architecture),
        Some(key) => Err(refuse(format!("a guest of {host} does not have {key}"))),
    }
}

/// Prepares the network filter of the guest's interfaces. Those that are not on a Linux bridge have none.
fn protect_interfaces(
    connect: &Connect,
    spec: &GuestSpec,
    options: &mut GuestXmlOptions,
) -> Result<(), GuestError> {
    if options.nwfilter.is_none() && !options.port_isolation {
        return Ok(());
    }
    let uuid = spec.uuid;
    options.unfilterable = network_filter::unfilterable(connect, &spec.interfaces);
    for network in &options.unfilterable {
        tracing::warn!(guest = %uuid, %network, "the interface is not on a Linux bridge and has no network filter");
    }
    let mut interfaces = spec.interfaces.as_slice().iter();
    let has_filtered = interfaces.any(|one| is_filterable(one, &options.unfilterable));
    match &options.nwfilter {
        Some(filter) if has_filtered => {
            let call = "virNWFilterDefineXML";
            network_filter::ensure(connect, filter).map_err(|reason| GuestError::Refused {
                uuid,
                call,
                reason,
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

//! Making, changing and ending guests: what the contract's `spawn`, `destroy`, `guests` and `power` ask of libvirt.
//!
//! Every function here blocks and runs on a connection's thread. Each looks before it acts and takes what is done already for
//! done, so that it can be called again after its answer was lost. A guest is defined, then started: one that fails to start
//! stays defined, for the caller to destroy.

mod change;
mod document;
mod error;

use std::collections::BTreeMap;

use berth_model::ConsumerUuid;
use berth_sysfs::Sysfs;
use berth_virt::guest_spec::{DesiredPower, GuestSpec};
use berth_virt::{
    Destroyed, GuestError, GuestOnHost, GuestState, HeldDevice, PowerAction, Powered, Spawned,
};
use virt::connect::Connect;
use virt::domain::{Domain, DomainPausedReason, DomainState, DomainStateReason};
use virt::enumutil::Enum;
use virt::error::ErrorNumber;
use virt_sys as sys;

use crate::connection::Session;
use crate::guest_xml::{GuestXmlOptions, Virtualisation, guest_xml};
pub(crate) use change::{live_migrate, redefine, suspend as save};
use error::{is, refused};

/// What a domain leaves behind when it is undefined, all to go with it.
const ALL_OF_IT: u32 = sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | sys::VIR_DOMAIN_UNDEFINE_NVRAM;

/// How often a guest is looked at again that was another by the time of the call: libvirt shows one that is being started as
/// paused, and takes no call for it before it runs.
const LOOKS: usize = 5;

/// Does what a look asks for, and looks again where the guest has changed since.
fn looking<T>(mut act: impl FnMut() -> Result<T, GuestError>) -> Result<T, GuestError> {
    for _ in 1..LOOKS {
        match act() {
            Err(GuestError::Changed { .. }) => {}
            other => return other,
        }
    }
    act()
}

/// An error as it looks from a connection: a refusal over one that just broke is nobody's word (libvirt has several for it), and
/// the call may be done.
pub(crate) fn seen_from(session: &Session, error: GuestError) -> GuestError {
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

/// All guests that libvirt has.
pub(crate) fn guests(connect: &Connect) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
    let nobody = ConsumerUuid::from(uuid::Uuid::nil());
    let domains = connect
        .list_all_domains(0)
        .map_err(refused(nobody, "virConnectListAllDomains"))?;
    let mut guests = BTreeMap::new();
    for domain in domains {
        let uuid = domain.uuid().map_err(refused(nobody, "virDomainGetUUID"))?;
        let uuid = ConsumerUuid::from(uuid);
        if let Some(guest) = guest(&domain, uuid)? {
            guests.insert(uuid, guest);
        }
    }
    Ok(guests)
}

/// One guest; none where it went away since it was looked up.
fn guest(domain: &Domain, uuid: ConsumerUuid) -> Result<Option<GuestOnHost>, GuestError> {
    let seen = domain
        .name()
        .and_then(|name| Ok((name, domain.xml_desc(0)?, state(domain)?)));
    match seen {
        Ok((name, text, state)) => document::guest(name, &text, state).map(Some),
        Err(error) if is(&error, ErrorNumber::NoDomain) => Ok(None),
        Err(error) => Err(refused(uuid, "virDomainGetXMLDesc")(error)),
    }
}

fn state(domain: &Domain) -> Result<GuestState, virt::error::Error> {
    let (state, _) = domain.state()?;
    let known = |wanted| state.is_known_and(|known| known == wanted);
    Ok(
        if known(DomainState::Paused) || known(DomainState::PMSuspended) {
            GuestState::Paused
        } else if known(DomainState::Shutoff) {
            GuestState::ShutOff
        } else if known(DomainState::Crashed) {
            GuestState::Crashed
        } else {
            // Also while it ends: it holds what it holds until it is off.
            GuestState::Running
        },
    )
}

/// Whether libvirt is about to start a guest that it shows as paused.
fn is_starting(domain: &Domain) -> bool {
    matches!(
        domain.state(),
        Ok((
            _,
            Enum::Known(DomainStateReason::Paused(Enum::Known(
                DomainPausedReason::StartingUp
            )))
        ))
    )
}

fn find(connect: &Connect, uuid: ConsumerUuid) -> Result<Option<Domain>, GuestError> {
    match connect.lookup_domain_by_uuid(*uuid.as_uuid()) {
        Ok(domain) => Ok(Some(domain)),
        Err(error) if is(&error, ErrorNumber::NoDomain) => Ok(None),
        Err(error) => Err(refused(uuid, "virDomainLookupByUUID")(error)),
    }
}

/// Brings a guest to what its spec says.
pub(crate) fn spawn(
    connect: &Connect,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
    sysfs: Option<&Sysfs>,
) -> Result<Spawned, GuestError> {
    let uuid = spec.uuid;
    let kind = connect
        .driver_type()
        .map_err(refused(uuid, "virConnectGetType"))?;
    let mut options = options.clone();
    if kind == "TEST" {
        options.virtualisation = Virtualisation::Test;
    }
    let (domain, defined) = match find(connect, uuid)? {
        Some(domain) => {
            is_the_same(&domain, spec)?;
            (domain, Spawned::AlreadyThere)
        }
        None => (define(connect, spec, &options)?, Spawned::Spawned),
    };
    let powered = looking(|| bring_to(&domain, uuid, spec.power, sysfs))?;
    Ok(match (defined, powered) {
        (Spawned::AlreadyThere, Powered::AlreadySo) => Spawned::AlreadyThere,
        _ => Spawned::Spawned,
    })
}

/// Refuses to take another guest for the one that is wanted. What is compared is what must never be mixed up: whose it is,
/// and what it holds.
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

fn define(
    connect: &Connect,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
) -> Result<Domain, GuestError> {
    let uuid = spec.uuid;
    // libvirt looks at a device when the guest starts, and the test driver never does; by then a second document names it.
    let wanted = spec.held_devices();
    let wants = |held: &HeldDevice| wanted.iter().any(|one| one.device == held.device);
    for (holder, other) in guests(connect)? {
        if other.name == spec.name.as_str() {
            return Err(GuestError::NameTaken {
                name: other.name,
                holder,
            });
        }
        if let Some(held) = other.devices.iter().find(|held| wants(held)) {
            let reason = format!("{} is guest {holder}'s", held.device);
            return Err(GuestError::DeviceBusy { uuid, reason });
        }
    }
    let text = guest_xml(spec, options);
    connect
        .define_domain_xml_flags(&text, sys::VIR_DOMAIN_DEFINE_VALIDATE)
        .map_err(refused(uuid, "virDomainDefineXMLFlags"))
}

fn bring_to(
    domain: &Domain,
    uuid: ConsumerUuid,
    wanted: DesiredPower,
    sysfs: Option<&Sysfs>,
) -> Result<Powered, GuestError> {
    let now = state(domain).map_err(refused(uuid, "virDomainGetState"))?;
    match (now, wanted) {
        (GuestState::Running, DesiredPower::Running)
        | (GuestState::Paused, DesiredPower::Paused)
        | (GuestState::ShutOff, DesiredPower::ShutOff) => Ok(Powered::AlreadySo),
        (GuestState::Paused, DesiredPower::Running) => resume(domain, uuid),
        (GuestState::Running, DesiredPower::Paused) => suspend(domain, uuid),
        (GuestState::ShutOff, DesiredPower::Running) => start(domain, uuid, sysfs),
        (GuestState::ShutOff, DesiredPower::Paused) => start_paused(domain, uuid, sysfs),
        // Switching a guest off is asked for by that name only.
        (state, DesiredPower::ShutOff) => Err(GuestError::Another {
            uuid,
            difference: format!("it is {state}, and should be off"),
        }),
        (GuestState::Crashed, DesiredPower::Running | DesiredPower::Paused) => {
            off(domain, uuid)?;
            bring_to(domain, uuid, wanted, sysfs)
        }
    }
}

/// libvirt passes over a PCI function that is not there and leaves it to QEMU to fail; a guest is never started without.
fn has_its_devices(
    domain: &Domain,
    uuid: ConsumerUuid,
    sysfs: Option<&Sysfs>,
) -> Result<(), GuestError> {
    let (Some(sysfs), Some(guest)) = (sysfs, guest(domain, uuid)?) else {
        return Ok(());
    };
    let devices = guest.devices.into_iter().map(|held| held.device);
    match document::missing(devices, sysfs)? {
        None => Ok(()),
        Some(device) => Err(GuestError::DeviceMissing { uuid, device }),
    }
}

fn start(
    domain: &Domain,
    uuid: ConsumerUuid,
    sysfs: Option<&Sysfs>,
) -> Result<Powered, GuestError> {
    has_its_devices(domain, uuid, sysfs)?;
    domain
        .create()
        .map_err(refused(uuid, "virDomainCreate"))
        .map(|()| Powered::Done)
}

fn start_paused(
    domain: &Domain,
    uuid: ConsumerUuid,
    sysfs: Option<&Sysfs>,
) -> Result<Powered, GuestError> {
    has_its_devices(domain, uuid, sysfs)?;
    match domain.create_with_flags(sys::VIR_DOMAIN_START_PAUSED) {
        Ok(_) => Ok(Powered::Done),
        // The test driver, which runs nothing, knows no flags.
        Err(error) if is(&error, ErrorNumber::InvalidArg) => {
            start(domain, uuid, sysfs).and_then(|_| suspend(domain, uuid))
        }
        Err(error) => Err(refused(uuid, "virDomainCreateWithFlags")(error)),
    }
}

fn suspend(domain: &Domain, uuid: ConsumerUuid) -> Result<Powered, GuestError> {
    domain
        .suspend()
        .map_err(refused(uuid, "virDomainSuspend"))
        .map(|_| Powered::Done)
}

fn resume(domain: &Domain, uuid: ConsumerUuid) -> Result<Powered, GuestError> {
    domain
        .resume()
        .map_err(refused(uuid, "virDomainResume"))
        .map(|_| Powered::Done)
}

/// Switches a guest off at once; one that went off meanwhile is off.
fn off(domain: &Domain, uuid: ConsumerUuid) -> Result<(), GuestError> {
    match domain.destroy() {
        Ok(()) => Ok(()),
        Err(error) if is(&error, ErrorNumber::NoDomain) => Ok(()),
        Err(error) => match domain.is_active() {
            Ok(false) => Ok(()),
            _ => Err(refused(uuid, "virDomainDestroy")(error)),
        },
    }
}

/// Ends a guest and leaves nothing of it in libvirt.
pub(crate) fn destroy(connect: &Connect, uuid: ConsumerUuid) -> Result<Destroyed, GuestError> {
    let Some(domain) = find(connect, uuid)? else {
        return Ok(Destroyed::NotThere);
    };
    if domain.is_active().unwrap_or(false) {
        off(&domain, uuid)?;
    }
    // A guest that was never defined is gone with its end.
    let Some(domain) = find(connect, uuid)? else {
        return Ok(Destroyed::Destroyed);
    };
    let undefined = match domain.undefine_flags(ALL_OF_IT) {
        // A driver that has none of these things.
        Err(error) if is(&error, ErrorNumber::InvalidArg) => domain.undefine(),
        other => other,
    };
    match undefined {
        Ok(()) => Ok(Destroyed::Destroyed),
        Err(error) if is(&error, ErrorNumber::NoDomain) => Ok(Destroyed::Destroyed),
        Err(error) => Err(refused(uuid, "virDomainUndefineFlags")(error)),
    }
}

/// What is to come after a first call for a power action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PowerStep {
    /// It is decided.
    Ended(Powered),
    /// The guest was asked to end: look again, and switch it off when its grace is over.
    AskedToEnd,
}

/// The first call for a power action; for most it is the only one.
pub(crate) fn power(
    connect: &Connect,
    uuid: ConsumerUuid,
    action: PowerAction,
    sysfs: Option<&Sysfs>,
) -> Result<PowerStep, GuestError> {
    let Some(domain) = find(connect, uuid)? else {
        return Ok(PowerStep::Ended(Powered::NotThere));
    };
    looking(|| first_call(&domain, uuid, action, sysfs))
}

fn first_call(
    domain: &Domain,
    uuid: ConsumerUuid,
    action: PowerAction,
    sysfs: Option<&Sysfs>,
) -> Result<PowerStep, GuestError> {
    use GuestState::{Crashed, Paused, Running, ShutOff};
    let state = state(domain).map_err(refused(uuid, "virDomainGetState"))?;
    let powered = match (action, state) {
        (PowerAction::Start | PowerAction::Unpause, Running)
        | (PowerAction::Stop { .. }, ShutOff)
        | (PowerAction::Pause, Paused) => Powered::AlreadySo,
        (PowerAction::Start, ShutOff) => start(domain, uuid, sysfs)?,
        (PowerAction::Start, Crashed) => {
            off(domain, uuid)?;
            start(domain, uuid, sysfs)?
        }
        (PowerAction::Stop { grace }, Running) if !grace.is_zero() => {
            // One that cannot be asked (no ACPI, say) is switched off in the end like one that does not answer.
            let _ = domain.shutdown();
            return Ok(PowerStep::AskedToEnd);
        }
        (PowerAction::Stop { .. }, Running | Paused | Crashed) => {
            off(domain, uuid)?;
            Powered::Done
        }
        (PowerAction::Pause, Running) => suspend(domain, uuid)?,
        (PowerAction::Unpause, Paused) => resume(domain, uuid)?,
        // Asked for again while the first call is at it: libvirt answers when the guest has started.
        (PowerAction::Start, Paused) if is_starting(domain) => resume(domain, uuid)?,
        (PowerAction::SoftReboot, Running) => {
            domain
                .reboot(sys::VIR_DOMAIN_REBOOT_DEFAULT)
                .map_err(refused(uuid, "virDomainReboot"))?;
            Powered::Done
        }
        (PowerAction::HardReboot, ShutOff) => start(domain, uuid, sysfs)?,
        (PowerAction::HardReboot, Running | Paused | Crashed) => {
            off(domain, uuid)?;
            start(domain, uuid, sysfs)?
        }
        (PowerAction::Start | PowerAction::SoftReboot, Paused)
        | (
            PowerAction::Pause | PowerAction::Unpause | PowerAction::SoftReboot,
            ShutOff | Crashed,
        ) => {
            return Err(GuestError::WrongState {
                uuid,
                state,
                action,
            });
        }
    };
    Ok(PowerStep::Ended(powered))
}

/// Whether a guest that was asked to end is off (or gone).
pub(crate) fn is_off(connect: &Connect, uuid: ConsumerUuid) -> Result<bool, GuestError> {
    match find(connect, uuid)? {
        None => Ok(true),
        Some(domain) => state(&domain)
            .map(|state| state == GuestState::ShutOff)
            .map_err(refused(uuid, "virDomainGetState")),
    }
}

#[cfg(test)]
mod tests;

//! A guest's power: on, off, paused, on again. A look first, then the one call that is missing.

use berth_model::ConsumerUuid;
use berth_sysfs::Sysfs;
use berth_virt::guest_spec::DesiredPower;
use berth_virt::{GuestError, GuestState, PowerAction, Powered};
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::ErrorNumber;
use virt_sys as sys;

use super::error::{is, refused};
use super::stuck::is_starting;
use super::{document, find, guest, state};

/// How often a guest is looked at again that was another by the time of the call: libvirt shows one that is being started as
/// paused, and takes no call for it before it runs.
const LOOKS: usize = 5;

/// Does what a look asks for, and looks again where the guest has changed since.
pub(super) fn looking<T>(mut act: impl FnMut() -> Result<T, GuestError>) -> Result<T, GuestError> {
    for _ in 1..LOOKS {
        match act() {
            Err(GuestError::Changed { .. }) => {}
            other => return other,
        }
    }
    act()
}

/// Brings a guest to the power that is wanted, unless that is to switch it off.
pub(super) fn bring_to(
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
pub(super) fn off(domain: &Domain, uuid: ConsumerUuid) -> Result<(), GuestError> {
    match domain.destroy() {
        Ok(()) => Ok(()),
        Err(error) if is(&error, ErrorNumber::NoDomain) => Ok(()),
        Err(error) => match domain.is_active() {
            Ok(false) => Ok(()),
            _ => Err(refused(uuid, "virDomainDestroy")(error)),
        },
    }
}

/// What is to come after a first call for a power action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PowerStep {
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

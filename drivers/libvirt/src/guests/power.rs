//! Changes a guest's power state: reads the current state, then makes only the calls that are missing.

use berth_model::ConsumerUuid;
use berth_sysfs::Sysfs;
use berth_virt::guest_spec::DesiredPower;
use berth_virt::{GuestError, GuestPowerOutcome, PowerAction, PowerState};
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::ErrorNumber;
use virt_sys as sys;

use super::error::{is, refused};
use super::stuck::is_starting;
use super::{document, find, guest, state};

/// How often a guest's state is read and the call made, if the state changes between the two. This happens to a
/// starting guest: libvirt shows it as paused, and carries out no call until it runs.
const MAX_ATTEMPTS: usize = 5;

/// Checks and acts, and repeats if the guest changed in between.
pub(super) fn retry_if_changed<T>(
    mut act: impl FnMut() -> Result<T, GuestError>,
) -> Result<T, GuestError> {
    for _ in 1..MAX_ATTEMPTS {
        match act() {
            Err(GuestError::Changed { .. }) => {}
            other => return other,
        }
    }
    act()
}

/// Starts, pauses or resumes a guest. Does not power it off: if a guest should be off and is not, fails with
/// [`GuestError::Another`].
pub(super) fn bring_to(
    domain: &Domain,
    uuid: ConsumerUuid,
    wanted: DesiredPower,
    sysfs: Option<&Sysfs>,
) -> Result<GuestPowerOutcome, GuestError> {
    let now = state(domain).map_err(refused(uuid, "virDomainGetState"))?;
    match (now, wanted) {
        (PowerState::Running, DesiredPower::Running)
        | (PowerState::Paused, DesiredPower::Paused)
        | (PowerState::ShutOff, DesiredPower::ShutOff) => Ok(GuestPowerOutcome::Unchanged),
        (PowerState::Paused, DesiredPower::Running) => resume(domain, uuid),
        (PowerState::Running, DesiredPower::Paused) => suspend(domain, uuid),
        (PowerState::ShutOff, DesiredPower::Running) => start(domain, uuid, sysfs),
        (PowerState::ShutOff, DesiredPower::Paused) => start_paused(domain, uuid, sysfs),
        // Only `power` and the deletion of a guest power it off.
        (state, DesiredPower::ShutOff) => Err(GuestError::Another {
            uuid,
            difference: format!("it is {state}, and should be off"),
        }),
        (PowerState::Crashed, DesiredPower::Running | DesiredPower::Paused) => {
            off(domain, uuid)?;
            bring_to(domain, uuid, wanted, sysfs)
        }
    }
}

/// Fails if the host lacks a device of the guest. libvirt would not notice a missing PCI function, only QEMU would; a
/// guest must never start without its devices.
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
) -> Result<GuestPowerOutcome, GuestError> {
    has_its_devices(domain, uuid, sysfs)?;
    domain
        .create()
        .map_err(refused(uuid, "virDomainCreate"))
        .map(|()| GuestPowerOutcome::Done)
}

fn start_paused(
    domain: &Domain,
    uuid: ConsumerUuid,
    sysfs: Option<&Sysfs>,
) -> Result<GuestPowerOutcome, GuestError> {
    has_its_devices(domain, uuid, sysfs)?;
    match domain.create_with_flags(sys::VIR_DOMAIN_START_PAUSED) {
        Ok(_) => Ok(GuestPowerOutcome::Done),
        // libvirt's `test` driver supports no flags.
        Err(error) if is(&error, ErrorNumber::InvalidArg) => {
            start(domain, uuid, sysfs).and_then(|_| suspend(domain, uuid))
        }
        Err(error) => Err(refused(uuid, "virDomainCreateWithFlags")(error)),
    }
}

fn suspend(domain: &Domain, uuid: ConsumerUuid) -> Result<GuestPowerOutcome, GuestError> {
    domain
        .suspend()
        .map_err(refused(uuid, "virDomainSuspend"))
        .map(|_| GuestPowerOutcome::Done)
}

fn resume(domain: &Domain, uuid: ConsumerUuid) -> Result<GuestPowerOutcome, GuestError> {
    domain
        .resume()
        .map_err(refused(uuid, "virDomainResume"))
        .map(|_| GuestPowerOutcome::Done)
}

/// Powers a guest off at once; succeeds if it is already off.
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

/// The next step after the first call of a power action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PowerStep {
    Ended(GuestPowerOutcome),
    /// A graceful shutdown was requested: check again, and power off after the grace period.
    AskedToEnd,
}

/// The first call of a power action, for most also the only one.
pub(crate) fn power(
    connect: &Connect,
    uuid: ConsumerUuid,
    action: PowerAction,
    sysfs: Option<&Sysfs>,
) -> Result<PowerStep, GuestError> {
    let Some(domain) = find(connect, uuid)? else {
        return Ok(PowerStep::Ended(GuestPowerOutcome::NotThere));
    };
    retry_if_changed(|| first_call(&domain, uuid, action, sysfs))
}

fn first_call(
    domain: &Domain,
    uuid: ConsumerUuid,
    action: PowerAction,
    sysfs: Option<&Sysfs>,
) -> Result<PowerStep, GuestError> {
    use PowerState::{Crashed, Paused, Running, ShutOff};
    let state = state(domain).map_err(refused(uuid, "virDomainGetState"))?;
    let powered = match (action, state) {
        (PowerAction::Start | PowerAction::Unpause, Running)
        | (PowerAction::Stop { .. }, ShutOff)
        | (PowerAction::Pause, Paused) => GuestPowerOutcome::Unchanged,
        (PowerAction::Start, ShutOff) => start(domain, uuid, sysfs)?,
        (PowerAction::Start, Crashed) => {
            off(domain, uuid)?;
            start(domain, uuid, sysfs)?
        }
        (PowerAction::Stop { grace }, Running) if !grace.is_zero() => {
            // A guest without ACPI is powered off in the end, like a guest that does not react.
            let _ = domain.shutdown();
            return Ok(PowerStep::AskedToEnd);
        }
        (PowerAction::Stop { .. }, Running | Paused | Crashed) => {
            off(domain, uuid)?;
            GuestPowerOutcome::Done
        }
        (PowerAction::Pause, Running) => suspend(domain, uuid)?,
        (PowerAction::Unpause, Paused) => resume(domain, uuid)?,
        // A second start while the first one runs. libvirt answers the call when the guest has started.
        (PowerAction::Start, Paused) if is_starting(domain) => resume(domain, uuid)?,
        (PowerAction::SoftReboot, Running) => {
            domain
                .reboot(sys::VIR_DOMAIN_REBOOT_DEFAULT)
                .map_err(refused(uuid, "virDomainReboot"))?;
            GuestPowerOutcome::Done
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

/// Whether a guest has shut down or is gone.
pub(crate) fn is_off(connect: &Connect, uuid: ConsumerUuid) -> Result<bool, GuestError> {
    match find(connect, uuid)? {
        None => Ok(true),
        Some(domain) => state(&domain)
            .map(|state| state == PowerState::ShutOff)
            .map_err(refused(uuid, "virDomainGetState")),
    }
}

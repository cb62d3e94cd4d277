//! What a guest goes through beside its power: another document, its memory on disk, and what cannot be done with devices.

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::GuestSpec;
use berth_virt::{GuestError, GuestOnHost, GuestState, Powered, Redefined};
use virt::connect::Connect;
use virt::domain::Domain;

use super::error::refused;
use super::{find, give_document, guest, is_the_same, state};
use crate::guest_xml::GuestXmlOptions;

/// Gives a guest that is off another document.
pub(crate) fn redefine(
    connect: &Connect,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
) -> Result<Redefined, GuestError> {
    let uuid = spec.uuid;
    let Some(domain) = find(connect, uuid)? else {
        return Ok(Redefined::NotThere);
    };
    is_the_same(&domain, spec)?;
    let now = state(&domain).map_err(refused(uuid, "virDomainGetState"))?;
    if now != GuestState::ShutOff {
        return Err(GuestError::NotOff { uuid, state: now });
    }
    // What was written of its memory goes with the disks it had.
    if domain.has_managed_save(0).unwrap_or(false) {
        domain
            .managed_save_remove(0)
            .map_err(refused(uuid, "virDomainManagedSaveRemove"))?;
    }
    give_document(connect, spec, options).map(|_| Redefined::Redefined)
}

/// Writes a guest's memory to disk and switches it off.
pub(crate) fn suspend(connect: &Connect, uuid: ConsumerUuid) -> Result<Powered, GuestError> {
    let Some((domain, seen)) = seen(connect, uuid)? else {
        return Ok(Powered::NotThere);
    };
    seen.holds_nothing_for(
        uuid,
        "be suspended",
        "the state of a device cannot be written to disk",
    )?;
    match seen.state {
        GuestState::Running | GuestState::Paused => domain
            .managed_save(0)
            .map_err(refused(uuid, "virDomainManagedSave"))
            .map(|()| Powered::Done),
        GuestState::ShutOff if domain.has_managed_save(0).unwrap_or(false) => {
            Ok(Powered::AlreadySo)
        }
        state @ (GuestState::ShutOff | GuestState::Crashed) => {
            Err(GuestError::NotRunning { uuid, state })
        }
    }
}

/// Says why a guest is not moved while it runs.
pub(crate) fn live_migrate(connect: &Connect, uuid: ConsumerUuid) -> Result<(), GuestError> {
    if let Some((_, seen)) = seen(connect, uuid)? {
        seen.holds_nothing_for(
            uuid,
            "be moved while it runs",
            "a device of this host cannot come along",
        )?;
    }
    Err(GuestError::Unsupported {
        driver: "libvirt",
        action: "move a guest to another host while it runs; stop it and create it there",
    })
}

fn seen(
    connect: &Connect,
    uuid: ConsumerUuid,
) -> Result<Option<(Domain, GuestOnHost)>, GuestError> {
    let Some(domain) = find(connect, uuid)? else {
        return Ok(None);
    };
    let seen = guest(&domain, uuid)?;
    Ok(seen.map(|seen| (domain, seen)))
}

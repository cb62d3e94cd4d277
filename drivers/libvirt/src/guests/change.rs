//! Changes of a guest besides power: redefinition, managed save, and live migration, which is refused with devices.

use std::collections::BTreeSet;

use berth_model::{ConsumerUuid, MacAddress};
use berth_virt::guest_spec::GuestSpec;
use berth_virt::{
    GuestError, GuestOnHost, GuestPowerOutcome, GuestRedefineOutcome, InterfaceOutcome, PowerState,
};
use roxmltree::Document;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::ErrorNumber;
use virt_sys as sys;

use super::error::{is, refused};
use super::{find, guest, is_the_same, state, write_definition};
use crate::guest_xml::{GuestXmlOptions, interface_xml};
use crate::xml;

/// Replaces the definition of a guest that is off.
pub(crate) fn redefine(
    connect: &Connect,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
) -> Result<GuestRedefineOutcome, GuestError> {
    let uuid = spec.uuid;
    let Some(domain) = find(connect, uuid)? else {
        return Ok(GuestRedefineOutcome::NotThere);
    };
    is_the_same(&domain, spec)?;
    let now = state(&domain).map_err(refused(uuid, "virDomainGetState"))?;
    if now != PowerState::ShutOff {
        return Err(GuestError::NotOff { uuid, state: now });
    }
    // Saved memory belongs to the previous disks.
    if has_memory(&domain, uuid)? {
        domain
            .managed_save_remove(0)
            .map_err(refused(uuid, "virDomainManagedSaveRemove"))?;
    }
    write_definition(connect, spec, options).map(|_| GuestRedefineOutcome::Redefined)
}

/// Gives a guest an interface of its specification: a running one at once, and each at its next start.
pub(crate) fn attach_interface(
    connect: &Connect,
    spec: &GuestSpec,
    mac: MacAddress,
    options: &GuestXmlOptions,
) -> Result<InterfaceOutcome, GuestError> {
    let uuid = spec.uuid;
    let Some(domain) = find(connect, uuid)? else {
        return Ok(InterfaceOutcome::NotThere);
    };
    is_the_same(&domain, spec)?;
    let Some(xml) = interface_xml(spec, mac, options) else {
        return Ok(InterfaceOutcome::Unchanged);
    };
    let missing = scopes(&domain, uuid)?.filter(|(_, macs)| !macs.contains(&mac));
    let mut outcome = InterfaceOutcome::Unchanged;
    for (flag, _) in missing {
        domain
            .attach_device_flags(&xml, flag)
            .map_err(refused(uuid, "virDomainAttachDeviceFlags"))?;
        outcome = InterfaceOutcome::Changed;
    }
    Ok(outcome)
}

/// Whether a guest still has an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetachStep {
    Ended(InterfaceOutcome),
    /// The running guest has been asked to release it.
    Pending,
}

/// Takes an interface from a guest's definition, and asks a running guest to release it.
pub(crate) fn detach_interface(
    connect: &Connect,
    uuid: ConsumerUuid,
    mac: MacAddress,
) -> Result<DetachStep, GuestError> {
    let Some(domain) = find(connect, uuid)? else {
        return Ok(DetachStep::Ended(InterfaceOutcome::NotThere));
    };
    let xml = format!("<interface type='ethernet'><mac address='{mac}'/></interface>");
    let found = scopes(&domain, uuid)?.filter(|(_, macs)| macs.contains(&mac));
    let mut step = DetachStep::Ended(InterfaceOutcome::Unchanged);
    for (flag, _) in found {
        let is_live = flag == sys::VIR_DOMAIN_AFFECT_LIVE;
        match domain.detach_device_flags(&xml, flag) {
            // libvirt has asked the guest already.
            Err(error) if is_live && is(&error, ErrorNumber::OperationFailed) => {}
            detached => detached.map_err(refused(uuid, "virDomainDetachDeviceFlags"))?,
        }
        step = match is_live {
            true => DetachStep::Pending,
            false if step == DetachStep::Pending => step,
            false => DetachStep::Ended(InterfaceOutcome::Changed),
        };
    }
    Ok(step)
}

/// Whether a running guest has an interface.
pub(crate) fn has_interface(
    connect: &Connect,
    uuid: ConsumerUuid,
    mac: MacAddress,
) -> Result<bool, GuestError> {
    let Some(domain) = find(connect, uuid)? else {
        return Ok(false);
    };
    let mut scopes = scopes(&domain, uuid)?;
    Ok(scopes.any(|(flag, macs)| flag == sys::VIR_DOMAIN_AFFECT_LIVE && macs.contains(&mac)))
}

/// The Ethernet addresses of a guest's interfaces: as it runs (if it does), and as it is defined.
fn scopes(
    domain: &Domain,
    uuid: ConsumerUuid,
) -> Result<impl Iterator<Item = (u32, BTreeSet<MacAddress>)>, GuestError> {
    let macs = |flag| {
        let text = domain.xml_desc(flag);
        let text = text.map_err(refused(uuid, "virDomainGetXMLDesc"))?;
        let document = Document::parse(&text).map_err(|error| GuestError::Malformed {
            origin: format!("libvirt's document of guest {uuid}"),
            reason: error.to_string(),
        })?;
        let interfaces = document.descendants();
        let interfaces = interfaces.filter(|element| element.has_tag_name("interface"));
        let macs = interfaces.filter_map(|interface| {
            xml::find(interface, &["mac"])?
                .attribute("address")?
                .parse()
                .ok()
        });
        Ok::<BTreeSet<MacAddress>, GuestError>(macs.collect())
    };
    let is_active = domain.is_active();
    let live = match is_active.map_err(refused(uuid, "virDomainIsActive"))? {
        true => Some((sys::VIR_DOMAIN_AFFECT_LIVE, macs(0)?)),
        false => None,
    };
    let defined = macs(sys::VIR_DOMAIN_XML_INACTIVE)?;
    let defined = (sys::VIR_DOMAIN_AFFECT_CONFIG, defined);
    Ok(live.into_iter().chain([defined]))
}

/// Saves a guest's memory to disk and powers it off.
pub(crate) fn suspend(
    connect: &Connect,
    uuid: ConsumerUuid,
) -> Result<GuestPowerOutcome, GuestError> {
    let Some((domain, seen)) = parse_guest(connect, uuid)? else {
        return Ok(GuestPowerOutcome::NotThere);
    };
    seen.refuse_if_it_holds_devices(
        uuid,
        "be suspended",
        "the state of a device cannot be written to disk",
    )?;
    match seen.state {
        PowerState::Running | PowerState::Paused => domain
            .managed_save(0)
            .map_err(refused(uuid, "virDomainManagedSave"))
            .map(|()| GuestPowerOutcome::Done),
        PowerState::ShutOff if has_memory(&domain, uuid)? => Ok(GuestPowerOutcome::Unchanged),
        state @ (PowerState::ShutOff | PowerState::Crashed) => {
            Err(GuestError::NotRunning { uuid, state })
        }
    }
}

/// Whether libvirt has saved memory of a guest. An unknown answer is an error: old memory with new
/// disks would corrupt them.
pub(super) fn has_memory(domain: &Domain, uuid: ConsumerUuid) -> Result<bool, GuestError> {
    match domain.has_managed_save(0) {
        // A driver without managed save.
        Err(error) if is(&error, ErrorNumber::NoSupport) => Ok(false),
        answer => answer.map_err(refused(uuid, "virDomainHasManagedSaveImage")),
    }
}

/// Why a guest cannot be live-migrated.
pub(crate) fn live_migrate(connect: &Connect, uuid: ConsumerUuid) -> Result<(), GuestError> {
    if let Some((_, seen)) = parse_guest(connect, uuid)? {
        seen.refuse_if_it_holds_devices(
            uuid,
            "be moved while it runs",
            "a device of this host cannot be moved",
        )?;
    }
    Err(GuestError::Unsupported {
        driver: "libvirt",
        action: "move a guest to another host while it runs; stop it and create it there",
    })
}

fn parse_guest(
    connect: &Connect,
    uuid: ConsumerUuid,
) -> Result<Option<(Domain, GuestOnHost)>, GuestError> {
    let Some(domain) = find(connect, uuid)? else {
        return Ok(None);
    };
    let seen = guest(&domain, uuid)?;
    Ok(seen.map(|seen| (domain, seen)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_node::{TestGuest, TestNode};

    #[test]
    fn an_error_in_asking_for_a_guests_memory_is_no_word_that_there_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let node = TestNode {
            cpus: 4,
            memory_mib: 4096,
            guests: vec![TestGuest::new("one", uuid::Uuid::from_u128(1))],
            ..TestNode::default()
        };
        let options = node.write(directory.path()).unwrap();
        let connect = Connect::open(Some(&options.connection_uri)).unwrap();
        let domain = connect.lookup_domain_by_name("one").unwrap();
        let uuid = ConsumerUuid::from(domain.uuid().unwrap());
        assert!(!has_memory(&domain, uuid).unwrap());
        domain.destroy().unwrap();
        domain.undefine().unwrap();
        let error = has_memory(&domain, uuid).unwrap_err();
        assert!(error.to_string().contains("ManagedSave"), "{error}");
    }
}

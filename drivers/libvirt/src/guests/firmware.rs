//! Checks that the hypervisor has the firmware for a guest before it is defined, because libvirt's own error does not
//! say what is missing or how to get it.

use berth_model::ConsumerUuid;
use berth_virt::GuestError;
use berth_virt::guest_spec::{GuestBoot, GuestSpec};
use virt::connect::Connect;

use super::error::refused;
use crate::domain_capabilities::DomainCapabilities;
use crate::guest_xml::{GuestXmlOptions, Virtualisation};
use crate::stateless_firmware::has_stateless_firmware;

/// Fails with [`GuestError::NoFirmware`] if the host lacks the firmware of a guest.
pub(super) fn check_firmware(
    connect: &Connect,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
) -> Result<(), GuestError> {
    let GuestBoot::Uefi {
        secure_boot,
        stateless,
    } = spec.boot
    else {
        // QEMU includes a BIOS.
        return Ok(());
    };
    let kind = match options.virtualisation {
        Virtualisation::Kvm => "kvm",
        Virtualisation::Qemu => "qemu",
        // libvirt's test driver runs no firmware.
        Virtualisation::Test => return Ok(()),
    };
    let emulator = options.emulator.as_ref().and_then(|path| path.to_str());
    let machine = match spec.machine.is_pc() {
        true => "pc",
        false => options.architecture.machines()[0],
    };
    let arch = options.architecture.as_str();
    let text = connect
        .domain_capabilities(emulator, Some(arch), Some(machine), Some(kind), 0)
        .map_err(refused(spec.uuid, "virConnectGetDomainCapabilities"))?;
    let capabilities = DomainCapabilities::read(&text).map_err(|error| GuestError::Malformed {
        origin: "libvirt".to_owned(),
        reason: error.to_string(),
    })?;
    check_capabilities(spec.uuid, secure_boot, &capabilities)?;
    let is_there = !stateless
        || has_stateless_firmware(connect, options.architecture, kind, secure_boot)
            .map_err(refused(spec.uuid, "virConnectDomainXMLToNative"))?;
    match (is_there, secure_boot) {
        (true, _) => Ok(()),
        (false, secure_boot) => Err(GuestError::NoFirmware {
            uuid: spec.uuid,
            firmware: match secure_boot {
                false => "stateless UEFI firmware",
                true => "stateless UEFI firmware with secure boot",
            },
        }),
    }
}

/// Fails if the capabilities lack UEFI firmware, or its secure boot if the guest wants it.
fn check_capabilities(
    uuid: ConsumerUuid,
    secure_boot: bool,
    capabilities: &DomainCapabilities,
) -> Result<(), GuestError> {
    let has_uefi = capabilities.firmwares.contains("efi");
    match (has_uefi, secure_boot) {
        (true, false) => Ok(()),
        (true, true) if capabilities.secure_boot => Ok(()),
        (_, secure_boot) => Err(GuestError::NoFirmware {
            uuid,
            firmware: match secure_boot {
                false => "UEFI firmware",
                true => "UEFI firmware with secure boot",
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uefi_and_secure_boot_are_each_there_or_named_as_missing() {
        let uuid = ConsumerUuid::from(uuid::Uuid::from_u128(1));
        let has = |firmwares: &[&str], secure_boot| DomainCapabilities {
            firmwares: firmwares.iter().map(|&one| one.to_owned()).collect(),
            secure_boot,
            ..DomainCapabilities::default()
        };
        for (capabilities, secure_boot, missing) in [
            (has(&["bios", "efi"], false), false, None),
            (has(&["bios", "efi"], true), true, None),
            (has(&["bios"], false), false, Some("no UEFI firmware:")),
            (
                has(&["bios", "efi"], false),
                true,
                Some("no UEFI firmware with secure boot:"),
            ),
            // Secure boot is a feature of UEFI firmware, and there is none.
            (
                has(&[], true),
                true,
                Some("no UEFI firmware with secure boot:"),
            ),
        ] {
            let refusal = check_capabilities(uuid, secure_boot, &capabilities);
            let refusal = refusal.err().map(|error| error.to_string());
            let fits = match (&refusal, missing) {
                (None, None) => true,
                (Some(refusal), Some(missing)) => refusal.contains(missing),
                _ => false,
            };
            assert!(fits, "{capabilities:?}: {refusal:?}, expected {missing:?}");
        }
    }
}

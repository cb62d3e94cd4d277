//! Checks that the hypervisor has the firmware for a guest before it is defined, because libvirt's own error does not
//! say what is missing or how to get it.

use berth_model::ConsumerUuid;
use berth_virt::GuestError;
use berth_virt::guest_spec::{GuestBoot, GuestSpec};
use virt::connect::Connect;

use super::error::refused;
use crate::domain_capabilities::DomainCapabilities;
use crate::guest_xml::{GuestXmlOptions, Virtualisation};

/// Refuses a guest with firmware that libvirt would not find. QEMU includes a BIOS, and libvirt's test
/// driver has no firmware.
pub(super) fn has_its_firmware(
    connect: &Connect,
    spec: &GuestSpec,
    options: &GuestXmlOptions,
) -> Result<(), GuestError> {
    let GuestBoot::Uefi { secure_boot } = spec.boot else {
        return Ok(());
    };
    let kind = match options.virtualisation {
        Virtualisation::Kvm => "kvm",
        Virtualisation::Qemu => "qemu",
        Virtualisation::Test => return Ok(()),
    };
    let emulator = options.emulator.as_ref().and_then(|path| path.to_str());
    let text = connect
        .domain_capabilities(emulator, Some("x86_64"), Some("q35"), Some(kind), 0)
        .map_err(refused(spec.uuid, "virConnectGetDomainCapabilities"))?;
    let read = DomainCapabilities::read(&text).map_err(|error| GuestError::Malformed {
        origin: "libvirt".to_owned(),
        reason: error.to_string(),
    })?;
    is_available(spec.uuid, secure_boot, &read)
}

/// Whether the capabilities contain the firmware.
fn is_available(
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
            // Loader features do not matter without a loader.
            (
                has(&[], true),
                true,
                Some("no UEFI firmware with secure boot:"),
            ),
        ] {
            let refusal = is_available(uuid, secure_boot, &capabilities);
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

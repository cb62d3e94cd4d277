//! The guest's firmware, from the image properties and the flavor, with Nova's keys.

use std::collections::BTreeMap;

use super::GuestMachineError;
use super::extra_specs::ExtraSpecs;
use super::nova_extra_specs::flag;

const TYPE: &str = "hw_firmware_type";
const OF_IMAGE: &str = "os_secure_boot";
const OF_FLAVOR: &str = "os:secure_boot";
const STATELESS: &str = "hw_firmware_stateless";

/// What starts a guest that boots from a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestFirmware {
    /// A BIOS.
    Bios,
    /// UEFI firmware.
    Uefi {
        /// Whether only signed code is started.
        secure_boot: bool,
        /// Whether it keeps no variables from one start to the next (`hw_firmware_stateless`).
        stateless: bool,
    },
}

impl GuestFirmware {
    /// The firmware of a guest. `optional` secure boot is treated as disabled, because the host's support is unknown here.
    pub(super) fn of(
        specs: &BTreeMap<String, String>,
        properties: &BTreeMap<String, String>,
    ) -> Result<Self, GuestMachineError> {
        let wrong = |key: &str, reason: String| GuestMachineError::Image {
            key: key.to_owned(),
            reason,
        };
        let is_uefi = match properties.get(TYPE).map(String::as_str) {
            None | Some("bios") => false,
            Some("uefi") => true,
            Some(value) => {
                let value: String = value.chars().take(80).collect();
                return Err(wrong(
                    TYPE,
                    format!("{value:?} is not a firmware type; expected bios or uefi"),
                ));
            }
        };
        let of_image = match properties.get(OF_IMAGE) {
            None => None,
            Some(value) => Some(secure(value).map_err(|reason| wrong(OF_IMAGE, reason))?),
        };
        let specs = ExtraSpecs(specs);
        let of_flavor = match specs.get(OF_FLAVOR) {
            None => None,
            Some(value) => Some(secure(value).map_err(|reason| specs.wrong(OF_FLAVOR, reason))?),
        };
        if let (Some(flavor), Some(image)) = (of_flavor, of_image)
            && flavor != image
        {
            let reason = format!("it contradicts {OF_FLAVOR} of the flavor");
            return Err(wrong(OF_IMAGE, reason));
        }
        let secure_boot = of_flavor.or(of_image) == Some(Secure::Required);
        // As in Nova, every text that is not true is false.
        let stateless = properties.get(STATELESS).and_then(|value| flag(value));
        let stateless = stateless.unwrap_or(false);
        let needs_uefi = |reason: &str| Err(wrong(TYPE, format!("{reason} needs uefi")));
        match is_uefi {
            true => Ok(Self::Uefi {
                secure_boot,
                stateless,
            }),
            false if secure_boot => needs_uefi("secure boot is required and"),
            false if stateless => needs_uefi("hw_firmware_stateless"),
            false => Ok(Self::Bios),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secure {
    Required,
    Optional,
    Disabled,
}

fn secure(value: &str) -> Result<Secure, String> {
    match value {
        "required" => Ok(Secure::Required),
        "optional" => Ok(Secure::Optional),
        "disabled" => Ok(Secure::Disabled),
        _ => {
            let value: String = value.chars().take(80).collect();
            Err(format!(
                "{value:?} is invalid; expected required, optional or disabled"
            ))
        }
    }
}

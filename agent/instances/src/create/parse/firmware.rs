//! The guest's firmware, from the image properties and the flavor, with Nova's keys.

use berth_virt::guest_spec::GuestBoot;
use berth_wire::guest::GuestBuild;

use crate::create::error::BuildError;

const TYPE: &str = "hw_firmware_type";
const OF_IMAGE: &str = "os_secure_boot";
const OF_FLAVOR: &str = "os:secure_boot";

/// The boot source of a build without a kernel. `optional` secure boot is treated as disabled, because the host's
/// support is unknown here.
pub(super) fn firmware(build: &GuestBuild) -> Result<GuestBoot, BuildError> {
    let properties = build.image.as_ref().map(|image| &image.properties);
    let wrong = |key: &str, reason: String| {
        BuildError::field("image.properties", format!("{key}: {reason}"))
    };
    let mut is_uefi = false;
    let mut of_image = None;
    for (key, value) in properties.into_iter().flatten() {
        match (key.as_str(), value.as_str()) {
            (TYPE, "bios") => {}
            (TYPE, "uefi") => is_uefi = true,
            (TYPE, _) => {
                return Err(wrong(
                    TYPE,
                    format!("{value:?} is not a firmware type; expected bios or uefi"),
                ));
            }
            (OF_IMAGE, value) => {
                of_image = Some(secure(value).map_err(|reason| wrong(OF_IMAGE, reason))?);
            }
            _ => {
                let reason =
                    format!("this host supports only the image properties {TYPE} and {OF_IMAGE}");
                return Err(wrong(key, reason));
            }
        }
    }
    let of_flavor = build.flavor.extra_specs.get(OF_FLAVOR);
    let of_flavor = of_flavor.map(|value| {
        secure(value).map_err(|reason| {
            BuildError::field("flavor.extra_specs", format!("{OF_FLAVOR}: {reason}"))
        })
    });
    let of_flavor = of_flavor.transpose()?;
    if let (Some(flavor), Some(image)) = (of_flavor, of_image)
        && flavor != image
    {
        let reason = format!("it contradicts {OF_FLAVOR} of the flavor");
        return Err(wrong(OF_IMAGE, reason));
    }
    let secure_boot = of_flavor.or(of_image) == Some(Secure::Required);
    match (is_uefi, secure_boot) {
        (true, secure_boot) => Ok(GuestBoot::Uefi { secure_boot }),
        (false, true) => Err(wrong(
            TYPE,
            "secure boot is required and needs uefi".to_owned(),
        )),
        (false, false) => Ok(GuestBoot::Disk),
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
        _ => Err(format!(
            "{value:?} is invalid; expected required, optional or disabled"
        )),
    }
}

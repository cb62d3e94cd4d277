//! What a flavor and an image request of a host, and whether hosts support it: [`GuestMachine`].
//!
//! The compute API, the scheduler's lint and the agent of a host call the same functions, so a guest that the API accepts is
//! not refused by each host in turn.
//!
//! | module | what it has |
//! |---|---|
//! | `nova_extra_specs`, `image_properties` | the tables: each name, and what a host does with it ([`HostSupport`]) |
//! | `placement` | CPUs, cells, pages: [`FlavorPlacement`]; parsed by `extra_specs`, `masks`, `numa`, `pages` |
//! | `firmware` | BIOS or UEFI: [`GuestFirmware`] |
//! | `options` | watchdog, CPU topology and others: [`MachineOptions`] |
//! | `emulated_devices` | buses of disks, models of interfaces and video cards: [`DiskBus`], [`InterfaceModel`], [`VideoModel`] |
//! | `memory_encryption` | AMD SEV and SEV-ES: [`MemoryEncryption`] |
//! | `limits` | CPU time, disk and network traffic: [`GuestLimits`] |

mod emulated_devices;
mod extra_specs;
mod firmware;
mod image_properties;
mod limits;
mod masks;
mod memory_encryption;
mod nova_extra_specs;
mod numa;
mod options;
mod pages;
mod placement;
mod support;

use std::collections::BTreeMap;

use extra_specs::ExtraSpecs;

pub use emulated_devices::{DiskBus, InputBus, InterfaceModel, ScsiController, VideoModel};
pub use extra_specs::{FlavorExtraSpecError, ThreadPolicy, WantedCell, WantedPages};
pub use firmware::GuestFirmware;
pub use image_properties::{
    LEGACY_IMAGE_PROPERTIES, check_image_property, image_property_names, is_machine_property,
    known_image_property, with_image_placement,
};
pub use limits::{CpuLimits, DiskLimits, DiskRate, DiskRates, GuestLimits, TrafficLimit};
pub use memory_encryption::MemoryEncryption;
pub use nova_extra_specs::{
    AllowedValues, EXTRA_SPEC_SCOPES, check_extra_spec, extra_spec_names, known_extra_spec,
};
pub use options::{
    AddressWidth, CpuTopology, MachineOptions, MachineType, RngDevice, WatchdogAction,
};
pub use placement::{Affinity, EmulatorThreads, FlavorPlacement};
pub use support::{HostSupport, UnsupportedKey};

/// The guest that a flavor and an image request, as far as it does not depend on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestMachine {
    /// CPUs, cells and pages.
    pub placement: FlavorPlacement,
    /// BIOS or UEFI.
    pub firmware: GuestFirmware,
    /// Watchdog, CPU topology and others.
    pub options: MachineOptions,
}

/// No host can build the guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestMachineError {
    /// An extra spec that hosts do not support.
    #[error("flavor.extra_specs: {0}")]
    UnsupportedSpec(UnsupportedKey),
    /// An image property that hosts do not support.
    #[error("image.properties: {0}")]
    UnsupportedProperty(UnsupportedKey),
    /// An invalid extra spec.
    #[error(transparent)]
    Flavor(#[from] FlavorExtraSpecError),
    /// An invalid image property, or one that contradicts the flavor.
    #[error("image.properties: {key}: {reason}")]
    Image {
        /// The property.
        key: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

impl GuestMachine {
    /// Reads a flavor of 1 to 4096 virtual CPUs and this memory, and the properties of its image.
    ///
    /// Errors: a key that hosts do not support, an invalid value, or two contradicting values.
    pub fn of(
        vcpus: u32,
        memory_mib: u64,
        extra_specs: &BTreeMap<String, String>,
        properties: &BTreeMap<String, String>,
    ) -> Result<Self, GuestMachineError> {
        nova_extra_specs::check_extra_specs(extra_specs)
            .map_err(GuestMachineError::UnsupportedSpec)?;
        image_properties::check_image_properties(properties)
            .map_err(GuestMachineError::UnsupportedProperty)?;
        let specs = with_image_placement(extra_specs, properties);
        let placement = FlavorPlacement::of(vcpus, memory_mib, &specs)?;
        placement.check_whole_pages(ExtraSpecs(&specs))?;
        let (firmware, options) = firmware_and_options(vcpus, &specs, properties)?;
        Ok(Self {
            placement,
            firmware,
            options,
        })
    }

    /// Checks the properties of an image without a flavor. CPUs, cells and pages depend on the flavor and are not checked.
    ///
    /// Errors: a property with which [`GuestMachine::of`] refuses every flavor.
    pub fn check_image(properties: &BTreeMap<String, String>) -> Result<(), GuestMachineError> {
        const MODE: &str = "maxphysaddr_mode";
        const BITS: &str = "maxphysaddr_bits";
        image_properties::check_image_properties(properties)
            .map_err(GuestMachineError::UnsupportedProperty)?;
        // Half of the address width may be the flavor's.
        let mut specs = BTreeMap::new();
        let mode = properties.get(&format!("hw_{MODE}"));
        let has_bits = properties.contains_key(&format!("hw_{BITS}"));
        if mode.is_none() && has_bits {
            specs.insert(format!("hw:{MODE}"), "emulate".to_owned());
        }
        if mode.is_some_and(|mode| mode == "emulate") && !has_bits {
            specs.insert(format!("hw:{BITS}"), "46".to_owned());
        }
        firmware_and_options(1, &specs, properties).map(|_| ())
    }
}

fn firmware_and_options(
    vcpus: u32,
    specs: &BTreeMap<String, String>,
    properties: &BTreeMap<String, String>,
) -> Result<(GuestFirmware, MachineOptions), GuestMachineError> {
    let firmware = GuestFirmware::of(specs, properties)?;
    let options = MachineOptions::of(vcpus, specs, properties)?;
    let is_secure = matches!(
        firmware,
        GuestFirmware::Uefi {
            secure_boot: true,
            ..
        }
    );
    let is_encrypted = options.memory_encryption.is_some();
    let wrong = |key: &str, reason: &str| GuestMachineError::Image {
        key: key.to_owned(),
        reason: reason.to_owned(),
    };
    if is_encrypted && firmware == GuestFirmware::Bios {
        return Err(wrong("hw_firmware_type", "memory encryption needs uefi"));
    }
    match options.is_pc() {
        true if is_secure => Err(wrong("hw_machine_type", "secure boot needs a q35")),
        true if is_encrypted => Err(wrong("hw_machine_type", "memory encryption needs a q35")),
        true if options.host_pci_topology => Err(wrong(
            "hw_machine_type",
            "the PCI topology of the host (berth:pci_topology) needs a q35",
        )),
        _ => Ok((firmware, options)),
    }
}

#[cfg(test)]
mod tests;

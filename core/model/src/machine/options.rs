//! What a guest sees of its machine, apart from its size: [`MachineOptions`]. Each value has Nova's key and Nova's rule
//! for who has the last word, the flavor or the image.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::GuestMachineError;
use super::emulated_devices::{DiskBus, InputBus, InterfaceModel, ScsiController, VideoModel};
use super::extra_specs::{ExtraSpecs, FlavorExtraSpecError};
use super::limits::{GuestLimits, is_default};
use super::memory_encryption::MemoryEncryption;
use super::nova_extra_specs::flag;
use crate::Trait;

/// The largest number of sockets, cores or threads.
const MOST: u32 = 65_536;

const MACHINE_TYPE: &str = "hw_machine_type";
/// The machine with an i440FX chipset.
const PC: &str = "pc";

/// What a guest sees of its machine, apart from its size and its firmware.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineOptions {
    /// The machine (`hw_machine_type=pc`) or a version of one (`pc-q35-7.2`); by default the hypervisor's newest q35.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<MachineType>,
    /// Sockets, cores and threads (`hw:cpu_sockets` and others); by default the hypervisor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_topology: Option<CpuTopology>,
    /// What a watchdog does to a guest that hangs (`hw:watchdog_action`); by default there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<WatchdogAction>,
    /// Whether the guest does not see that it is virtual (`hw:hide_hypervisor_id`).
    pub hides_hypervisor: bool,
    /// Whether the firmware offers a menu (`hw:boot_menu`).
    pub boot_menu: bool,
    /// Whether interfaces have a queue for each virtual CPU (`hw:vif_multiqueue_enabled`).
    pub multiqueue: bool,
    /// Whether the guest has performance counters (`hw:pmu`); by default the hypervisor decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pmu: Option<bool>,
    /// The random number generator (`hw_rng:allowed`, `hw_rng:rate_bytes`, `hw_rng:rate_period`).
    pub rng: RngDevice,
    /// The bus of disks (`hw_disk_bus`); by default virtio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bus: Option<DiskBus>,
    /// The bus of the config drive (`hw_cdrom_bus`); by default SATA, or IDE on a `pc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cdrom_bus: Option<DiskBus>,
    /// The controller of disks on the SCSI bus (`hw_scsi_model`); by default the hypervisor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scsi_controller: Option<ScsiController>,
    /// The model of interfaces (`hw_vif_model`).
    #[serde(skip_serializing_if = "is_default")]
    pub interface_model: InterfaceModel,
    /// Whether interfaces use packed rings (`hw:virtio_packed_ring`).
    #[serde(skip_serializing_if = "is_default")]
    pub packed_ring: bool,
    /// Whether the guest has a channel for QEMU's guest agent (`hw_qemu_guest_agent`).
    #[serde(skip_serializing_if = "is_default")]
    pub guest_agent: bool,
    /// Whether the guest has a high precision event timer (`hw_time_hpet`).
    #[serde(skip_serializing_if = "is_default")]
    pub hpet: bool,
    /// Whether the guest is Windows (`os_type=windows`): its clock has local time, and it sees Hyper-V's interfaces.
    #[serde(skip_serializing_if = "is_default")]
    pub windows: bool,
    /// The width of physical addresses (`hw:maxphysaddr_mode`); by default the hypervisor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_width: Option<AddressWidth>,
    /// The video card (`hw_video_model`); by default virtio. A host without VNC gives guests none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video_model: Option<VideoModel>,
    /// The memory of the video card in MiB (`hw_video_ram`, up to the flavor's `hw_video:ram_max_mb`); by default the
    /// hypervisor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video_memory_mib: Option<u32>,
    /// The bus of the tablet and a keyboard (`hw_input_bus`); by default a USB tablet and the machine's own keyboard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_bus: Option<InputBus>,
    /// How the memory is encrypted (`hw:mem_encryption`); by default it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_encryption: Option<MemoryEncryption>,
    /// Whether its passed-through devices have the places that they have in the host's PCI tree (`berth:pci_topology=host`).
    #[serde(skip_serializing_if = "is_default")]
    pub host_pci_topology: bool,
    /// Limits on CPU time, disk and network traffic (`quota:*`).
    #[serde(skip_serializing_if = "is_default")]
    pub limits: GuestLimits,
}

/// The width of physical addresses. Devices with large memory regions need more than the hypervisor's default of 40 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressWidth {
    /// The host's.
    Passthrough,
    /// This many bits, 32 to 52, and at most the host's.
    Emulated(u8),
}

/// A machine other than the newest q35: `pc` (i440FX, with PCI instead of PCI Express), or a version of either, such as
/// `pc-q35-7.2` and `pc-i440fx-7.2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachineType(String);

/// The virtual CPUs of a guest as sockets, cores and threads. Their product is the number of virtual CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuTopology {
    /// Sockets.
    pub sockets: u32,
    /// Cores of each socket.
    pub cores: u32,
    /// Threads of each core.
    pub threads: u32,
}

/// What a watchdog does to a guest that hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchdogAction {
    /// Nothing; the hypervisor only reports it.
    None,
    /// It pauses the guest.
    Pause,
    /// It switches the guest off.
    Poweroff,
    /// It resets the guest.
    Reset,
}

/// The random number generator of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RngDevice {
    /// As many bytes as the guest reads.
    #[default]
    Unlimited,
    /// At most these bytes in each period.
    Limited {
        /// Bytes of a period.
        bytes: u32,
        /// The period in milliseconds; `None`: a second.
        period_ms: Option<u32>,
    },
    /// The guest has none.
    Absent,
}

impl MachineType {
    /// The name, as the hypervisor takes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a `pc` (i440FX).
    #[must_use]
    pub fn is_pc(&self) -> bool {
        self.0 == PC || self.0.starts_with("pc-i440fx-")
    }
}

impl TryFrom<String> for MachineType {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let version = name
            .strip_prefix("pc-q35-")
            .or_else(|| name.strip_prefix("pc-i440fx-"));
        let is_name = |version: &str| {
            let mut bytes = version.bytes();
            (1..=64).contains(&version.len())
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        };
        match name == PC || version.is_some_and(is_name) {
            true => Ok(Self(name)),
            false => Err("expected q35, pc, pc-q35-VERSION or pc-i440fx-VERSION"),
        }
    }
}

impl From<MachineType> for String {
    fn from(machine: MachineType) -> Self {
        machine.0
    }
}

impl WatchdogAction {
    /// Nova's word, which is also libvirt's.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pause => "pause",
            Self::Poweroff => "poweroff",
            Self::Reset => "reset",
        }
    }
}

impl MachineOptions {
    /// Whether it is what a flavor and an image request that say nothing.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the machine is a `pc` (i440FX), which has PCI instead of PCI Express.
    #[must_use]
    pub fn is_pc(&self) -> bool {
        self.machine_type.as_ref().is_some_and(MachineType::is_pc)
    }

    /// The bus of disks.
    #[must_use]
    pub fn bus_of_disks(&self) -> DiskBus {
        self.disk_bus.unwrap_or(DiskBus::Virtio)
    }

    /// The bus of the config drive.
    #[must_use]
    pub fn bus_of_cdroms(&self) -> DiskBus {
        let default = if self.is_pc() {
            DiskBus::Ide
        } else {
            DiskBus::Sata
        };
        self.cdrom_bus.unwrap_or(default)
    }

    /// The first option that a node with these traits cannot give a guest: Nova's key, and the trait that is missing. A node
    /// without any trait of an interface model does not report capabilities, so nothing is known to be missing.
    #[must_use]
    pub fn missing_on(&self, traits: &BTreeSet<Trait>) -> Option<(&'static str, String)> {
        const MODELS: &str = "COMPUTE_NET_VIF_MODEL_";
        if !traits.iter().any(|it| it.as_str().starts_with(MODELS)) {
            return None;
        }
        let bus = |bus: DiskBus| format!("COMPUTE_STORAGE_BUS_{}", bus.as_str().to_uppercase());
        let model = self.interface_model.as_str().to_uppercase();
        let width = self.address_width.map(|width| match width {
            AddressWidth::Passthrough => "COMPUTE_ADDRESS_SPACE_PASSTHROUGH".to_owned(),
            AddressWidth::Emulated(_) => "COMPUTE_ADDRESS_SPACE_EMULATED".to_owned(),
        });
        let video = |model: VideoModel| {
            let model = model.as_str().to_uppercase();
            format!("COMPUTE_GRAPHICS_MODEL_{model}")
        };
        let packed = self
            .packed_ring
            .then(|| "COMPUTE_NET_VIRTIO_PACKED".to_owned());
        let required = [
            ("hw_disk_bus", self.disk_bus.map(bus)),
            ("hw_cdrom_bus", self.cdrom_bus.map(bus)),
            ("hw_vif_model", Some(format!("{MODELS}{model}"))),
            ("hw_video_model", self.video_model.map(video)),
            ("hw:maxphysaddr_mode", width),
            ("hw:virtio_packed_ring", packed),
        ];
        let mut missing = required
            .into_iter()
            .filter_map(|(key, name)| Some((key, name?)));
        missing.find(|(_, name)| !traits.iter().any(|it| it.as_str() == name))
    }

    pub(super) fn of(
        vcpus: u32,
        specs: &BTreeMap<String, String>,
        properties: &BTreeMap<String, String>,
    ) -> Result<Self, GuestMachineError> {
        let source = FlavorAndProperties {
            specs: ExtraSpecs(specs),
            properties,
        };
        let options = Self {
            machine_type: source.machine_type()?,
            cpu_topology: source.cpu_topology(vcpus)?,
            watchdog: source.watchdog()?,
            hides_hypervisor: source.hides_hypervisor()?,
            boot_menu: source.boot_menu()?,
            multiqueue: source.multiqueue()?,
            pmu: source.pmu()?,
            rng: source.rng()?,
            disk_bus: source.choice("hw_disk_bus", &DiskBus::ALL, DiskBus::as_str)?,
            cdrom_bus: source.choice("hw_cdrom_bus", &DiskBus::OF_CDROMS, DiskBus::as_str)?,
            scsi_controller: source.scsi_controller()?,
            interface_model: source.interface_model()?,
            packed_ring: source.packed_ring()?,
            guest_agent: source.property_flag("hw_qemu_guest_agent").unwrap_or(false),
            hpet: source.property_flag("hw_time_hpet").unwrap_or(false),
            windows: source
                .property("os_type")
                .is_some_and(|os| os.eq_ignore_ascii_case("windows")),
            address_width: source.address_width()?,
            video_model: source.choice("hw_video_model", &VideoModel::ALL, VideoModel::as_str)?,
            video_memory_mib: source.video_memory_mib()?,
            input_bus: source.input_bus()?,
            memory_encryption: source.memory_encryption()?,
            host_pci_topology: source.host_pci_topology()?,
            limits: GuestLimits::of(source.specs)?,
        };
        let on_ide = [
            ("hw_disk_bus", options.disk_bus),
            ("hw_cdrom_bus", options.cdrom_bus),
        ];
        let on_ide = on_ide.iter().find(|(_, bus)| *bus == Some(DiskBus::Ide));
        match on_ide {
            Some((key, _)) if !options.is_pc() => {
                let reason = "a q35 has no IDE bus; expected virtio, scsi, sata or usb, or hw_machine_type=pc";
                Err(source.image(key, reason))
            }
            _ => Ok(options),
        }
    }
}

/// Nova's word for a model that the image has by the name that VMware uses.
fn canonical_model<'a>(property: &str, model: &'a str) -> &'a str {
    match (property, model) {
        ("hw_scsi_model", "lsilogicsas") => "lsisas1068",
        ("hw_scsi_model", "paravirtual") => "vmpvscsi",
        ("hw_vif_model", "virtuale1000") => "e1000",
        ("hw_vif_model", "virtuale1000e") => "e1000e",
        ("hw_vif_model", "virtualpcnet32") => "pcnet",
        ("hw_vif_model", "virtualvmxnet3") => "vmxnet3",
        _ => model,
    }
}

#[derive(Clone, Copy)]
struct FlavorAndProperties<'a> {
    specs: ExtraSpecs<'a>,
    properties: &'a BTreeMap<String, String>,
}

impl<'a> FlavorAndProperties<'a> {
    fn property(self, name: &str) -> Option<&'a str> {
        let value = self.properties.get(name).map(|value| value.trim());
        value.filter(|value| !value.is_empty())
    }

    /// A truth value of the flavor.
    fn flag(self, key: &str) -> Result<Option<bool>, FlavorExtraSpecError> {
        let Some(value) = self.specs.get(key) else {
            return Ok(None);
        };
        match flag(value) {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.specs.wrong(key, "expected true or false")),
        }
    }

    /// A truth value of the image. As in Nova, every other text is false.
    fn property_flag(self, name: &str) -> Option<bool> {
        let value = self.property(name)?;
        Some(flag(value).unwrap_or(false))
    }

    fn image(self, key: &str, reason: impl Into<String>) -> GuestMachineError {
        GuestMachineError::Image {
            key: key.to_owned(),
            reason: reason.into(),
        }
    }

    fn machine_type(self) -> Result<Option<MachineType>, GuestMachineError> {
        match self.property(MACHINE_TYPE) {
            None | Some("q35") => Ok(None),
            Some(name) => {
                let machine = MachineType::try_from(name.to_owned());
                machine
                    .map(Some)
                    .map_err(|reason| self.image(MACHINE_TYPE, reason))
            }
        }
    }

    fn boot_menu(self) -> Result<bool, GuestMachineError> {
        let of_flavor = self.flag("hw:boot_menu")?;
        Ok(self
            .property_flag("hw_boot_menu")
            .or(of_flavor)
            .unwrap_or(false))
    }

    fn hides_hypervisor(self) -> Result<bool, GuestMachineError> {
        let scoped = self.flag("hw:hide_hypervisor_id")?.unwrap_or(false);
        let unscoped = self.flag("hide_hypervisor_id")?.unwrap_or(false);
        let of_image = self.property_flag("img_hide_hypervisor_id");
        Ok(scoped || unscoped || of_image.unwrap_or(false))
    }

    fn multiqueue(self) -> Result<bool, GuestMachineError> {
        const PROPERTY: &str = "hw_vif_multiqueue_enabled";
        let of_flavor = self.flag("hw:vif_multiqueue_enabled")?;
        match (of_flavor, self.property_flag(PROPERTY)) {
            (Some(false), Some(true)) => {
                Err(self.image(PROPERTY, "the flavor's hw:vif_multiqueue_enabled is false"))
            }
            (of_flavor, of_image) => Ok(of_flavor.or(of_image).unwrap_or(false)),
        }
    }

    fn pmu(self) -> Result<Option<bool>, GuestMachineError> {
        self.agreed_flag("pmu")
    }

    fn packed_ring(self) -> Result<bool, GuestMachineError> {
        Ok(self.agreed_flag("virtio_packed_ring")?.unwrap_or(false))
    }

    /// A truth value that the flavor or the image has. If both have it, they must agree.
    fn agreed_flag(self, name: &str) -> Result<Option<bool>, GuestMachineError> {
        let (spec, property) = (format!("hw:{name}"), format!("hw_{name}"));
        match (self.flag(&spec)?, self.property_flag(&property)) {
            (Some(flavor), Some(image)) if flavor != image => {
                Err(self.image(&property, format!("it contradicts {spec} of the flavor")))
            }
            (of_flavor, of_image) => Ok(of_flavor.or(of_image)),
        }
    }

    /// One of the words of a property, in any case.
    fn choice<T: Copy>(
        self,
        property: &str,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<Option<T>, GuestMachineError> {
        let Some(found) = self.property(property) else {
            return Ok(None);
        };
        let lower_case = found.to_lowercase();
        let canonical = canonical_model(property, &lower_case);
        match all.iter().find(|one| word(**one) == canonical) {
            Some(one) => Ok(Some(*one)),
            None => {
                let words: Vec<_> = all.iter().map(|one| word(*one)).collect();
                let found: String = found.chars().take(80).collect();
                let reason = format!(
                    "guests cannot have {found:?}; expected {}",
                    words.join(", ")
                );
                Err(self.image(property, reason))
            }
        }
    }

    fn scsi_controller(self) -> Result<Option<ScsiController>, GuestMachineError> {
        self.choice(
            "hw_scsi_model",
            &ScsiController::ALL,
            ScsiController::as_str,
        )
    }

    fn interface_model(self) -> Result<InterfaceModel, GuestMachineError> {
        let model = self.choice("hw_vif_model", &InterfaceModel::ALL, InterfaceModel::as_str)?;
        Ok(model.unwrap_or_default())
    }

    /// As in Nova, the flavor must allow video memory. Without its limit the image may have none.
    fn video_memory_mib(self) -> Result<Option<u32>, GuestMachineError> {
        const SPEC: &str = "hw_video:ram_max_mb";
        const PROPERTY: &str = "hw_video_ram";
        let most = self.number(SPEC, 0)?.unwrap_or(0);
        match self.property_number(PROPERTY)? {
            Some(mib) if mib > most => {
                let reason = format!("the flavor's {SPEC} allows at most {most} MiB");
                Err(self.image(PROPERTY, reason))
            }
            mib => Ok(mib),
        }
    }

    fn input_bus(self) -> Result<Option<InputBus>, GuestMachineError> {
        self.choice("hw_input_bus", &InputBus::ALL, InputBus::as_str)
    }

    /// As in Nova, flavor and image must agree on the mode, and the flavor has the last word on the number.
    fn address_width(self) -> Result<Option<AddressWidth>, GuestMachineError> {
        const MODE: &str = "maxphysaddr_mode";
        const BITS: &str = "maxphysaddr_bits";
        let of_spec = |name: &str| self.specs.get(&format!("hw:{name}"));
        let value = |name: &str| of_spec(name).or_else(|| self.property(&format!("hw_{name}")));
        let wrong = |name: &str, reason: &str| match of_spec(name) {
            Some(_) => self.specs.wrong(&format!("hw:{name}"), reason).into(),
            None => self.image(&format!("hw_{name}"), reason),
        };
        let of_image = self.property(&format!("hw_{MODE}"));
        if let (Some(flavor), Some(image)) = (of_spec(MODE), of_image)
            && flavor != image
        {
            let reason = format!("it contradicts hw:{MODE} of the flavor");
            return Err(self.image(&format!("hw_{MODE}"), reason));
        }
        match (value(MODE), value(BITS)) {
            (None, None) => Ok(None),
            (Some("passthrough"), None) => Ok(Some(AddressWidth::Passthrough)),
            (Some("passthrough"), Some(_)) => {
                Err(wrong(BITS, "maxphysaddr_mode=passthrough takes no number"))
            }
            (Some("emulate"), Some(bits)) => match bits.parse::<u8>() {
                Ok(bits) if (32..=52).contains(&bits) => Ok(Some(AddressWidth::Emulated(bits))),
                _ => Err(wrong(BITS, "expected 32 to 52")),
            },
            (Some("emulate"), None) => Err(wrong(MODE, "maxphysaddr_bits is missing, such as 46")),
            (Some(_), _) => Err(wrong(MODE, "expected passthrough or emulate")),
            (None, Some(_)) => Err(wrong(BITS, "maxphysaddr_mode is missing")),
        }
    }

    /// As in Nova, flavor and image must agree.
    fn memory_encryption(self) -> Result<Option<MemoryEncryption>, GuestMachineError> {
        const SPEC: &str = "hw:mem_encryption_model";
        const PROPERTY: &str = "hw_mem_encryption_model";
        if self.agreed_flag("mem_encryption")? != Some(true) {
            return Ok(None);
        }
        let (of_flavor, of_image) = (self.specs.get(SPEC), self.property(PROPERTY));
        if of_flavor.is_some() && of_image.is_some() && of_flavor != of_image {
            return Err(self.image(PROPERTY, format!("it contradicts {SPEC} of the flavor")));
        }
        let model = of_flavor.or(of_image).unwrap_or("amd-sev");
        let mut all = MemoryEncryption::ALL.into_iter();
        match all.find(|one| one.as_str() == model) {
            Some(one) => Ok(Some(one)),
            None => {
                let reason = "hosts encrypt memory by amd-sev or amd-sev-es";
                Err(match of_flavor {
                    Some(_) => self.specs.wrong(SPEC, reason).into(),
                    None => self.image(PROPERTY, reason),
                })
            }
        }
    }

    /// Flavor or image can request it. There is no other value, so they cannot contradict each other.
    fn host_pci_topology(self) -> Result<bool, GuestMachineError> {
        const SPEC: &str = "berth:pci_topology";
        const PROPERTY: &str = "berth_pci_topology";
        let of_flavor = self.specs.word(SPEC, &[("host", true)])?;
        match self.property(PROPERTY) {
            None => Ok(of_flavor.unwrap_or(false)),
            Some("host") => Ok(true),
            Some(_) => Err(self.image(PROPERTY, "expected host")),
        }
    }

    fn watchdog(self) -> Result<Option<WatchdogAction>, GuestMachineError> {
        const SPEC: &str = "hw:watchdog_action";
        const PROPERTY: &str = "hw_watchdog_action";
        const WORDS: [(&str, Option<WatchdogAction>); 5] = [
            ("none", Some(WatchdogAction::None)),
            ("pause", Some(WatchdogAction::Pause)),
            ("poweroff", Some(WatchdogAction::Poweroff)),
            ("reset", Some(WatchdogAction::Reset)),
            ("disabled", None),
        ];
        let of_flavor = self.specs.word(SPEC, &WORDS)?;
        let Some(value) = self.property(PROPERTY) else {
            return Ok(of_flavor.flatten());
        };
        match WORDS.iter().find(|(word, _)| *word == value) {
            Some((_, action)) => Ok(*action),
            None => Err(self.image(
                PROPERTY,
                "expected none, pause, poweroff, reset or disabled",
            )),
        }
    }

    fn rng(self) -> Result<RngDevice, GuestMachineError> {
        let bytes = self.number("hw_rng:rate_bytes", 0)?.unwrap_or(0);
        let period_ms = self.number("hw_rng:rate_period", 0)?.filter(|ms| *ms > 0);
        Ok(match (self.flag("hw_rng:allowed")?, bytes) {
            (Some(false), _) => RngDevice::Absent,
            (_, 0) => RngDevice::Unlimited,
            (_, bytes) => RngDevice::Limited { bytes, period_ms },
        })
    }

    fn number(self, key: &str, least: u32) -> Result<Option<u32>, FlavorExtraSpecError> {
        let Some(text) = self.specs.get(key) else {
            return Ok(None);
        };
        match text.parse::<u32>().ok().filter(|number| *number >= least) {
            Some(number) => Ok(Some(number)),
            None => Err(self
                .specs
                .wrong(key, format!("expected a whole number from {least} on"))),
        }
    }

    fn property_number(self, name: &str) -> Result<Option<u32>, GuestMachineError> {
        let Some(text) = self.property(name) else {
            return Ok(None);
        };
        match text.parse::<u32>() {
            // As in Nova, 0 is the same as no value.
            Ok(0) => Ok(None),
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.image(name, "expected a whole number")),
        }
    }

    /// Of the topologies within the limits, the one with the most requested values; then the one with the fewest threads
    /// and the most sockets.
    fn cpu_topology(self, vcpus: u32) -> Result<Option<CpuTopology>, GuestMachineError> {
        const PARTS: [&str; 3] = ["sockets", "cores", "threads"];
        let (mut limits, mut of_flavor, mut of_image) = ([MOST; 3], [None; 3], [None; 3]);
        let mut is_requested = false;
        for (part, name) in PARTS.iter().enumerate() {
            let flavor = self.number(&format!("hw:cpu_max_{name}"), 1)?;
            let property = format!("hw_cpu_max_{name}");
            let image = self.property_number(&property)?;
            if let (Some(flavor), Some(image)) = (flavor, image)
                && image > flavor
            {
                let reason = format!("the flavor's hw:cpu_max_{name} is {flavor}, which is less");
                return Err(self.image(&property, reason));
            }
            is_requested |= flavor.is_some() || image.is_some();
            limits[part] = image.or(flavor).unwrap_or(MOST);
            of_flavor[part] = self.number(&format!("hw:cpu_{name}"), 1)?;
            let property = format!("hw_cpu_{name}");
            of_image[part] = self.property_number(&property)?;
            if of_image[part].is_some_and(|image| image > limits[part]) {
                let reason = format!("at most {} {name} are allowed", limits[part]);
                return Err(self.image(&property, reason));
            }
        }
        is_requested |= of_flavor.iter().chain(&of_image).any(Option::is_some);
        if !is_requested {
            return Ok(None);
        }
        let beyond = |(wanted, limit): (&Option<u32>, &u32)| wanted.is_some_and(|it| it > *limit);
        let wanted = match of_image.iter().any(Option::is_some) {
            true => of_image,
            // The image may have lowered the flavor's limits.
            false if of_flavor.iter().zip(&limits).any(beyond) => [None; 3],
            false => of_flavor,
        };
        let divisors = |whole: u32, limit: u32| {
            (1..=whole.min(limit)).filter(move |it| whole.is_multiple_of(*it))
        };
        let possible = divisors(vcpus, limits[0]).flat_map(|sockets| {
            divisors(vcpus / sockets, limits[1]).filter_map(move |cores| {
                let threads = vcpus / sockets / cores;
                (threads <= limits[2]).then_some([sockets, cores, threads])
            })
        });
        let best = possible.max_by_key(|all| {
            let met = all
                .iter()
                .zip(&wanted)
                .filter(|(it, wanted)| **wanted == Some(**it));
            (met.count(), all[0] * all[1], all[0], all[2])
        });
        match best {
            Some([sockets, cores, threads]) => Ok(Some(CpuTopology {
                sockets,
                cores,
                threads,
            })),
            None => {
                let limited = PARTS.iter().find_map(|name| {
                    let spec = format!("hw:cpu_max_{name}");
                    self.specs.get(&spec).map(|_| spec)
                });
                let reason = format!(
                    "{vcpus} virtual CPUs are not a product of at most {} sockets, {} cores and {} threads",
                    limits[0], limits[1], limits[2]
                );
                Err(match limited {
                    Some(spec) => self.specs.wrong(&spec, reason).into(),
                    None => self.image("hw_cpu_max_sockets", reason),
                })
            }
        }
    }
}

//! The elements of the document except devices, as named by libvirt's schema. Fields that begin with `@` are
//! attributes.

use serde::Serialize;

use super::devices::DevicesElement;
use crate::guest_metadata::{MetadataElement, NovaInstance};

#[derive(Serialize)]
#[serde(rename = "domain")]
pub(super) struct DomainElement<'a> {
    #[serde(rename = "@type")]
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
    pub(super) uuid: String,
    pub(super) metadata: Metadata,
    pub(super) memory: MemoryElement,
    #[serde(rename = "memoryBacking", skip_serializing_if = "Option::is_none")]
    pub(super) memory_backing: Option<MemoryBacking>,
    pub(super) vcpu: Vcpu,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cputune: Option<CpuTune>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) numatune: Option<NumaTune>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sysinfo: Option<SystemInformation>,
    pub(super) os: Os<'a>,
    pub(super) features: Features,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<CpuElement<'a>>,
    pub(super) clock: Clock,
    pub(super) on_poweroff: &'static str,
    pub(super) on_reboot: &'static str,
    pub(super) on_crash: &'static str,
    pub(super) devices: DevicesElement<'a>,
    #[serde(rename = "launchSecurity", skip_serializing_if = "Option::is_none")]
    pub(super) launch_security: Option<LaunchSecurity>,
}

/// Memory encryption.
#[derive(Serialize)]
pub(super) struct LaunchSecurity {
    #[serde(rename = "@type")]
    pub(super) kind: &'static str,
    pub(super) policy: &'static str,
}

#[derive(Serialize)]
pub(super) struct Metadata {
    #[serde(rename = "berth:guest")]
    pub(super) guest: MetadataElement,
    #[serde(rename = "nova:instance", skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<NovaInstance>,
}

/// What the guest reads as the maker of its machine (SMBIOS).
#[derive(Serialize)]
pub(super) struct SystemInformation {
    #[serde(rename = "@type")]
    pub(super) kind: &'static str,
    pub(super) system: SystemEntries,
}

#[derive(Serialize)]
pub(super) struct SystemEntries {
    pub(super) entry: Vec<SystemEntry>,
}

#[derive(Serialize)]
pub(super) struct SystemEntry {
    #[serde(rename = "@name")]
    pub(super) name: &'static str,
    #[serde(rename = "$text")]
    pub(super) text: String,
}

#[derive(Serialize)]
pub(super) struct ModeElement {
    #[serde(rename = "@mode")]
    pub(super) mode: &'static str,
}

#[derive(Serialize)]
pub(super) struct MemoryElement {
    #[serde(rename = "@unit")]
    pub(super) unit: &'static str,
    #[serde(rename = "$text")]
    pub(super) amount: u64,
}

#[derive(Serialize)]
pub(super) struct MemoryBacking {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hugepages: Option<HugePagesElement>,
    /// The host does not swap the memory out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) locked: Option<()>,
}

#[derive(Serialize)]
pub(super) struct HugePagesElement {
    pub(super) page: Page,
}

#[derive(Serialize)]
pub(super) struct Page {
    #[serde(rename = "@size")]
    pub(super) size: u64,
    #[serde(rename = "@unit")]
    pub(super) unit: &'static str,
}

#[derive(Serialize)]
pub(super) struct Vcpu {
    #[serde(rename = "@placement")]
    pub(super) placement: &'static str,
    #[serde(rename = "@cpuset", skip_serializing_if = "Option::is_none")]
    pub(super) cpuset: Option<String>,
    #[serde(rename = "$text")]
    pub(super) count: u32,
}

#[derive(Serialize)]
pub(super) struct CpuTune {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shares: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) period: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quota: Option<u64>,
    pub(super) vcpupin: Vec<Pin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) emulatorpin: Option<SetElement>,
}

#[derive(Serialize)]
pub(super) struct Pin {
    #[serde(rename = "@vcpu")]
    pub(super) vcpu: u32,
    #[serde(rename = "@cpuset")]
    pub(super) cpuset: String,
}

#[derive(Serialize)]
pub(super) struct SetElement {
    #[serde(rename = "@cpuset")]
    pub(super) cpuset: String,
}

#[derive(Serialize)]
pub(super) struct NumaTune {
    pub(super) memory: MemoryPlacement,
    pub(super) memnode: Vec<MemoryNode>,
}

#[derive(Serialize)]
pub(super) struct MemoryPlacement {
    #[serde(rename = "@mode")]
    pub(super) mode: &'static str,
    #[serde(rename = "@nodeset")]
    pub(super) nodeset: String,
}

#[derive(Serialize)]
pub(super) struct MemoryNode {
    #[serde(rename = "@cellid")]
    pub(super) cellid: u32,
    #[serde(rename = "@mode")]
    pub(super) mode: &'static str,
    #[serde(rename = "@nodeset")]
    pub(super) nodeset: u32,
}

#[derive(Serialize)]
pub(super) struct Os<'a> {
    /// The firmware that libvirt selects; `None`: the default, a BIOS.
    #[serde(rename = "@firmware", skip_serializing_if = "Option::is_none")]
    pub(super) auto: Option<&'static str>,
    #[serde(rename = "type")]
    pub(super) os_type: OsType<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) firmware: Option<Firmware>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) loader: Option<Loader>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) initrd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cmdline: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) boot: Option<Boot>,
    #[serde(rename = "bootmenu", skip_serializing_if = "Option::is_none")]
    pub(super) boot_menu: Option<BootMenu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) smbios: Option<ModeElement>,
}

#[derive(Serialize)]
pub(super) struct BootMenu {
    #[serde(rename = "@enable")]
    pub(super) enable: &'static str,
}

#[derive(Serialize)]
pub(super) struct Firmware {
    pub(super) feature: FirmwareFeature,
}

#[derive(Serialize)]
pub(super) struct Loader {
    #[serde(rename = "@stateless")]
    pub(super) stateless: &'static str,
}

#[derive(Serialize)]
pub(super) struct FirmwareFeature {
    #[serde(rename = "@enabled")]
    pub(super) enabled: &'static str,
    #[serde(rename = "@name")]
    pub(super) name: &'static str,
}

#[derive(Serialize)]
pub(super) struct OsType<'a> {
    #[serde(rename = "@arch", skip_serializing_if = "Option::is_none")]
    pub(super) arch: Option<&'static str>,
    #[serde(rename = "@machine", skip_serializing_if = "Option::is_none")]
    pub(super) machine: Option<&'a str>,
    #[serde(rename = "$text")]
    pub(super) kind: &'static str,
}

#[derive(Serialize)]
pub(super) struct Boot {
    #[serde(rename = "@dev")]
    pub(super) dev: &'static str,
}

#[derive(Serialize)]
pub(super) struct Features {
    pub(super) acpi: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) apic: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hyperv: Option<HypervElement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kvm: Option<KvmElement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pmu: Option<StateElement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) smm: Option<StateElement>,
    /// Lets the host read a crashed guest's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vmcoreinfo: Option<StateElement>,
}

/// Microsoft's interfaces for guests.
#[derive(Serialize)]
pub(super) struct HypervElement {
    pub(super) relaxed: StateElement,
    pub(super) vapic: StateElement,
    pub(super) spinlocks: SpinlocksElement,
    pub(super) vpindex: StateElement,
    pub(super) runtime: StateElement,
    pub(super) synic: StateElement,
    pub(super) reset: StateElement,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vendor_id: Option<VendorElement>,
    pub(super) frequencies: StateElement,
    pub(super) tlbflush: StateElement,
    pub(super) ipi: StateElement,
}

#[derive(Serialize)]
pub(super) struct SpinlocksElement {
    #[serde(rename = "@state")]
    pub(super) state: &'static str,
    #[serde(rename = "@retries")]
    pub(super) retries: u32,
}

#[derive(Serialize)]
pub(super) struct VendorElement {
    #[serde(rename = "@state")]
    pub(super) state: &'static str,
    #[serde(rename = "@value")]
    pub(super) value: &'static str,
}

#[derive(Serialize)]
pub(super) struct KvmElement {
    pub(super) hidden: StateElement,
}

#[derive(Serialize)]
pub(super) struct StateElement {
    #[serde(rename = "@state")]
    pub(super) state: &'static str,
}

#[derive(Serialize)]
pub(super) struct CpuElement<'a> {
    #[serde(rename = "@mode", skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<&'static str>,
    #[serde(rename = "@match", skip_serializing_if = "Option::is_none")]
    pub(super) matching: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<CpuModelElement<'a>>,
    #[serde(rename = "maxphysaddr", skip_serializing_if = "Option::is_none")]
    pub(super) address_width: Option<AddressWidthElement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) topology: Option<TopologyElement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) numa: Option<NumaElement>,
}

#[derive(Serialize)]
pub(super) struct AddressWidthElement {
    #[serde(rename = "@mode")]
    pub(super) mode: &'static str,
    #[serde(rename = "@bits", skip_serializing_if = "Option::is_none")]
    pub(super) bits: Option<u8>,
}

#[derive(Serialize)]
pub(super) struct TopologyElement {
    #[serde(rename = "@sockets")]
    pub(super) sockets: u32,
    #[serde(rename = "@cores")]
    pub(super) cores: u32,
    #[serde(rename = "@threads")]
    pub(super) threads: u32,
}

#[derive(Serialize)]
pub(super) struct CpuModelElement<'a> {
    #[serde(rename = "@fallback")]
    pub(super) fallback: &'static str,
    #[serde(rename = "$text")]
    pub(super) name: &'a str,
}

#[derive(Serialize)]
pub(super) struct NumaElement {
    pub(super) cell: Vec<CellElement>,
}

#[derive(Serialize)]
pub(super) struct CellElement {
    #[serde(rename = "@id")]
    pub(super) id: u32,
    #[serde(rename = "@cpus", skip_serializing_if = "Option::is_none")]
    pub(super) cpus: Option<String>,
    #[serde(rename = "@memory")]
    pub(super) memory: u64,
    #[serde(rename = "@unit")]
    pub(super) unit: &'static str,
}

#[derive(Serialize)]
pub(super) struct Clock {
    #[serde(rename = "@offset")]
    pub(super) offset: &'static str,
    pub(super) timer: Vec<Timer>,
}

#[derive(Serialize)]
pub(super) struct Timer {
    #[serde(rename = "@name")]
    pub(super) name: &'static str,
    #[serde(rename = "@tickpolicy", skip_serializing_if = "Option::is_none")]
    pub(super) tickpolicy: Option<&'static str>,
    #[serde(rename = "@present", skip_serializing_if = "Option::is_none")]
    pub(super) present: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct TypeElement {
    #[serde(rename = "@type")]
    pub(super) kind: &'static str,
}

//! The node's traits: features of the processor that guests see, and capabilities of its hypervisor. Pure.
//!
//! Names are those of os-traits 3.9, and the mapping from libvirt's names is Nova's, except for SSE3. A capability is a trait only if
//! guests can have it: the tables of devices are those that `guest_xml` writes, not all that libvirt lists.

use std::collections::BTreeSet;

use berth_model::{DiskBus, InterfaceModel, Trait, VideoModel};

use crate::architecture::GuestArchitecture;
use crate::capabilities::Capabilities;
use crate::domain_capabilities::DomainCapabilities;
use crate::options::VirtType;

/// libvirt's names of x86 features, and the ends of their traits after `HW_CPU_X86_`.
const X86_FEATURES: &[(&str, &str)] = &[
    ("3dnow", "3DNOW"),
    ("abm", "ABM"),
    ("aes", "AESNI"),
    ("amx-bf16", "AMXBF16"),
    ("amx-int8", "AMXINT8"),
    ("amx-tile", "AMXTILE"),
    ("avx", "AVX"),
    ("avx2", "AVX2"),
    ("avx512-vpopcntdq", "AVX512VPOPCNTDQ"),
    ("avx512bitalg", "AVX512BITALG"),
    ("avx512bw", "AVX512BW"),
    ("avx512cd", "AVX512CD"),
    ("avx512dq", "AVX512DQ"),
    ("avx512er", "AVX512ER"),
    ("avx512f", "AVX512F"),
    ("avx512ifma", "AVX512IFMA"),
    ("avx512pf", "AVX512PF"),
    ("avx512vbmi", "AVX512VBMI"),
    ("avx512vbmi2", "AVX512VBMI2"),
    ("avx512vl", "AVX512VL"),
    ("avx512vnni", "AVX512VNNI"),
    ("bmi1", "BMI"),
    ("bmi2", "BMI2"),
    ("f16c", "F16C"),
    ("fma", "FMA3"),
    ("fma4", "FMA4"),
    ("gfni", "AVX512GFNI"),
    ("mmx", "MMX"),
    ("mpx", "MPX"),
    ("pclmuldq", "CLMUL"),
    // Nova asks libvirt for `sse3`, a name that it does not have.
    ("pni", "SSE3"),
    ("sha-ni", "SHA"),
    ("sse", "SSE"),
    ("sse2", "SSE2"),
    ("sse4.1", "SSE41"),
    ("sse4.2", "SSE42"),
    ("sse4a", "SSE4A"),
    ("ssse3", "SSSE3"),
    ("svm", "SVM"),
    ("svm", "AMD_SVM"),
    ("tbm", "TBM"),
    ("vaes", "AVX512VAES"),
    ("vmx", "VMX"),
    ("vmx", "INTEL_VMX"),
    ("vpclmulqdq", "AVX512VPCLMULQDQ"),
    ("xop", "XOP"),
];

const HOST_ARCHITECTURES: &[&str] = &["aarch64", "i686", "ppc64", "ppc64le", "s390x", "x86_64"];

/// The programs that run guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hypervisor {
    /// How guests run.
    pub(crate) virt_type: VirtType,
    /// Whether guests have a screen (`[vnc] enabled`).
    pub(crate) has_screens: bool,
    /// Whether there is UEFI firmware that keeps no variables.
    pub(crate) has_stateless_firmware: bool,
    /// Whether it is QEMU, which all models of interfaces need.
    pub(crate) is_qemu: bool,
    /// libvirt's version, for example 9000000 for 9.0.0.
    pub(crate) libvirt: u32,
    /// QEMU's version, in the same form.
    pub(crate) emulator: u32,
}

/// All traits of a node. `features` are those of the processor that guests see, expanded; `domain` is empty if the
/// hypervisor does not tell.
pub(crate) fn traits(
    capabilities: &Capabilities,
    features: &BTreeSet<String>,
    domain: &DomainCapabilities,
    hypervisor: Hypervisor,
) -> BTreeSet<Trait> {
    let mut names = TraitCollector::default();
    // Features of other processors have the same names.
    let is_x86 = ["i686", "x86_64"].contains(&capabilities.arch.as_str());
    for (feature, end) in X86_FEATURES {
        names.add_if(is_x86 && features.contains(*feature), "HW_CPU_X86_", end);
    }
    names.add_if(capabilities.hyperthreading, "HW_CPU_", "HYPERTHREADING");
    names.listed(HOST_ARCHITECTURES, [capabilities.arch.as_str()], "HW_ARCH_");
    let architecture = GuestArchitecture::named(&capabilities.arch);
    if let Some(architecture) = architecture
        && hypervisor.is_qemu
        && capabilities.runs(hypervisor.virt_type)
    {
        of_guests(&mut names, domain, hypervisor, architecture);
    }
    names.0
}

/// What guests can have.
fn of_guests(
    names: &mut TraitCollector,
    domain: &DomainCapabilities,
    hypervisor: Hypervisor,
    architecture: GuestArchitecture,
) {
    let is_x86 = architecture == GuestArchitecture::X86_64;
    let end = architecture.as_str().to_ascii_uppercase();
    names.add_if(true, "COMPUTE_ARCH_", &end);
    let buses = domain.disk_buses.iter().map(String::as_str);
    names.listed(
        &DiskBus::ALL.map(DiskBus::as_str),
        buses,
        "COMPUTE_STORAGE_BUS_",
    );
    for model in InterfaceModel::ALL {
        let exists = match model {
            InterfaceModel::Igb => {
                hypervisor.libvirt >= IGB_LIBVIRT && hypervisor.emulator >= IGB_QEMU
            }
            _ => true,
        };
        let end = model.as_str().to_ascii_uppercase();
        names.add_if(exists, "COMPUTE_NET_VIF_MODEL_", &end);
    }
    // Each QEMU for x86 has a BIOS, which libvirt does not list.
    names.add_if(is_x86, "COMPUTE_FIRMWARE_", "BIOS");
    names.add_if(
        domain.firmwares.contains("efi"),
        "COMPUTE_FIRMWARE_",
        "UEFI",
    );
    names.add_if(domain.secure_boot, "COMPUTE_SECURITY_", "UEFI_SECURE_BOOT");
    let is_stateless = hypervisor.has_stateless_firmware;
    names.add_if(is_stateless, "COMPUTE_SECURITY_", "STATELESS_FIRMWARE");
    names.add_if(true, "COMPUTE_NET_", "VIRTIO_PACKED");
    let videos = domain.video_models.iter().map(String::as_str);
    names.listed(
        &VideoModel::ALL.map(VideoModel::as_str),
        videos.filter(|_| hypervisor.has_screens),
        "COMPUTE_GRAPHICS_MODEL_",
    );
    // Each guest can have no video card.
    names.add_if(true, "COMPUTE_GRAPHICS_MODEL_", "NONE");
    let has_width = is_x86 && hypervisor.libvirt >= ADDRESS_WIDTH_LIBVIRT;
    names.add_if(has_width, "COMPUTE_ADDRESS_SPACE_", "EMULATED");
    // Emulated processors have 40 bits, whatever the host has.
    let is_kvm = hypervisor.virt_type == VirtType::Kvm;
    names.add_if(has_width && is_kvm, "COMPUTE_ADDRESS_SPACE_", "PASSTHROUGH");
}

/// The first libvirt and QEMU with Intel's igb.
const IGB_LIBVIRT: u32 = 9_003_000;
const IGB_QEMU: u32 = 8_000_000;
/// The first libvirt that sets the width of physical addresses.
const ADDRESS_WIDTH_LIBVIRT: u32 = 8_007_000;

/// Traits collected so far.
#[derive(Default)]
struct TraitCollector(BTreeSet<Trait>);

impl TraitCollector {
    fn add_if(&mut self, holds: bool, start: &str, end: &str) {
        if holds {
            let name = format!("{start}{end}");
            self.0
                .insert(Trait::new(&name).expect("the tables here hold only a trait's characters"));
        }
    }

    /// The names in the table, in capitals.
    fn listed<'a>(
        &mut self,
        table: &[&str],
        words: impl IntoIterator<Item = &'a str>,
        start: &str,
    ) {
        for word in words {
            self.add_if(table.contains(&word), start, &word.to_ascii_uppercase());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::GuestKind;

    fn set(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn everything<'a>(table: &[(&'a str, &str)]) -> Vec<&'a str> {
        table.iter().map(|(word, _)| *word).collect()
    }

    fn shown(traits: &BTreeSet<Trait>) -> Vec<&str> {
        traits.iter().map(Trait::as_str).collect()
    }

    const NEW: Hypervisor = Hypervisor {
        virt_type: VirtType::Kvm,
        has_screens: true,
        has_stateless_firmware: true,
        is_qemu: true,
        libvirt: 11_000_000,
        emulator: 10_000_000,
    };

    fn x86_host() -> Capabilities {
        Capabilities {
            arch: "x86_64".to_owned(),
            hyperthreading: true,
            guests: vec![GuestKind {
                os_type: "hvm".to_owned(),
                arch: "x86_64".to_owned(),
                domain_types: set(&["kvm", "qemu"]),
            }],
            ..Capabilities::default()
        }
    }

    #[test]
    fn every_name_in_the_tables_makes_a_trait() {
        let domain = DomainCapabilities {
            disk_buses: set(&["fdc", "ide", "sata", "scsi", "usb", "virtio"]),
            firmwares: set(&["efi"]),
            secure_boot: true,
            video_models: set(&["cirrus", "none", "virtio", "ramfb"]),
            ..DomainCapabilities::default()
        };
        let all = traits(&x86_host(), &set(&everything(X86_FEATURES)), &domain, NEW);
        // Hyperthreading, two architectures, two firmwares, secure boot, stateless firmware, three video cards, packed rings,
        // two widths of addresses.
        let others = 13;
        let expected = X86_FEATURES.len() + DiskBus::ALL.len() + InterfaceModel::ALL.len() + others;
        assert_eq!(all.len(), expected, "{all:?}");
    }

    /// The name of another program would never be reported.
    #[test]
    fn each_feature_in_the_table_is_one_of_libvirts() {
        let known = std::fs::read_to_string("/usr/share/libvirt/cpu_map/x86_features.xml");
        let known = known.expect("libvirt0 is installed where this is built");
        for (feature, _) in X86_FEATURES {
            let element = format!("<feature name='{feature}'");
            assert!(known.contains(&element), "{feature}");
        }
    }

    #[test]
    fn only_what_is_there_is_reported_and_unknown_words_are_left_out() {
        let domain = DomainCapabilities {
            disk_buses: set(&["virtio", "sd"]),
            ..DomainCapabilities::default()
        };
        let not_qemu = Hypervisor {
            is_qemu: false,
            ..NEW
        };
        let features = set(&["vmx", "sse4.2", "new-thing"]);
        let host = Capabilities {
            hyperthreading: false,
            ..x86_host()
        };
        assert_eq!(
            shown(&traits(&host, &features, &domain, not_qemu)),
            [
                "HW_ARCH_X86_64",
                "HW_CPU_X86_INTEL_VMX",
                "HW_CPU_X86_SSE42",
                "HW_CPU_X86_VMX",
            ]
        );
        let none = traits(
            &Capabilities::default(),
            &BTreeSet::new(),
            &DomainCapabilities::default(),
            NEW,
        );
        assert!(none.is_empty());
    }

    #[test]
    fn a_host_of_aarch64_reports_nothing_that_only_x86_has() {
        let host = Capabilities {
            arch: "aarch64".to_owned(),
            guests: vec![GuestKind {
                arch: "aarch64".to_owned(),
                ..x86_host().guests[0].clone()
            }],
            ..x86_host()
        };
        let domain = DomainCapabilities {
            firmwares: set(&["efi"]),
            ..DomainCapabilities::default()
        };
        let all = traits(&host, &set(&["aes", "sha2"]), &domain, NEW);
        let all = shown(&all);
        for name in [
            "HW_ARCH_AARCH64",
            "COMPUTE_ARCH_AARCH64",
            "COMPUTE_FIRMWARE_UEFI",
        ] {
            assert!(all.contains(&name), "{name} in {all:?}");
        }
        let of_x86 = ["X86", "FIRMWARE_BIOS", "ADDRESS_SPACE"];
        let has = |part: &&str| all.iter().any(|name| name.contains(part));
        assert!(!of_x86.iter().any(has), "{all:?}");
    }

    #[test]
    fn guests_without_screens_have_no_video_card() {
        let domain = DomainCapabilities {
            video_models: set(&["virtio", "none"]),
            ..DomainCapabilities::default()
        };
        let of = |has_screens| {
            let hypervisor = Hypervisor { has_screens, ..NEW };
            let all = traits(&x86_host(), &BTreeSet::new(), &domain, hypervisor);
            let videos = all.iter().map(Trait::as_str);
            let videos = videos.filter_map(|it| it.strip_prefix("COMPUTE_GRAPHICS_MODEL_"));
            videos.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of(true), ["NONE", "VIRTIO"]);
        assert_eq!(of(false), ["NONE"]);
    }

    #[test]
    fn what_an_old_or_an_emulating_hypervisor_cannot_do_is_not_reported() {
        let of = |hypervisor| {
            let all = traits(
                &x86_host(),
                &BTreeSet::new(),
                &DomainCapabilities::default(),
                hypervisor,
            );
            let names = [
                "COMPUTE_ADDRESS_SPACE_EMULATED",
                "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
                "COMPUTE_NET_VIF_MODEL_E1000",
                "COMPUTE_NET_VIF_MODEL_IGB",
            ];
            names.map(|name| shown(&all).contains(&name))
        };
        assert_eq!(of(NEW), [true; 4]);
        let emulating = Hypervisor {
            virt_type: VirtType::Qemu,
            ..NEW
        };
        assert_eq!(of(emulating), [true, false, true, true]);
        let debian_12 = Hypervisor {
            libvirt: 9_000_000,
            emulator: 7_002_022,
            ..NEW
        };
        assert_eq!(of(debian_12), [true, true, true, false]);
        let ubuntu_22 = Hypervisor {
            libvirt: 8_000_000,
            emulator: 6_002_000,
            ..NEW
        };
        assert_eq!(of(ubuntu_22), [false, false, true, false]);
    }
}

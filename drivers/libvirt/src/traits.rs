//! The node's traits: features of its processor and capabilities of its hypervisor. Pure.
//!
//! Names are those of os-traits 3.9, and the mapping from libvirt's names is Nova's, so that a node keeps its traits
//! when it changes from one agent to the other.

use std::collections::BTreeSet;

use berth_model::Trait;

use crate::capabilities::Capabilities;
use crate::domain_capabilities::DomainCapabilities;

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
    ("sha-ni", "SHA"),
    ("sse", "SSE"),
    ("sse2", "SSE2"),
    ("sse3", "SSE3"),
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

/// libvirt's names of buses, and the ends of their traits after `COMPUTE_STORAGE_BUS_`; likewise below.
const STORAGE_BUSES: &[&str] = &[
    "fdc", "ide", "lxc", "sata", "scsi", "usb", "virtio", "uml", "xen",
];
const VIDEO_MODELS: &[&str] = &[
    "bochs", "cirrus", "gop", "none", "qxl", "vga", "virtio", "vmvga", "xen",
];
const GUEST_IOMMUS: &[&str] = &["intel", "smmuv3", "virtio"];
const EMULATED: &[&str] = &["aarch64", "ppc64le", "mipsel", "s390x", "riscv64", "x86_64"];
const HOST_ARCHITECTURES: &[&str] = &["aarch64", "i686", "ppc64", "ppc64le", "s390x", "x86_64"];
const TPM_MODELS: &[(&str, &str)] = &[("tpm-tis", "TIS"), ("tpm-crb", "CRB")];
const TPM_VERSIONS: &[(&str, &str)] = &[("1.2", "1_2"), ("2.0", "2_0")];
const FIRMWARES: &[(&str, &str)] = &[("bios", "BIOS"), ("efi", "UEFI")];

/// All traits of a node. `features` are the expanded features of the processor; `domain` is empty if the
/// hypervisor does not tell.
pub(crate) fn traits(
    capabilities: &Capabilities,
    features: &BTreeSet<String>,
    domain: &DomainCapabilities,
) -> BTreeSet<Trait> {
    let mut names = TraitCollector::default();
    for (feature, end) in X86_FEATURES {
        names.add_if(features.contains(*feature), "HW_CPU_X86_", end);
    }
    names.add_if(capabilities.hyperthreading, "HW_CPU_", "HYPERTHREADING");
    names.listed(HOST_ARCHITECTURES, [&capabilities.arch], "HW_ARCH_");
    let guests = capabilities.guests.iter().map(|kind| &kind.arch);
    names.listed(EMULATED, guests, "COMPUTE_ARCH_");
    names.listed(STORAGE_BUSES, &domain.disk_buses, "COMPUTE_STORAGE_BUS_");
    names.listed(
        VIDEO_MODELS,
        &domain.video_models,
        "COMPUTE_GRAPHICS_MODEL_",
    );
    names.listed(GUEST_IOMMUS, &domain.iommu_models, "COMPUTE_VIOMMU_MODEL_");
    names.mapped(TPM_MODELS, &domain.tpm_models, "COMPUTE_SECURITY_TPM_");
    names.mapped(TPM_VERSIONS, &domain.tpm_versions, "COMPUTE_SECURITY_TPM_");
    names.mapped(FIRMWARES, &domain.firmwares, "COMPUTE_FIRMWARE_");
    names.add_if(domain.secure_boot, "COMPUTE_SECURITY_", "UEFI_SECURE_BOOT");
    names.add_if(
        domain.memory_backings.contains("file"),
        "COMPUTE_",
        "MEM_BACKING_FILE",
    );
    names.0
}

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
        words: impl IntoIterator<Item = &'a String>,
        start: &str,
    ) {
        for word in words {
            self.add_if(
                table.contains(&word.as_str()),
                start,
                &word.to_ascii_uppercase(),
            );
        }
    }

    fn mapped(&mut self, table: &[(&str, &str)], words: &BTreeSet<String>, start: &str) {
        for (word, end) in table {
            self.add_if(words.contains(*word), start, end);
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

    #[test]
    fn every_name_in_the_tables_makes_a_trait() {
        let capabilities = Capabilities {
            arch: "x86_64".to_owned(),
            hyperthreading: true,
            guests: EMULATED
                .iter()
                .map(|arch| GuestKind {
                    os_type: "hvm".to_owned(),
                    arch: (*arch).to_owned(),
                    domain_types: BTreeSet::new(),
                })
                .collect(),
            ..Capabilities::default()
        };
        let domain = DomainCapabilities {
            disk_buses: set(STORAGE_BUSES),
            video_models: set(VIDEO_MODELS),
            tpm_models: set(&everything(TPM_MODELS)),
            tpm_versions: set(&everything(TPM_VERSIONS)),
            firmwares: set(&everything(FIRMWARES)),
            secure_boot: true,
            iommu_models: set(GUEST_IOMMUS),
            memory_backings: set(&["file"]),
        };
        let all = traits(&capabilities, &set(&everything(X86_FEATURES)), &domain);
        let expected = X86_FEATURES.len()
            + EMULATED.len()
            + STORAGE_BUSES.len()
            + VIDEO_MODELS.len()
            + TPM_MODELS.len()
            + TPM_VERSIONS.len()
            + FIRMWARES.len()
            + GUEST_IOMMUS.len()
            + 4;
        assert_eq!(all.len(), expected);
    }

    #[test]
    fn only_what_is_there_is_reported_and_unknown_words_are_left_out() {
        let capabilities = Capabilities {
            arch: "x86_64".to_owned(),
            ..Capabilities::default()
        };
        let domain = DomainCapabilities {
            disk_buses: set(&["virtio", "sd"]),
            ..DomainCapabilities::default()
        };
        let some = traits(
            &capabilities,
            &set(&["vmx", "sse4.2", "new-thing"]),
            &domain,
        );
        assert_eq!(
            shown(&some),
            [
                "COMPUTE_STORAGE_BUS_VIRTIO",
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
        );
        assert!(none.is_empty());
    }
}

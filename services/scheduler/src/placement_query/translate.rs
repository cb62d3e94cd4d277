//! Translates flavor and image into request groups.

use super::constraints::Constraints;
use super::groups::{ResourceGroup, ResourceGroups};
use super::{PlacementQueryError, standard};
use crate::request::{
    CpuCounts, CpuThreadPolicy, FlavorAndImage, NumaAffinityPolicy, RequestSpec,
    pci_numa_affinity_policy,
};

/// The resource class under which dedicated CPUs are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuClass {
    /// Dedicated CPUs as PCPU.
    Pcpu,
    /// Dedicated CPUs as VCPU, of hosts that do not report PCPU.
    Vcpu,
}

/// The request groups and some facts about them.
pub(super) struct TranslatedSpecs {
    pub(super) groups: ResourceGroups,
    /// The number of groups with a suffix that the flavor names.
    pub(super) suffixed_by_flavor: usize,
    /// Whether the instance's CPUs are dedicated.
    pub(super) is_pinned: bool,
}

/// The groups of flavor, image and other sources.
pub(super) fn groups(
    request: &RequestSpec,
    outside: &[(String, ResourceGroup)],
    class: CpuClass,
) -> Result<TranslatedSpecs, PlacementQueryError> {
    let mut groups = ResourceGroups::default();
    for (name, value) in &request.flavor.extra_specs {
        groups.add_spec(name, value);
    }
    let suffixed_by_flavor = groups.suffixed();
    let image = request.image.as_ref();
    let properties = image.map(|image| image.properties.iter());
    for (name, value) in properties.into_iter().flatten() {
        if let Some(name) = name.strip_prefix("trait:").filter(|_| value == "required") {
            groups.unsuffixed().require(name);
        }
    }
    let is_pinned = class == CpuClass::Pcpu && pin(&mut groups, request)?;
    for (suffix, group) in outside {
        let old = groups.by_suffix.insert(suffix.clone(), group.clone());
        if old.is_some() || suffix.is_empty() {
            return Err(PlacementQueryError::SuffixTwice {
                suffix: suffix.clone(),
            });
        }
    }
    amounts(&mut groups, request);
    features(groups.unsuffixed(), request)?;
    groups.strip();
    Ok(TranslatedSpecs {
        groups,
        suffixed_by_flavor,
        is_pinned,
    })
}

/// Replaces VCPU by PCPU for dedicated CPUs. Returns whether the instance is pinned.
fn pin(groups: &mut ResourceGroups, request: &RequestSpec) -> Result<bool, PlacementQueryError> {
    let pinning = CpuCounts::new(&request.flavor, request.image.as_ref())?;
    let group = groups.unsuffixed();
    if let Some(shared) = pinning.shared {
        group.add_resource("VCPU", shared);
    }
    if pinning.is_whole || pinning.shared.is_some() {
        group.add_resource("PCPU", pinning.dedicated);
    }
    let threads = match pinning.threads {
        Some(CpuThreadPolicy::Isolate) => Some(&mut group.forbidden_traits),
        Some(CpuThreadPolicy::Require) => Some(&mut group.required_traits),
        Some(CpuThreadPolicy::Prefer) | None => None,
    };
    if let Some(traits) = threads {
        traits.insert("HW_CPU_HYPERTHREADING".to_owned());
    }
    Ok(pinning.is_whole)
}

/// Adds the flavor's amounts, except for classes that its extra specs set.
fn amounts(groups: &mut ResourceGroups, request: &RequestSpec) {
    let flavor = &request.flavor;
    if !groups.has("VCPU") && !groups.has("PCPU") {
        groups.unsuffixed().add_resource("VCPU", flavor.vcpus);
    }
    if !groups.has("MEMORY_MB") {
        groups
            .unsuffixed()
            .add_resource("MEMORY_MB", flavor.memory_mb);
    }
    let swap_gb = flavor.swap.saturating_add(1023).div_euclid(1024);
    let root_gb = if request.is_bfv { 0 } else { flavor.root_gb };
    let disk = flavor
        .ephemeral_gb
        .saturating_add(swap_gb)
        .saturating_add(root_gb);
    if disk != 0 && !groups.has("DISK_GB") {
        groups.unsuffixed().add_resource("DISK_GB", disk);
    }
}

/// Adds the traits that the request requires of a host.
fn features(group: &mut ResourceGroup, request: &RequestSpec) -> Result<(), PlacementQueryError> {
    let (flavor, image) = (&request.flavor, request.image.as_ref());
    let source = Constraints(FlavorAndImage { flavor, image });
    if let Some(name) = source.memory_encryption()? {
        group.add_resource("MEM_ENCRYPTION_CONTEXT", 1);
        group.require(name);
    }
    let mut pmem = std::collections::BTreeMap::new();
    for label in source.pmem() {
        let class = standard::custom(&format!("PMEM_NAMESPACE_{label}"));
        *pmem.entry(class).or_insert(0) += 1;
    }
    group.resources.extend(pmem);
    if let Some((version, model)) = source.tpm()? {
        group.require(match model {
            "tpm-crb" => "COMPUTE_SECURITY_TPM_CRB",
            _ => "COMPUTE_SECURITY_TPM_TIS",
        });
        group.require(match version {
            "2.0" => "COMPUTE_SECURITY_TPM_2_0",
            _ => "COMPUTE_SECURITY_TPM_1_2",
        });
    }
    if pci_numa_affinity_policy(flavor, image)? == Some(NumaAffinityPolicy::Socket) {
        group.require("COMPUTE_SOCKET_PCI_NUMA_AFFINITY");
    }
    let boots = ["required", "disabled", "optional"];
    if source.word("os", "secure_boot", &boots)? == Some("required") {
        group.require("COMPUTE_SECURITY_UEFI_SECURE_BOOT");
    }
    match source.word("hw", "maxphysaddr_mode", &["passthrough", "emulate"])? {
        Some("passthrough") => group.require("COMPUTE_ADDRESS_SPACE_PASSTHROUGH"),
        Some(_) => group.require("COMPUTE_ADDRESS_SPACE_EMULATED"),
        None => {}
    }
    if source.has_stateless_firmware() {
        group.require("COMPUTE_SECURITY_STATELESS_FIRMWARE");
    }
    Ok(())
}

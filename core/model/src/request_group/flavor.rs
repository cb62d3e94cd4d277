//! Converts a flavor and an image to request groups, by the rules of Nova's ResourceRequest (34.0.0) and of the pre-filters that need only
//! flavor and image. NUMA placement (`hw:numa_nodes`, `hw:mem_page_size`) is not part of it: Placement does not know the cells of a node,
//! so the agent chooses them.

use std::collections::{BTreeMap, BTreeSet};

use super::{GroupPolicy, GroupSuffix, RequestGroups};
use crate::{MemoryEncryption, ResourceClass, Trait, TraitDemand};

/// The size of an instance, and its extra specs: what Nova's ResourceRequest reads of a flavor. Flavors travel in the
/// guest API's form (`FlavorBody` of `core/wire`), which has a name and no swap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flavor {
    /// Number of virtual CPUs of the instance.
    pub vcpus: u32,
    /// Memory of the instance in MiB.
    pub memory_mb: u64,
    /// Root disk in GiB; 0 if the instance boots from a volume.
    pub root_gb: u64,
    /// Ephemeral disk in GiB.
    pub ephemeral_gb: u64,
    /// Swap disk in MiB.
    pub swap_mb: u64,
    /// Extra specs of the flavor by key, for example `resources:VGPU`.
    pub extra_specs: BTreeMap<String, String>,
}

/// Flavor and image contradict each other, or a policy is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlavorError {
    /// The value is unknown.
    #[error("{key}: {value:?} is not known; {expected} is")]
    Value {
        /// The extra spec or image property.
        key: String,
        /// The value that is not known.
        value: String,
        /// The known values, as text for the error.
        expected: &'static str,
    },
    /// The image requires dedicated CPUs, and the flavor forbids them.
    #[error(
        "hw_cpu_policy: the image may not ask for {image} CPUs with a flavor of hw:cpu_policy {flavor}"
    )]
    PinningForbidden {
        /// The value of `hw:cpu_policy` of the flavor.
        flavor: &'static str,
        /// The policy of the image.
        image: &'static str,
    },
    /// Memory encryption needs UEFI.
    #[error("hw:mem_encryption: the image needs hw_firmware_type uefi")]
    EncryptionWithoutUefi,
}

/// An invalid extra spec. Nova skips it with a line in its log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct SkippedSpec {
    /// The key of the skipped extra spec.
    pub key: String,
    /// The problem, and what would be right.
    pub reason: String,
}

/// The result of converting a flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorGroups {
    /// The request groups of the flavor and the image.
    pub groups: RequestGroups,
    /// Extra specs that were skipped. A boot must refuse them: an instance without a trait of its flavor would be wrong.
    pub skipped: Vec<SkippedSpec>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CpuPolicySpec {
    Shared,
    Dedicated,
    Mixed,
}

impl CpuPolicySpec {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Dedicated => "dedicated",
            Self::Mixed => "mixed",
        }
    }
}

type Specs = BTreeMap<String, String>;

impl RequestGroups {
    /// The groups of a flavor with an image of these properties. [`RequestGroups::with_device_profile`] adds those of a
    /// device profile. Fails if the flavor contradicts itself or the image.
    pub fn of_flavor(flavor: &Flavor, image: &Specs) -> Result<FlavorGroups, FlavorError> {
        let mut reading = FlavorParser {
            flavor,
            image,
            groups: Self::default(),
            given: BTreeSet::new(),
            skipped: Vec::new(),
        };
        reading.extra_specs();
        reading.groups.of_flavor = reading.groups.suffixed.len();
        reading.image_traits();
        reading.processors()?;
        reading.memory_and_disk();
        reading.qualities()?;
        reading.of_the_root();
        let groups = std::iter::once(&mut reading.groups.unsuffixed);
        for group in groups.chain(reading.groups.suffixed.values_mut()) {
            group.resources.retain(|_, amount| *amount > 0);
        }
        Ok(FlavorGroups {
            groups: reading.groups,
            skipped: reading.skipped,
        })
    }
}

struct FlavorParser<'a> {
    flavor: &'a Flavor,
    image: &'a Specs,
    groups: RequestGroups,
    /// The classes in `resources:` of the group without a suffix. They replace the amounts of the flavor, also with 0.
    given: BTreeSet<ResourceClass>,
    skipped: Vec<SkippedSpec>,
}

impl FlavorParser<'_> {
    fn spec(&self, key: &str) -> Option<&str> {
        self.flavor.extra_specs.get(key).map(String::as_str)
    }

    fn property(&self, key: &str) -> Option<&str> {
        self.image.get(key).map(String::as_str)
    }

    /// The value of the flavor, else that of the image.
    fn either(&self, spec: &str, property: &str) -> Option<&str> {
        self.spec(spec).or_else(|| self.property(property))
    }

    fn require(&mut self, name: &'static str) {
        self.groups.unsuffixed.required.insert(Trait::known(name));
    }

    fn require_of_root(&mut self, name: &'static str) {
        self.groups.root_required.insert(Trait::known(name));
    }

    fn skip(&mut self, key: &str, reason: impl ToString) {
        self.skipped.push(SkippedSpec {
            key: key.to_owned(),
            reason: reason.to_string(),
        });
    }

    fn extra_specs(&mut self) {
        for (key, value) in &self.flavor.extra_specs {
            if key == "group_policy" {
                match value.as_str() {
                    "none" => self.groups.policy = Some(GroupPolicy::None),
                    "isolate" => self.groups.policy = Some(GroupPolicy::Isolate),
                    other => self.skip(key, format!("{other:?} is neither none nor isolate")),
                }
                continue;
            }
            let Some((head, name)) = key.split_once(':') else {
                continue;
            };
            let read = if let Some(suffix) = head.strip_prefix("resources") {
                self.resource(suffix, name, value)
            } else if let Some(suffix) = head.strip_prefix("trait") {
                self.quality(suffix, name, value)
            } else {
                Ok(())
            };
            if let Err(reason) = read {
                self.skip(key, reason);
            }
        }
    }

    fn resource(&mut self, suffix: &str, name: &str, amount: &str) -> Result<(), String> {
        let class = ResourceClass::new(name).map_err(|error| error.to_string())?;
        let amount: u32 = amount.trim().parse().map_err(|_| {
            format!("{amount:?} is not an amount; expected a whole number, 0 or more")
        })?;
        if suffix.is_empty() {
            self.given.insert(class.clone());
        }
        let group = self.group(suffix)?;
        group.resources.insert(class, amount.into());
        Ok(())
    }

    fn quality(&mut self, suffix: &str, name: &str, value: &str) -> Result<(), String> {
        let name = Trait::new(name).map_err(|error| error.to_string())?;
        let demand = match value {
            "required" => TraitDemand::Required,
            "forbidden" => TraitDemand::Forbidden,
            other => return Err(format!("{other:?} is neither required nor forbidden")),
        };
        self.group(suffix)?.demand(name, demand);
        Ok(())
    }

    fn group(&mut self, suffix: &str) -> Result<&mut super::RequestGroup, String> {
        if suffix.is_empty() {
            return Ok(&mut self.groups.unsuffixed);
        }
        let suffix = GroupSuffix::new(suffix).map_err(|error| error.to_string())?;
        Ok(self.groups.suffixed.entry(suffix).or_default())
    }

    fn image_traits(&mut self) {
        let traits = self.image.iter().filter_map(|(key, value)| {
            let name = Trait::new(key.strip_prefix("trait:")?).ok()?;
            (value == "required").then_some(name)
        });
        let traits: Vec<_> = traits.collect();
        self.groups.unsuffixed.required.extend(traits);
    }

    /// The amount of the flavor, unless `resources:` has the class.
    fn own(&mut self, class: ResourceClass, amount: u64) {
        if !self.given.contains(&class) {
            self.groups.unsuffixed.resources.insert(class, amount);
        }
    }

    fn processors(&mut self) -> Result<(), FlavorError> {
        let vcpus = u64::from(self.flavor.vcpus);
        let emulator = u64::from(self.spec("hw:emulator_threads_policy") == Some("isolate"));
        match self.cpu_policy()? {
            CpuPolicySpec::Shared => self.own(ResourceClass::VCPU, vcpus),
            CpuPolicySpec::Dedicated => self.own(ResourceClass::PCPU, vcpus + emulator),
            CpuPolicySpec::Mixed => {
                let mask = self.spec("hw:cpu_dedicated_mask").unwrap_or_default();
                let dedicated = dedicated(mask, vcpus).ok_or_else(|| FlavorError::Value {
                    key: "hw:cpu_dedicated_mask".to_owned(),
                    value: mask.to_owned(),
                    expected: "a set of the guest's CPUs, some and not all (0-1, or ^2)",
                })?;
                self.own(ResourceClass::PCPU, dedicated + emulator);
                self.own(ResourceClass::VCPU, vcpus - dedicated);
            }
        }
        match self.either("hw:cpu_thread_policy", "hw_cpu_thread_policy") {
            Some("isolate") => {
                let hyperthreading = Trait::known("HW_CPU_HYPERTHREADING");
                self.groups.unsuffixed.forbidden.insert(hyperthreading);
            }
            Some("require") => self.require("HW_CPU_HYPERTHREADING"),
            Some("prefer") | None => {}
            Some(other) => {
                return Err(unknown(
                    "hw:cpu_thread_policy",
                    other,
                    "prefer, isolate or require",
                ));
            }
        }
        Ok(())
    }

    fn cpu_policy(&self) -> Result<CpuPolicySpec, FlavorError> {
        let read = |key: &str, word: Option<&str>| match word {
            None => Ok(None),
            Some("shared") => Ok(Some(CpuPolicySpec::Shared)),
            Some("dedicated") => Ok(Some(CpuPolicySpec::Dedicated)),
            Some("mixed") => Ok(Some(CpuPolicySpec::Mixed)),
            Some(other) => Err(unknown(key, other, "shared, dedicated or mixed")),
        };
        let flavor = read("hw:cpu_policy", self.spec("hw:cpu_policy"))?;
        let image = read("hw_cpu_policy", self.property("hw_cpu_policy"))?;
        let forbidden = |flavor: CpuPolicySpec, image: CpuPolicySpec| {
            let (flavor, image) = (flavor.as_str(), image.as_str());
            Err(FlavorError::PinningForbidden { flavor, image })
        };
        match (flavor, image) {
            (Some(CpuPolicySpec::Shared), Some(image)) if image != CpuPolicySpec::Shared => {
                forbidden(CpuPolicySpec::Shared, image)
            }
            (Some(CpuPolicySpec::Mixed), Some(CpuPolicySpec::Dedicated)) => {
                forbidden(CpuPolicySpec::Mixed, CpuPolicySpec::Dedicated)
            }
            (Some(policy), _) | (None, Some(policy)) => Ok(policy),
            (None, None) => Ok(CpuPolicySpec::Shared),
        }
    }

    fn memory_and_disk(&mut self) {
        let flavor = self.flavor;
        self.own(ResourceClass::MEMORY_MB, flavor.memory_mb);
        let swap_gb = flavor.swap_mb.div_ceil(1024);
        let disk = flavor.root_gb.saturating_add(flavor.ephemeral_gb);
        self.own(ResourceClass::DISK_GB, disk.saturating_add(swap_gb));
    }

    fn qualities(&mut self) -> Result<(), FlavorError> {
        self.encryption()?;
        self.persistent_memory();
        let uefi = self.property("hw_firmware_type") == Some("uefi");
        if let Some(version) = self.either("hw:tpm_version", "hw_tpm_version") {
            let version = match version {
                "1.2" => "COMPUTE_SECURITY_TPM_1_2",
                "2.0" => "COMPUTE_SECURITY_TPM_2_0",
                other => return Err(unknown("hw:tpm_version", other, "1.2 or 2.0")),
            };
            let model = match self.either("hw:tpm_model", "hw_tpm_model") {
                None | Some("tpm-tis") => "COMPUTE_SECURITY_TPM_TIS",
                Some("tpm-crb") => "COMPUTE_SECURITY_TPM_CRB",
                Some(other) => return Err(unknown("hw:tpm_model", other, "tpm-tis or tpm-crb")),
            };
            self.require(version);
            self.require(model);
            match self.spec("hw:tpm_secret_security") {
                Some("user") => self.require_of_root("COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"),
                Some("host") => self.require_of_root("COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST"),
                Some("deployment") => {
                    self.require_of_root("COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT");
                }
                Some(_) | None => {}
            }
        }
        if self.either("hw:pci_numa_affinity_policy", "hw_pci_numa_affinity_policy")
            == Some("socket")
        {
            self.require("COMPUTE_SOCKET_PCI_NUMA_AFFINITY");
        }
        if self.either("os:secure_boot", "os_secure_boot") == Some("required") {
            self.require("COMPUTE_SECURITY_UEFI_SECURE_BOOT");
        }
        match self.either("hw:maxphysaddr_mode", "hw_maxphysaddr_mode") {
            Some("passthrough") => self.require("COMPUTE_ADDRESS_SPACE_PASSTHROUGH"),
            Some("emulate") => self.require("COMPUTE_ADDRESS_SPACE_EMULATED"),
            Some(_) | None => {}
        }
        if uefi && self.property("hw_firmware_stateless").is_some_and(is_true) {
            self.require("COMPUTE_SECURITY_STATELESS_FIRMWARE");
        }
        Ok(())
    }

    fn encryption(&mut self) -> Result<(), FlavorError> {
        if !self
            .either("hw:mem_encryption", "hw_mem_encryption")
            .is_some_and(is_true)
        {
            return Ok(());
        }
        if self.property("hw_firmware_type") != Some("uefi") {
            return Err(FlavorError::EncryptionWithoutUefi);
        }
        let word = self.either("hw:mem_encryption_model", "hw_mem_encryption_model");
        let word = word.unwrap_or(MemoryEncryption::AmdSev.as_str());
        let mut models = MemoryEncryption::ALL.into_iter();
        let Some(model) = models.find(|model| model.as_str() == word) else {
            let expected = "amd-sev or amd-sev-es";
            return Err(unknown("hw:mem_encryption_model", word, expected));
        };
        let required = &mut self.groups.unsuffixed.required;
        required.insert(model.required_trait());
        self.own(ResourceClass::MEM_ENCRYPTION_CONTEXT, 1);
        Ok(())
    }

    fn persistent_memory(&mut self) {
        let Some(labels) = self.spec("hw:pmem").map(str::to_owned) else {
            return;
        };
        for label in labels.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let upper = |c: char| match c {
                c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
                _ => '_',
            };
            let label: String = label.chars().map(upper).collect();
            match ResourceClass::new(&format!("CUSTOM_PMEM_NAMESPACE_{label}")) {
                Ok(class) => {
                    let amounts = &mut self.groups.unsuffixed.resources;
                    *amounts.entry(class).or_insert(0) += 1;
                }
                Err(error) => self.skip("hw:pmem", error),
            }
        }
    }

    /// Traits that the host itself must have.
    fn of_the_root(&mut self) {
        if self.spec("accel:device_profile").is_some() {
            self.require_of_root("COMPUTE_ACCELERATORS");
        }
        let packed = self.either("hw:virtio_packed_ring", "hw_virtio_packed_ring");
        if packed.is_some_and(is_true) {
            self.require_of_root("COMPUTE_NET_VIRTIO_PACKED");
        }
        if self.either("hw:sound_model", "hw_sound_model") == Some("virtio") {
            self.require_of_root("COMPUTE_SOUND_MODEL_VIRTIO");
        }
        let encrypted = self.either("hw:ephemeral_encryption", "hw_ephemeral_encryption");
        if encrypted.is_some_and(is_true) {
            self.require_of_root("COMPUTE_EPHEMERAL_ENCRYPTION");
            let format = "hw:ephemeral_encryption_format";
            if self.either(format, "hw_ephemeral_encryption_format") == Some("luks") {
                self.require_of_root("COMPUTE_EPHEMERAL_ENCRYPTION_LUKS");
            }
        }
    }
}

fn unknown(key: &str, value: &str, expected: &'static str) -> FlavorError {
    FlavorError::Value {
        key: key.to_owned(),
        value: value.chars().take(80).collect(),
        expected,
    }
}

fn is_true(text: &str) -> bool {
    matches!(
        text.trim().to_ascii_lowercase().as_str(),
        "1" | "t" | "true" | "on" | "y" | "yes"
    )
}

/// How many CPUs a mask selects: `0-1,4`, or all except some (`^2`). `None` if the mask is invalid, or selects none or all.
fn dedicated(mask: &str, vcpus: u64) -> Option<u64> {
    const MOST: u64 = 4096;
    if vcpus > MOST {
        return None;
    }
    let (mut named, mut left_out) = (BTreeSet::new(), BTreeSet::new());
    for part in mask.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (part, set) = match part.strip_prefix('^') {
            Some(rest) => (rest, &mut left_out),
            None => (part, &mut named),
        };
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= vcpus {
            return None;
        }
        set.extend(first..=last);
    }
    if named.is_empty() {
        named.extend(0..vcpus);
    }
    let count = u64::try_from(named.difference(&left_out).count()).ok()?;
    (count > 0 && count < vcpus).then_some(count)
}

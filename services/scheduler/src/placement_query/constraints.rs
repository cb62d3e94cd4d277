//! The constraints of flavor and image on a host, other than cells and CPUs.

use std::ops::Deref;

use super::PlacementQueryError;
use crate::numbers;
use crate::request::FlavorAndImage;

/// The values of `hw:mem_encryption_model`.
pub const MEMORY_ENCRYPTION_MODELS: [&str; 4] = [SEV, SEV_ES, SNP, TDX];
const SEV: &str = "amd-sev";
const SEV_ES: &str = "amd-sev-es";
const SNP: &str = "amd-sev-snp";
const TDX: &str = "intel-tdx";

type ConstraintResult<T> = Result<Option<T>, PlacementQueryError>;

/// Extra specs and image properties that Placement constrains hosts by.
#[derive(Clone, Copy)]
pub(super) struct Constraints<'a>(pub(super) FlavorAndImage<'a>);

impl<'a> Deref for Constraints<'a> {
    type Target = FlavorAndImage<'a>;

    fn deref(&self) -> &FlavorAndImage<'a> {
        &self.0
    }
}

impl<'a> Constraints<'a> {
    /// One of the allowed values. Flavor and image must agree if both set one.
    pub(super) fn word(
        self,
        prefix: &str,
        name: &str,
        words: &[&'static str],
    ) -> ConstraintResult<&'static str> {
        let (spec, property) = (format!("{prefix}:{name}"), format!("{prefix}_{name}"));
        let value = match (self.spec(&spec), self.property(&property)) {
            (Some(flavor), Some(image)) if flavor != image => {
                return Err(conflict(spec, flavor, property, image));
            }
            (flavor, image) => flavor.or(image),
        };
        let Some(value) = value else { return Ok(None) };
        match words.iter().find(|word| **word == value) {
            Some(word) => Ok(Some(*word)),
            None => Err(PlacementQueryError::Unknown {
                name: spec,
                value: value.to_owned(),
                words: words.to_vec(),
            }),
        }
    }

    /// True if flavor or image sets the flag. It is an error if they disagree.
    pub(super) fn flag(self, name: &str) -> Result<bool, PlacementQueryError> {
        let (spec, property) = (format!("hw:{name}"), format!("hw_{name}"));
        let (flavor, image) = (self.spec(&spec), self.property(&property));
        match (flavor, image) {
            (Some(flavor), Some(image)) if numbers::is_true(flavor) != numbers::is_true(image) => {
                Err(conflict(spec, flavor, property, image))
            }
            (flavor, image) => Ok(flavor.or(image).is_some_and(numbers::is_true)),
        }
    }

    /// The version and the model of the TPM.
    pub(super) fn tpm(self) -> ConstraintResult<(&'static str, &'static str)> {
        let Some(version) = self.word("hw", "tpm_version", &["1.2", "2.0"])? else {
            return Ok(None);
        };
        let model = self.word("hw", "tpm_model", &["tpm-tis", "tpm-crb"])?;
        match model {
            Some("tpm-crb") if version != "2.0" => Err(PlacementQueryError::TpmCrbNeedsVersion2),
            model => Ok(Some((version, model.unwrap_or("tpm-tis")))),
        }
    }

    /// The trait for the requested kind of memory encryption.
    pub(super) fn memory_encryption(self) -> ConstraintResult<&'static str> {
        if !self.flag("mem_encryption")? {
            return Ok(None);
        }
        let model = self.word("hw", "mem_encryption_model", &MEMORY_ENCRYPTION_MODELS)?;
        let needs = |property, wanted| {
            let has = self
                .property(property)
                .unwrap_or("no such property")
                .to_owned();
            Err(PlacementQueryError::MemoryEncryptionNeeds {
                property,
                wanted,
                has,
            })
        };
        if self.property("hw_firmware_type") != Some("uefi") {
            return needs("hw_firmware_type", "uefi");
        }
        let machine = self.property("hw_machine_type");
        if machine.is_some_and(|machine| !machine.contains("q35")) {
            return needs("hw_machine_type", "q35");
        }
        match model.unwrap_or(SEV) {
            SEV => Ok(Some("HW_CPU_X86_AMD_SEV")),
            SNP | TDX if !self.has_stateless_firmware() => needs("hw_firmware_stateless", "true"),
            TDX if self.property("hw_video_model") != Some("none") => {
                needs("hw_video_model", "none")
            }
            SNP => Ok(Some("HW_CPU_X86_AMD_SEV_SNP")),
            TDX => Ok(Some("HW_CPU_X86_INTEL_TDX")),
            _ => Ok(Some("HW_CPU_X86_AMD_SEV_ES")),
        }
    }

    /// Whether the firmware keeps no state. Only UEFI firmware can be stateless.
    pub(super) fn has_stateless_firmware(self) -> bool {
        let is_stateless = self.property("hw_firmware_stateless");
        is_stateless.is_some_and(numbers::is_true)
            && self.property("hw_firmware_type") == Some("uefi")
    }

    /// The labels of persistent memory.
    pub(super) fn pmem(self) -> impl Iterator<Item = &'a str> {
        let labels = self.spec("hw:pmem").unwrap_or_default().split(',');
        labels.map(str::trim).filter(|label| !label.is_empty())
    }
}

fn conflict(spec: String, flavor: &str, property: String, image: &str) -> PlacementQueryError {
    PlacementQueryError::Conflict {
        spec,
        flavor: flavor.to_owned(),
        property,
        image: image.to_owned(),
    }
}

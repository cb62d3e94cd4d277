//! Traits: the qualitative names, standard (os-traits) or `CUSTOM_`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A text that cannot name a trait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a trait: 1 to 255 of A-Z, 0-9 and _ are allowed")]
pub struct TraitError {
    name: String,
}

/// A trait: upper-case letters, digits and underscores, 1 to 255. Which standard traits exist is Placement's to say
/// (os-traits grows), so only the form is checked here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trait(Cow<'static, str>);

impl Trait {
    /// The provider is a compute node.
    pub const COMPUTE_NODE: Trait = Trait(Cow::Borrowed("COMPUTE_NODE"));
    /// The compute service of the node is disabled: schedulers pass it over.
    pub const COMPUTE_STATUS_DISABLED: Trait = Trait(Cow::Borrowed("COMPUTE_STATUS_DISABLED"));
    /// The provider shares its inventory with all members of its aggregates.
    pub const MISC_SHARES_VIA_AGGREGATE: Trait = Trait(Cow::Borrowed("MISC_SHARES_VIA_AGGREGATE"));
    /// The provider is the compute service's to write.
    pub const OWNER_NOVA: Trait = Trait(Cow::Borrowed("OWNER_NOVA"));
    /// The provider is Cyborg's to write.
    pub const OWNER_CYBORG: Trait = Trait(Cow::Borrowed("OWNER_CYBORG"));
    /// The provider was made by Berth (used where `OWNER_NOVA` is switched off).
    pub const CUSTOM_OWNER_BERTH: Trait = Trait(Cow::Borrowed("CUSTOM_OWNER_BERTH"));
    /// The provider is a NUMA cell of its root.
    pub const HW_NUMA_ROOT: Trait = Trait(Cow::Borrowed("HW_NUMA_ROOT"));

    /// Checks the name's form.
    ///
    /// # Errors
    /// The name is empty, longer than 255, or has other characters than `A-Z`, `0-9`, `_`.
    pub fn new(name: &str) -> Result<Self, TraitError> {
        let fits = (1..=255).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if fits {
            Ok(Self(Cow::Owned(name.to_owned())))
        } else {
            Err(TraitError {
                name: name.chars().take(80).collect(),
            })
        }
    }

    /// A trait known when the program is built.
    ///
    /// # Panics
    /// At build time, when used in a constant, if the name's form is wrong.
    #[must_use]
    pub const fn known(name: &'static str) -> Self {
        let bytes = name.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            assert!(
                bytes[i].is_ascii_uppercase() || bytes[i].is_ascii_digit() || bytes[i] == b'_',
                "a trait has only A-Z, 0-9 and _"
            );
            i += 1;
        }
        Self(Cow::Borrowed(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the trait starts with `CUSTOM_` and so must be made in Placement before its first use.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.0.starts_with("CUSTOM_")
    }
}

impl fmt::Display for Trait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Trait {
    type Err = TraitError;

    fn from_str(text: &str) -> Result<Self, TraitError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_form_is_checked() {
        assert!(Trait::new("HW_CPU_X86_AVX512F").is_ok());
        for bad in ["", "hw_cpu", "HW-CPU", "É"] {
            assert!(Trait::new(bad).is_err(), "{bad}");
        }
    }
}

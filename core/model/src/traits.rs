//! Traits: the qualitative names, standard (os-traits) or `CUSTOM_`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::symbol::{Symbol, shortened};

/// The text is not the name of a trait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a trait: 1 to 255 of A-Z, 0-9 and _ are allowed")]
pub struct TraitError {
    name: String,
}

/// A trait: upper-case letters, digits and underscores, 1 to 255. Only the form is checked, because os-traits
/// grows and Placement knows which standard traits exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trait(Symbol);

impl Trait {
    /// The provider is a compute node.
    pub const COMPUTE_NODE: Trait = Trait(Symbol(Cow::Borrowed("COMPUTE_NODE")));
    /// The compute service of the node is disabled: schedulers skip it.
    pub const COMPUTE_STATUS_DISABLED: Trait =
        Trait(Symbol(Cow::Borrowed("COMPUTE_STATUS_DISABLED")));
    /// The provider shares its inventory with all members of its aggregates.
    pub const MISC_SHARES_VIA_AGGREGATE: Trait =
        Trait(Symbol(Cow::Borrowed("MISC_SHARES_VIA_AGGREGATE")));
    /// The compute service writes the provider.
    pub const OWNER_NOVA: Trait = Trait(Symbol(Cow::Borrowed("OWNER_NOVA")));
    /// Cyborg writes the provider.
    pub const OWNER_CYBORG: Trait = Trait(Symbol(Cow::Borrowed("OWNER_CYBORG")));
    /// Berth created the provider (used if `OWNER_NOVA` is switched off).
    pub const CUSTOM_OWNER_BERTH: Trait = Trait(Symbol(Cow::Borrowed("CUSTOM_OWNER_BERTH")));
    /// The provider is a link group: devices that a fast link connects are below it.
    pub const CUSTOM_LINK_GROUP: Trait = Trait(Symbol(Cow::Borrowed("CUSTOM_LINK_GROUP")));
    /// The provider is a NUMA cell of its root.
    pub const HW_NUMA_ROOT: Trait = Trait(Symbol(Cow::Borrowed("HW_NUMA_ROOT")));

    /// Checks the name's form. Fails if the name is empty, longer than 255, or has other characters
    /// than `A-Z`, `0-9`, `_`.
    pub fn new(name: &str) -> Result<Self, TraitError> {
        Symbol::new(name).map(Self).map_err(|_| TraitError {
            name: shortened(name),
        })
    }

    /// A trait known when the program is built. Panics at build time, when used in a constant, if the
    /// name's form is wrong.
    #[must_use]
    pub const fn known(name: &'static str) -> Self {
        Self(Symbol::known(name))
    }

    /// The trait of providers that are connected to a physical network: `CUSTOM_PHYSNET_` and the network's name in upper case,
    /// with `_` for other characters than letters and digits. Neutron's agents and port requests have the same. Neutron's names
    /// have at most 64 characters, so only as many count.
    #[must_use]
    pub fn physical_network(name: &str) -> Self {
        let letters = name.chars().take(64).map(|c| match c.to_ascii_uppercase() {
            c if c.is_ascii_alphanumeric() => c,
            _ => '_',
        });
        let name: String = "CUSTOM_PHYSNET_".chars().chain(letters).collect();
        Self::new(&name).expect("a prefix and 64 valid characters are a trait")
    }

    /// The trait of a network card: the host may trust its virtual functions.
    pub const HW_NIC_SRIOV_TRUSTED: Self = Self::known("HW_NIC_SRIOV_TRUSTED");

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the trait starts with `CUSTOM_` and so must be created in Placement before its first use.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.0.is_custom()
    }
}

impl fmt::Display for Trait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Trait {
    type Err = TraitError;

    fn from_str(text: &str) -> Result<Self, TraitError> {
        Self::new(text)
    }
}

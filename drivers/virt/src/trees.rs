//! The two provider trees of a reshape, side by side.

use berth_model::{Provider, ProviderTree, ProviderUuid};

/// The tree that Placement has and the one that the driver wants. A provider that only the first has is one that units
/// leave: its name says what it stands for, whatever its UUID, since it may have been made by another compute service or
/// under another name of the host.
#[derive(Debug, Clone, Copy)]
pub struct Trees<'a> {
    /// The tree Placement has.
    pub current: &'a ProviderTree,
    /// The tree the driver wants.
    pub desired: &'a ProviderTree,
}

impl<'a> Trees<'a> {
    /// A provider of either tree, as it is wanted where both have it.
    pub(crate) fn get(self, provider: ProviderUuid) -> Option<&'a Provider> {
        let wanted = self.desired.get(provider);
        wanted.or_else(|| self.current.get(provider))
    }

    /// Whether a provider is the node's own in either tree, not a sharing one.
    pub(crate) fn is_own(self, provider: ProviderUuid) -> bool {
        self.desired.is_own(provider) || self.current.is_own(provider)
    }
}

//! The two provider trees of a reshape.

use berth_model::{Provider, ProviderTree, ProviderUuid};

/// Placement's current tree and the driver's desired tree. Units leave a provider that only the current tree
/// has. Its name determines what it stands for, because it may have been created by another compute service or
/// under another host name.
#[derive(Debug, Clone, Copy)]
pub struct TreePair<'a> {
    /// The tree Placement has.
    pub current: &'a ProviderTree,
    /// The tree the driver wants.
    pub desired: &'a ProviderTree,
}

impl<'a> TreePair<'a> {
    /// A provider of either tree; the desired one if both have it.
    pub(crate) fn get(self, provider: ProviderUuid) -> Option<&'a Provider> {
        let wanted = self.desired.get(provider);
        wanted.or_else(|| self.current.get(provider))
    }

    /// Whether a provider belongs to the node in either tree, in contrast to a sharing one.
    pub(crate) fn is_own(self, provider: ProviderUuid) -> bool {
        self.desired.is_own(provider) || self.current.is_own(provider)
    }
}

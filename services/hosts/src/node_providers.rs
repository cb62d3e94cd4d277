//! [`LookUpNodeProvider`], which tells whose resource provider a node is.

use std::fmt;
use std::pin::Pin;

use uuid::Uuid;

/// Why a provider could not be looked up.
pub type ProviderLookupError = Box<dyn std::error::Error + Send + Sync>;

/// The future of [`LookUpNodeProvider::provider_name`].
pub type ProviderLookup<'a> =
    Pin<Box<dyn Future<Output = Result<Option<String>, ProviderLookupError>> + Send + 'a>>;

/// Looks up the resource providers of nodes in Placement, where a host's account can give no provider the name of
/// another host.
pub trait LookUpNodeProvider: Send + Sync {
    /// The name of the resource provider with the UUID of the node; `None` if there is no such provider.
    fn provider_name(&self, node: Uuid) -> ProviderLookup<'_>;
}

impl fmt::Debug for dyn LookUpNodeProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LookUpNodeProvider")
    }
}

//! [`LookUpProviderRoot`]: to which tree of Placement a resource provider belongs.
//!
//! A service that stores what the account of a host reports asks it. In Placement, the account of a host can give no
//! provider the name of another host.

use std::fmt;
use std::pin::Pin;

use uuid::Uuid;

/// The root of a tree of resource providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRoot {
    pub uuid: Uuid,
    pub name: String,
}

/// Why a provider could not be looked up.
pub type ProviderLookupError = Box<dyn std::error::Error + Send + Sync>;

/// The future of [`LookUpProviderRoot::provider_root`].
pub type ProviderLookup<'a> =
    Pin<Box<dyn Future<Output = Result<Option<ProviderRoot>, ProviderLookupError>> + Send + 'a>>;

/// Looks up resource providers in Placement.
pub trait LookUpProviderRoot: Send + Sync {
    /// The root of the tree with this provider; `None` if there is no such provider.
    fn provider_root(&self, provider: Uuid) -> ProviderLookup<'_>;
}

impl fmt::Debug for dyn LookUpProviderRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LookUpProviderRoot")
    }
}

/// Whether a resource provider of this name belongs to the host. A host names its providers after itself: `NAME` is the
/// root, and `NAME_…` are others.
#[must_use]
pub fn is_provider_of_host(provider: &str, host: &str) -> bool {
    let end = provider.strip_prefix(host).filter(|_| !host.is_empty());
    end.is_some_and(|end| end.is_empty() || end.starts_with('_'))
}

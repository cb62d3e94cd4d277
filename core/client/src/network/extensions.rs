//! Extensions of the Networking API.

use std::collections::BTreeSet;

use berth_wire::neutron::ExtensionList;
use http::Method;

use super::{NetworkClient, NetworkClientError, responses};
use crate::adapter::AdapterCall;

const EXTENSIONS: &str = "/v2.0/extensions";

/// The loaded extensions. They change only when the service is restarted, so callers keep them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkExtensions(BTreeSet<String>);

impl NetworkExtensions {
    #[must_use]
    pub fn new(aliases: impl IntoIterator<Item = String>) -> Self {
        Self(aliases.into_iter().collect())
    }

    /// Whether ports have `dns_name`.
    #[must_use]
    pub fn has_dns(&self) -> bool {
        self.0.contains("dns-integration")
    }

    /// Whether a port can have a second, inactive binding.
    #[must_use]
    pub fn has_several_bindings(&self) -> bool {
        self.0.contains("binding-extended")
    }

    /// Whether a network can be created for a project that has none.
    #[must_use]
    pub fn has_auto_allocation(&self) -> bool {
        self.0.contains("auto-allocated-topology")
    }
}

impl NetworkClient {
    /// GET /v2.0/extensions.
    pub async fn extensions(&self) -> Result<NetworkExtensions, NetworkClientError> {
        let path = format!("{EXTENSIONS}?fields=alias");
        let call = AdapterCall::new(Method::GET, EXTENSIONS, path, None);
        let list: ExtensionList = responses::parsed(self.ask(call).await?, "a list of extensions")?;
        let aliases = list.extensions.into_iter().map(|extension| extension.alias);
        Ok(NetworkExtensions::new(aliases))
    }
}

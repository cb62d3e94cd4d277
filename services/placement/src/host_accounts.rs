//! What the account of a host may change: the providers of its own tree, whose root has the name of the host, and what
//! consumers hold of them.
//!
//! The checks of providers are here. A write of allocations is checked in its transaction ([`crate::store::replace`],
//! [`crate::store::allocations::Release`]), because a consumer may get allocations of another host at any time; a
//! provider does not change its tree by itself.

use berth_http::{ApiRequest, Fault};

use crate::handlers::{provider_fault, read};
use crate::router::Placement;
use crate::store::providers::{self, HostMismatch};

impl From<HostMismatch> for Fault {
    fn from(mismatch: HostMismatch) -> Self {
        Self::forbidden(mismatch.to_string())
    }
}

impl Placement {
    /// Checks the policy rule of an operation that changes the provider in the path, and whether the caller may change
    /// this provider.
    pub(crate) async fn allow_change(&self, call: &ApiRequest) -> Result<(), Fault> {
        self.allow(call)?;
        self.check_host_of(call, call.path("uuid")?).await
    }

    /// Refuses the account of a host unless the provider is in the tree of that host. A missing provider passes: the
    /// operation reports it.
    pub(crate) async fn check_host_of(&self, call: &ApiRequest, uuid: &str) -> Result<(), Fault> {
        let Some(host) = call.caller.only_host() else {
            return Ok(());
        };
        let mut tx = read(&self.store).await?;
        let mismatch = providers::host_mismatch(&mut tx, uuid, host).await;
        match mismatch.map_err(|error| provider_fault(error.into()))? {
            None => Ok(()),
            Some(mismatch) => Err(mismatch.into()),
        }
    }

    /// Refuses the account of a host unless the place of a new, renamed or moved provider is in its tree: a parent of the
    /// tree, or for a root the name of the host.
    pub(crate) async fn check_host_of_place(
        &self,
        call: &ApiRequest,
        name: &str,
        parent: Option<&str>,
    ) -> Result<(), Fault> {
        match (call.caller.only_host(), parent) {
            (None, _) => Ok(()),
            (Some(_), Some(parent)) => self.check_host_of(call, parent).await,
            (Some(host), None) if name == host => Ok(()),
            (Some(host), None) => Err(HostMismatch {
                host: host.to_owned(),
                provider: name.to_owned(),
                root: name.to_owned(),
            }
            .into()),
        }
    }
}

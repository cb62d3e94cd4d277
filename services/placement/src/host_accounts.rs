//! What the account of a host may change: the providers of its own tree, whose root has the name of the host, and what
//! consumers hold of them.
//!
//! It names its providers after the host, puts none into an aggregate, and offers no inventory to other hosts.
//!
//! The checks of places, names and UUIDs are here: a provider does not change its tree by itself. Other writes are checked
//! in their transactions, because other callers may change the rows at any time: allocations and their owners
//! ([`crate::store::replace`], [`crate::store::allocations::Release`]), aggregates ([`crate::store::aggregates`]) and
//! traits ([`crate::store::traits`]).

use berth_http::{ApiRequest, Fault, is_provider_of_host};
use berth_model::{ProviderName, ProviderUuid};
use uuid::{Uuid, Version};

use crate::handlers::{database, provider_fault, read};
use crate::router::Placement;
use crate::store::providers::{self, CreateProvider, HostMismatch};

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

    /// Refuses the account of a host a new provider outside its tree, and a name or a UUID that another host may need.
    pub(crate) async fn check_host_of_new(
        &self,
        call: &ApiRequest,
        create: &CreateProvider,
    ) -> Result<(), Fault> {
        self.check_host_of_place(call, &create.name, create.parent.as_deref())
            .await?;
        check_host_of_name(call, &create.name)?;
        self.check_host_of_uuid(call, create).await
    }

    /// Agents derive the UUIDs of child providers from names. A provider with the UUID of another host's next child would
    /// keep that host from creating it.
    async fn check_host_of_uuid(
        &self,
        call: &ApiRequest,
        create: &CreateProvider,
    ) -> Result<(), Fault> {
        let (Some(host), Ok(uuid)) = (call.caller.only_host(), Uuid::parse_str(&create.uuid))
        else {
            return Ok(());
        };
        if !matches!(uuid.get_version(), Some(Version::Md5 | Version::Sha1)) {
            return Ok(());
        }
        if let (Some(parent), Ok(name)) = (&create.parent, ProviderName::new(&create.name)) {
            let mut tx = read(&self.store).await?;
            // A missing parent passes: the operation reports it.
            let Some(parent) = providers::find(&mut tx, parent).await.map_err(database)? else {
                return Ok(());
            };
            let uuid = ProviderUuid::from(uuid);
            let root: Option<ProviderUuid> = parent.root_uuid.parse().ok();
            let is_agents = root.is_some_and(|root| root.child(&name) == uuid);
            if is_agents || ProviderUuid::of_deployable(&name) == uuid {
                return Ok(());
            }
        }
        Err(Fault::forbidden(format!(
            "The account of host {host} may not give resource provider {} the UUID {uuid}. Use a random UUID (version 4), or for \
             a child the UUID that derives from its name.",
            create.name
        )))
    }
}

/// Refuses the account of a host a name for a provider that may be the name of another host, or of another host's
/// provider.
pub(crate) fn check_host_of_name(call: &ApiRequest, name: &str) -> Result<(), Fault> {
    let Some(host) = call.caller.only_host() else {
        return Ok(());
    };
    if is_provider_of_host(name, host) {
        return Ok(());
    }
    Err(Fault::forbidden(format!(
        "The account of host {host} may not name a resource provider {name}. Its providers are named {host}, or begin with \
         {host}_."
    )))
}

//! Who this node is to Placement: the UUID of its root provider, kept in a file of the state folder (`uuid_file` says in
//! which), and the name. A lost file, a renamed host and a name that somebody else has are told apart and explained; none is guessed away,
//! because a wrong guess reports one machine's inventory as another's.

mod uuid_file;

use berth_client::{PlacementClient, PlacementError};
use berth_model::{Disposition, NodeName, ProviderName, ProviderUuid};
use berth_store::state_dir::{StateFileError, StateFiles};

use crate::node_identity::uuid_file::{FirstUuid, UuidFiles};
use crate::options::Rename;

pub use uuid_file::UuidSource;

/// A node whose identity is clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIdentity {
    pub node: NodeName,
    pub root: ProviderUuid,
    /// What Placement knows of it.
    pub known: Known,
}

/// What Placement knows of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Nothing yet: the root provider is to be made.
    No,
    /// Its root provider, by its name.
    ByName,
    /// Its root provider under the name the host had before, which an operator accepts.
    Renamed { from: ProviderName },
}

/// The identity of the node is unknown.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file holds something else.
    #[error(
        "{file} holds {content:?}, which is no UUID; write the UUID of the node's root resource provider into it \
         (openstack resource provider list --name {node}), or remove it if this node was never reported"
    )]
    Corrupt {
        file: String,
        /// What it holds, shortened.
        content: String,
        node: NodeName,
    },
    /// The file is gone, but Placement has the node.
    #[error(
        "{file} is missing, but Placement has a resource provider named {node} with UUID {root}; if this is the same \
         host, restore the file: echo {root} > {file}; if not, rename this host or delete that provider"
    )]
    Lost {
        file: String,
        node: NodeName,
        /// The provider that has its name.
        root: ProviderUuid,
    },
    /// Somebody else has the name.
    #[error(
        "the node's UUID is {root} ({file}), but Placement's resource provider named {node} has UUID {other}; either \
         {file} was copied from another host, or another host has this one's name: if {other} is this host's, write it \
         into {file}"
    )]
    NameTaken {
        file: String,
        node: NodeName,
        root: ProviderUuid,
        /// The UUID of the provider with its name.
        other: ProviderUuid,
    },
    /// The node's provider has another name.
    #[error(
        "Placement knows this node's provider {root} as {from}, but the host is now {node}; if the host was renamed, \
         start once with --accept-risk rename-host; if {file} was copied from {from}, remove it"
    )]
    Renamed {
        file: String,
        /// The node's name now.
        node: NodeName,
        /// The name in Placement.
        from: ProviderName,
        root: ProviderUuid,
    },
    /// The host had one node and has several, and none of them has the name of that one.
    #[error(
        "{file} holds {root}, which Placement knows as {from}, and none of the hypervisor's nodes has that name; if \
         {node} is that node under a new name, rename {file} to {own} and start once with --accept-risk rename-host; if \
         {from} is gone, remove {file}"
    )]
    Unclaimed {
        /// The file of the time when there was one node.
        file: String,
        /// The node without a UUID of its own.
        node: NodeName,
        own: String,
        root: ProviderUuid,
        /// The name in Placement.
        from: ProviderName,
    },
    /// The UUID is that of a provider below another one.
    #[error(
        "{root} ({file}) is not a root resource provider but {name}, a child of another one; write the UUID of the \
         node's own root provider into {file}"
    )]
    NotARoot {
        file: String,
        root: ProviderUuid,
        name: ProviderName,
    },
    /// The file cannot be read or written.
    #[error("the node's UUID file {file}")]
    File {
        file: String,
        #[source]
        source: StateFileError,
    },
    /// Placement could not be asked.
    #[error("asking Placement who node {node} is")]
    Placement {
        node: NodeName,
        #[source]
        source: Box<PlacementError>,
    },
}

impl IdentityError {
    /// Only Placement's absence passes by itself.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            IdentityError::Placement { source, .. } => source.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// Finds out who the node is; for a node that was never reported, gives it a UUID and keeps it before anything is sent.
pub async fn identify(
    node: &NodeName,
    from: &UuidSource,
    files: &dyn StateFiles,
    placement: &PlacementClient,
    rename: Rename,
) -> Result<NodeIdentity, IdentityError> {
    tell(node, from, files, placement, rename, FirstUuid::Keep).await
}

/// The same without keeping anything: for a plan that is only shown.
pub async fn foresee(
    node: &NodeName,
    from: &UuidSource,
    files: &dyn StateFiles,
    placement: &PlacementClient,
) -> Result<NodeIdentity, IdentityError> {
    tell(
        node,
        from,
        files,
        placement,
        Rename::Refuse,
        FirstUuid::Forget,
    )
    .await
}

async fn tell(
    node: &NodeName,
    from: &UuidSource,
    files: &dyn StateFiles,
    placement: &PlacementClient,
    rename: Rename,
    first: FirstUuid,
) -> Result<NodeIdentity, IdentityError> {
    let failed = |source: PlacementError| IdentityError::Placement {
        node: node.clone(),
        source: Box::new(source),
    };
    let kept = UuidFiles {
        node,
        files,
        placement,
        first,
    };
    let (file, root) = kept.find(from).await?;
    let Some(root) = root else {
        let taken = placement
            .provider_by_name(node.root_name())
            .await
            .map_err(failed)?;
        if let Some(provider) = taken {
            let (node, root) = (node.clone(), provider.uuid());
            return Err(IdentityError::Lost { file, node, root });
        }
        let root = kept.give(from, &file).await?;
        return Ok(NodeIdentity {
            node: node.clone(),
            root,
            known: Known::No,
        });
    };
    let known = match placement.provider(root).await.map_err(failed)? {
        None => {
            let taken = placement
                .provider_by_name(node.root_name())
                .await
                .map_err(failed)?;
            if let Some(provider) = taken {
                let (node, other) = (node.clone(), provider.uuid());
                return Err(IdentityError::NameTaken {
                    file,
                    node,
                    root,
                    other,
                });
            }
            Known::No
        }
        Some(provider) if provider.parent().is_some() => {
            return Err(IdentityError::NotARoot {
                file,
                root,
                name: provider.name,
            });
        }
        Some(provider) if provider.name == *node.root_name() => Known::ByName,
        Some(provider) => match rename {
            Rename::Accept => {
                // Asked before anything is renamed: the root is renamed last, and would find the name taken only then.
                let taken = placement
                    .provider_by_name(node.root_name())
                    .await
                    .map_err(failed)?;
                if let Some(taken) = taken.filter(|taken| taken.uuid() != root) {
                    let (node, other) = (node.clone(), taken.uuid());
                    return Err(IdentityError::NameTaken {
                        file,
                        node,
                        root,
                        other,
                    });
                }
                Known::Renamed {
                    from: provider.name,
                }
            }
            Rename::Refuse => {
                let (node, from) = (node.clone(), provider.name);
                return Err(IdentityError::Renamed {
                    file,
                    node,
                    from,
                    root,
                });
            }
        },
    };
    Ok(NodeIdentity {
        node: node.clone(),
        root,
        known,
    })
}

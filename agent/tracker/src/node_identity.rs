//! Identity of a node in Placement: the name and the UUID of its root provider. The UUID is in a file of the state
//! folder (`uuid_file` selects the file).
//!
//! A lost file, a renamed host and a name that another provider has are separate errors with an explanation. None is resolved by a guess:
//! a wrong guess would report one machine's inventory as another's.

mod uuid_file;

use berth_client::{PlacementClient, PlacementError};
use berth_model::{Disposition, NodeName, ProviderName, ProviderUuid};
use berth_store::state_dir::{StateFileError, StateFiles};

use crate::node_identity::uuid_file::{FirstUuid, UuidFiles};
use crate::options::Rename;

pub use uuid_file::{COMPUTE_ID, UuidSource, is_uuid_file};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIdentity {
    pub node: NodeName,
    pub root: ProviderUuid,
    /// What Placement has of the node.
    pub in_placement: PlacementRecord,
}

/// The node's root provider in Placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementRecord {
    /// There is none yet; it must be created.
    Missing,
    /// It exists under the node's name.
    SameName,
    /// It exists under the host's previous name; an operator has accepted the rename.
    Renamed { from: ProviderName },
}

/// The node cannot be identified.
#[derive(Debug, thiserror::Error)]
pub enum NodeIdentityError {
    /// The content of the file is not a UUID.
    #[error(
        "{file} holds {content:?}, which is not a UUID; write the UUID of the node's root resource provider into it \
         (openstack resource provider list --name {node}), or remove it if this node was never reported"
    )]
    Corrupt {
        file: String,
        /// Content of the file, shortened.
        content: String,
        node: NodeName,
    },
    /// The file is missing, but Placement has a provider with the node's name.
    #[error(
        "{file} is missing, but Placement has a resource provider named {node} with UUID {root}; if this is the same \
         host, restore the file: echo {root} > {file}; if not, rename this host or delete that provider"
    )]
    Lost {
        file: String,
        node: NodeName,
        /// UUID of that provider.
        root: ProviderUuid,
    },
    /// Another provider has the node's name.
    #[error(
        "the node's UUID is {root} ({file}), but Placement's resource provider named {node} has UUID {other}; either \
         {file} was copied from another host, or another host has this one's name: if {other} is this host's, write it \
         into {file}"
    )]
    NameTaken {
        file: String,
        node: NodeName,
        root: ProviderUuid,
        /// UUID of that provider.
        other: ProviderUuid,
    },
    /// The node's provider has another name.
    #[error(
        "Placement knows this node's provider {root} as {from}, but the host is now {node}; if the host was renamed, \
         start once with --accept-risk rename-host; if {file} was copied from {from}, remove it"
    )]
    Renamed {
        file: String,
        /// Current name of the node.
        node: NodeName,
        from: ProviderName,
        root: ProviderUuid,
    },
    /// The host had one node and now has several, none of which has the name of the former node.
    #[error(
        "{file} holds {root}, which Placement knows as {from}, and none of the hypervisor's nodes has that name; if \
         {node} is that node under a new name, rename {file} to {own} and start once with --accept-risk rename-host; if \
         {from} is gone, remove {file}"
    )]
    Unclaimed {
        /// The UUID file of the former only node.
        file: String,
        /// A node without a UUID file.
        node: NodeName,
        own: String,
        root: ProviderUuid,
        from: ProviderName,
    },
    /// The UUID belongs to a child provider.
    #[error(
        "{root} ({file}) is not a root resource provider but {name}, a child of another one; write the UUID of the \
         node's own root provider into {file}"
    )]
    NotARoot {
        file: String,
        root: ProviderUuid,
        name: ProviderName,
    },
    #[error("the node's UUID file {file} cannot be used")]
    File {
        file: String,
        #[source]
        source: StateFileError,
    },
    /// Placement cannot be queried.
    #[error("looking up the resource provider of node {node} in Placement failed")]
    Placement {
        node: NodeName,
        #[source]
        source: Box<PlacementError>,
    },
}

impl NodeIdentityError {
    /// Only an unreachable Placement is worth a retry.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            NodeIdentityError::Placement { source, .. } => source.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// Identifies a node. A node that was never reported gets a new UUID, which is stored before anything is sent.
pub async fn identify(
    node: &NodeName,
    from: &UuidSource,
    files: &dyn StateFiles,
    placement: &PlacementClient,
    rename: Rename,
) -> Result<NodeIdentity, NodeIdentityError> {
    resolve(node, from, files, placement, rename, FirstUuid::Store).await
}

/// Identifies a node without writing anything, for a preview of the plan.
pub async fn identify_read_only(
    node: &NodeName,
    from: &UuidSource,
    files: &dyn StateFiles,
    placement: &PlacementClient,
) -> Result<NodeIdentity, NodeIdentityError> {
    resolve(
        node,
        from,
        files,
        placement,
        Rename::Refuse,
        FirstUuid::Discard,
    )
    .await
}

async fn resolve(
    node: &NodeName,
    from: &UuidSource,
    files: &dyn StateFiles,
    placement: &PlacementClient,
    rename: Rename,
    first: FirstUuid,
) -> Result<NodeIdentity, NodeIdentityError> {
    let failed = |source: PlacementError| NodeIdentityError::Placement {
        node: node.clone(),
        source: Box::new(source),
    };
    let uuid_files = UuidFiles {
        node,
        files,
        placement,
        first,
    };
    let (file, root) = uuid_files.find(from).await?;
    let Some(root) = root else {
        let same_name = placement
            .provider_by_name(node.root_name())
            .await
            .map_err(failed)?;
        if let Some(provider) = same_name {
            let (node, root) = (node.clone(), provider.uuid());
            return Err(NodeIdentityError::Lost { file, node, root });
        }
        let root = uuid_files.assign(from, &file).await?;
        return Ok(NodeIdentity {
            node: node.clone(),
            root,
            in_placement: PlacementRecord::Missing,
        });
    };
    let known = match placement.provider(root).await.map_err(failed)? {
        None => {
            let same_name = placement
                .provider_by_name(node.root_name())
                .await
                .map_err(failed)?;
            if let Some(provider) = same_name {
                let (node, other) = (node.clone(), provider.uuid());
                return Err(NodeIdentityError::NameTaken {
                    file,
                    node,
                    root,
                    other,
                });
            }
            PlacementRecord::Missing
        }
        Some(provider) if provider.parent().is_some() => {
            return Err(NodeIdentityError::NotARoot {
                file,
                root,
                name: provider.name,
            });
        }
        Some(provider) if provider.name == *node.root_name() => PlacementRecord::SameName,
        Some(provider) => match rename {
            Rename::Accept => {
                // Checked before anything is renamed: the root is renamed last, and would only then find the name
                // taken.
                let same_name = placement
                    .provider_by_name(node.root_name())
                    .await
                    .map_err(failed)?;
                if let Some(same_name) = same_name.filter(|same_name| same_name.uuid() != root) {
                    let (node, other) = (node.clone(), same_name.uuid());
                    return Err(NodeIdentityError::NameTaken {
                        file,
                        node,
                        root,
                        other,
                    });
                }
                PlacementRecord::Renamed {
                    from: provider.name,
                }
            }
            Rename::Refuse => {
                let (node, from) = (node.clone(), provider.name);
                return Err(NodeIdentityError::Renamed {
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
        in_placement: known,
    })
}

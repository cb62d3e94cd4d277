//! The UUID files of the nodes. The only node of a host has `compute_id` (Nova's file name); each of several nodes has
//! `compute_id.<node>`. When the number of nodes changes, no UUID is lost or used for another node:
//!
//! - When a host with one node gets more, `compute_id` becomes `compute_id.<node>` of the node whose name the provider has in Placement. No
//!   other node takes it.
//! - A node with a file of its own keeps it, also if it is the only node again.
//!
//! The new file is written before the old one is removed. After a kill in between, both exist, and the node's own file is used.

use std::collections::BTreeSet;

use berth_client::PlacementClient;
use berth_model::{NodeName, ProviderName, ProviderUuid};
use berth_store::state_dir::{StateFileError, StateFiles};
use berth_virt::HostView;

use crate::node_identity::NodeIdentityError;

/// File of a host's only node.
pub const COMPUTE_ID: &str = "compute_id";

/// Is this the name of a file with a node's UUID: `compute_id` or `compute_id.<node>`?
pub fn is_uuid_file(name: &str) -> bool {
    let rest = name.strip_prefix(COMPUTE_ID);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Source of a node's UUID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UuidSource {
    /// The hypervisor knows the UUID (clusters).
    Hypervisor(ProviderUuid),
    /// Exactly this file in the state folder.
    File(String),
    /// The only node: `compute_id`, unless the node has its own file.
    OnlyNode {
        /// Name of the node's own file, `compute_id.<node>`.
        own: String,
    },
    /// One of several nodes.
    OneOf {
        /// Name of the node's own file, `compute_id.<node>`.
        own: String,
        /// Names of all nodes.
        nodes: BTreeSet<ProviderName>,
    },
}

impl UuidSource {
    /// Selects the source: the hypervisor if it knows the UUID, otherwise a file that depends on the number of nodes
    /// without a UUID.
    #[must_use]
    pub fn of(view: &HostView, node: &NodeName) -> Self {
        if let Some(uuid) = view.nodes.get(node).and_then(|seen| seen.uuid) {
            return Self::Hypervisor(uuid);
        }
        let own = format!("{COMPUTE_ID}.{}", file_name(node));
        let without = view.nodes.values().filter(|seen| seen.uuid.is_none());
        if without.count() == 1 {
            return Self::OnlyNode { own };
        }
        let nodes = view.nodes.keys().map(|node| node.root_name().clone());
        Self::OneOf {
            own,
            nodes: nodes.collect(),
        }
    }
}

/// File name for a node; bytes that are not allowed in it are percent-encoded.
fn file_name(node: &NodeName) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let written = |byte: u8| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02x}")
        }
    };
    node.as_str().bytes().map(written).collect()
}

/// Whether a new UUID is written to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstUuid {
    Store,
    Discard,
}

/// Access to the UUID file of one node.
#[derive(Clone, Copy)]
pub(super) struct UuidFiles<'a> {
    pub(super) node: &'a NodeName,
    pub(super) files: &'a dyn StateFiles,
    pub(super) placement: &'a PlacementClient,
    pub(super) first: FirstUuid,
}

impl UuidFiles<'_> {
    /// The node's UUID, if it has one, and the path of its file for messages.
    pub(super) async fn find(
        self,
        from: &UuidSource,
    ) -> Result<(String, Option<ProviderUuid>), NodeIdentityError> {
        let (name, found) = match from {
            UuidSource::Hypervisor(uuid) => return Ok(("the hypervisor".to_owned(), Some(*uuid))),
            UuidSource::File(name) => (name.as_str(), self.read(name).await?),
            UuidSource::OnlyNode { own } => match self.read(own).await? {
                Some(uuid) => (own.as_str(), Some(uuid)),
                None => (COMPUTE_ID, self.read(COMPUTE_ID).await?),
            },
            UuidSource::OneOf { own, nodes } => match self.read(own).await? {
                Some(uuid) => (own.as_str(), Some(uuid)),
                None => (own.as_str(), self.take_over(own, nodes).await?),
            },
        };
        Ok((self.files.path(name), found))
    }

    /// Creates the node's first UUID.
    pub(super) async fn assign(
        self,
        from: &UuidSource,
        file: &str,
    ) -> Result<ProviderUuid, NodeIdentityError> {
        let root = ProviderUuid::from(uuid::Uuid::new_v4());
        let name = match from {
            UuidSource::Hypervisor(_) => return Ok(root),
            UuidSource::File(name) | UuidSource::OneOf { own: name, .. } => name,
            UuidSource::OnlyNode { .. } => COMPUTE_ID,
        };
        if self.first == FirstUuid::Store {
            let written = self.write(name, root).await;
            written.map_err(|source| failed(file.to_owned(), source))?;
        }
        Ok(root)
    }

    /// Takes over the UUID from the time when the host had one node, if this is that node.
    async fn take_over(
        self,
        own: &str,
        nodes: &BTreeSet<ProviderName>,
    ) -> Result<Option<ProviderUuid>, NodeIdentityError> {
        let Some(root) = self.read(COMPUTE_ID).await? else {
            return Ok(None);
        };
        let asked = self.placement.provider(root).await;
        let known = asked.map_err(|source| NodeIdentityError::Placement {
            node: self.node.clone(),
            source: Box::new(source),
        })?;
        match known.map(|provider| provider.name) {
            Some(name) if name == *self.node.root_name() => {
                if self.first == FirstUuid::Store {
                    let file = |name| self.files.path(name);
                    let written = self.write(own, root).await;
                    written.map_err(|source| failed(file(own), source))?;
                    let removed = self.files.remove(COMPUTE_ID).await;
                    removed.map_err(|source| failed(file(COMPUTE_ID), source))?;
                }
                Ok(Some(root))
            }
            Some(from) if !nodes.contains(&from) => Err(NodeIdentityError::Unclaimed {
                file: self.files.path(COMPUTE_ID),
                node: self.node.clone(),
                own: self.files.path(own),
                root,
                from,
            }),
            // The UUID belongs to another node, or was never reported.
            _ => Ok(None),
        }
    }

    async fn read(self, name: &str) -> Result<Option<ProviderUuid>, NodeIdentityError> {
        let content = self.files.read(name).await;
        let content = content.map_err(|source| failed(self.files.path(name), source))?;
        let Some(content) = content else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&content);
        text.trim()
            .parse()
            .map(Some)
            .map_err(|_| NodeIdentityError::Corrupt {
                file: self.files.path(name),
                content: text.trim().chars().take(60).collect(),
                node: self.node.clone(),
            })
    }

    async fn write(self, name: &str, root: ProviderUuid) -> Result<(), StateFileError> {
        self.files
            .create(name, format!("{root}\n").as_bytes())
            .await
    }
}

fn failed(file: String, source: StateFileError) -> NodeIdentityError {
    NodeIdentityError::File { file, source }
}

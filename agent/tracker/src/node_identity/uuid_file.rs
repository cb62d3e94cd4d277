//! Which file holds which node's UUID. A host's only node has `compute_id` (Nova's name and place); where the hypervisor shows
//! several, each has `compute_id.<node>`. Between the two no UUID is lost or given to another:
//!
//! - When a host with one node gets more, `compute_id` becomes `compute_id.<node>` of the node by whose name Placement knows
//!   it. No other node takes it.
//! - A node with a file of its own keeps to it, also when it is the only one again.
//!
//! The new file is written before the old one is removed, so a kill in between leaves both; the node's own counts.

use std::collections::BTreeSet;

use berth_client::PlacementClient;
use berth_model::{NodeName, ProviderName, ProviderUuid};
use berth_store::state_dir::{StateFileError, StateFiles};
use berth_virt::HostView;

use crate::node_identity::IdentityError;

/// The file of a host's only node.
const COMPUTE_ID: &str = "compute_id";

/// Where the node's UUID comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UuidSource {
    /// The hypervisor itself knows it (clusters).
    Hypervisor(ProviderUuid),
    /// This file in the state folder, and no other.
    File(String),
    /// The node is the only one: `compute_id`, unless there is a file of its own.
    OnlyNode {
        /// `compute_id.<node>`.
        own: String,
    },
    /// The node is one of several.
    OneOf {
        /// `compute_id.<node>`.
        own: String,
        /// The names of all.
        nodes: BTreeSet<ProviderName>,
    },
}

impl UuidSource {
    /// Where the UUID of a node of this view comes from: the hypervisor, where it knows one, else a file, by the number of
    /// nodes of which it knows none.
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

/// The name with what has no place in a file's name written as its bytes.
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

/// What becomes of a UUID that is not in its file yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstUuid {
    Keep,
    Forget,
}

/// One node's UUID in the state folder.
#[derive(Clone, Copy)]
pub(super) struct UuidFiles<'a> {
    pub(super) node: &'a NodeName,
    pub(super) files: &'a dyn StateFiles,
    pub(super) placement: &'a PlacementClient,
    pub(super) first: FirstUuid,
}

impl UuidFiles<'_> {
    /// The UUID, if the node has one, and where it is or would be, for messages.
    pub(super) async fn find(
        self,
        from: &UuidSource,
    ) -> Result<(String, Option<ProviderUuid>), IdentityError> {
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

    /// Gives the node its first UUID.
    pub(super) async fn give(
        self,
        from: &UuidSource,
        file: &str,
    ) -> Result<ProviderUuid, IdentityError> {
        let root = ProviderUuid::from(uuid::Uuid::new_v4());
        let name = match from {
            UuidSource::Hypervisor(_) => return Ok(root),
            UuidSource::File(name) | UuidSource::OneOf { own: name, .. } => name,
            UuidSource::OnlyNode { .. } => COMPUTE_ID,
        };
        if self.first == FirstUuid::Keep {
            let written = self.write(name, root).await;
            written.map_err(|source| failed(file.to_owned(), source))?;
        }
        Ok(root)
    }

    /// The UUID of the time when the host had one node, if this was that node.
    async fn take_over(
        self,
        own: &str,
        nodes: &BTreeSet<ProviderName>,
    ) -> Result<Option<ProviderUuid>, IdentityError> {
        let Some(root) = self.read(COMPUTE_ID).await? else {
            return Ok(None);
        };
        let asked = self.placement.provider(root).await;
        let known = asked.map_err(|source| IdentityError::Placement {
            node: self.node.clone(),
            source: Box::new(source),
        })?;
        match known.map(|provider| provider.name) {
            Some(name) if name == *self.node.root_name() => {
                if self.first == FirstUuid::Keep {
                    let file = |name| self.files.path(name);
                    let written = self.write(own, root).await;
                    written.map_err(|source| failed(file(own), source))?;
                    let removed = self.files.remove(COMPUTE_ID).await;
                    removed.map_err(|source| failed(file(COMPUTE_ID), source))?;
                }
                Ok(Some(root))
            }
            Some(from) if !nodes.contains(&from) => Err(IdentityError::Unclaimed {
                file: self.files.path(COMPUTE_ID),
                node: self.node.clone(),
                own: self.files.path(own),
                root,
                from,
            }),
            // Another node's, or of one that was never reported.
            _ => Ok(None),
        }
    }

    async fn read(self, name: &str) -> Result<Option<ProviderUuid>, IdentityError> {
        let content = self.files.read(name).await;
        let content = content.map_err(|source| failed(self.files.path(name), source))?;
        let Some(content) = content else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&content);
        text.trim()
            .parse()
            .map(Some)
            .map_err(|_| IdentityError::Corrupt {
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

fn failed(file: String, source: StateFileError) -> IdentityError {
    IdentityError::File { file, source }
}

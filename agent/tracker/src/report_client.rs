//! Client for one node's provider tree in Placement: reads it (cached, with generations), writes differences, reads the
//! allocations for a reshape and sends the reshape.
//!
//! The cache only has what Placement answered. Writes update it with the generations in their responses, and any failure clears it. So a
//! tick without changes sends nothing, and a stale cache can only lead to a conflict, which leads to a refresh.

mod allocations;
mod flush;
mod read;
mod reshape;

use std::collections::BTreeSet;

use berth_client::{PlacementClient, PlacementError};
use berth_model::{
    Disposition, NodeName, ProviderName, ProviderTree, ProviderUuid, ResourceClass, Trait,
    TreeError,
};
use tokio::time::Instant;

use crate::options::TrackerOptions;

/// A failed operation on the node's tree in Placement.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct ReportError {
    /// The operation, with the name of the provider.
    pub doing: String,
    #[source]
    pub source: Box<ReportCause>,
}

impl ReportError {
    fn new(doing: impl Into<String>, source: PlacementError) -> Self {
        Self {
            doing: doing.into(),
            source: Box::new(ReportCause::Placement(source)),
        }
    }

    pub(crate) fn no_tree(doing: impl Into<String>, source: TreeError) -> Self {
        Self {
            doing: doing.into(),
            source: Box::new(ReportCause::Tree(source)),
        }
    }

    pub(crate) fn changed_meanwhile(doing: impl Into<String>) -> Self {
        Self {
            doing: doing.into(),
            source: Box::new(ReportCause::ChangedMeanwhile),
        }
    }

    /// What the caller should do.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self.source.as_ref() {
            ReportCause::Placement(source)
            | ReportCause::Elsewhere {
                refused: source, ..
            } => source.disposition(),
            ReportCause::Tree(_) | ReportCause::ChangedMeanwhile => Disposition::Refresh,
        }
    }

    /// The error of the Placement request, if one failed.
    #[must_use]
    pub fn placement(&self) -> Option<&PlacementError> {
        match self.source.as_ref() {
            ReportCause::Placement(error) | ReportCause::Elsewhere { refused: error, .. } => {
                Some(error)
            }
            ReportCause::Tree(_) | ReportCause::ChangedMeanwhile => None,
        }
    }
}

/// Why an operation on the tree failed.
#[derive(Debug, thiserror::Error)]
pub enum ReportCause {
    /// The request failed or was refused.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The child provider exists in another tree; another client moved it.
    #[error(
        "{name} ({uuid}) is in the tree of {root} ({root_uuid}) instead of this node's: its inventory is claimed there; move it \
         back (openstack --os-placement-api-version 1.37 resource provider set --name {name} --parent-provider {own} \
         {uuid}), or delete it if no consumer holds allocations on it"
    )]
    Elsewhere {
        name: ProviderName,
        uuid: ProviderUuid,
        /// Name of the other tree's root.
        root: ProviderName,
        root_uuid: ProviderUuid,
        /// The node's own root.
        own: ProviderUuid,
        /// Placement's response to the attempt to create the provider.
        refused: PlacementError,
    },
    /// The providers do not form a tree: the tree changed while it was read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Responses contradict each other: something changed between them.
    #[error("responses of Placement contradict each other; something changed between them")]
    ChangedMeanwhile,
}

/// Reads and writes one node's tree in Placement.
pub struct ReportClient {
    placement: PlacementClient,
    node: NodeName,
    root: ProviderUuid,
    cached: Option<CachedTree>,
    /// Providers that the last reshape created and that were not read since; they are in no aggregate.
    new: BTreeSet<ProviderUuid>,
    /// All providers that this process created.
    made: BTreeSet<ProviderUuid>,
    classes: BTreeSet<ResourceClass>,
    traits: BTreeSet<Trait>,
    missing: BTreeSet<Trait>,
    unknown: BTreeSet<Trait>,
    readers: usize,
    association_refresh: Option<std::time::Duration>,
}

#[derive(Debug)]
struct CachedTree {
    tree: ProviderTree,
    compared_at: Instant,
}

impl ReportClient {
    /// A client with an empty cache.
    #[must_use]
    pub fn new(
        placement: PlacementClient,
        node: NodeName,
        root: ProviderUuid,
        options: &TrackerOptions,
    ) -> Self {
        Self {
            node,
            root,
            cached: None,
            new: BTreeSet::new(),
            made: BTreeSet::new(),
            classes: BTreeSet::new(),
            traits: BTreeSet::new(),
            missing: BTreeSet::new(),
            unknown: BTreeSet::new(),
            readers: readers(&placement, options),
            placement: placement.with_uuids_per_request(options.aggregates_per_request),
            association_refresh: options.association_refresh,
        }
    }

    /// Changes the options, and clears the cached tree (SIGHUP).
    pub fn set_options(&mut self, options: &TrackerOptions) {
        self.placement = self
            .placement
            .clone()
            .with_uuids_per_request(options.aggregates_per_request);
        self.readers = readers(&self.placement, options);
        self.association_refresh = options.association_refresh;
        self.forget();
    }

    /// Clears the cached tree: the next pass reads it again.
    pub fn forget(&mut self) {
        self.cached = None;
        self.new.clear();
    }

    #[must_use]
    pub fn root(&self) -> ProviderUuid {
        self.root
    }

    #[must_use]
    pub fn known_tree(&self) -> Option<&ProviderTree> {
        self.cached.as_ref().map(|cached| &cached.tree)
    }

    /// Standard traits that this Placement does not know; they are not reported.
    #[must_use]
    pub fn unknown_traits(&self) -> &BTreeSet<Trait> {
        &self.unknown
    }

    /// Finds out which of the traits Placement knows, with one request for each new one. Unknown standard traits are
    /// recorded and not reported.
    pub async fn learn_traits(&mut self, wanted: &BTreeSet<Trait>) -> Result<(), ReportError> {
        let settled = |name: &&Trait| {
            self.traits.contains(*name)
                || self.unknown.contains(*name)
                || self.missing.contains(*name)
        };
        let new: BTreeSet<Trait> = wanted
            .iter()
            .filter(|name| !settled(name))
            .cloned()
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let known = self
            .placement
            .known_traits(&new)
            .await
            .map_err(|source| ReportError::new("reading Placement's traits", source))?;
        for name in new {
            let place = match (known.contains(&name), name.is_custom()) {
                (true, _) => &mut self.traits,
                (false, true) => &mut self.missing,
                (false, false) => &mut self.unknown,
            };
            place.insert(name);
        }
        Ok(())
    }

    /// Creates missing custom traits, each once.
    async fn ensure_traits(
        &mut self,
        wanted: impl IntoIterator<Item = &Trait>,
    ) -> Result<(), ReportError> {
        for name in wanted {
            if !name.is_custom() || self.traits.contains(name) {
                continue;
            }
            self.placement
                .ensure_trait(name)
                .await
                .map_err(|source| ReportError::new(format!("creating trait {name}"), source))?;
            self.missing.remove(name);
            self.traits.insert(name.clone());
        }
        Ok(())
    }

    /// Creates missing custom resource classes, each once.
    async fn ensure_classes(
        &mut self,
        wanted: impl IntoIterator<Item = &ResourceClass>,
    ) -> Result<(), ReportError> {
        for class in wanted {
            if !class.is_custom() || self.classes.contains(class) {
                continue;
            }
            self.placement
                .ensure_resource_class(class)
                .await
                .map_err(|source| {
                    ReportError::new(format!("creating resource class {class}"), source)
                })?;
            self.classes.insert(class.clone());
        }
        Ok(())
    }
}

/// Number of consumers that are read concurrently.
fn readers(placement: &PlacementClient, options: &TrackerOptions) -> usize {
    let best = placement.requests_at_once();
    best.unwrap_or(options.readers).max(1)
}

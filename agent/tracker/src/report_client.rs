//! The one who talks to Placement about one node's tree: reads it (cached, with generations), writes differences, gathers
//! the allocations for a reshape and sends it.
//!
//! The cache is never a guess: it holds what Placement answered, writes update it with the generations of their answers,
//! and any failure throws it away. So a steady tick asks nothing, and a stale cache can only lead to a conflict, which is a
//! refresh.

mod flush;
mod gather;
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

/// Something that Placement was asked for this node and did not do.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct ReportError {
    /// What was being done, with the provider's name.
    pub doing: String,
    /// What came of it.
    #[source]
    pub source: Box<Cause>,
}

impl ReportError {
    fn new(doing: impl Into<String>, source: PlacementError) -> Self {
        Self {
            doing: doing.into(),
            source: Box::new(Cause::Placement(source)),
        }
    }

    pub(crate) fn no_tree(doing: impl Into<String>, source: TreeError) -> Self {
        Self {
            doing: doing.into(),
            source: Box::new(Cause::Tree(source)),
        }
    }

    pub(crate) fn changed_meanwhile(doing: impl Into<String>) -> Self {
        Self {
            doing: doing.into(),
            source: Box::new(Cause::ChangedMeanwhile),
        }
    }

    /// What a loop should do.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self.source.as_ref() {
            Cause::Placement(source)
            | Cause::Elsewhere {
                refused: source, ..
            } => source.disposition(),
            Cause::Tree(_) | Cause::ChangedMeanwhile => Disposition::Refresh,
        }
    }

    /// What came of a call of Placement, where that is what went wrong.
    #[must_use]
    pub fn placement(&self) -> Option<&PlacementError> {
        match self.source.as_ref() {
            Cause::Placement(error) | Cause::Elsewhere { refused: error, .. } => Some(error),
            Cause::Tree(_) | Cause::ChangedMeanwhile => None,
        }
    }
}

/// What came of something that Placement was asked.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// It did not answer, or refused.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The child is there, but in another tree: somebody put it there.
    #[error(
        "{name} ({uuid}) is in the tree of {root} ({root_uuid}), not in this node's: its inventory is claimed there; put it \
         back (openstack --os-placement-api-version 1.37 resource provider set --name {name} --parent-provider {own} \
         {uuid}), or delete it where no consumer holds anything of it"
    )]
    Elsewhere {
        name: ProviderName,
        uuid: ProviderUuid,
        /// The name of the root it is below.
        root: ProviderName,
        root_uuid: ProviderUuid,
        /// The root that it belongs below.
        own: ProviderUuid,
        /// Placement's refusal to make it again.
        refused: PlacementError,
    },
    /// What it answered is no tree: it was changed while it was read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Its answers contradict each other: something was changed between them.
    #[error("Placement's answers do not fit together; something was changed between them")]
    ChangedMeanwhile,
}

/// Talks to Placement about one node's tree.
pub struct ReportClient {
    placement: PlacementClient,
    node: NodeName,
    root: ProviderUuid,
    cached: Option<Cached>,
    /// Made by the reshape just sent, and not read since: they are in no aggregate.
    new: BTreeSet<ProviderUuid>,
    /// All that this process made.
    made: BTreeSet<ProviderUuid>,
    classes: BTreeSet<ResourceClass>,
    traits: BTreeSet<Trait>,
    missing: BTreeSet<Trait>,
    unknown: BTreeSet<Trait>,
    readers: usize,
    association_refresh: Option<std::time::Duration>,
}

#[derive(Debug)]
struct Cached {
    tree: ProviderTree,
    compared_at: Instant,
}

impl ReportClient {
    /// A client without any knowledge yet.
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

    /// Takes other options from the next request on, and reads the tree anew (SIGHUP).
    pub fn set_options(&mut self, options: &TrackerOptions) {
        self.placement = self
            .placement
            .clone()
            .with_uuids_per_request(options.aggregates_per_request);
        self.readers = readers(&self.placement, options);
        self.association_refresh = options.association_refresh;
        self.forget();
    }

    /// Forgets the tree: the next pass reads it anew (SIGHUP, or an error).
    pub fn forget(&mut self) {
        self.cached = None;
        self.new.clear();
    }

    /// The UUID of the node's root provider.
    #[must_use]
    pub fn root(&self) -> ProviderUuid {
        self.root
    }

    /// The tree as last known, without asking.
    #[must_use]
    pub fn known_tree(&self) -> Option<&ProviderTree> {
        self.cached.as_ref().map(|cached| &cached.tree)
    }

    /// Traits that this Placement does not have and nobody may make: they are not reported.
    #[must_use]
    pub fn unknown_traits(&self) -> &BTreeSet<Trait> {
        &self.unknown
    }

    /// Learns which of the traits Placement has, asking once for each: standard ones that it does not know are remembered
    /// as unknown and left out from then on.
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
            .map_err(|source| ReportError::new("asking which traits Placement has", source))?;
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

    /// Makes the custom traits that Placement does not have yet, once each.
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
                .map_err(|source| ReportError::new(format!("making trait {name}"), source))?;
            self.missing.remove(name);
            self.traits.insert(name.clone());
        }
        Ok(())
    }

    /// Makes sure that Placement has the custom classes, once each.
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
                    ReportError::new(format!("making resource class {class}"), source)
                })?;
            self.classes.insert(class.clone());
        }
        Ok(())
    }
}

/// How many consumers are read side by side.
fn readers(placement: &PlacementClient, options: &TrackerOptions) -> usize {
    let best = placement.requests_at_once();
    best.unwrap_or(options.readers).max(1)
}

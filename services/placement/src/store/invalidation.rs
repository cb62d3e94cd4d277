//! The providers that each write touches. They are all listed here, because a write that misses one leaves stale
//! candidates.

use std::collections::BTreeSet;

use berth_store::Work;

use super::{aggregates, allocations, inventories, providers, replace, resource_classes, traits};
use crate::ledger::ProviderId;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TouchedTrees {
    /// Everything may have changed: the default for writes that cannot say.
    pub(crate) all: bool,
    /// Resource classes or traits.
    pub(crate) names: bool,
    pub(crate) uuids: BTreeSet<String>,
    /// Providers by row id.
    pub(crate) ids: BTreeSet<ProviderId>,
}

impl TouchedTrees {
    pub(crate) fn everything() -> Self {
        Self {
            all: true,
            ..Self::default()
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.all |= other.all;
        self.names |= other.names;
        self.uuids.extend(other.uuids);
        self.ids.extend(other.ids);
    }

    fn names() -> Self {
        Self {
            names: true,
            ..Self::default()
        }
    }

    fn provider(uuid: &str) -> Self {
        Self {
            uuids: BTreeSet::from([uuid.to_owned()]),
            ..Self::default()
        }
    }

    fn providers(ids: &[ProviderId]) -> Self {
        Self {
            ids: ids.iter().copied().collect(),
            ..Self::default()
        }
    }
}

/// A write that knows what it touches.
pub(crate) trait Touches: Work<Error: std::error::Error + 'static> {
    /// What a committed write touched.
    fn touched(&self, output: &Self::Output) -> TouchedTrees;
}

macro_rules! touches {
    ($($work:ty: |$this:ident, $output:ident| $touched:expr;)*) => {
        $(impl Touches for $work {
            fn touched(&self, $output: &Self::Output) -> TouchedTrees {
                let $this = self;
                $touched
            }
        })*
    };
}

touches! {
    providers::CreateProvider: |this, _output| TouchedTrees::provider(&this.uuid);
    // Its descendants move with it, and trees are read as a whole: the old one and the new one.
    providers::UpdateProvider: |this, _output| TouchedTrees::provider(&this.uuid);
    providers::DeleteProvider: |this, _output| TouchedTrees::provider(&this.uuid);
    inventories::SetAll: |this, _output| TouchedTrees::provider(&this.uuid);
    inventories::Add: |this, _output| TouchedTrees::provider(&this.uuid);
    inventories::ChangeInventory: |this, _output| TouchedTrees::provider(&this.uuid);
    inventories::Remove: |this, _output| TouchedTrees::provider(&this.uuid);
    traits::SetProviderTraits: |this, _output| TouchedTrees::provider(&this.uuid);
    aggregates::SetProviderAggregates: |this, _output| TouchedTrees::provider(&this.uuid);
    replace::Replace: |_this, output| TouchedTrees::providers(output);
    replace::ClaimBatch: |_this, output| TouchedTrees::providers(&output.touched);
    allocations::Release: |_this, output| TouchedTrees::providers(output);
    traits::EnsureTrait: |_this, _output| TouchedTrees::names();
    traits::DeleteTrait: |_this, _output| TouchedTrees::names();
    resource_classes::EnsureClass: |_this, _output| TouchedTrees::names();
    resource_classes::RenameClass: |_this, _output| TouchedTrees::names();
    resource_classes::DeleteClass: |_this, _output| TouchedTrees::names();
}

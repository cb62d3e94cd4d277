//! Which providers a write has touched: the one table of it, because a write that tells too little leaves candidates that are
//! not true.

use std::collections::BTreeSet;

use berth_store::Work;

use super::{aggregates, allocations, inventories, providers, replace, resource_classes, traits};
use crate::ledger::ProviderId;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Perhaps everything: whoever cannot tell says this.
    pub(crate) all: bool,
    /// Resource classes or traits.
    pub(crate) names: bool,
    pub(crate) uuids: BTreeSet<String>,
    /// Providers by row id.
    pub(crate) ids: BTreeSet<ProviderId>,
}

impl Touched {
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

/// A write that can tell what it has touched.
pub(crate) trait Touches: Work<Error: std::error::Error + 'static> {
    /// What a committed run has touched.
    fn touched(&self, output: &Self::Output) -> Touched;
}

macro_rules! touches {
    ($($work:ty: |$this:ident, $output:ident| $touched:expr;)*) => {
        $(impl Touches for $work {
            fn touched(&self, $output: &Self::Output) -> Touched {
                let $this = self;
                $touched
            }
        })*
    };
}

touches! {
    providers::Create: |this, _output| Touched::provider(&this.uuid);
    // All below it goes with it, and a tree is read whole: the one where it was and the one where it is.
    providers::Update: |this, _output| Touched::provider(&this.uuid);
    providers::Delete: |this, _output| Touched::provider(&this.uuid);
    inventories::SetAll: |this, _output| Touched::provider(&this.uuid);
    inventories::Add: |this, _output| Touched::provider(&this.uuid);
    inventories::Change: |this, _output| Touched::provider(&this.uuid);
    inventories::Remove: |this, _output| Touched::provider(&this.uuid);
    traits::SetOfProvider: |this, _output| Touched::provider(&this.uuid);
    aggregates::SetOfProvider: |this, _output| Touched::provider(&this.uuid);
    replace::Replace: |_this, output| Touched::providers(output);
    replace::Claims: |_this, output| Touched::providers(&output.touched);
    allocations::Release: |_this, output| Touched::providers(output);
    traits::Ensure: |_this, _output| Touched::names();
    traits::Delete: |_this, _output| Touched::names();
    resource_classes::Ensure: |_this, _output| Touched::names();
    resource_classes::Rename: |_this, _output| Touched::names();
    resource_classes::Delete: |_this, _output| Touched::names();
}

//! What the API itself keeps, as its users in one process have it.

use berth_store::SqlStore;

use crate::store::Tables;

/// Flavors, and whatever else no other part of Berth keeps. Clones are the same.
///
/// Each call that changes something is one transaction: answered, it is on the disk; not answered, it is there wholly or not at
/// all.
#[derive(Debug, Clone)]
pub struct Compute {
    pub(crate) tables: Tables,
}

impl Compute {
    /// That of a prepared database ([`crate::prepare`]).
    #[must_use]
    pub fn new(store: SqlStore) -> Self {
        Self {
            tables: Tables::of(store),
        }
    }
}

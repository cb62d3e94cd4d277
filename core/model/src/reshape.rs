//! The reshape: inventory and its allocations moved in one call (spec reshape-provider-tree, POST /reshaper since 1.30).
//!
//! A [`PendingReshape`] knows which inventory moves, and not yet its allocations. [`PendingReshape::resolve`] takes all allocations of the
//! tree and the driver's new home of each one. It is the only constructor of a [`ReshapeRequest`], and proves each one lawful:
//!
//! - for each consumer and class, after renames, the amount is unchanged;
//! - for each provider and class, the usage stays within capacity, or the inventory is held;
//! - nothing outside the moves changes.
//!
//! ```text
//! PendingReshape + allocations + homes
//!     -> allocation_mover  gives each allocation its home
//!     -> lawful_tree       holds the units that stay
//!     -> proof             checks the outcome independently
//!     -> ReshapeRequest, with lost_reservation: reservations that do not move
//! ```

mod allocation_mover;
mod home;
mod lawful_tree;
mod lost_reservation;
mod proof;
mod refusal;
mod request;

use std::fmt;

use crate::plan::moves_where;
use crate::{
    Allocation, Allocations, DesiredTree, ProviderTree, ProviderUuid, ResourceClass, diff,
};

pub use home::{Home, HomelessReason, Homes};
pub use refusal::ReshapeRefused;
pub use request::{MovedUnits, ReshapeRequest};

/// A reshape without its allocations. It cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingReshape {
    current: ProviderTree,
    desired: DesiredTree,
}

impl PendingReshape {
    /// Creates the pending reshape of these moves.
    pub(crate) fn new(current: ProviderTree, desired: DesiredTree) -> Self {
        Self { current, desired }
    }

    /// A reshape of held inventory: at a startup its units may have a home again, because a device or guest is known
    /// again. `None` if nothing is held.
    #[must_use]
    pub fn rehoming(current: &ProviderTree, desired: &DesiredTree) -> Option<Self> {
        let moves = moves_where(current, desired, |_| true);
        if moves.is_empty() {
            return None;
        }
        let desired = DesiredTree {
            moves,
            ..desired.clone()
        };
        Some(Self::new(current.clone(), desired))
    }

    /// The current tree of Placement.
    #[must_use]
    pub fn current(&self) -> &ProviderTree {
        &self.current
    }

    /// The desired state, with the pending moves.
    #[must_use]
    pub fn desired(&self) -> &DesiredTree {
        &self.desired
    }

    /// Gives every allocation on moved inventory its new home and proves the outcome lawful. `allocations` are all
    /// allocations of every consumer of the own tree; `homes` is the driver's function that returns the home of one of
    /// them. Units without a home are held. Pure; the order of the input does not matter. Fails if no lawful inventory
    /// could hold the outcome, or the driver contradicts itself.
    pub fn resolve(
        self,
        allocations: &Allocations,
        homes: impl Fn(&Allocation, &Allocations) -> Homes,
    ) -> Result<ReshapeRequest, ReshapeRefused> {
        let placed = allocation_mover::place(&self, allocations, homes)?;
        let (tree, held) = lawful_tree::lawful_tree(&self, allocations, &placed.after)?;
        let request = ReshapeRequest::new(&self, tree, allocations, placed, held);
        proof::prove(&self, allocations, &request)?;
        Ok(request)
    }

    /// Whether units leave this inventory.
    fn is_source(&self, provider: ProviderUuid, class: &ResourceClass) -> bool {
        self.desired
            .moves
            .iter()
            .any(|m| m.provider == provider && m.class == *class)
    }
}

impl fmt::Display for PendingReshape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "reshape needed")?;
        for m in &self.desired.moves {
            let name = self.current.get(m.provider).map_or_else(
                || m.provider.to_string(),
                |provider| provider.name.to_string(),
            );
            let to: Vec<_> = m.to.iter().map(ResourceClass::as_str).collect();
            if to == [m.class.as_str()] {
                writeln!(f, "  {} leaves {name}: {}", m.class, m.reason)?;
            } else {
                let to = to.join(" and ");
                writeln!(f, "  {} on {name} becomes {to}: {}", m.class, m.reason)?;
            }
        }
        write!(f, "{}", diff(&self.current, &self.desired.tree))
    }
}
